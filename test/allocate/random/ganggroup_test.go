// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/coscheduling"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const gangGroupConf = `
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: coscheduling
- plugins:
  - name: predicates
  - name: ibcluster
    arguments:
      ibcluster.levels: [cluster]
`

// groupedGang is a gang of a small group: the requests of its members, its minimum, and whether that minimum must be
// in one cluster.
type groupedGang struct {
	tasks     []int
	minimum   int
	inCluster bool
}

// gangGroupInstance is one gang group and a few nodes. clusters has the room of each node, by cluster.
type gangGroupInstance struct {
	clusters [][]int
	gangs    []groupedGang
}

func drawGangGroup(d dice) gangGroupInstance {
	var u gangGroupInstance
	for range d.between(1, 3) {
		var cluster []int
		for range d.between(1, 3) {
			cluster = append(cluster, d.between(1, 6))
		}
		u.clusters = append(u.clusters, cluster)
	}
	for range d.between(2, 3) {
		g := groupedGang{inCluster: d.chance(60)}
		for range d.between(1, 4) {
			g.tasks = append(g.tasks, d.between(1, 4))
		}
		g.minimum = len(g.tasks)
		if d.chance(40) {
			g.minimum = d.between(1, len(g.tasks))
		}
		u.gangs = append(u.gangs, g)
	}
	return u
}

func (u gangGroupInstance) instance(seed uint64) instance {
	in := instance{seed: seed, conf: gangGroupConf}
	for c, nodes := range u.clusters {
		for n, room := range nodes {
			node := schedtest.MakeNode().Name(fmt.Sprintf("c%d-n%d", c, n)).Label("cluster", fmt.Sprintf("c%d", c)).
				Capacity(schedtest.Resources{"cpu": strconv.Itoa(room), "memory": "1Gi", "pods": "50"})
			in.world.Nodes = append(in.world.Nodes, node.Obj())
		}
	}
	var names []string
	for g := range u.gangs {
		names = append(names, fmt.Sprintf("%q", schedtest.Namespace+"/"+groupedGangName(g)))
	}
	for g, of := range u.gangs {
		group := schedtest.MakePodGroup().Name(groupedGangName(g)).MinMember(int32(of.minimum)).Annotation(gangs.GroupsAnnotation, "["+strings.Join(names, ",")+"]")
		if of.inCluster {
			group.Annotation(ibcluster.ModeAnnotation, "required")
		}
		in.world.PodGroups = append(in.world.PodGroups, group.Obj())
		for t, cpu := range of.tasks {
			in.world.Pods = append(in.world.Pods, schedtest.MakePod().Name(fmt.Sprintf("%s-%d", groupedGangName(g), t)).Group(groupedGangName(g)).
				Req(schedtest.Resources{"cpu": strconv.Itoa(cpu)}).Obj())
		}
	}
	return in
}

func groupedGangName(g int) string { return fmt.Sprintf("g%d", g) }

// fits reports whether the gangs' minima fit. It tries every combination.
func (u gangGroupInstance) fits() bool {
	room := make([][]int, len(u.clusters))
	for i, nodes := range u.clusters {
		room[i] = slices.Clone(nodes)
	}
	return u.fitsFrom(room, 0, 0, 0, -1)
}

// fitsFrom reports whether the minima of gang g and of the following gangs fit. task is the index of g's next task, and
// placed the number of g's placed tasks. cluster is the cluster of g's last placed task; -1 if no task is placed.
func (u gangGroupInstance) fitsFrom(room [][]int, g, task, placed, cluster int) bool {
	if g == len(u.gangs) {
		return true
	}
	of := u.gangs[g]
	if placed == of.minimum {
		return u.fitsFrom(room, g+1, 0, 0, -1)
	}
	if task == len(of.tasks) {
		return false
	}
	for c := range room {
		if of.inCluster && cluster >= 0 && c != cluster {
			continue
		}
		for n := range room[c] {
			if room[c][n] < of.tasks[task] {
				continue
			}
			room[c][n] -= of.tasks[task]
			found := u.fitsFrom(room, g, task+1, placed+1, c)
			room[c][n] += of.tasks[task]
			if found {
				return true
			}
		}
	}
	return u.fitsFrom(room, g, task+1, placed, cluster)
}

// wrong reports whether all minima are placed, and returns the broken guarantees. The guarantees are: all minima or no
// member is placed, no node exceeds its room, and each gang that requires one cluster is in one.
func (u gangGroupInstance) wrong(out outcome) (all bool, faults []string) {
	used := map[string]int{}
	all = true
	for g, of := range u.gangs {
		placed, in := 0, map[string]bool{}
		for t, cpu := range of.tasks {
			node, ok := out.bound[fmt.Sprintf("%s/%s-%d", schedtest.Namespace, groupedGangName(g), t)]
			if ok {
				placed++
				used[node] += cpu
				in[strings.Split(node, "-")[0]] = true
			}
		}
		all = all && placed >= of.minimum
		if len(out.bound) > 0 && placed < of.minimum {
			faults = append(faults, fmt.Sprintf("gang %d has %d of %d", g, placed, of.minimum))
		}
		if of.inCluster && len(in) > 1 {
			faults = append(faults, fmt.Sprintf("gang %d lies in %d clusters", g, len(in)))
		}
	}
	for c, nodes := range u.clusters {
		for n, room := range nodes {
			if name := fmt.Sprintf("c%d-n%d", c, n); used[name] > room {
				faults = append(faults, fmt.Sprintf("node %s takes %d of %d", name, used[name], room))
			}
		}
	}
	if len(out.held)+len(out.pipelined) > 0 {
		faults = append(faults, fmt.Sprintf("left in the session: %v %v", out.held, out.pipelined))
	}
	return all, append(faults, out.leaks...)
}

// TestGroupsOfGangs compares the placement of gang groups with an exhaustive search. A gang group is placed if and only
// if it fits. It is placed as a whole, and the same way each time.
func TestGroupsOfGangs(t *testing.T) {
	b := newBench(t)
	b.registry.RegisterPlugin(coscheduling.Spec())
	b.registry.RegisterPlugin(ibcluster.Spec())
	feasible, infeasible := 0, 0
	eachSeed(t, func(seed uint64) bool {
		u := drawGangGroup(newDice(seed, 7))
		out := b.run(u.instance(seed), b.ours)
		all, wrong := u.wrong(out)
		switch fits := u.fits(); {
		case fits:
			feasible++
			if !all {
				wrong = append(wrong, "a way exists and was not found")
			}
		default:
			infeasible++
			if all {
				wrong = append(wrong, "no way exists and one was found")
			}
		}
		if again := b.run(u.instance(seed), b.ours); again.digest() != out.digest() {
			wrong = append(wrong, fmt.Sprintf("another answer the second time: %s and %s", out.digest(), again.digest()))
		}
		for _, w := range wrong {
			t.Errorf("-random.seed=%d: %s: %+v: %v", seed, w, u, out.bound)
		}
		return len(wrong) == 0
	})
	t.Logf("%d groups fit, %d do not", feasible, infeasible)
	if *randomSeed == 0 && min(feasible, infeasible) < randomSeeds.Of(t)/10 && !t.Failed() {
		t.Errorf("%d groups fit and %d do not: the instances are no test", feasible, infeasible)
	}
}
