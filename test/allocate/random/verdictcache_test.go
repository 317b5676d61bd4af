// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/nodeorder"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// nothingKept makes allocate call each plugin for each task on each node.
const nothingKept = "configurations:\n- name: allocate\n  arguments:\n    predicateErrorCacheEnable: false\n"

var randomKept = rounds.Flag("random.kept", 15, 60, "how many instances of each mix are placed with verdicts kept and with nothing kept")

// keptMix has the plugins with which results depend on tasks, jobs and queues in instances of TestVerdictsKept.
type keptMix struct {
	mix
	// queueGroups gives queues node groups, and clusters gives gangs InfiniBand clusters.
	queueGroups, clusters bool
	// scores are plugins. Each is used in half of the instances.
	scores []string
}

// TestVerdictsKept checks that instances have the same outcome with results cached for equal tasks and without any
// cache.
func TestVerdictsKept(t *testing.T) {
	// Task-topology is not included: its results depend on the order of a map, and its state becomes inconsistent
	// when a placement is reverted.
	all := []string{"binpack", "resource-strategy-fit", "usage", "tdm", "nodeorder"}
	for name, m := range map[string]keptMix{
		"scores":                                 {mix: mix{gangs: 8, coupled: 20}, scores: all},
		"queues with node groups":                {mix: mix{gangs: 8}, queueGroups: true, scores: []string{"nodeorder", "tdm"}},
		"alike tasks in queues with node groups": {mix: mix{gangs: 8, alike: true}, queueGroups: true, scores: []string{"binpack"}},
		"clusters":                               {mix: mix{gangs: 6, coupled: 10}, clusters: true, scores: []string{"nodeorder", "binpack"}},
		"everything":                             {mix: mix{gangs: 6, coupled: 20, subGroups: 10, topology: true}, queueGroups: true, clusters: true, scores: append(all, "network-topology-aware")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			upstreams, _ := vcframework.GetPluginBuilder(nodeorder.Name) // Restores the registration, which is for the whole process, for later tests.
			t.Cleanup(func() { vcframework.RegisterPluginBuilder(nodeorder.Name, upstreams) })
			b.registry.RegisterPlugin(nodeorder.Spec())
			b.registry.RegisterPlugin(ibcluster.Spec())
			b.registry.RegisterPlugin(roomsSpec())
			placed := 0
			eachSeedOf(randomKept.Of(t), func(seed uint64) bool {
				in, other := m.instance(seed), m.instance(seed)
				other.conf += nothingKept
				kept, asked := b.run(in, b.ours), b.run(other, b.ours)
				placed += len(kept.bound)
				if *randomSeed > 0 {
					t.Log(describe(in, map[string]outcome{"kept": kept, "nothing kept": asked}))
				}
				diff := cmp.Diff(strings.Fields(asked.digest()), strings.Fields(kept.digest()))
				if diff != "" {
					t.Errorf("-random.seed=%d: placed otherwise with verdicts kept (-nothing kept +kept):\n%s", seed, diff)
				}
				return diff == ""
			})
			if *randomSeed == 0 && placed == 0 {
				t.Error("no pod was placed: the instances are no test")
			}
		})
	}
}

func (m keptMix) instance(seed uint64) instance {
	in := m.mix.instance(seed)
	d := newDice(seed, 6)
	in.prepare = func(c *sessiontest.Cluster) { drawUsage(newDice(seed, 7), c) }
	drawSelectors(d, &in.world)
	drawRevocable(d, &in.world)
	drawStrategies(d, &in.world)
	in.conf = "actions: allocate\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n- plugins:\n" +
		"  - name: predicates\n    arguments:\n      predicate.VolumeBindingEnable: false\n"
	if m.queueGroups {
		drawQueueGroups(d, &in.world)
		in.conf += "  - name: proportion\n  - name: nodegroup\n"
	}
	if m.clusters {
		drawClusters(d, &in.world)
		if d.chance(50) {
			in.conf += "  - name: rooms\n"
		}
		in.conf += "  - name: ibcluster\n    arguments:\n      ibcluster.levels: [cluster, spine, leaf]\n"
	}
	for _, plugin := range m.scores {
		if d.chance(50) || plugin == "network-topology-aware" {
			in.conf += fmt.Sprintf("  - name: %s\n%s", plugin, argumentsOf[plugin])
		}
	}
	return in
}

// argumentsOf are arguments for plugins that have no effect by default.
var argumentsOf = map[string]string{
	"tdm":   "    arguments:\n      tdm.revocable-zone.rz1: 00:00-00:00\n",
	"usage": "    arguments:\n      thresholds:\n        cpu: 80\n        mem: 90\n",
	"resource-strategy-fit": `    arguments:
      resourceStrategyFitWeight: 10
      resources:
        cpu:
          type: LeastAllocated
          weight: 1
        memory:
          type: MostAllocated
          weight: 2
`,
}

// drawUsage gives nodes random usage metrics.
func drawUsage(d dice, c *sessiontest.Cluster) {
	for _, name := range sortedKeys(c.Cache().Nodes) {
		c.Cache().Nodes[name].ResourceUsage = &api.NodeUsage{
			MetricsTime: time.Now(),
			CPUUsageAvg: map[string]float64{"10m": float64(d.between(0, 100))},
			MEMUsageAvg: map[string]float64{"10m": float64(d.between(0, 100))},
		}
	}
}

const tier = "tier"

// drawSelectors gives pods labels. Selectors of other pods use some of their values.
func drawSelectors(d dice, w *sessiontest.ClusterSpec) {
	for _, pod := range w.Pods {
		pod.Labels["of-its-own"] = pod.Name
		if d.chance(60) {
			pod.Labels[tier] = pick(d, "front", "middle", "back")
		}
	}
	for _, pod := range w.Pods {
		if !d.chance(5) {
			continue
		}
		requirement := metav1.LabelSelectorRequirement{Key: tier, Operator: pick(d,
			metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
		if requirement.Operator == metav1.LabelSelectorOpIn || requirement.Operator == metav1.LabelSelectorOpNotIn {
			requirement.Values = []string{pick(d, "front", "back")}
		}
		terms := &antiAffinity(pod).RequiredDuringSchedulingIgnoredDuringExecution
		*terms = append(*terms, v1.PodAffinityTerm{
			TopologyKey:   pick(d, zone, v1.LabelHostname),
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{requirement}},
		})
	}
}

// drawRevocable makes nodes revocable and allows pods to run there.
func drawRevocable(d dice, w *sessiontest.ClusterSpec) {
	for _, node := range w.Nodes {
		if d.chance(20) {
			node.Labels[v1beta1.RevocableZone] = pick(d, "rz1", "rz1", "unknown")
		}
	}
	for _, pod := range w.Pods {
		if d.chance(40) {
			pod.Annotations[v1beta1.RevocableZone] = "*"
		}
	}
}

// drawStrategies gives pods annotations for the scoring of their resources.
func drawStrategies(d dice, w *sessiontest.ClusterSpec) {
	for _, pod := range w.Pods {
		if d.chance(20) {
			pod.Annotations["volcano.sh/resource-strategy-scoring-type"] = pick(d, "LeastAllocated", "MostAllocated")
			pod.Annotations["volcano.sh/resource-strategy-weight"] = pick(d, `{"cpu": 1}`, `{"cpu": 1, "memory": 5}`)
		}
	}
}

// drawQueueGroups puts nodes into node groups and gives queues an affinity to them.
func drawQueueGroups(d dice, w *sessiontest.ClusterSpec) {
	names := []string{"ga", "gb", "gc"}
	for _, node := range w.Nodes {
		if d.chance(90) {
			node.Labels["volcano.sh/nodegroup-name"] = pick(d, names...)
		}
	}
	w.Queues = append(w.Queues, schedtest.MakeQueue().Name(schedtest.Queue).Obj())
	some := func(percent int) []string {
		return slices.DeleteFunc(slices.Clone(names), func(string) bool { return !d.chance(percent) })
	}
	for _, queue := range w.Queues {
		if d.chance(85) {
			queue.Spec.Affinity = &v1beta1.Affinity{
				NodeGroupAffinity: &v1beta1.NodeGroupAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: some(40), PreferredDuringSchedulingIgnoredDuringExecution: some(40),
				},
				NodeGroupAntiAffinity: &v1beta1.NodeGroupAntiAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: some(10), PreferredDuringSchedulingIgnoredDuringExecution: some(20),
				},
			}
		}
	}
}

// drawClusters puts nodes into clusters, and into rooms that cross their boundaries, and lets gangs request a
// cluster.
func drawClusters(d dice, w *sessiontest.ClusterSpec) {
	for _, node := range w.Nodes {
		node.Labels[room] = pick(d, "room-0", "room-1")
		for level, width := range []int{3, 2, 2} {
			if d.chance(6) {
				break
			}
			node.Labels[levels[level]] = fmt.Sprintf("%s-%d", levels[level], d.IntN(width))
		}
	}
	for _, group := range w.PodGroups {
		mode := pick(d, "", "required", "required", "preferred")
		if mode == "" {
			continue
		}
		group.Annotations[ibcluster.ModeAnnotation] = mode
		if d.chance(40) {
			group.Annotations[ibcluster.ClustersAnnotation] = pick(d, "cluster-0", "cluster-1,cluster-2", "cluster-0,cluster-2")
		}
		if mode == "required" && d.chance(20) {
			group.Annotations[ibcluster.AffinityGroupAnnotation] = "company"
		}
	}
}
