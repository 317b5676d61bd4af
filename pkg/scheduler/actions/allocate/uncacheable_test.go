// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// helper is a test plugin. It declares that its filter results depend on the task class only.
type helper struct {
	framework.DefaultSigner
	open func(*framework.Session)
	// part implements interfaces of the plugin. It may be nil.
	part any
	// reads are the labels and annotations that the plugin signs. scope returns the scope of its filter results for a
	// task. If scope is nil, the scope is PerTaskClass.
	reads framework.PodKeys
	scope func(*api.TaskInfo) framework.CacheScope
	// nodeKey signs nodes. It may be nil.
	nodeKey func(*api.NodeInfo) uint64
}

func (helper) Name() string                           { return "helper" }
func (h helper) OnSessionOpen(ssn *framework.Session) { h.open(ssn) }
func (helper) OnSessionClose(*framework.Session)      {}
func (h helper) InSession() any                       { return h.part }
func (h helper) PodKeys() framework.PodKeys           { return h.reads }
func (h helper) SignNode(node *api.NodeInfo) (uint64, bool) {
	if h.nodeKey == nil {
		return 0, false
	}
	return h.nodeKey(node), true
}
func (h helper) SignTask(task *api.TaskInfo) framework.CacheScope {
	if h.scope == nil {
		return framework.PerTaskClass
	}
	return h.scope(task)
}

func nothing(*framework.Session) {}

// one returns the only value of the list, or nil if the list is empty.
func one(part []any) any {
	if len(part) == 0 {
		return nil
	}
	return part[0]
}

// runWith runs allocate with the test's plugin, which the configuration calls helper, and returns the nodes of bound
// pods.
func runWith(t *testing.T, w sessiontest.ClusterSpec, conf string, open func(*framework.Session), part ...any) map[string]string {
	t.Helper()
	cluster := sessiontest.New(w)
	defer cluster.Close()
	registry, action := action()
	registry.RegisterPlugin(framework.PluginSpec{
		Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
			return helper{open: open, part: one(part)}, nil
		}),
	})
	ssn := cluster.Open(registry, conf)
	defer ssn.Close()
	ssn.Run(action)
	return ssn.Binds()
}

// TestPluginsThatChooseAmongNodesAreAsked checks that plugins that choose among nodes are called. Upstream's allocate
// has three functions for a node's score and one for the choice among the scored nodes. All are called although other
// plugins' filter results are cached.
func TestPluginsThatChooseAmongNodesAreAsked(t *testing.T) {
	choose := func(ssn *framework.Session) {
		ssn.AddBestNodeFn("helper", func(_ *api.TaskInfo, scored map[float64][]*api.NodeInfo) *api.NodeInfo {
			for _, nodes := range scored {
				for _, node := range nodes {
					if node.Name == "worst" {
						return node
					}
				}
			}
			return nil
		})
	}
	const wanted = 100_000
	tests := map[string]struct {
		switches string
		open     func(*framework.Session)
	}{
		"the choice":       {"", choose},
		"the choice alone": {"\n    enablePredicate: false\n    enableNodeOrder: false", choose},
		"a score that is scaled": {"", func(ssn *framework.Session) {
			ssn.AddNodeMapFn("helper", func(_ *api.TaskInfo, node *api.NodeInfo) (float64, error) {
				if node.Name == "worst" {
					return 1, nil
				}
				return 0, nil
			})
			ssn.AddNodeReduceFn("helper", func(_ *api.TaskInfo, scores k8sframework.NodeScoreList) error {
				for i := range scores {
					scores[i].Score *= wanted
				}
				return nil
			})
		}},
		"a score that needs no scaling": {"", func(ssn *framework.Session) {
			ssn.AddNodeOrderFn("helper", func(_ *api.TaskInfo, node *api.NodeInfo) (float64, error) {
				if node.Name == "worst" {
					return wanted, nil
				}
				return 0, nil
			})
		}},
		"a score of nodes together": {"", func(ssn *framework.Session) {
			ssn.AddBatchNodeOrderFn("helper", func(*api.TaskInfo, []*api.NodeInfo) (map[string]float64, error) {
				return map[string]float64{"worst": wanted}, nil
			})
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods, podGroup := gang("g", "1")
			w := sessiontest.ClusterSpec{
				Nodes: []*v1.Node{node("best", "", "8"), node("worst", "", "2")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup},
			}
			got := runWith(t, w, leastRequested+"  - name: helper"+tt.switches+"\n", tt.open)
			if diff := cmp.Diff(map[string]string{"ns/g-0": "worst"}, got); diff != "" {
				t.Errorf("binds (-want +got):\n%s", diff)
			}
		})
	}
}

// apart adds required anti-affinity to the pods, so that no two of them may share a node.
func apart(pods []*v1.Pod) []*v1.Pod {
	for _, pod := range pods {
		pod.Labels["app"] = "apart"
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "apart"}},
			}},
		}}
	}
	return pods
}

// TestMembersApartTakeTheBestNodesLeft checks that members with anti-affinity take the best of the remaining nodes. So
// does a pod without affinity of its own that the anti-affinity of these members excludes from their nodes.
func TestMembersApartTakeTheBestNodesLeft(t *testing.T) {
	pods, podGroup := gang("g", "1", "1", "1")
	other, otherGroup := gang("h", "1")
	other[0].Labels["app"] = "apart"
	w := sessiontest.ClusterSpec{
		Nodes:     []*v1.Node{node("n1", "", "2"), node("n2", "", "16"), node("n3", "", "4"), node("n4", "", "8"), node("n5", "", "1")},
		Pods:      append(apart(pods), other...),
		PodGroups: []*v1beta1.PodGroup{podGroup, otherGroup},
	}
	want := map[string]string{"ns/g-0": "n2", "ns/g-1": "n4", "ns/g-2": "n3", "ns/h-0": "n1"}
	if diff := cmp.Diff(want, run(t, w, roomiest)); diff != "" {
		t.Errorf("binds (-want +got):\n%s", diff)
	}
}

// roomiest is a configuration in which the node with the largest free share of its resources has the best score.
const roomiest = `
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: nodeorder
    arguments:
      balancedresource.weight: 0
`

// TestANodeThatRefusesForGoodIsNotAskedAgain checks that a node that was refused for its labels or taints, or because
// it is cordoned, is not filtered again for the other members. A plugin that scores is called for all remaining
// nodes. Other plugins are called until one node fits.
func TestANodeThatRefusesForGoodIsNotAskedAgain(t *testing.T) {
	scores := func(ssn *framework.Session) {
		ssn.AddNodeOrderFn("helper", func(*api.TaskInfo, *api.NodeInfo) (float64, error) { return 0, nil })
	}
	for name, tc := range map[string]struct {
		open func(*framework.Session)
		want map[string]int
	}{
		"a plugin that scores": {open: scores, want: map[string]int{
			"tainted": 1, "cordoned": 1, "labelled": 1,
			"n1": 1, "n2": 2, "n3": 3, // until a member is placed on it
		}},
		"a plugin that does not": {open: func(*framework.Session) {}, want: map[string]int{"cordoned": 1, "labelled": 1, "n1": 1, "n2": 1, "n3": 1}},
	} {
		t.Run(name, func(t *testing.T) { asksAboutNodes(t, tc.open, tc.want) })
	}
}

func asksAboutNodes(t *testing.T, open func(*framework.Session), want map[string]int) {
	t.Helper()
	good := func(name string) *schedtest.NodeBuilder {
		return schedtest.MakeNode().Name(name).Label(v1.LabelHostname, name).Label("pool", "p").Capacity(schedtest.Resources{"cpu": "8", "memory": "64Gi", "pods": "20"})
	}
	tainted, cordoned, labelled := good("tainted").Obj(), good("cordoned").Obj(), good("labelled").Label("pool", "q").Obj()
	tainted.Spec.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule}}
	cordoned.Spec.Unschedulable = true
	pods, podGroup := gang("g", "1", "1", "1")
	for _, pod := range apart(pods) {
		pod.Spec.NodeSelector = map[string]string{"pool": "p"}
	}
	w := sessiontest.ClusterSpec{
		Nodes: []*v1.Node{tainted, cordoned, labelled, good("n1").Obj(), good("n2").Obj(), good("n3").Obj()},
		Pods:  pods, PodGroups: []*v1beta1.PodGroup{podGroup},
	}
	asked := map[string]int{}
	got := runWith(t, w, askedFirst, func(ssn *framework.Session) {
		open(ssn)
		ssn.AddPredicateFn("helper", func(_ *api.TaskInfo, node *api.NodeInfo) error { asked[node.Name]++; return nil })
	}, sessiontest.Signer{Scope: func(*api.TaskInfo) framework.CacheScope { return framework.Uncached }})
	if len(got) != 3 {
		t.Errorf("bound %v, there is a node for each of the three", got)
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("how often nodes were asked about (-want +got):\n%s", diff)
	}
}

const askedFirst = `
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: helper
  - name: predicates
`
