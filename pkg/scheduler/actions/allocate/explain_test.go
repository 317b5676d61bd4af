// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// explained runs the action and returns its messages on the named PodGroups.
func explained(t *testing.T, w sessiontest.ClusterSpec, names ...string) map[string]string {
	t.Helper()
	ssn := ran(t, w, withClusters)
	says := map[string]string{}
	for _, name := range names {
		says[name] = ssn.Jobs[api.JobID(schedtest.Namespace+"/"+name)].JobFitErrors
	}
	return says
}

// TestAnExplanationCountsMembersOfManyShapes checks that an explanation counts the members of many task classes. If
// the members of a gang differ in a label, only some of their classes have cached results.
func TestAnExplanationCountsMembersOfManyShapes(t *testing.T) {
	requests := []string{"16"}
	for range 12 {
		requests = append(requests, "1")
	}
	pods, podGroup := gang("g", requests...)
	podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
	for i, pod := range pods {
		pod.Labels["member"] = fmt.Sprint(i)
	}
	says := explained(t, sessiontest.ClusterSpec{
		Nodes: []*v1.Node{node("a1", "ib-a", "6"), node("a2", "ib-a", "6"), node("a3", "ib-a", "6")},
		Pods:  pods, PodGroups: []*v1beta1.PodGroup{podGroup},
	}, "g")
	if !strings.Contains(says["g"], "ib-a 12/13: 3 nodes filled by its members (cpu)") {
		t.Errorf("the PodGroup's message is %q; want that all fit ib-a but the large one", says["g"])
	}
}

// TestEqualGangsAreExplainedAsThingsStand checks that the explanations of equal gangs use the current state. Between
// two gangs that fit nowhere and share cached results, another gang takes the memory of a node.
func TestEqualGangsAreExplainedAsThingsStand(t *testing.T) {
	w := sessiontest.ClusterSpec{Nodes: []*v1.Node{node("a1", "ib-a", "4"), node("a2", "ib-a", "4")}}
	for _, g := range []struct {
		name     string
		members  int
		requests schedtest.Resources
	}{
		{"first", 3, schedtest.Resources{"cpu": "3", "memory": "1Gi"}},
		{"greedy", 1, schedtest.Resources{"cpu": "100m", "memory": "64Gi"}},
		{"later", 3, schedtest.Resources{"cpu": "3", "memory": "1Gi"}},
	} {
		w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name(g.name).MinMember(int32(g.members)).
			Annotation(ibcluster.ModeAnnotation, "required").Phase(v1beta1.PodGroupInqueue).Obj())
		for i := range g.members {
			w.Pods = append(w.Pods, schedtest.MakePod().Name(fmt.Sprintf("%s-%d", g.name, i)).Group(g.name).Req(g.requests).Obj())
		}
	}
	says := explained(t, w, "first", "later")
	for name, want := range map[string]string{"first": "ib-a 2/3: 2 nodes filled by its members (cpu)", "later": "ib-a 1/3: 1 node short of memory, 1 filled by its members (cpu)"} {
		if !strings.HasSuffix(says[name], want) {
			t.Errorf("the message of PodGroup %s is %q, want %q", name, says[name], want)
		}
	}
}

// TestAnExplanationReportsFragmentedResources checks that an explanation reports fragmented resources: no node has
// room for a member, but the nodes together do.
func TestAnExplanationReportsFragmentedResources(t *testing.T) {
	tests := map[string]struct{ used, asks, want string }{
		"enough in all":     {used: "2", asks: "3", want: "ib-a 0/1: 2 nodes short of cpu (at most 2 free on a node, 4 in all)"},
		"not enough in all": {used: "3", asks: "3", want: "ib-a 0/1: 2 nodes short of cpu"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods, podGroup := gang("g", tt.asks)
			podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
			w := sessiontest.ClusterSpec{
				Nodes: []*v1.Node{node("a1", "ib-a", "4"), node("a2", "ib-a", "4")}, Pods: pods,
				PodGroups: []*v1beta1.PodGroup{podGroup, schedtest.MakePodGroup().Name("other").MinMember(2).Phase(v1beta1.PodGroupRunning).Obj()},
			}
			for _, node := range w.Nodes {
				w.Pods = append(w.Pods, schedtest.MakePod().Name("on-"+node.Name).Group("other").Req(schedtest.Resources{"cpu": tt.used}).Node(node.Name).Phase(v1.PodRunning).Obj())
			}
			if says := explained(t, w, "g")["g"]; !strings.HasSuffix(says, tt.want) {
				t.Errorf("the PodGroup's message is %q, want %q at its end", says, tt.want)
			}
		})
	}
}

// TestANodeThatExcludesTheGangIsNotShort checks that the explanation of a node that excludes the gang says why, and
// does not say that the node is short of a resource: more of it would not help.
func TestANodeThatExcludesTheGangIsNotShort(t *testing.T) {
	taint := v1.Taint{Key: "maintenance", Effect: v1.TaintEffectNoSchedule}
	onlyIn := func(zone string) func(*v1.Pod) {
		return func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"zone": zone} }
	}
	tests := map[string]struct {
		node func(*v1.Node)
		pod  func(*v1.Pod)
		want string
	}{
		"selector":      {pod: onlyIn("z"), want: "ib-a 0/1: 2 nodes didn't match Pod's node affinity/selector"},
		"taint":         {node: func(n *v1.Node) { n.Spec.Taints = []v1.Taint{taint} }, want: `ib-a 0/1: 2 nodes tainted "maintenance"`},
		"cordoned":      {node: func(n *v1.Node) { n.Spec.Unschedulable = true }, want: "ib-a 0/1: 2 nodes cordoned"},
		"selector fits": {node: func(n *v1.Node) { n.Labels["zone"] = "z" }, pod: onlyIn("z"), want: "ib-a 0/1: 2 nodes short of cpu (at most 2 free on a node, 4 in all)"},
		"taint, allowed": {
			node: func(n *v1.Node) { n.Spec.Taints = []v1.Taint{taint} },
			pod: func(p *v1.Pod) {
				p.Spec.Tolerations = []v1.Toleration{{Key: taint.Key, Operator: v1.TolerationOpExists}}
			},
			want: "ib-a 0/1: 2 nodes short of cpu (at most 2 free on a node, 4 in all)",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods, podGroup := gang("g", "3")
			podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
			w := sessiontest.ClusterSpec{
				Nodes: []*v1.Node{node("a1", "ib-a", "4"), node("a2", "ib-a", "4")}, Pods: pods,
				PodGroups: []*v1beta1.PodGroup{podGroup, schedtest.MakePodGroup().Name("other").MinMember(2).Phase(v1beta1.PodGroupRunning).Obj()},
			}
			if tt.pod != nil {
				tt.pod(pods[0])
			}
			for _, node := range w.Nodes {
				if tt.node != nil {
					tt.node(node)
				}
				w.Pods = append(w.Pods, schedtest.MakePod().Name("on-"+node.Name).Group("other").Req(schedtest.Resources{"cpu": "2"}).Node(node.Name).Phase(v1.PodRunning).Obj())
			}
			if says := explained(t, w, "g")["g"]; !strings.HasSuffix(says, tt.want) {
				t.Errorf("the PodGroup's message is %q, want %q at its end", says, tt.want)
			}
		})
	}
}

// TestAnExplanationCountsMembersThatFitTogether checks that an explanation counts the members that fit at the same
// time. Without the other members, more members of each task class would fit.
func TestAnExplanationCountsMembersThatFitTogether(t *testing.T) {
	apart := func(pods []*v1.Pod) {
		for _, pod := range pods {
			pod.Labels["app"] = "g"
			pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
					TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "g"}},
				}},
			}}
		}
	}
	onePort := func(pods []*v1.Pod) {
		for _, pod := range pods {
			pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 8080, ContainerPort: 8080, Protocol: v1.ProtocolTCP}}
		}
	}
	tests := map[string]struct {
		requests []string
		change   func([]*v1.Pod)
		nodes    []*v1.Node
		want     string
	}{
		"two sizes on one node": {
			requests: []string{"2", "2", "2", "1", "1", "1", "1"}, nodes: []*v1.Node{node("a1", "ib-a", "4")},
			want: "no node group holds the 7 members needed: ib-a 4/7: 1 node filled by its members (cpu)",
		},
		"members that exclude each other": {
			requests: []string{"1", "1", "1", "1"}, change: apart, nodes: []*v1.Node{node("a1", "ib-a", "3")},
			want: "no node group holds the 4 members needed: ib-a 1/4: 1 node didn't satisfy existing pods anti-affinity rules",
		},
		"members of one host port": {
			requests: []string{"1", "1", "1"}, change: onePort, nodes: []*v1.Node{node("a1", "ib-a", "2"), node("b1", "ib-b", "1")},
			want: "no node group holds the 3 members needed: ib-a 1/3: 1 node didn't have free ports for the requested pod ports; ib-b 1/3: 1 node filled by its members (cpu)",
		},
		"one member": {
			requests: []string{"8"}, nodes: []*v1.Node{node("a1", "ib-a", "4")},
			want: "no node group holds the 1 member needed: ib-a 0/1: 1 node short of cpu; a member requests more than any node has: cpu 8 of at most 4",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods, podGroup := gang("g", tt.requests...)
			podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
			if tt.change != nil {
				tt.change(pods)
			}
			w := sessiontest.ClusterSpec{Nodes: tt.nodes, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
			if diff := cmp.Diff(tt.want, explained(t, w, "g")["g"]); diff != "" {
				t.Errorf("message of the PodGroup (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnExplanationKnowsWhoseAntiAffinityKeepsAMemberAway checks that an explanation reports that anti-affinity of
// another gang's pod excludes the members. By resources alone, the smaller member would fit.
func TestAnExplanationKnowsWhoseAntiAffinityKeepsAMemberAway(t *testing.T) {
	first, single := gang("first", "1")
	first[0].Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "g"}},
		}},
	}}
	pods, podGroup := gang("g", "5", "3")
	podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
	for _, pod := range pods {
		pod.Labels["app"] = "g"
	}
	says := explained(t, sessiontest.ClusterSpec{
		Nodes: []*v1.Node{node("a1", "ib-a", "6")}, Pods: append(first, pods...), PodGroups: []*v1beta1.PodGroup{single, podGroup},
	}, "g")
	if want := "no node group holds the 2 members needed: ib-a 0/2: 1 node didn't satisfy existing pods anti-affinity rules"; says["g"] != want {
		t.Errorf("the PodGroup's message is %q, want %q", says["g"], want)
	}
}

// TestAnExplanationIsShort checks that an explanation is short, although each node has its own long reason.
func TestAnExplanationIsShort(t *testing.T) {
	for name, plugin := range map[string]framework.Plugin{"no task of its own": helper{open: wordy}, "each task": &sessiontest.Plugin{Called: "helper", Open: wordy}} {
		pods, podGroup := gang("g", "1", "1")
		podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
		w := sessiontest.ClusterSpec{Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
		for i := range 200 {
			w.Nodes = append(w.Nodes, node(fmt.Sprintf("a%03d", i), "ib-a", "4"), node(fmt.Sprintf("b%03d", i), "ib-b", "4"))
		}
		ssn := ran(t, w, withClusters+"  - name: helper\n", framework.PluginSpec{
			Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) { return plugin, nil }),
		})
		says := ssn.Jobs[api.JobID(schedtest.Namespace+"/g")].JobFitErrors
		if len(says) > 1000 || !strings.Contains(says, "ib-a 0/2: 1 node node a000 is unwell") || !strings.Contains(says, "ib-b 0/2") {
			t.Errorf("depends on %s: the PodGroup's message has %d bytes: %s", name, len(says), says)
		}
	}
}

// wordy refuses every node with a different long text.
func wordy(ssn *framework.Session) {
	ssn.AddPredicateFn("helper", func(_ *api.TaskInfo, node *api.NodeInfo) error {
		return errors.New("node " + node.Name + " is unwell" + strings.Repeat(", very", 100))
	})
}

// TestAGangPlacedFirstReportsItsOverusedQueue checks that a gang that a plugin places first reports that its queue is
// overused. It is not scheduled before its queue's turn or within it.
func TestAGangPlacedFirstReportsItsOverusedQueue(t *testing.T) {
	pods, podGroup := gang("g", "1")
	var session *framework.Session
	bound := runWith(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("a1", "ib-a", "4")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}, askedFirst,
		func(ssn *framework.Session) {
			session = ssn
			ssn.AddOverusedFn("helper", func(any) bool { return true })
		}, sessiontest.PlaceFirstFn(func(*api.JobInfo) bool { return true }))
	if len(bound) > 0 {
		t.Errorf("bound %v in a queue that is overused", bound)
	}
	reason, _ := session.PendingReason("ns/g")
	want := framework.PendingReason{Reason: framework.QueueFull, Message: "queue default has used up its share of the cluster (plugin helper): the queue uses cpu 0, the cluster has cpu 4"}
	if diff := cmp.Diff(want, reason); diff != "" {
		t.Errorf("reason (-want +got):\n%s", diff)
	}
}

// TestAnUrgentGangsTurnIsNoted checks that a gang that is placed first is the current job while it is scheduled, so
// that a panic is attributed to it.
func TestAnUrgentGangsTurnIsNoted(t *testing.T) {
	pods, podGroup := gang("g", "1")
	cluster := sessiontest.New(sessiontest.ClusterSpec{Nodes: []*v1.Node{node("a1", "ib-a", "4")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}})
	defer cluster.Close()
	registry, action := action()
	turn := api.JobID("nobody's")
	part := struct {
		sessiontest.PlaceFirstFn
		sessiontest.NodeGroupsFn
	}{
		func(*api.JobInfo) bool { return true },
		func(*api.JobInfo) (*framework.NodeGroups, error) {
			turn = registry.CurrentJob()
			return nil, nil
		},
	}
	registry.RegisterPlugin(framework.PluginSpec{
		Name: "helper",
		Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
			return helper{open: nothing, part: part}, nil
		}),
	})
	ssn := cluster.Open(registry, askedFirst)
	defer ssn.Close()
	ssn.Run(action)
	if turn != "ns/g" {
		t.Errorf("while a plugin returned the gang's node groups, the current job was %q", turn)
	}
}
