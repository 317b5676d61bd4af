// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

var carriedSessions = rounds.Flag("carried.sessions", 20, 40, "how many sessions each run of the test of what is carried over has")

// counted registers an action that counts its trials, and returns it in the form that sessions run.
func counted(registry *framework.Registry, trials *int) vcframework.Action {
	registry.RegisterAction(allocate.New(allocate.WithTrialObserver(func(string) { *trials++ })))
	action, _ := vcframework.GetAction("allocate")
	return action
}

// outcome has the messages and the placements of a session.
type outcome struct {
	Binds, Says map[string]string
	Reasons     map[string]framework.PendingReason
}

// session runs the action in a session of the cluster.
func session(cluster *sessiontest.Cluster, registry *framework.Registry, action vcframework.Action, w sessiontest.ClusterSpec) outcome {
	cluster.Load(w)
	ssn := cluster.Open(registry, withClusters)
	defer ssn.Close()
	ssn.Run(action)
	out := outcome{ssn.Binds(), map[string]string{}, map[string]framework.PendingReason{}}
	for _, podGroup := range w.PodGroups {
		id := api.JobID(schedtest.Namespace + "/" + podGroup.Name)
		out.Says[podGroup.Name] = ssn.Jobs[id].JobFitErrors
		out.Reasons[podGroup.Name], _ = ssn.PendingReason(id)
		for _, task := range ssn.Jobs[id].Tasks {
			if errs := ssn.Jobs[id].NodesFitErrors[task.UID]; errs != nil {
				out.Says[task.Name] = errs.Error()
			}
		}
	}
	return out
}

// changing is a cluster that changes between sessions.
type changing struct {
	*rand.Rand
	world   sessiontest.ClusterSpec
	running int
}

func (c *changing) addGang(name string) {
	podGroup := schedtest.MakePodGroup().Name(name).Annotation(ibcluster.ModeAnnotation, []string{"required", "required", "preferred"}[c.IntN(3)]).
		Phase(v1beta1.PodGroupInqueue)
	members := 2 + c.IntN(6)
	zone := c.IntN(6) // All members of some gangs may use few nodes only, which resource counts do not show.
	for i := range members {
		pod := schedtest.MakePod().Name(fmt.Sprintf("%s-%d", name, i)).Group(name).
			Req(schedtest.Resources{"cpu": fmt.Sprint(1 + c.IntN(6)), "memory": fmt.Sprintf("%dGi", 1+c.IntN(3))})
		if zone < 2 {
			pod.NodeSelector("zone", fmt.Sprint("z", zone))
		}
		c.world.Pods = append(c.world.Pods, pod.Obj())
	}
	minimum := members
	if c.IntN(3) == 0 {
		minimum = 1 + c.IntN(members)
	}
	c.world.PodGroups = append(c.world.PodGroups, podGroup.MinMember(int32(minimum)).Obj())
}

// change makes one random change, or none.
func (c *changing) change() {
	w := &c.world
	i := c.IntN(len(w.Nodes))
	switch c.IntN(10) {
	case 0:
		w.Nodes[i] = w.Nodes[i].DeepCopy()
		w.Nodes[i].Spec.Unschedulable = !w.Nodes[i].Spec.Unschedulable
	case 1:
		w.Nodes[i] = w.Nodes[i].DeepCopy()
		w.Nodes[i].Labels["ibcluster"] = fmt.Sprintf("ib-%d", c.IntN(4))
	case 2:
		c.running++
		pod := schedtest.MakePod().Name(fmt.Sprintf("running-%d", c.running)).Node(w.Nodes[i].Name).Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "1", "memory": "1Gi"})
		if c.IntN(4) == 0 {
			pod.Terminating()
		}
		w.Pods = append(w.Pods, pod.Obj())
	case 3:
		w.Pods = slices.DeleteFunc(w.Pods, func(pod *v1.Pod) bool { return pod.Spec.NodeName == w.Nodes[i].Name && c.IntN(2) == 0 })
	case 4:
		group := w.PodGroups[c.IntN(len(w.PodGroups))]
		w.Pods = append(w.Pods, schedtest.MakePod().Name(fmt.Sprintf("%s-more-%d", group.Name, c.IntN(1000000))).Group(group.Name).Req(schedtest.Resources{"cpu": "1", "memory": "1Gi"}).Obj())
	case 5:
		if at := slices.IndexFunc(w.Pods, func(pod *v1.Pod) bool { return pod.Spec.NodeName == "" }); at >= 0 {
			w.Pods = slices.Delete(w.Pods, at, at+1)
		}
	case 6:
		at := c.IntN(len(w.PodGroups))
		w.PodGroups[at] = w.PodGroups[at].DeepCopy()
		w.PodGroups[at].Spec.MinMember = max(1, w.PodGroups[at].Spec.MinMember+int32(c.IntN(3)-1))
	}
}

// TestCarriedOverResultsEqualNewOnes checks that an action with cached results from former sessions has the same
// placements and messages as a new one, whatever changes between sessions.
func TestCarriedOverResultsEqualNewOnes(t *testing.T) {
	cluster := sessiontest.New(sessiontest.ClusterSpec{})
	t.Cleanup(cluster.Close)
	registry := framework.NewRegistry()
	registry.RegisterPlugin(ibcluster.Spec())
	kept, fresh := 0, 0
	for seed := range uint64(12) {
		c := &changing{Rand: rand.New(rand.NewPCG(seed, 9))}
		for i := range 12 {
			n := node(fmt.Sprintf("n%d", i), fmt.Sprintf("ib-%d", i/3), fmt.Sprint(4+c.IntN(5)))
			n.Labels["zone"] = fmt.Sprint("z", i%3)
			c.world.Nodes = append(c.world.Nodes, n)
		}
		for i := range 4 {
			c.addGang(fmt.Sprintf("gang-%d", i))
		}
		action := counted(registry, &kept)
		for step := range carriedSessions.Of(t) {
			got := session(cluster, registry, action, c.world)
			want := session(cluster, registry, counted(registry, &fresh), c.world)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, session %d (-new action +cached):\n%s", seed, step, diff)
			}
			if c.IntN(3) > 0 {
				c.change()
			}
		}
	}
	t.Logf("%d trials; %d by actions that remember nothing", kept, fresh)
	if kept >= fresh {
		t.Errorf("%d trials, and %d without a cache: the cache is not used", kept, fresh)
	}
}

// TestAWaitingGangIsNotTriedAgainWhileNothingChanges checks that a waiting gang is not tried again while nothing
// changes, and is tried when a node that may help it changes.
func TestAWaitingGangIsNotTriedAgainWhileNothingChanges(t *testing.T) {
	pods, podGroup := gang("g", "5", "3", "3")
	podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
	w := sessiontest.ClusterSpec{
		Nodes: []*v1.Node{node("a1", "ib-a", "4"), node("a2", "ib-a", "6"), node("a3", "ib-a", "9")},
		Pods:  pods, PodGroups: []*v1beta1.PodGroup{podGroup},
	}
	w.Nodes[2].Spec.Unschedulable = true
	cluster := sessiontest.New(w)
	t.Cleanup(cluster.Close)
	registry := framework.NewRegistry()
	registry.RegisterPlugin(ibcluster.Spec())
	trials := 0
	action := counted(registry, &trials)
	first := session(cluster, registry, action, w)
	tried := trials
	if len(first.Binds) > 0 || tried == 0 {
		t.Fatalf("binds %v after %d trials; want none after some", first.Binds, tried)
	}
	if diff := cmp.Diff(first, session(cluster, registry, action, w)); diff != "" || trials != tried {
		t.Errorf("%d more trials; the second session differs (-first +second):\n%s", trials-tried, diff)
	}
	w.Nodes[2] = w.Nodes[2].DeepCopy()
	w.Nodes[2].Spec.Unschedulable = false
	if got := session(cluster, registry, action, w); len(got.Binds) != 3 {
		t.Errorf("with all nodes %v were bound, want 3", got.Binds)
	}
}

// TestAWaitingGangThatMayLieAnywhereIsNotTriedAgainWhileNothingChanges checks that a waiting gang that may be placed
// anywhere, and an equal gang, are not tried again while nothing changes. All gangs have the same messages as if they
// had been tried. The gang is tried again when a node that may help it, or that node's releasing resources, change.
func TestAWaitingGangThatMayLieAnywhereIsNotTriedAgainWhileNothingChanges(t *testing.T) {
	var w sessiontest.ClusterSpec
	for _, cpu := range []string{"4", "6", "9"} {
		w.Nodes = append(w.Nodes, node("n"+cpu, "ib-a", cpu))
	}
	w.Nodes[2].Spec.Unschedulable = true
	for _, name := range []string{"a", "b"} {
		pods, podGroup := gang(name, "5", "5", "3")
		w.Pods, w.PodGroups = append(w.Pods, pods...), append(w.PodGroups, podGroup)
	}
	c := newCounting(t, w)
	tasksSay := func() map[string]string {
		c.cluster.Load(c.world)
		ssn := c.cluster.Open(c.registry, c.conf)
		defer ssn.Close()
		ssn.Run(c.action)
		says := map[string]string{}
		for _, job := range ssn.Jobs {
			for uid, errs := range job.NodesFitErrors {
				says[job.Name+job.Tasks[uid].Name[1:]] = errs.Error()
			}
			says[job.Name] = job.JobFitErrors
		}
		return says
	}
	first := tasksSay()
	if first["a"] == "" || first["a-1"] == "" {
		t.Fatalf("the messages are %v, want messages of the gang and its second member", first)
	}
	for name, says := range first {
		if other := "b" + name[1:]; first[other] != says {
			t.Errorf("the message of %s is %q, and that of the equal gang %s is %q", name, says, other, first[other])
		}
	}
	if placed, _ := c.session(); placed != 0 {
		t.Errorf("%d tasks were placed in trials though nothing has changed", placed)
	}
	if diff := cmp.Diff(first, tasksSay()); diff != "" {
		t.Errorf("messages and placements although nothing has changed (-first +third):\n%s", diff)
	}
	leaves := schedtest.MakePod().Name("leaves").Node("n9").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "9"}).Obj()
	c.world.Nodes[2] = c.world.Nodes[2].DeepCopy()
	c.world.Nodes[2].Spec.Unschedulable = false
	c.world.Pods = append(c.world.Pods, leaves)
	if _, bound := c.session(); bound != 0 {
		t.Errorf("%d were bound beside a pod that fills the node", bound)
	}
	leaves.DeletionTimestamp = &schedtest.Created
	if placed, _ := c.session(); placed == 0 {
		t.Error("nothing was tried when resources are being released")
	}
	c.world.Pods = c.world.Pods[:len(c.world.Pods)-1]
	if _, bound := c.session(); bound != 3 {
		t.Errorf("%d were bound with all nodes free, want 3", bound)
	}
}

// TestAWaitingGangKeepsAnUpToDateMessage checks that a waiting gang's message changes with the size of the cluster,
// even by nodes that the gang may not use. The message counts small members first, and shares of the whole cluster
// decide which members are small.
func TestAWaitingGangKeepsAnUpToDateMessage(t *testing.T) {
	podGroup := schedtest.MakePodGroup().Name("g").MinMember(4).Annotation(ibcluster.ModeAnnotation, "required").Phase(v1beta1.PodGroupInqueue).Obj()
	w := sessiontest.ClusterSpec{Nodes: []*v1.Node{node("a1", "ib-a", "4")}, PodGroups: []*v1beta1.PodGroup{podGroup}}
	for i, request := range []schedtest.Resources{{"cpu": "4", "memory": "1Gi"}, {"cpu": "1", "memory": "20Gi"}, {"cpu": "1", "memory": "20Gi"}, {"cpu": "1", "memory": "20Gi"}} {
		w.Pods = append(w.Pods, schedtest.MakePod().Name(fmt.Sprint("g-", i)).Group("g").Req(request).Obj())
	}
	cluster := sessiontest.New(w)
	t.Cleanup(cluster.Close)
	registry := framework.NewRegistry()
	registry.RegisterPlugin(ibcluster.Spec())
	trials := 0
	action := counted(registry, &trials)
	before := session(cluster, registry, action, w)
	for i := range 5 {
		w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(fmt.Sprint("elsewhere-", i)).Capacity(schedtest.Resources{"cpu": "4", "memory": "1Gi", "pods": "20"}).Obj())
	}
	after := session(cluster, registry, action, w)
	if diff := cmp.Diff(session(cluster, registry, counted(registry, &trials), w), after); diff != "" || cmp.Equal(before.Says, after.Says) {
		t.Errorf("message with more CPUs elsewhere (-new action +cached):\n%s\nmessage before: %v", diff, before.Says)
	}
}

// TestAWaitingGangReportsANewReasonWhyAClusterIsRefused checks that a waiting gang reports a new reason for a refused
// cluster. The clusters that it may use stay the same, but the reason against the others changes.
func TestAWaitingGangReportsANewReasonWhyAClusterIsRefused(t *testing.T) {
	pods, podGroup := gang("g", "5", "3")
	podGroup.Annotations = map[string]string{ibcluster.ClustersAnnotation: "ib-a"}
	kin := schedtest.MakePodGroup().Name("kin").Annotation(ibcluster.AffinityGroupAnnotation, "team").Phase(v1beta1.PodGroupRunning).Obj()
	w := sessiontest.ClusterSpec{
		Nodes:     []*v1.Node{node("a1", "ib-a", "4"), node("b1", "ib-b", "4")},
		Pods:      append(pods, schedtest.MakePod().Name("kin-0").Group("kin").Req(schedtest.Resources{"cpu": "1"}).Node("a1").Phase(v1.PodRunning).Obj()),
		PodGroups: []*v1beta1.PodGroup{podGroup, kin},
	}
	cluster := sessiontest.New(w)
	t.Cleanup(cluster.Close)
	registry := framework.NewRegistry()
	registry.RegisterPlugin(ibcluster.Spec())
	trials := 0
	action := counted(registry, &trials)
	says := []string{session(cluster, registry, action, w).Says["g"]}
	w.PodGroups = []*v1beta1.PodGroup{podGroup.DeepCopy(), kin}
	w.PodGroups[0].Annotations = map[string]string{ibcluster.AffinityGroupAnnotation: "team"}
	says = append(says, session(cluster, registry, action, w).Says["g"])
	for i, why := range []string{"; ib-b: not listed in annotation ibcluster.volcano-prebind.io/clusters", "; ib-b: affinity group team is in ib-a"} {
		if !strings.Contains(says[i], why) {
			t.Errorf("the message of session %d is %q, want %q in it", i, says[i], why)
		}
	}
}

// TestALargerNodeElsewhereChangesTheGangsMessage checks that a gang's message no longer says that a member exceeds
// every node once a node outside of all node groups, which the gang may not use, is large enough. The total of the
// cluster is unchanged.
func TestALargerNodeElsewhereChangesTheGangsMessage(t *testing.T) {
	pods, podGroup := gang("g", "9", "3")
	podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
	outside := func(name, cpu string) *v1.Node {
		return schedtest.MakeNode().Name(name).Capacity(schedtest.Resources{"cpu": cpu, "memory": "64Gi", "pods": "110"}).Obj()
	}
	w := sessiontest.ClusterSpec{
		Nodes: []*v1.Node{node("a1", "ib-a", "4"), node("a2", "ib-a", "6"), outside("b1", "8"), outside("b2", "8")},
		Pods:  pods, PodGroups: []*v1beta1.PodGroup{podGroup},
	}
	cluster := sessiontest.New(sessiontest.ClusterSpec{})
	t.Cleanup(cluster.Close)
	registry := framework.NewRegistry()
	registry.RegisterPlugin(ibcluster.Spec())
	trials := 0
	action := counted(registry, &trials)
	const more = "requests more than any node has"
	if got := session(cluster, registry, action, w).Says["g"]; !strings.Contains(got, more) {
		t.Errorf("the gang's message is %q, want %q in it", got, more)
	}
	w.Nodes[2], w.Nodes[3] = outside("b1", "12"), outside("b2", "4")
	if got := session(cluster, registry, action, w).Says["g"]; strings.Contains(got, more) {
		t.Errorf("the gang's message is %q, although b1 has 12 cpus", got)
	}
}
