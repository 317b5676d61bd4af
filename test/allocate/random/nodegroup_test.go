// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
)

const ibclusterModeAnnotation = ibcluster.ModeAnnotation

// ibclusterConf makes ibcluster use the same node groups as the test's own plugin.
var ibclusterConf = strings.Replace(forestConf, "  - name: groups\n", `  - name: ibcluster
    arguments:
      ibcluster.levels: [cluster, spine, leaf]
`, 1)

// TestNodeGroups places single gangs in clusters of node groups, and compares the outcome with the known optimum: by
// division for equal tasks, and by exhaustive search for up to 8 tasks of mixed sizes.
//
//   - A gang that requires a group is placed if it fits into some group now, in one group. Otherwise it is not
//     placed.
//   - A gang that prefers a group is placed in one group if possible. Otherwise it uses as few groups as possible,
//     and nodes outside of groups for the remaining members.
//   - Within its group, the gang is in one narrower group if one holds it, at the narrowest level where this is
//     possible.
func TestNodeGroups(t *testing.T) {
	for name, m := range map[string]forestMix{
		"required, alike":             {wish: required},
		"required, mixed":             {wish: required, mixed: true},
		"required, elastic":           {wish: required, elastic: true},
		"preferred, alike":            {wish: preferred},
		"preferred, mixed":            {wish: preferred, mixed: true},
		"ibcluster, required, alike":  {wish: required, conf: ibclusterConf},
		"ibcluster, required, mixed":  {wish: required, mixed: true, conf: ibclusterConf},
		"ibcluster, preferred, alike": {wish: preferred, conf: ibclusterConf},
	} {
		t.Run(name, func(t *testing.T) {
			m.gangs = 1
			b := newForestBench(t)
			placed, feasible, missed := 0, 0, 0
			eachSeed(t, func(seed uint64) bool {
				in := drawForest(seed, m)
				out := b.run(in, b.ours)
				g := newGrove(in, out)
				if *randomSeed > 0 {
					t.Log(describe(in, map[string]outcome{"ours": out}))
				}
				var wrong []string
				for _, fault := range faults(in, out) {
					wrong = append(wrong, fault.String())
				}
				if len(out.bound) > 0 {
					placed++
				}
				fits := g.fits(m.wish)
				if fits {
					feasible++
				}
				switch {
				case fits && len(out.bound) == 0 && m.mixed:
					missed++
					t.Logf("-random.seed=%d: the gang fits and was not placed", seed)
				case fits && len(out.bound) == 0:
					wrong = append(wrong, "the gang fits and was not placed")
				case len(out.bound) > 0:
					wrong = append(wrong, g.judge(m)...)
				}
				if m.wish == required {
					wrong = append(wrong, g.apart()...)
				}
				for _, w := range wrong {
					t.Errorf("-random.seed=%d: %s", seed, w)
				}
				return len(wrong) == 0
			})
			t.Logf("%d gangs placed, %d fit, %d of those not found", placed, feasible, missed)
			if *randomSeed == 0 && (placed == 0 || placed == randomSeeds.Of(t)) {
				t.Error("none or all of the gangs were placed: the instances are no test")
			}
			if missed*1000 > feasible {
				t.Errorf("%d of %d gangs that fit were not found", missed, feasible)
			}
		})
	}
}

// TestManyGangsInNodeGroups checks that each of several gangs that require a group stays in one.
func TestManyGangsInNodeGroups(t *testing.T) {
	for name, conf := range map[string]string{"groups": forestConf, "ibcluster": ibclusterConf} {
		t.Run(name, func(t *testing.T) {
			b := newForestBench(t)
			placed := 0
			eachSeed(t, func(seed uint64) bool {
				in := drawForest(seed, forestMix{gangs: 5, wish: required, mixed: seed%2 == 0, elastic: seed%3 == 0, conf: conf})
				out := b.run(in, b.ours)
				if *randomSeed > 0 {
					t.Log(describe(in, map[string]outcome{"ours": out}))
				}
				placed += ready(in, out)
				wrong := newGrove(in, out).apart()
				for _, fault := range faults(in, out) {
					wrong = append(wrong, fault.String())
				}
				for _, w := range wrong {
					t.Errorf("-random.seed=%d: %s", seed, w)
				}
				return len(wrong) == 0
			})
			t.Logf("%d gangs placed", placed)
		})
	}
}

func newForestBench(t *testing.T) *bench {
	b := newBench(t)
	b.registry.RegisterPlugin(groupsSpec())
	b.registry.RegisterPlugin(ibcluster.Spec())
	return b
}

// grove is an outcome by node groups, which are identified by their paths.
type grove struct {
	*scene
	// room is the room on each node of each group before the gang is placed, for nodes that accept pods. The key "" has
	// all these nodes.
	room map[string][]amounts
	// tasks are the tasks that the gang still needs for its minimum.
	tasks []amounts
}

func newGrove(in instance, out outcome) *grove {
	g := &grove{scene: newScene(in, out), room: map[string][]amounts{}}
	for _, node := range in.world.Nodes {
		if node.Spec.Unschedulable || len(node.Spec.Taints) > 0 {
			continue
		}
		left := amountsOf(node.Status.Allocatable)
		left[3] = int(node.Status.Allocatable.Pods().Value())
		for _, p := range g.pods {
			if p.node == node && !p.fresh() {
				left = left.minus(taskOf(p.Pod))
			}
		}
		for _, path := range append(paths(node), "") {
			g.room[path] = append(g.room[path], left)
		}
	}
	for _, pod := range g.members["gang-0"][:g.groups["gang-0"].Spec.MinMember] {
		g.tasks = append(g.tasks, taskOf(pod))
	}
	return g
}

// paths returns the groups of the node, widest first.
func paths(node *v1.Node) []string {
	var out []string
	path := ""
	for _, level := range levels {
		name, ok := node.Labels[level]
		if !ok {
			break
		}
		path += "/" + name
		out = append(out, path)
	}
	return out
}

func amountsOf(list v1.ResourceList) amounts {
	gpus := list[gpu]
	return amounts{int(list.Cpu().MilliValue()), int(list.Memory().Value() >> 30), int(gpus.Value())}
}

func taskOf(pod *v1.Pod) amounts {
	out := amountsOf(pod.Spec.Containers[0].Resources.Requests)
	out[3] = 1
	return out
}

// fits reports whether the gang's minimum fits now: into one group, or anywhere for a gang that only prefers one.
func (g *grove) fits(wish string) bool {
	if wish == preferred && packs(g.tasks, g.room[""]) {
		return true
	}
	return len(g.holding(1)) > 0
}

// holding returns the groups of this depth that can hold the gang now.
func (g *grove) holding(depth int) []string {
	var out []string
	for _, path := range sortedKeys(g.room) {
		if strings.Count(path, "/") == depth && packs(g.tasks, g.room[path]) {
			out = append(out, path)
		}
	}
	return out
}

// judge returns the ways in which the gang's placement is not the best.
func (g *grove) judge(m forestMix) []string {
	byGroup, outside := map[string]int{}, 0
	for _, p := range g.freshOf("gang-0") {
		if all := paths(p.node); len(all) > 0 {
			byGroup[all[0]]++
		} else {
			outside++
		}
	}
	used := sortedKeys(byGroup)
	if holding := g.holding(1); len(holding) > 0 {
		if len(used) != 1 || outside > 0 {
			return []string{fmt.Sprintf("the gang is in %v and %d outside, %v would hold it", byGroup, outside, holding)}
		}
		return g.judgeDepth(m, used[0])
	}
	if m.mixed || m.wish == required {
		return nil
	}
	// The gang uses the fewest groups if the groups with the most room are filled first.
	var copies []int
	for path, nodes := range g.room {
		if strings.Count(path, "/") == 1 {
			copies = append(copies, g.copies(nodes))
		}
	}
	slices.Sort(copies)
	fewest, left := 0, len(g.tasks)
	for _, n := range slices.Backward(copies) {
		if left > 0 && n > 0 {
			fewest++
			left -= n
		}
	}
	var out []string
	if len(used) > fewest {
		out = append(out, fmt.Sprintf("the gang is in %v, %d groups would do", byGroup, fewest))
	}
	if outside > max(0, left) {
		out = append(out, fmt.Sprintf("%d tasks are outside of groups, groups have no room for %d", outside, max(0, left)))
	}
	return out
}

// judgeDepth compares the depth at which the whole gang is in one group with the best possible depth.
func (g *grove) judgeDepth(m forestMix, group string) []string {
	if m.elastic || m.mixed {
		return nil
	}
	best := 1
	for depth := 2; depth <= len(levels); depth++ {
		if slices.ContainsFunc(g.holding(depth), func(path string) bool { return strings.HasPrefix(path, group+"/") }) {
			best = depth
		}
	}
	common := map[string]int{}
	for _, p := range g.freshOf("gang-0") {
		for _, path := range paths(p.node) {
			common[path]++
		}
	}
	got := 0
	for path, n := range common {
		if n == len(g.tasks) {
			got = max(got, strings.Count(path, "/"))
		}
	}
	if got < best {
		return []string{fmt.Sprintf("the gang lies in one group of depth %d in %s, one of depth %d holds it", got, group, best)}
	}
	return nil
}

// copies returns how many copies of the gang's first task the nodes can hold.
func (g *grove) copies(nodes []amounts) int {
	n := 0
	for _, left := range nodes {
		for g.tasks[0].within(left) {
			left = left.minus(g.tasks[0])
			n++
		}
	}
	return n
}

// apart returns the gangs that require one group but are in several, or outside of all groups.
func (g *grove) apart() []string {
	var out []string
	for _, gang := range sortedKeys(g.groups) {
		if g.groups[gang].Annotations[wishAnnotation] != required {
			continue
		}
		in := map[string]bool{}
		for _, p := range g.pods {
			if gangOf(p.Pod) == gang {
				in[strings.Join(paths(p.node)[:min(1, len(paths(p.node)))], "")] = true
			}
		}
		if len(in) > 1 || in[""] {
			out = append(out, fmt.Sprintf("%s is in %v", gang, sortedKeys(in)))
		}
	}
	return out
}
