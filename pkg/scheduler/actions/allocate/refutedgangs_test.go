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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const racks = 4

// rackWorld returns racks, each a cluster and a HyperNode, whose nodes have the given CPUs, and one gang.
func rackWorld(cpus []string, members ...string) (sessiontest.ClusterSpec, *v1beta1.PodGroup) {
	pods, podGroup := gang("g", members...)
	w := sessiontest.ClusterSpec{Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
	for rack := range racks {
		var names []string
		for i, cpu := range cpus {
			names = append(names, fmt.Sprintf("n%d-%d", rack, i))
			w.Nodes = append(w.Nodes, node(names[i], fmt.Sprint("ib-", rack), cpu))
		}
		w.HyperNodes = append(w.HyperNodes, schedtest.MakeHyperNode().Name(fmt.Sprintf("rack-%d", rack)).Nodes(names...).Obj())
	}
	return w, podGroup
}

func inOneHyperNode(podGroup *v1beta1.PodGroup) {
	tier := 1
	podGroup.Spec.NetworkTopology = &v1beta1.NetworkTopologySpec{Mode: v1beta1.HardNetworkTopologyMode, HighestTierAllowed: &tier}
}

func inOneCluster(podGroup *v1beta1.PodGroup) {
	podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
}

// TestAGangThatNumbersRefuseIsNotTried checks that no trial is made of a gang that arithmetic on resources excludes,
// whatever node groups and sub-groups it requests. Its total request is too large, or too few whole members fit on the
// nodes.
func TestAGangThatNumbersRefuseIsNotTried(t *testing.T) {
	tests := map[string]struct {
		members []string
		change  func(*sessiontest.ClusterSpec, *v1beta1.PodGroup)
	}{
		"HyperNodes": {[]string{"5", "4", "3", "2"}, func(_ *sessiontest.ClusterSpec, g *v1beta1.PodGroup) { inOneHyperNode(g) }},
		"clusters, and one is being emptied by less than is missing": {[]string{"5", "4", "3", "2"}, func(w *sessiontest.ClusterSpec, g *v1beta1.PodGroup) {
			inOneCluster(g)
			w.Pods = append(w.Pods, schedtest.MakePod().Name("leaves").Node("n0-0").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "1"}).Terminating().Obj())
		}},
		"clusters, and the smallest members of each role are too many": {[]string{"5", "5", "4", "4", "1"}, func(w *sessiontest.ClusterSpec, g *v1beta1.PodGroup) {
			inOneCluster(g)
			g.Spec.MinMember, g.Spec.MinTaskMember = 4, map[string]int32{"a": 2, "b": 1}
			for i, role := range []string{"a", "a", "b", "b", "b"} {
				w.Pods[i].Annotations["volcano.sh/task-spec"] = role
			}
		}},
		"clusters and sub-groups": {[]string{"5", "4", "3", "2"}, func(w *sessiontest.ClusterSpec, g *v1beta1.PodGroup) {
			inOneCluster(g)
			g.Spec.SubGroupPolicy = schedtest.MakePodGroup().SubGroups("cells", "cell", 2, 2).Obj().Spec.SubGroupPolicy
			for i, pod := range w.Pods {
				pod.Labels = map[string]string{"cell": fmt.Sprint(i % 2)}
			}
		}},
		"clusters, and members are to be spread": {slices.Repeat([]string{"3", "2"}, 35), func(w *sessiontest.ClusterSpec, g *v1beta1.PodGroup) {
			inOneCluster(g)
			w.Nodes = slices.DeleteFunc(w.Nodes, func(n *v1.Node) bool { return n.Name[len(n.Name)-1] == '1' })
			for _, n := range w.Nodes {
				*n = *node(n.Name, n.Labels["ibcluster"], "170")
			}
			for rack := range racks { // The members request 175 CPUs.
				w.HyperNodes[rack] = schedtest.MakeHyperNode().Name(fmt.Sprintf("rack-%d", rack)).Nodes(fmt.Sprintf("n%d-0", rack)).Obj()
			}
			for _, pod := range w.Pods {
				pod.Labels = map[string]string{"of": "g"}
				pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
					MaxSkew: 99, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule,
					LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
				}}
			}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w, podGroup := rackWorld([]string{"6", "5"}, tc.members...)
			tc.change(&w, podGroup)
			c := newCounting(t, w)
			if placed, bound := c.session(); placed > 0 || bound > 0 {
				t.Errorf("%d members were placed in trials, %d bound, want none", placed, bound)
			}
			if c.says == "" {
				t.Error("the gang has no message")
			}
		})
	}
}

// TestAGangIsTriedAgainWhereSomethingChanged checks that a gang is tried again where something changed. Resource
// counts do not refuse this gang, and no trial places it.
func TestAGangIsTriedAgainWhereSomethingChanged(t *testing.T) {
	for name, where := range map[string]func(*v1beta1.PodGroup){"HyperNodes": inOneHyperNode, "clusters": inOneCluster} {
		t.Run(name, func(t *testing.T) {
			w, podGroup := rackWorld([]string{"10", "10", "10", "10"}, "6", "6", "6", "4", "4", "4", "5", "5")
			where(podGroup)
			for i, pod := range w.Pods { // Four members may use two nodes only, which resource counts do not show.
				if i < 4 {
					pod.Spec.NodeSelector = map[string]string{"fast": "yes"}
				}
			}
			for i, n := range w.Nodes {
				if i%4 < 2 {
					n.Labels["fast"] = "yes"
				}
			}
			c := newCounting(t, w)
			c.session()
			said := c.says
			for range 3 { // until all searches have finished
				c.session()
			}
			if placed, _ := c.session(); placed > 0 || c.says != said {
				t.Errorf("%d members were placed in trials in a session where nothing changed, and the message is\n%s\nnot\n%s", placed, c.says, said)
			}
			w.Nodes[2] = w.Nodes[2].DeepCopy()
			w.Nodes[2].Labels["fast"] = "yes"
			if placed, bound := c.session(); bound != len(w.Pods) || placed > 4*len(w.Pods) {
				t.Errorf("%d members were placed, %d bound; want all bound, and the other racks left alone", placed, bound)
			}
		})
	}
}

// counting runs sessions and counts the tasks that they place.
type counting struct {
	world    sessiontest.ClusterSpec
	cluster  *sessiontest.Cluster
	registry *framework.Registry
	action   vcframework.Action
	conf     string
	says     string
}

func newCounting(t *testing.T, w sessiontest.ClusterSpec) *counting {
	c := &counting{world: w, cluster: sessiontest.New(sessiontest.ClusterSpec{}), registry: framework.NewRegistry(),
		conf: withClusters + "  - name: network-topology-aware\n"}
	t.Cleanup(c.cluster.Close)
	c.registry.RegisterPlugin(ibcluster.Spec())
	c.action = counted(c.registry, new(int))
	return c
}

// session returns the number of tasks that a session places, including reverted ones, and the number of tasks that it
// binds.
func (c *counting) session() (placed, bound int) {
	c.cluster.Load(c.world)
	ssn := c.cluster.Open(c.registry, c.conf)
	defer ssn.Close()
	ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: func(*vcframework.Event) { placed++ }})
	ssn.Run(c.action)
	for _, job := range ssn.Jobs {
		c.says = job.JobFitErrors
	}
	return placed, len(ssn.Binds())
}

// TestAGangReportsThatItsQueueIsFull checks that a gang reports that its queue is full. Resource counts ignore
// queues, so by them the gang fits.
func TestAGangReportsThatItsQueueIsFull(t *testing.T) {
	w, podGroup := rackWorld([]string{"6", "5"}, "3", "2", "1")
	inOneCluster(podGroup)
	podGroup.Spec.Queue = "small"
	w.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("small").Capability(schedtest.Resources{"cpu": "5"}).Obj()}
	ssn := ran(t, w, strings.Replace(withClusters, "- name: gang", "- name: gang\n  - name: capacity", 1))
	if says := ssn.Jobs["ns/g"].JobFitErrors; len(ssn.Binds()) > 0 || !strings.Contains(says, "queue small") {
		t.Errorf("%v were bound, and the message is %q, want none bound and the queue's name", ssn.Binds(), says)
	}
}

// TestEachSubGroupLiesInAPartOfTheCluster checks that each sub-group is placed in a part of the cluster. A part is
// not refused because it does not fit the whole gang.
func TestEachSubGroupLiesInAPartOfTheCluster(t *testing.T) {
	w, podGroup := rackWorld([]string{"6"}, "4", "4", "2", "2")
	inOneCluster(podGroup)
	policies := schedtest.MakePodGroup().SubGroups("cells", "cell", 2, 2).SubGroupTopology(v1beta1.HardNetworkTopologyMode, 1).Obj()
	podGroup.Spec.SubGroupPolicy = policies.Spec.SubGroupPolicy
	for i, pod := range w.Pods {
		pod.Labels = map[string]string{"cell": fmt.Sprint(i % 2)}
	}
	for _, n := range w.Nodes {
		n.Labels["ibcluster"] = "ib"
	}
	if _, bound := newCounting(t, w).session(); bound != len(w.Pods) {
		t.Errorf("%d members were bound, want all: two in each of two racks", bound)
	}
}

// TestGangsThatNeedLongSearchesArePlacedThoughNothingChanges checks that gangs that need long searches are placed
// although nothing changes. Each of five gangs of 16 task classes fills a cluster except for 2% of its CPU and
// memory. One session does not finish their searches. Later sessions continue them and place more gangs.
func TestGangsThatNeedLongSearchesArePlacedThoughNothingChanges(t *testing.T) {
	const gangs, members, clusters, nodesEach, kinds = 5, 64, 6, 16, 16
	var w sessiontest.ClusterSpec
	for i := range clusters * nodesEach {
		w.Nodes = append(w.Nodes, node(fmt.Sprintf("n%03d", i), fmt.Sprint("ib-", i/nodesEach), "32"))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for g := range gangs {
		var shapes [kinds][2]float64
		var sum [2]float64
		for i := range shapes {
			shapes[i] = [2]float64{0.5 + r.Float64(), 0.5 + r.Float64()}
			sum[0], sum[1] = sum[0]+shapes[i][0], sum[1]+shapes[i][1]
		}
		pods, podGroup := gang(fmt.Sprint("g", g), slices.Repeat([]string{"1"}, members)...)
		inOneCluster(podGroup)
		for i, pod := range pods {
			part := func(of int, all float64) int64 {
				return int64(0.98 * all * nodesEach * shapes[i%kinds][of] / sum[of] * kinds / members)
			}
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{
				v1.ResourceCPU: *resource.NewMilliQuantity(part(0, 32_000), resource.DecimalSI), v1.ResourceMemory: *resource.NewQuantity(part(1, 64<<30), resource.BinarySI),
			}
		}
		w.Pods, w.PodGroups = append(w.Pods, pods...), append(w.PodGroups, podGroup)
	}
	c := newCounting(t, w)
	_, first := c.session()
	for session := 2; session <= 6; session++ {
		if _, bound := c.session(); bound > first {
			return
		}
	}
	t.Errorf("%d members were bound in the first session, and no more in those after it", first)
}

// TestAGangOfManyKindsThatNumbersRefuseIsNotTried checks that a gang of many task classes that resource counts refuse
// is not tried. Its members need a node each, and one node is missing. A trial of such a gang would filter and score
// each node for each member, in each session after a change.
func TestAGangOfManyKindsThatNumbersRefuseIsNotTried(t *testing.T) {
	const kinds = 300
	tests := map[string]struct {
		kinds  int
		change func(*sessiontest.ClusterSpec, *v1beta1.PodGroup)
		says   string
	}{
		"any nodes":              {kinds, nil, "299/300 members fit: 299 nodes filled by its members (cpu)"},
		"any nodes, 1,100 kinds": {1100, nil, "1099/1100 members fit: 1099 nodes filled by its members (cpu)"},
		"any nodes, two sizes": {kinds, func(w *sessiontest.ClusterSpec, _ *v1beta1.PodGroup) {
			for i, pod := range w.Pods {
				if i%2 > 0 {
					pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(3501+i), resource.DecimalSI)
				}
			}
		}, "299/300 members fit: 299 nodes filled by its members (cpu)"},
		"any nodes, 20 kinds": {20, nil, "19/20 members fit: 19 nodes filled by its members (cpu)"},
		"nodes with taints": {20, func(w *sessiontest.ClusterSpec, _ *v1beta1.PodGroup) {
			for i := range 3 {
				w.Nodes[i].Spec.Taints = []v1.Taint{{Key: "maintenance", Effect: v1.TaintEffectNoSchedule}}
			}
		}, "16/20 members fit: 3 nodes tainted \"maintenance\", 16 filled by its members (cpu)"},
		"host ports": {kinds, func(w *sessiontest.ClusterSpec, _ *v1beta1.PodGroup) {
			for _, pod := range w.Pods {
				pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
			}
		}, "299/300 members fit: 299 nodes filled by its members (cpu)"},
		"a full queue": {kinds, func(w *sessiontest.ClusterSpec, g *v1beta1.PodGroup) {
			g.Spec.Queue = "small"
			w.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("small").Capability(schedtest.Resources{"cpu": "1"}).Obj()}
		}, "queue small has reached its capability: cpu 0 of 1 in use, 2001m requested"},
		"a cluster": {kinds, func(_ *sessiontest.ClusterSpec, g *v1beta1.PodGroup) { inOneCluster(g) },
			"no node group holds the 300 members needed: ib-a 299/300: 299 nodes filled by its members (cpu)"},
		"a HyperNode": {kinds, func(w *sessiontest.ClusterSpec, g *v1beta1.PodGroup) {
			inOneHyperNode(g)
			w.HyperNodes = oneHyperNode(w.Nodes)
		}, "rack 299/300: 299 nodes filled by its members (cpu)"},
		"sub-groups": {kinds, func(w *sessiontest.ClusterSpec, g *v1beta1.PodGroup) {
			g.Spec.SubGroupPolicy = schedtest.MakePodGroup().SubGroups("cells", "cell", 10, 30).Obj().Spec.SubGroupPolicy
			for i, pod := range w.Pods {
				pod.Labels = map[string]string{"cell": fmt.Sprint(i % 10)}
			}
		}, "299/300 members fit: 299 nodes filled by its members (cpu)"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var requests []string
			var w sessiontest.ClusterSpec
			for i := range tc.kinds {
				requests = append(requests, fmt.Sprintf("%dm", 2001+i))
				if i > 0 {
					w.Nodes = append(w.Nodes, node(fmt.Sprintf("n%03d", i), "ib-a", "4"))
				}
			}
			pods, podGroup := gang("g", requests...)
			w.Pods, w.PodGroups = pods, []*v1beta1.PodGroup{podGroup}
			if tc.change != nil {
				tc.change(&w, podGroup)
			}
			c := newCounting(t, w)
			if len(w.Queues) > 0 {
				c.conf = strings.Replace(c.conf, "- name: gang", "- name: gang\n  - name: capacity", 1)
			}
			for session := range 4 {
				if session > 1 { // A pod of another tenant starts.
					c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name(fmt.Sprint("other-", session)).Node(w.Nodes[session].Name).Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "10m"}).Obj())
				}
				if placed, bound := c.session(); placed > 0 || bound > 0 || c.says != tc.says {
					t.Errorf("session %d placed %d tasks in trials and bound %d, want none. The message is\n%q, want\n%q", session+1, placed, bound, c.says, tc.says)
				}
			}
		})
	}
}

// TestAGangGroupOfManyKindsThatNumbersRefuseIsNotTried checks that a gang group of many task classes that resource
// counts refuse is not tried. Together, its gangs need one node more than there are.
func TestAGangGroupOfManyKindsThatNumbersRefuseIsNotTried(t *testing.T) {
	tests := map[string]struct {
		nodes, first, second int
		says                 []string
	}{
		"of 1,100 kinds": {1099, 550, 550, []string{
			`gang group ns/a,ns/b must be scheduled together; its 2 gangs have no room together: 1099/1100 members fit: 1099 nodes filled by its members (cpu)`,
			`gang group ns/a,ns/b must be scheduled together; its 2 gangs have no room together: 1099/1100 members fit: 1099 nodes filled by its members (cpu)`,
		}},
		"each gang fits alone": {99, 50, 50, []string{
			`gang group ns/a,ns/b must be scheduled together; its 2 gangs have no room together: 99/100 members fit: 99 nodes filled by its members (cpu)`,
			`gang group ns/a,ns/b must be scheduled together; its 2 gangs have no room together: 99/100 members fit: 99 nodes filled by its members (cpu)`,
		}},
		"one does not fit alone": {99, 100, 1, []string{
			"99/100 members fit: 99 nodes filled by its members (cpu)",
			`gang group ns/a,ns/b must be scheduled together; gang ns/a does not fit: 99/100 members fit: 99 nodes filled by its members (cpu)`,
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var on []*v1.Node
			for i := range tc.nodes {
				on = append(on, node(fmt.Sprintf("n%03d", i), "ib-a", "4"))
			}
			var requests []string
			for i := range tc.first + tc.second {
				requests = append(requests, fmt.Sprintf("%dm", 2001+i))
			}
			c := newGroup(t, requests[:tc.first], requests[tc.first:], on...)
			for session := range 4 {
				if session > 1 { // A pod of another tenant starts.
					c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name(fmt.Sprint("other-", session)).Node(on[session].Name).Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "10m"}).Obj())
				}
				if placed, bound := c.session(); placed > 0 || bound > 0 {
					t.Errorf("session %d placed %d tasks in trials and bound %d, want none", session+1, placed, bound)
				}
				c.look(func(ssn *sessiontest.Session) {
					if diff := cmp.Diff(tc.says, []string{ssn.Jobs["ns/a"].JobFitErrors, ssn.Jobs["ns/b"].JobFitErrors}); diff != "" {
						t.Errorf("messages of the gangs (-want +got):\n%s", diff)
					}
				})
			}
		})
	}
}

func oneHyperNode(nodes []*v1.Node) []*topologyv1alpha1.HyperNode {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Name)
	}
	return []*topologyv1alpha1.HyperNode{schedtest.MakeHyperNode().Name("rack").Nodes(names...).Obj()}
}
