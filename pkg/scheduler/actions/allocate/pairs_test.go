// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// pair has two gangs, g and h, of one pod each. h comes second and differs in one thing.
type pair struct {
	// plugins are configured in addition to gang and predicates.
	plugins string
	nodes   []*v1.Node
	others  []*v1.Pod
	g, h    *schedtest.PodBuilder
	// prepare, if not nil, changes the cluster before the session opens.
	prepare func(*sessiontest.Cluster)
	// change, if not nil, changes the pod of h where a builder cannot.
	change func(*v1.Pod)
	// groups, if not nil, changes the PodGroups of g and h.
	groups func(g, h *v1beta1.PodGroup)
	// on has the expected nodes of g and h.
	on [2]string
}

// TestPodsThatDifferInOneThing checks that pods that differ in one thing have different filter results if the
// difference matters, whether or not filter results are cached.
func TestPodsThatDifferInOneThing(t *testing.T) {
	pod := func() *schedtest.PodBuilder { return schedtest.MakePod().Req(cores("1")) }
	guaranteed := func() *schedtest.PodBuilder {
		return schedtest.MakePod().Limit(schedtest.Resources{"cpu": "1", "memory": "1Mi"})
	}
	plain := func(name string) *schedtest.NodeBuilder { return holds("4").Name(name) }
	ssd := plain("b").Label("disk", "ssd").Obj()
	tainted := plain("a").Taint("dedicated", v1.TaintEffectNoSchedule).Obj()
	running := func() *schedtest.PodBuilder {
		return schedtest.MakePod().Name("other").Scheduler("other").Node("a").Phase(v1.PodRunning).Req(cores("1"))
	}
	front := metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}
	away := running().Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
		{LabelSelector: &front, TopologyKey: v1.LabelHostname},
	}}}).Obj()
	onSSD := v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "disk", Operator: v1.NodeSelectorOpIn, Values: []string{"ssd"}}}}
	withImage := plain("b").Obj()
	withImage.Status.Images = []v1.ContainerImage{{Names: []string{"large:1"}, SizeBytes: 900 << 20}}
	two := nodes(holds("4"), "a", "b")
	inClusters := []*v1.Node{
		plain("a").Label("cluster", "ib-a").Label("room", "r").Obj(), plain("b").Label("cluster", "ib-b").Label("room", "r").Obj(),
	}
	member := func(gang, node string) *v1.Pod {
		return schedtest.MakePod().Name(gang + "-there").Group(gang).Node(node).Phase(v1.PodRunning).Req(cores("1")).Obj()
	}
	const scores = "  - name: nodeorder\n"
	const ibclusterBesideRooms = "  - name: rooms\n  - name: ibcluster\n    arguments:\n      ibcluster.levels: [cluster]\n"
	pairs := map[string]pair{
		"node selector": {nodes: []*v1.Node{plain("a").Obj(), ssd}, g: pod(), h: pod().NodeSelector("disk", "ssd"), on: [2]string{"a", "b"}},
		"required node affinity": {nodes: []*v1.Node{plain("a").Obj(), ssd}, g: pod(), on: [2]string{"a", "b"},
			h: pod().Affinity(v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{onSSD}}}})},
		"preferred node affinity": {plugins: scores, nodes: []*v1.Node{plain("a").Obj(), ssd}, g: pod(), on: [2]string{"a", "b"},
			h: pod().Affinity(v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 100, Preference: onSSD}}}})},
		"tolerations": {nodes: []*v1.Node{tainted, plain("b").Obj()}, g: pod(), h: pod(), change: func(pod *v1.Pod) {
			pod.Spec.Tolerations = []v1.Toleration{{Key: "dedicated", Operator: v1.TolerationOpExists}}
		}, on: [2]string{"b", "a"}},
		"image":                           {plugins: "  - name: nodeorder\n    arguments:\n      imagelocality.weight: 100\n", nodes: []*v1.Node{plain("a").Obj(), withImage}, g: pod(), h: pod(), change: func(pod *v1.Pod) { pod.Spec.Containers[0].Image = "large:1" }, on: [2]string{"a", "b"}},
		"host port":                       {nodes: two, others: []*v1.Pod{running().HostPort(80).Obj()}, g: pod(), h: pod().HostPort(80), on: [2]string{"a", "b"}},
		"requests":                        {nodes: append(nodes(holds("2"), "a"), nodes(holds("4"), "b")...), g: pod(), h: pod().Req(cores("2")), on: [2]string{"a", "b"}},
		"a label that another pod shuns":  {nodes: two, others: []*v1.Pod{away}, g: pod(), h: pod().Label("tier", "front"), on: [2]string{"a", "b"}},
		"a label that no term selects":    {nodes: two, others: []*v1.Pod{away}, g: pod(), h: pod().Label("tier", "back"), on: [2]string{"a", "a"}},
		"the namespace of a shunned pod":  {nodes: two, others: []*v1.Pod{away}, g: pod().Label("tier", "front"), h: pod().Label("tier", "front").Namespace("elsewhere"), on: [2]string{"b", "a"}},
		"tdm: whether it may be revoked":  {plugins: "  - name: tdm\n    arguments:\n      tdm.revocable-zone.rz1: 00:00-00:00\n", nodes: []*v1.Node{plain("a").Label(v1beta1.RevocableZone, "rz1").Obj(), plain("b").Obj()}, g: pod(), h: pod().Annotation(v1beta1.RevocableZone, "*"), on: [2]string{"b", "a"}},
		"resource-strategy-fit: strategy": {plugins: "  - name: resource-strategy-fit\n    arguments:\n      resourceStrategyFitWeight: 10\n      resources:\n        cpu:\n          type: LeastAllocated\n          weight: 1\n", nodes: two, others: []*v1.Pod{running().Req(cores("2")).Obj()}, g: pod().Annotation("volcano.sh/resource-strategy-weight", `{"cpu": 1}`), h: pod().Annotation("volcano.sh/resource-strategy-scoring-type", "MostAllocated").Annotation("volcano.sh/resource-strategy-weight", `{"cpu": 1}`), on: [2]string{"b", "a"}},
		"resource-strategy-fit: weights":  {plugins: "  - name: resource-strategy-fit\n    arguments:\n      resourceStrategyFitWeight: 10\n      resources:\n        cpu:\n          type: LeastAllocated\n          weight: 1\n", nodes: two, others: []*v1.Pod{running().Node("b").Req(cores("2")).Obj()}, g: pod().Annotation("volcano.sh/resource-strategy-scoring-type", "MostAllocated").Annotation("volcano.sh/resource-strategy-weight", `{"memory": 1}`), h: pod().Annotation("volcano.sh/resource-strategy-scoring-type", "MostAllocated").Annotation("volcano.sh/resource-strategy-weight", `{"cpu": 1}`), on: [2]string{"a", "b"}},
		"numa-aware: policy": {plugins: "  - name: numa-aware\n", nodes: nodes(schedtest.MakeNode().Capacity(schedtest.Resources{"cpu": "4", "memory": "1Gi", "pods": "20"}), "a", "b"), prepare: func(c *sessiontest.Cluster) { giveNUMA(c, "b", 2) },
			g: guaranteed(), h: guaranteed().Annotation(v1beta1.NumaPolicyKey, "single-numa-node"), on: [2]string{"a", "b"}},
		"nodegroup: queue": {plugins: "  - name: nodegroup\n", nodes: append(nodesOf("ga", "4", "a"), nodesOf("gb", "4", "b")...), g: pod(), h: pod(), on: [2]string{"a", "b"},
			groups: func(g, h *v1beta1.PodGroup) { g.Spec.Queue, h.Spec.Queue = "qa", "qb" }},
		"ibcluster: where its members are": {plugins: ibclusterBesideRooms, nodes: inClusters, others: []*v1.Pod{member("g", "b"), member("h", "a")}, g: pod(), h: pod(), on: [2]string{"b", "a"},
			groups: func(g, h *v1beta1.PodGroup) {
				g.Annotations[ibcluster.ModeAnnotation], h.Annotations[ibcluster.ModeAnnotation] = "required", "required"
			}},
	}
	cases := map[string]behaviour{}
	for name, p := range pairs {
		for kept, configuration := range map[string]string{"kept": "", "nothing kept": "configurations:\n- name: allocate\n  arguments:\n    predicateErrorCacheEnable: false\n"} {
			b := p.behaviour()
			b.conf += configuration
			cases[name+", "+kept] = b
		}
	}
	runTable(t, cases)
}

func (p pair) behaviour() behaviour {
	group := func(name string, pod *v1.Pod) *v1beta1.PodGroup {
		return schedtest.MakePodGroup().Name(name).Namespace(pod.Namespace).Obj()
	}
	g, h := p.g.Name("g-0").Group("g").Obj(), p.h.Name("h-0").Group("h").Obj()
	if p.change != nil {
		p.change(h)
	}
	gGroup, hGroup := group("g", g), group("h", h)
	if p.groups != nil {
		p.groups(gGroup, hGroup)
	}
	return behaviour{
		conf:    "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n- plugins:\n  - name: predicates\n" + p.plugins,
		plugins: []framework.PluginSpec{roomsSpec(false), ibcluster.Spec()},
		world: sessiontest.ClusterSpec{
			Nodes: p.nodes, Pods: slices.Concat(p.others, []*v1.Pod{g, h}), PodGroups: []*v1beta1.PodGroup{gGroup, hGroup},
			Queues: []*v1beta1.Queue{queueOn("qa", "ga"), queueOn("qb", "gb")},
		},
		prepare:         p.prepare,
		binds:           map[string]string{g.Namespace + "/g-0": p.on[0], h.Namespace + "/h-0": p.on[1]},
		upstreamDiffers: "it breaks ties by chance",
	}
}
