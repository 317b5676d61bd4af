// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

var exclusionConf = strings.Replace(gangGroupConf, "  - name: coscheduling\n", "", 1)

// roleLabel is the label with the role of every pod of an exclusionInstance, in addition to the role annotation.
const roleLabel = "role"

// exclusiveRole is one role of a gang: the number of its members, its minimum, each member's request, the required
// disk, and the roles that it excludes by required anti-affinity.
type exclusiveRole struct {
	count, minimum, cpu int
	disk                string
	keepsAway           []int
}

// exclusiveNode is a node of an exclusionInstance.
type exclusiveNode struct {
	cpu        int
	disk, rack string
}

// exclusionInstance is a gang whose roles exclude each other within a domain (a node or a rack), and the node groups.
// The gang must be in one of the node groups.
type exclusionInstance struct {
	groups  [][]exclusiveNode
	roles   []exclusiveRole
	domain  string
	minimum int
}

func drawExclusion(d dice) exclusionInstance {
	in := exclusionInstance{domain: pick(d, v1.LabelHostname, v1.LabelHostname, v1.LabelHostname, "rack")}
	for range d.between(1, 2) {
		var group []exclusiveNode
		for n := range d.between(2, 5) {
			group = append(group, exclusiveNode{d.between(1, 5), pick(d, "ssd", "hdd"), strconv.Itoa(n % 3)})
		}
		in.groups = append(in.groups, group)
	}
	roles := d.between(2, 3)
	kind := d.IntN(3)
	for r := range roles {
		role := exclusiveRole{count: d.between(1, 4), cpu: d.between(1, 3)}
		if d.chance(70) {
			role.minimum = d.between(1, min(2, role.count))
		}
		if d.chance(30) {
			role.disk = pick(d, "ssd", "hdd")
		}
		for other := range roles {
			switch {
			case kind == 0, kind == 1 && other == r, kind == 2 && d.chance(40): // one member per node, one member of each role, or any combination
				role.keepsAway = append(role.keepsAway, other)
			}
		}
		in.roles = append(in.roles, role)
		in.minimum += role.minimum
	}
	most := 0
	for _, role := range in.roles {
		most += role.count
	}
	in.minimum = max(1, d.between(in.minimum, min(most, in.minimum+2)))
	return in
}

func (x exclusionInstance) instance(seed uint64) instance {
	var w sessiontest.ClusterSpec
	for g, nodes := range x.groups {
		for n, node := range nodes {
			w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(fmt.Sprintf("g%d-n%d", g, n)).Label("cluster", fmt.Sprintf("g%d", g)).
				Label("rack", fmt.Sprintf("g%d-r%s", g, node.rack)).Label(disk, node.disk).
				Capacity(schedtest.Resources{"cpu": strconv.Itoa(node.cpu), "memory": "1Gi", "pods": "50"}).Obj())
		}
	}
	group := schedtest.MakePodGroup().Name("gang").MinMember(int32(x.minimum)).Annotation(ibcluster.ModeAnnotation, "required")
	for r, role := range x.roles {
		name := fmt.Sprintf("r%d", r)
		if role.minimum > 0 {
			group.MinTaskMember(name, int32(role.minimum))
		}
		for i := range role.count {
			pod := schedtest.MakePod().Name(fmt.Sprintf("gang-%s-%d", name, i)).Group("gang").Role(name).Label(roleLabel, name).
				Req(schedtest.Resources{"cpu": strconv.Itoa(role.cpu)}).Obj()
			if role.disk != "" {
				pod.Spec.NodeSelector = map[string]string{disk: role.disk}
			}
			for _, other := range role.keepsAway {
				anti := antiAffinity(pod)
				anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution, term(x.domain, roleLabel, fmt.Sprintf("r%d", other)))
			}
			w.Pods = append(w.Pods, pod)
		}
	}
	w.PodGroups = append(w.PodGroups, group.Obj())
	return instance{seed: seed, world: w, conf: exclusionConf}
}

// exclude reports whether members of the two roles must not share a domain. The order of the roles does not matter.
func (x exclusionInstance) exclude(l, r int) bool {
	return slices.Contains(x.roles[l].keepsAway, r) || slices.Contains(x.roles[r].keepsAway, l)
}

// fits reports whether the minimum fits in one group. It tries every combination.
func (x exclusionInstance) fits() bool {
	return slices.ContainsFunc(x.groups, func(nodes []exclusiveNode) bool {
		return x.fitsFrom(slices.Clone(nodes), map[string][]int{}, make([]int, len(x.roles)), 0, 0)
	})
}

// fitsFrom reports whether members of this role and of the following roles can be added so that the minimum fits. in
// has the roles of the placed members in each domain, and placed the number of placed members of each role. Members of
// a role are equal, so the next one is tried only on the nodes from index from on.
func (x exclusionInstance) fitsFrom(nodes []exclusiveNode, in map[string][]int, placed []int, role, from int) bool {
	if role == len(x.roles) {
		sum := 0
		for r, n := range placed {
			sum += n
			if n < x.roles[r].minimum {
				return false
			}
		}
		return sum >= x.minimum
	}
	asks := x.roles[role]
	if placed[role] < asks.count {
		for n := from; n < len(nodes); n++ {
			domain := fmt.Sprint(n)
			if x.domain == "rack" {
				domain = nodes[n].rack
			}
			excluded := slices.ContainsFunc(in[domain], func(other int) bool { return x.exclude(role, other) })
			if nodes[n].cpu < asks.cpu || asks.disk != "" && asks.disk != nodes[n].disk || excluded {
				continue
			}
			before := in[domain]
			nodes[n].cpu -= asks.cpu
			in[domain] = append(slices.Clip(before), role)
			placed[role]++
			found := x.fitsFrom(nodes, in, placed, role, n)
			nodes[n].cpu += asks.cpu
			in[domain] = before
			placed[role]--
			if found {
				return true
			}
		}
	}
	return x.fitsFrom(nodes, in, placed, role+1, 0)
}

// wrong returns the broken guarantees of the outcome. The guarantees are: no member or at least the minimum is placed,
// all members are in one group, and members that exclude each other share no domain.
func (x exclusionInstance) wrong(in instance, out outcome) (faulty []string) {
	groups, roles := map[string]bool{}, make([]int, len(x.roles))
	domains := map[string][]int{}
	for pod, node := range out.bound {
		var g, n, r, i int
		if _, err := fmt.Sscanf(node, "g%d-n%d", &g, &n); err != nil {
			return []string{err.Error()}
		}
		if _, err := fmt.Sscanf(strings.TrimPrefix(pod, schedtest.Namespace+"/"), "gang-r%d-%d", &r, &i); err != nil {
			return []string{err.Error()}
		}
		groups[fmt.Sprint(g)] = true
		roles[r]++
		domain := node
		if x.domain == "rack" {
			domain = x.groups[g][n].rack
		}
		for _, other := range domains[domain] {
			if x.exclude(r, other) {
				faulty = append(faulty, fmt.Sprintf("r%d and r%d lie in %s", r, other, domain))
			}
		}
		domains[domain] = append(domains[domain], r)
	}
	for r, n := range roles {
		if len(out.bound) > 0 && n < x.roles[r].minimum {
			faulty = append(faulty, fmt.Sprintf("r%d has %d of %d", r, n, x.roles[r].minimum))
		}
	}
	if len(groups) > 1 || len(out.bound) > 0 && len(out.bound) < x.minimum {
		faulty = append(faulty, fmt.Sprintf("%d of %d members are bound, in %d groups", len(out.bound), x.minimum, len(groups)))
	}
	for _, fault := range faults(in, out) {
		faulty = append(faulty, fault.String())
	}
	return append(faulty, out.leaks...)
}

// TestExclusiveRoles compares the placement of gangs whose roles exclude each other with an exhaustive search. No
// gang is placed unless its minimum fits in one node group. At most one in a thousand of the gangs that fit is
// missed, because a plan by nodes does not fully cover exclusion by racks.
func TestExclusiveRoles(t *testing.T) {
	b := newBench(t)
	b.registry.RegisterPlugin(ibcluster.Spec())
	feasible, infeasible, missed := 0, 0, 0
	eachSeedOf(2*randomSeeds.Of(t), func(seed uint64) bool {
		x := drawExclusion(newDice(seed, 11))
		in := x.instance(seed)
		out := b.run(in, b.ours)
		wrong := x.wrong(in, out)
		if x.fits() {
			feasible++
			if len(out.bound) == 0 {
				missed++
				t.Logf("-random.seed=%d: a way exists and was not found: %+v", seed, x)
			}
		} else {
			infeasible++
			if len(out.bound) > 0 {
				wrong = append(wrong, "no way exists and one was found")
			}
		}
		for _, w := range wrong {
			t.Errorf("-random.seed=%d: %s: %+v: %v", seed, w, x, out.bound)
		}
		return len(wrong) == 0
	})
	t.Logf("%d gangs fit, %d do not, %d of those that do were missed", feasible, infeasible, missed)
	if missed*1000 > feasible {
		t.Errorf("%d of %d gangs that fit were not found", missed, feasible)
	}
	if *randomSeed == 0 && min(feasible, infeasible) < randomSeeds.Of(t)/10 && !t.Failed() {
		t.Errorf("%d gangs fit and %d do not: the instances are no test", feasible, infeasible)
	}
}
