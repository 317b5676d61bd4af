// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// drawnGang is a random gang on a small network. It has the free slots and the gang's members of each node, and the
// gang's rules.
type drawnGang struct {
	nodes         []string // arguments of networkOf
	free, members []int
	waiting       int
	rules         []string
	// must is the layer of the required domain: 1 spine, 2 block, 3 node, 0 none. multiples are those of spine, block
	// and node.
	must      int
	multiples [3]int
}

func drawGang(random *rand.Rand) drawnGang {
	d := drawnGang{waiting: 1 + random.IntN(8), must: random.IntN(4), multiples: [3]int{1, 1, 1}}
	at := random.IntN(5)
	running := random.IntN(2) == 0
	for i := range 5 {
		free, members := random.IntN(6), 0
		if running && i == at {
			members = 1 + random.IntN(3)
		}
		d.nodes = append(d.nodes, fmt.Sprintf("n%d s%d b%d %d", i, random.IntN(2), random.IntN(2), free+members))
		d.free, d.members = append(d.free, free), append(d.members, members)
	}
	if random.IntN(2) == 0 {
		d.multiples[random.IntN(3)] = 2 + random.IntN(2)
	}
	for i, layer := range []string{"Spine", "Block", "NodeTopologyLayer"} {
		rule := layer + " -"
		if d.must == i+1 {
			rule = layer + " must"
		}
		d.rules = append(d.rules, fmt.Sprintf("%s %d", rule, d.multiples[i]))
	}
	return d
}

// keeps reports whether the placement satisfies the gang's rules.
func (d *drawnGang) keeps(given []int) bool {
	for level := 1; level <= 3; level++ {
		members, added := map[string]int{}, map[string]int{}
		for i, text := range d.nodes {
			f := strings.Fields(text)
			domain := strings.Join([]string{f[1], f[2], f[0]}[:level], "/")
			if n := d.members[i] + given[i]; n > 0 {
				members[domain] += n
				added[domain] += given[i]
			}
		}
		if level <= d.must && len(members) > 1 {
			return false
		}
		for domain, n := range members {
			if added[domain] > 0 && n%d.multiples[level-1] != 0 {
				return false
			}
		}
	}
	return true
}

// possible reports whether the waiting members can be placed so that keeps returns true.
func (d *drawnGang) possible(given []int, left int) bool {
	if len(given) == len(d.free) {
		return left == 0 && d.keeps(given)
	}
	for n := range min(left, d.free[len(given)]) + 1 {
		if d.possible(append(slices.Clip(given), n), left-n) {
			return true
		}
	}
	return false
}

var gatherSeeds = rounds.Flag("gather.seeds", 40, 150, "how many drawn networks and gangs")

// TestAllocateGathersIfThereIsAWay checks, for random networks and gangs, that a session places the whole gang by its
// rules if and only if such a placement exists.
func TestAllocateGathersIfThereIsAWay(t *testing.T) {
	placed, none := 0, 0
	for seed := range uint64(gatherSeeds.Of(t)) {
		d := drawGang(rand.New(rand.NewPCG(seed, 7)))
		var pods []*v1.Pod
		running := 0
		for i, n := range d.members {
			for range n {
				pods = append(pods, runningOn(fmt.Sprintf("n%d", i), running))
				running++
			}
		}
		pods = append(pods, waiting("g", 100, d.waiting)...)
		gang := gangNamed("g", int32(running+d.waiting), asks(d.rules...), says("gang.scheduling.koordinator.sh/match-policy", "waiting-and-running"))
		ssn := gatherSession(t, sessiontest.ClusterSpec{Nodes: networkOf(d.nodes...), Pods: pods, PodGroups: []*v1beta1.PodGroup{gang}}, gatherConf, spines, true)
		given := make([]int, len(d.free))
		for _, node := range ssn.Binds() {
			given[int(node[1]-'0')]++
		}
		reason, _ := ssn.PendingReason("ns/g")
		switch possible := d.possible(nil, d.waiting); {
		case len(ssn.Binds()) == 0 && !possible:
			none++
			if reason.Message == "" {
				t.Errorf("seed %d: the gang has no pending reason", seed)
			}
		case len(ssn.Binds()) == d.waiting && d.keeps(given):
			placed++
		default:
			t.Fatalf("seed %d: members placed by node: %v, a placement exists: %v; pending reason: %v\n%+v", seed, given, possible, reason, d)
		}
	}
	if min(placed, none) < gatherSeeds.Of(t)/8 {
		t.Errorf("%d gangs were placed and %d were not, so the random gangs are too uniform", placed, none)
	}
}

func runningOn(node string, index int) *v1.Pod {
	return schedtest.MakePod().Name(fmt.Sprintf("g-%d", index)).Group("g").Req(schedtest.Resources{"cpu": "1"}).Node(node).Phase(v1.PodRunning).Obj()
}
