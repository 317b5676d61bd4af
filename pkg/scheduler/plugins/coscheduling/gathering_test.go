// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// spines is a topology of spines and blocks, defined by labels.
var spines = &v1alpha1.ClusterNetworkTopology{
	ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultTopologyName},
	Spec: v1alpha1.ClusterNetworkTopologySpec{NetworkTopologySpec: []v1alpha1.NetworkTopologySpec{
		{TopologyLayer: v1alpha1.NodeTopologyLayer, ParentTopologyLayer: "Block"},
		{TopologyLayer: "Spine", LabelKey: []string{"spine"}},
		{TopologyLayer: "Block", ParentTopologyLayer: "Spine", LabelKey: []string{"rack", "block"}},
	}},
}

// networkOf builds nodes from texts such as "a1 s1 b1 3": name, spine, block and cpu.
func networkOf(texts ...string) []*v1.Node {
	var nodes []*v1.Node
	for _, text := range texts {
		f := strings.Fields(text)
		node := schedtest.MakeNode().Name(f[0]).Capacity(schedtest.Resources{"cpu": f[3], "memory": "64Gi", "pods": "100"})
		if f[1] != "-" {
			node.Label("spine", f[1])
		}
		if f[2] != "-" {
			node.Label("block", f[2])
		}
		nodes = append(nodes, node.Label("kubernetes.io/hostname", f[0]).Obj())
	}
	return nodes
}

// tree returns the nodes that the tests of package topologyplan use.
func tree() []*v1.Node {
	return networkOf("a1 s1 b1 3", "a2 s1 b1 5", "b1x s1 b2 6", "b2x s1 b2 2", "c1 s2 b3 4", "c2 s2 b3 5")
}

// asks returns the topology annotation with rules such as "Block must" or "NodeTopologyLayer prefer 4".
func asks(rules ...string) map[string]string {
	var list []string
	for _, rule := range rules {
		f := append(strings.Fields(rule), "1")
		strategy := map[string]string{"must": "MustGather", "prefer": "PreferGather"}[f[1]]
		list = append(list, fmt.Sprintf(`{"layer":%q,"strategy":%q,"podCountMultiple":%s}`, f[0], strategy, f[2]))
	}
	return says(gangs.TopologyAnnotation, `{"gatherStrategy":[`+strings.Join(list, ",")+`]}`)
}

// with merges annotations.
func with(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, said := range all {
		maps.Copy(out, said)
	}
	return out
}

// waiting builds n pending pods of the gang, with 1 cpu each. Their numbers begin at from.
func waiting(gang string, from, n int, change ...func(*schedtest.PodBuilder)) []*v1.Pod {
	var pods []*v1.Pod
	for i := range n {
		pod := schedtest.MakePod().Name(fmt.Sprintf("%s-%d", gang, from+i)).Group(gang).Req(schedtest.Resources{"cpu": "1"})
		for _, c := range change {
			c(pod)
		}
		pods = append(pods, pod.Obj())
	}
	return pods
}

func running(gang string, index int, node string) *v1.Pod {
	return waiting(gang, index, 1, func(p *schedtest.PodBuilder) { p.Node(node).Phase(v1.PodRunning) })[0]
}

func gangNamed(name string, minimum int32, annotations ...map[string]string) *v1beta1.PodGroup {
	pg := schedtest.MakePodGroup().Name(name).MinMember(minimum)
	for _, said := range annotations {
		for key, value := range said {
			pg.Annotation(key, value)
		}
	}
	return pg.Obj()
}

const gatherConf = `
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: coscheduling
- plugins:
  - name: predicates
  - name: nodeorder
`

// onlyGatherConf has no other plugin that filters nodes.
const onlyGatherConf = `
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: coscheduling
`

func gatherSession(t *testing.T, w sessiontest.ClusterSpec, conf string, topology *v1alpha1.ClusterNetworkTopology, run bool) *sessiontest.Session {
	t.Helper()
	_, ssn := gatherCluster(t, w, conf, topology, run)
	return ssn
}

func gatherCluster(t *testing.T, w sessiontest.ClusterSpec, conf string, topology *v1alpha1.ClusterNetworkTopology, run bool) (*sessiontest.Cluster, *sessiontest.Session) {
	t.Helper()
	cluster := sessiontest.New(w)
	t.Cleanup(cluster.Close)
	registry := framework.NewRegistry()
	registry.RegisterPlugin(specWith(func(framework.Handle) (*v1alpha1.ClusterNetworkTopology, error) {
		if topology == nil {
			return nil, errors.New("there is no topology")
		}
		return topology, nil
	}))
	registry.RegisterPlugin(ibcluster.Spec())
	registry.RegisterAction(allocate.New())
	ssn := cluster.Open(registry, conf)
	t.Cleanup(ssn.Close)
	if run {
		action, _ := vcframework.GetAction("allocate")
		ssn.Run(action)
	}
	return cluster, ssn
}

// bindings lists the gang's bound members by node: "a1: 0,1,2 b: 3".
func bindings(ssn *sessiontest.Session, gang string) string {
	on := map[string][]string{}
	for i := range 1000 {
		name := fmt.Sprintf("%s-%d", gang, i)
		if node, ok := ssn.Binds()[schedtest.Namespace+"/"+name]; ok {
			on[node] = append(on[node], fmt.Sprint(i))
		}
	}
	var parts []string
	for _, node := range slices.Sorted(maps.Keys(on)) {
		parts = append(parts, node+": "+strings.Join(on[node], ","))
	}
	return strings.Join(parts, " ")
}

// TestGangsAreGathered checks where a session places the members of gang g.
func TestGangsAreGathered(t *testing.T) {
	apart := func(p *schedtest.PodBuilder) {
		p.Label("app", "g").Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "g"}}, TopologyKey: "kubernetes.io/hostname",
		}}}})
	}
	large := func(p *schedtest.PodBuilder) { p.Req(schedtest.Resources{"cpu": "4"}) }
	index := func(pods []*v1.Pod, of func(i int) int) []*v1.Pod {
		for i, pod := range pods {
			pod.Annotations[gangs.TopologyIndexAnnotation] = fmt.Sprint(of(i))
		}
		return pods
	}
	tests := map[string]struct {
		nodes    []*v1.Node
		minimum  int32
		asks     map[string]string
		pods     []*v1.Pod
		topology *v1alpha1.ClusterNetworkTopology
		conf     string
		want     string
		says     string
	}{
		"on one node (G29)":                   {minimum: 5, asks: asks("Block must"), pods: waiting("g", 0, 5), want: "a2: 0,1,2,3,4"},
		"in the tighter block, by rank (G31)": {minimum: 8, asks: asks("Block must"), pods: waiting("g", 0, 8), want: "a1: 5,6,7 a2: 0,1,2,3,4"},
		"in the one block with room (G32)":    {minimum: 9, asks: asks("Block must"), pods: waiting("g", 0, 9), want: "c1: 5,6,7,8 c2: 0,1,2,3,4"},
		"over blocks of a spine (G34)":        {minimum: 10, asks: asks("Spine must"), pods: waiting("g", 0, 10), want: "a1: 5,6,7 a2: 0,1,2,3,4 b1x: 8,9"},
		"in no spine (G35)":                   {minimum: 20, asks: asks("Spine must"), pods: waiting("g", 0, 20), says: "no domain of layer Spine fits the 20 members: s1 16, s2 9"},
		"by nodes of four (G37)":              {minimum: 8, asks: asks("Block must", "NodeTopologyLayer - 4"), pods: waiting("g", 0, 8), want: "c1: 0,1,2,3 c2: 4,5,6,7"},
		"company (G40)": {
			minimum: 5, asks: asks("Block must"), want: "b1x: 0,1,2,3,4",
			pods: append(waiting("g", 0, 5, func(p *schedtest.PodBuilder) { p.Annotation(gangs.TopologySelectorAnnotation, "train") }),
				schedtest.MakePod().Name("other").Node("b2x").Phase(v1.PodRunning).Annotation(gangs.TopologySelectorAnnotation, "train").Obj()),
		},
		"no multiple (G41)": {
			minimum: 12, asks: asks("Spine must", "Block - 8"), pods: waiting("g", 0, 12),
			says: "no domain of layer Spine fits the 12 members in multiples of 8 by Block: s1 8 (b1 8 + b2 0 of 16 slots), s2 8",
		},
		"by the user's numbers, as people count": {
			minimum: 12, asks: asks("Spine must"), pods: index(waiting("g", 0, 12), func(i int) int { return 11 - i }),
			want: "a1: 4,5,6 a2: 7,8,9,10,11 b1x: 0,1,2,3",
		},
		"by name, as people count":                                 {minimum: 12, asks: asks("Spine must"), pods: waiting("g", 0, 12), want: "a1: 5,6,7 a2: 0,1,2,3,4 b1x: 8,9,10,11"},
		"the minimum, where all have room, and the rest beside it": {minimum: 2, asks: asks("Block must"), pods: waiting("g", 0, 9), want: "c1: 5,6,7,8 c2: 0,1,2,3,4"},
		"the minimum, and of the rest what has room beside it":     {minimum: 9, asks: asks("Block must"), pods: waiting("g", 0, 11), want: "c1: 5,6,7,8 c2: 0,1,2,3,4"},
		"beside members that run":                                  {minimum: 4, asks: asks("Block must"), pods: append(waiting("g", 2, 3), running("g", 0, "b2x"), running("g", 1, "b2x")), want: "b1x: 2,3,4"},
		"not elsewhere than members that run": {
			minimum: 5, asks: asks("Block must"), pods: append(waiting("g", 1, 9), running("g", 0, "c1")),
			want: "c1: 6,7,8 c2: 1,2,3,4,5",
		},
		"no room where members run": {
			minimum: 11, asks: asks("Block must"), pods: append(waiting("g", 1, 10), running("g", 0, "c1")),
			says: "Block s2/b3, where the gang's pods are, does not fit the 10 members: s2/b3 8",
		},
		"members that do not share a node":               {minimum: 2, asks: asks("Block must"), pods: waiting("g", 0, 2, apart), want: "c1: 0 c2: 1"},
		"more that do not share a node than a block has": {minimum: 3, asks: asks("Block must"), pods: waiting("g", 0, 3, apart), says: "no domain of layer Block fits the 3 members: s1/b1 2, s1/b2 2, s2/b3 2"},
		"members that do not share a node, over a spine": {minimum: 3, asks: asks("Spine must"), pods: waiting("g", 0, 3, apart), want: "a1: 0 a2: 1 b1x: 2"},
		"a large member and small ones":                  {minimum: 5, asks: asks("Block must"), pods: append(waiting("g", 0, 1, large), waiting("g", 1, 4)...), want: "a1: 1,2,3 a2: 0,4"},
		"a large member in the last place":               {minimum: 5, asks: asks("Block must"), pods: append(waiting("g", 0, 4), waiting("g", 4, 1, large)...), want: "c1: 0,1,2,3 c2: 4"},
		"preferred, and forced nowhere":                  {minimum: 10, asks: asks("Block prefer"), pods: waiting("g", 0, 10), want: "a1: 5,6,7 a2: 0,1,2,3,4 b1x: 8,9"},
		"a layer that is not there":                      {minimum: 2, asks: asks("Rack must"), pods: waiting("g", 0, 2), says: `names unknown layer "Rack"; the layers are ClusterTopologyLayer, Spine, Block, NodeTopologyLayer`},
		"a preferred layer that is not there":            {minimum: 2, asks: asks("Rack prefer"), pods: waiting("g", 0, 2), want: "b2x: 0,1"},
		"no topology":                                    {minimum: 2, asks: asks("Block must"), pods: waiting("g", 0, 2), topology: &v1alpha1.ClusterNetworkTopology{}, says: `names unknown layer "Block"; the layers are ClusterTopologyLayer, NodeTopologyLayer`},
		"on one node, without topology":                  {minimum: 2, asks: asks("NodeTopologyLayer must"), pods: waiting("g", 0, 2), topology: &v1alpha1.ClusterNetworkTopology{}, want: "b2x: 0,1"},
		"nodes without labels are domains of their own": {
			nodes: networkOf("a - - 2", "b - - 4", "c s1 - 3", "d s1 - 3"), minimum: 4, asks: asks("Block must"), pods: waiting("g", 0, 4), want: "b: 0,1,2,3",
		},
		"the first label that a node has": {
			nodes:   append(networkOf("a s1 b1 2", "b s1 b1 2"), schedtest.MakeNode().Name("c").Label("spine", "s1").Label("rack", "b1").Capacity(schedtest.Resources{"cpu": "2", "memory": "1Gi", "pods": "9"}).Obj()),
			minimum: 6, asks: asks("Block must"), pods: waiting("g", 0, 6), want: "a: 0,1 b: 2,3 c: 4,5",
		},
		"within an InfiniBand cluster": {
			minimum: 5, asks: with(asks("Block must"), says(ibcluster.ModeAnnotation, "required")), pods: waiting("g", 0, 5), want: "c2: 0,1,2,3,4",
			nodes: func() []*v1.Node {
				nodes := tree()
				for _, node := range nodes[4:] {
					node.Labels["ibcluster"] = "x"
				}
				return nodes
			}(),
			conf: gatherConf + "  - name: ibcluster\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := sessiontest.ClusterSpec{Nodes: tt.nodes, PodGroups: []*v1beta1.PodGroup{gangNamed("g", tt.minimum, tt.asks)}, Pods: tt.pods}
			if w.Nodes == nil {
				w.Nodes = tree()
			}
			if tt.topology == nil {
				tt.topology = spines
			}
			if tt.conf == "" {
				tt.conf = gatherConf
			}
			ssn := gatherSession(t, w, tt.conf, tt.topology, true)
			if diff := cmp.Diff(tt.want, bindings(ssn, "g")); diff != "" {
				reason, _ := ssn.PendingReason("ns/g")
				t.Errorf("bound (-want +got):\n%s\npending reason: %v", diff, reason)
			}
			reason, _ := ssn.PendingReason(api.JobID(schedtest.Namespace + "/g"))
			if !strings.Contains(reason.Message, tt.says) {
				t.Errorf("the pending reason is %q, want %q in it", reason.Message, tt.says)
			}
		})
	}
}

// TestGroupsAreGatheredGangByGang checks that each gang of a group is placed in one block, or no member of the group is
// placed.
func TestGroupsAreGatheredGangByGang(t *testing.T) {
	group := func(rules ...string) map[string]string {
		return with(asks(rules...), says(gangs.GroupsAnnotation, groupOf("g", "h")))
	}
	for name, tt := range map[string]struct {
		g, h  int
		wantG string
		wantH string
	}{
		"both have room":      {9, 8, "c1: 5,6,7,8 c2: 0,1,2,3,4", "a1: 5,6,7 a2: 0,1,2,3,4"},
		"one of them has not": {9, 9, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ssn := gatherSession(t, sessiontest.ClusterSpec{
				Nodes: tree(), Pods: append(waiting("g", 0, tt.g), waiting("h", 0, tt.h)...),
				PodGroups: []*v1beta1.PodGroup{gangNamed("g", int32(tt.g), group("Block must")), gangNamed("h", int32(tt.h), group("Block must"))},
			}, gatherConf, spines, true)
			if g, h := bindings(ssn, "g"), bindings(ssn, "h"); g != tt.wantG || h != tt.wantH {
				t.Errorf("the members of g are bound as %q and of h as %q, want %q and %q", g, h, tt.wantG, tt.wantH)
			}
		})
	}
}

// TestNothingIsAskedForGangsThatAreNotGathered checks that gangs without gather rules need neither a topology, nor a
// filter, nor a pre-bind step.
func TestNothingIsAskedForGangsThatAreNotGathered(t *testing.T) {
	ssn := gatherSession(t, sessiontest.ClusterSpec{
		Nodes: tree(), Pods: waiting("g", 0, 3), PodGroups: []*v1beta1.PodGroup{gangNamed("g", 3, says(gangs.ModeAnnotation, "Strict"))},
	}, gatherConf, nil, true)
	if ssn.Signers.HasOwnFilter(Name) {
		t.Error("the plugin added a filter")
	}
	for pod, bind := range ssn.Handed() {
		if slices.ContainsFunc(bind.Steps, func(step binding.Step) bool { return step.Plugin == Name }) {
			t.Errorf("%s has a pre-bind step", pod)
		}
	}
	if len(ssn.Handed()) != 3 {
		t.Errorf("%d members are bound, want 3", len(ssn.Handed()))
	}
}

// TestOtherActionsKeepToTheDomain checks that the filter, which all actions call, rejects nodes outside of the domain
// of the gang's members.
func TestOtherActionsKeepToTheDomain(t *testing.T) {
	for name, tt := range map[string]struct {
		asks []string
		runs string
		want string
	}{
		"a block":                 {[]string{"Block must"}, "a1", "a1 a2"},
		"a spine":                 {[]string{"Spine must"}, "a1", "a1 a2 b1x b2x"},
		"a node":                  {[]string{"NodeTopologyLayer must"}, "a1", "a1"},
		"a preferred block":       {[]string{"Block prefer"}, "a1", "a1 a2 b1x b2x c1 c2"},
		"members that are none":   {[]string{"Block must"}, "", "a1 a2 b1x b2x c1 c2"},
		"a layer that is unknown": {[]string{"Rack must"}, "a1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pods := waiting("g", 1, 1)
			if tt.runs != "" {
				pods = append(pods, running("g", 0, tt.runs))
			}
			ssn := gatherSession(t, sessiontest.ClusterSpec{Nodes: tree(), Pods: pods, PodGroups: []*v1beta1.PodGroup{gangNamed("g", 1, asks(tt.asks...))}}, onlyGatherConf, spines, false)
			var accepted []string
			for _, node := range ssn.NodeList {
				for _, task := range ssn.Jobs["ns/g"].TaskStatusIndex[api.Pending] {
					if ssn.PredicateFn(task, node) == nil {
						accepted = append(accepted, node.Name)
					}
				}
			}
			slices.Sort(accepted)
			if got := strings.Join(accepted, " "); got != tt.want {
				t.Errorf("the accepted nodes are %q, want %q", got, tt.want)
			}
		})
	}
}

// TestAllAgreeWhereSplitGangsAre: a gang has one member in each of two blocks, and the name of one block's spine is a
// prefix of the other's. allocate must choose the same block for the remaining member as the filter, which other
// actions call.
func TestAllAgreeWhereSplitGangsAre(t *testing.T) {
	w := sessiontest.ClusterSpec{
		Nodes: networkOf("p s b 9", "q s-1 b 9"), PodGroups: []*v1beta1.PodGroup{gangNamed("g", 3, asks("Block must"))},
		Pods: append(waiting("g", 2, 1), running("g", 0, "p"), running("g", 1, "q")),
	}
	if got := acceptedFor(gatherSession(t, w, onlyGatherConf, spines, false), "g"); got != "p" {
		t.Errorf("the accepted nodes are %q, want p in spine s", got)
	}
	if got := bindings(gatherSession(t, w, onlyGatherConf, spines, true), "g"); got != "p: 2" {
		t.Errorf("bound: %q, want p: 2", got)
	}
}

// TestWhereTheMostMembersAreIsHome checks that a gang is completed in the domain with most of its members, of the
// narrowest layer that a rule requires. The order of rules does not matter.
func TestWhereTheMostMembersAreIsHome(t *testing.T) {
	w := sessiontest.ClusterSpec{
		Nodes: networkOf("p t b 9", "q s b 9"), PodGroups: []*v1beta1.PodGroup{gangNamed("g", 4, asks("Block must"))},
		Pods: append(waiting("g", 3, 1), running("g", 0, "p"), running("g", 1, "p"), running("g", 2, "q")),
	}
	if got := acceptedFor(gatherSession(t, w, onlyGatherConf, spines, false), "g"); got != "p" {
		t.Errorf("the accepted nodes are %q, want p, which has two of three members", got)
	}
	w = sessiontest.ClusterSpec{
		Nodes: networkOf("p s b1 9", "q s b2 9"), PodGroups: []*v1beta1.PodGroup{gangNamed("g", 2, asks("Block must", "Spine must"))},
		Pods: append(waiting("g", 1, 1), running("g", 0, "p")),
	}
	if got := acceptedFor(gatherSession(t, w, onlyGatherConf, spines, false), "g"); got != "p" {
		t.Errorf("the accepted nodes are %q, want p in the member's block", got)
	}
}

// TestNodesAreKeptInOneDomain checks that nodes are reserved only in one domain that satisfies the gang's gather rules.
func TestNodesAreKeptInOneDomain(t *testing.T) {
	for name, tt := range map[string]struct {
		asks []string
		runs bool
		want string
	}{
		"a spine":             {[]string{"Spine must"}, false, "Spine s1: a1 a2 b1x b2x; Spine s2: c1 c2"},
		"where a member runs": {[]string{"Block must"}, true, "Block s2/b3: c1 c2"},
		"no domain":           {[]string{"Block prefer"}, false, ": a1 a2 b1x b2x c1 c2"},
	} {
		t.Run(name, func(t *testing.T) {
			pods := waiting("g", 1, 1)
			if tt.runs {
				pods = append(pods, running("g", 0, "c1"))
			}
			var made *plugin
			spec := specWith(func(framework.Handle) (*v1alpha1.ClusterNetworkTopology, error) { return spines, nil })
			build := spec.New
			spec.Load = func(args framework.Arguments) (framework.Builder, error) {
				return func(h framework.Handle) (framework.Plugin, error) {
					p, err := build(args, h)
					made = p.(*plugin)
					return p, err
				}, nil
			}
			cluster := sessiontest.New(sessiontest.ClusterSpec{Nodes: tree(), Pods: pods, PodGroups: []*v1beta1.PodGroup{gangNamed("g", 1, asks(tt.asks...))}})
			defer cluster.Close()
			registry := framework.NewRegistry()
			registry.RegisterPlugin(spec)
			ssn := cluster.Open(registry, onlyGatherConf)
			defer ssn.Close()
			places, err := made.session.reservations.places(ssn.Jobs["ns/g"])
			if err != nil {
				t.Fatal(err)
			}
			var parts []string
			for _, p := range places {
				slices.Sort(p.nodes)
				parts = append(parts, p.name+": "+strings.Join(p.nodes, " "))
			}
			if got := strings.Join(parts, "; "); got != tt.want {
				t.Errorf("the node lists are %q, want %q", got, tt.want)
			}
		})
	}
}

// TestQueuesLimitGatheredGangs checks how many members are placed if the gang's queue has room for only some of them:
// the largest number that the multiples permit.
func TestQueuesLimitGatheredGangs(t *testing.T) {
	for name, tt := range map[string]struct {
		minimum int32
		asks    []string
		want    string
	}{
		"the minimum and what the queue has room for": {2, []string{"Spine must"}, "a1: 5,6 a2: 0,1,2,3,4"},
		"in twos": {2, []string{"Spine must", "NodeTopologyLayer - 2"}, "b1x: 0,1,2,3,4,5"},
		"a minimum that the queue has no room for":      {8, []string{"Spine must"}, ""},
		"a multiple that the queue has no room for":     {4, []string{"Spine must 8"}, ""},
		"of a minimum that is no multiple the next one": {3, []string{"Spine must", "NodeTopologyLayer - 2"}, "b1x: 0,1,2,3,4,5"},
	} {
		t.Run(name, func(t *testing.T) {
			queue := schedtest.MakeQueue().Name("q").Capability(schedtest.Resources{"cpu": "7"}).Obj()
			gang := gangNamed("g", tt.minimum, asks(tt.asks...))
			gang.Spec.Queue = "q"
			ssn := gatherSession(t, sessiontest.ClusterSpec{
				Nodes: tree(), Pods: waiting("g", 0, 12), Queues: []*v1beta1.Queue{queue}, PodGroups: []*v1beta1.PodGroup{gang},
			}, gatherConf+"  - name: capacity\n", spines, true)
			if got := bindings(ssn, "g"); got != tt.want {
				reason, _ := ssn.PendingReason("ns/g")
				t.Errorf("bound %q, want %q; pending reason: %v", got, tt.want, reason)
			}
		})
	}
}

// TestAGangWaitsInOneDomainForReleasingResources checks that a gang reserves the idle resources of one domain and waits
// for the resources being released there.
func TestAGangWaitsInOneDomainForReleasingResources(t *testing.T) {
	var pods []*v1.Pod
	for _, node := range []string{"a1", "a2", "b1x", "b2x", "c1", "c2"} {
		pod := schedtest.MakePod().Name("on-" + node).Node(node).Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "2"})
		if node == "c1" || node == "c2" {
			pod.Terminating()
		}
		pods = append(pods, pod.Obj())
	}
	ssn := gatherSession(t, sessiontest.ClusterSpec{
		Nodes: tree(), Pods: append(pods, waiting("g", 0, 9)...), PodGroups: []*v1beta1.PodGroup{gangNamed("g", 9, asks("Block must"))},
	}, gatherConf, spines, true)
	on := map[string]int{}
	for _, node := range ssn.Pipelined() {
		on[node]++
	}
	if diff := cmp.Diff(map[string]int{"c1": 2, "c2": 2}, on); diff != "" || len(ssn.Binds()) > 0 {
		reason, _ := ssn.PendingReason("ns/g")
		t.Errorf("%d members are bound; pipelined members by node (-want +got):\n%s\npending reason: %v", len(ssn.Binds()), diff, reason)
	}
}
