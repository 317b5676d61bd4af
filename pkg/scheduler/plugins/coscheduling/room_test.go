// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestRoomForTimedOutGangGroups checks when idle nodes have room for the members that the minima of all gangs of a
// group need, the largest members first. A session checks a limited number of nodes and members.
func TestRoomForTimedOutGangGroups(t *testing.T) {
	of := func(minimum int32, sizes ...string) *gang {
		var all []schedtest.Resources
		for _, size := range sizes {
			all = append(all, cores(size))
		}
		return &gang{JobInfo: ofSizes(minimum, all...)}
	}
	gated := of(2, "1", "1")
	for _, task := range gated.Tasks {
		task.SchGated = true
		break
	}
	roles := of(2, "1", "1", "1")
	roles.TaskMinAvailable = map[string]int32{"worker": 2}
	type verdict struct{ Room, Known bool }
	for name, tt := range map[string]struct {
		gangs []*gang
		nodes []string
		looks int
		want  verdict
	}{
		"just enough":                      {[]*gang{of(2, "2", "2", "2"), of(1, "2")}, []string{"4", "2"}, 0, verdict{true, true}},
		"one too few":                      {[]*gang{of(2, "2", "2"), of(1, "2")}, []string{"4", "1"}, 0, verdict{false, true}},
		"the second gang is larger":        {[]*gang{of(1, "1"), of(1, "3")}, []string{"4"}, 0, verdict{true, true}},
		"the first gang is larger":         {[]*gang{of(1, "3"), of(1, "1")}, []string{"3", "1"}, 0, verdict{true, true}},
		"the largest members come first":   {[]*gang{of(1, "1"), of(1, "6")}, []string{"6", "1"}, 0, verdict{true, true}},
		"unlike members on one node":       {[]*gang{of(3, "6", "1", "1")}, []string{"8"}, 0, verdict{true, true}},
		"one unlike member too many":       {[]*gang{of(4, "6", "1", "1", "1")}, []string{"8"}, 0, verdict{false, true}},
		"the largest members count":        {[]*gang{of(1, "6", "1")}, []string{"1"}, 0, verdict{false, true}},
		"a gang that lacks members":        {[]*gang{of(1, "1"), of(2, "1")}, []string{"64"}, 0, verdict{false, true}},
		"a member with a scheduling gate":  {[]*gang{gated}, []string{"64"}, 0, verdict{false, true}},
		"a cordoned node":                  {[]*gang{of(1, "1")}, []string{"0", "cordoned"}, 0, verdict{false, true}},
		"more members than the roles need": {[]*gang{roles}, []string{"2"}, 0, verdict{true, true}},
		"no minimum":                       {[]*gang{of(0, "64")}, []string{"1"}, 0, verdict{true, true}},
		"the last node that is looked":     {[]*gang{of(1, "1")}, []string{"1"}, maxRoomSteps - 2, verdict{true, true}},
		"no more nodes are looked at":      {[]*gang{of(1, "1")}, []string{"1"}, maxRoomSteps - 1, verdict{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{ssn: &framework.Session{Session: &vcframework.Session{Nodes: map[string]*api.NodeInfo{}}}}
			for i, cpu := range tt.nodes {
				node := holds(strings.Replace(cpu, "cordoned", "64", 1)).Name(fmt.Sprint(i)).Obj()
				node.Spec.Unschedulable = cpu == "cordoned"
				s.ssn.Nodes[node.Name] = api.NewNodeInfo(node)
			}
			for range 20 { // nodes have no order
				looks := tt.looks
				_, room, known := s.hasRoom(&admissionDeadline{gangs: tt.gangs}, &looks)
				if diff := cmp.Diff(tt.want, verdict{room, known}); diff != "" {
					t.Fatalf("room (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestOnlyRoomThatHasComeEndsABackoff: a backoff ends early only if the cluster had no room for the group before and
// has room now. If it always had room, the gang waits for another reason.
func TestOnlyRoomThatHasComeEndsABackoff(t *testing.T) {
	for name, tt := range map[string]struct {
		cpu              string
		before, backsOff bool
		ends, crowded    bool
	}{
		"there is none":            {cpu: "1", backsOff: true, crowded: true},
		"there is none yet":        {cpu: "1", before: true, backsOff: true, crowded: true},
		"it has come":              {cpu: "2", before: true, backsOff: true, ends: true, crowded: true},
		"there was room":           {cpu: "2", backsOff: true},
		"a group that does not":    {cpu: "2", before: true},
		"one without room, either": {cpu: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			until := time.Time{}
			if tt.backsOff {
				until = time.Unix(1, 0)
			}
			l := &admissionDeadline{id: "g", until: until, gangs: []*gang{{JobInfo: ofSizes(2, cores("1"), cores("1"))}}}
			node := api.NewNodeInfo(holds(tt.cpu).Name("n").Obj())
			s := &session{ssn: &framework.Session{Session: &vcframework.Session{Nodes: map[string]*api.NodeInfo{"n": node}}},
				rooms: roomChecks{groups: map[string]roomCheck{"g": {crowded: tt.before}}}, limits: map[string]*admissionDeadline{"g": l}}
			s.endEarly()
			if ended := tt.backsOff && l.until.IsZero(); ended != tt.ends || s.rooms.groups["g"].crowded != tt.crowded {
				t.Errorf("the backoff ends: %t; it is recorded that the cluster has no room: %t; want %t and %t", ended, s.rooms.groups["g"].crowded, tt.ends, tt.crowded)
			}
		})
	}
}

// TestNodesThatAreNotLookedAtEndNoBackoff: the cluster has more nodes than a session may check, so it is unknown
// whether it has room. The backoff then continues, and the group does not count as one that lacked room.
func TestNodesThatAreNotLookedAtEndNoBackoff(t *testing.T) {
	s := &session{ssn: &framework.Session{Session: &vcframework.Session{Nodes: map[string]*api.NodeInfo{}}},
		limits: map[string]*admissionDeadline{"g": {id: "g", until: time.Unix(1, 0), gangs: []*gang{{JobInfo: ofSizes(2, cores("1"), cores("1"))}}}}}
	small := api.NewNodeInfo(holds("0").Name("n").Obj())
	for i := range maxRoomSteps + 1 {
		s.ssn.Nodes[fmt.Sprint(i)] = small
	}
	if s.endEarly(); s.rooms.groups["g"].crowded || s.limits["g"].until.IsZero() {
		t.Errorf("the backoff ends: %t; it is recorded that the cluster has no room: %t; want neither", s.limits["g"].until.IsZero(), s.rooms.groups["g"].crowded)
	}
}

// crowdedCluster has so many small nodes that one session can search all of them for this number of groups, but not for
// one group more.
func crowdedCluster(groups int) *session {
	s := &session{ssn: &framework.Session{Session: &vcframework.Session{Nodes: map[string]*api.NodeInfo{}}}, limits: map[string]*admissionDeadline{}}
	small := api.NewNodeInfo(holds("1").Name("n").Obj())
	for i := range maxRoomSteps/(groups+1) + 1 {
		s.ssn.Nodes[fmt.Sprint(i)] = small
	}
	return s
}

// inBackoffNow adds a group of one gang that is in a backoff.
func (s *session) inBackoffNow(namespace, name string) {
	job := ofSizes(1, cores("2"))
	job.Namespace = namespace
	s.limits[namespace+"/"+name] = &admissionDeadline{id: namespace + "/" + name, until: time.Unix(1000, 0), gangs: []*gang{{JobInfo: job}}}
}

// TestNamespacesTakeTurnsWithLooks: a namespace has many groups in a backoff, and another namespace has one. Each
// session searches for room for that one group. Each of the other groups also has its turn.
func TestNamespacesTakeTurnsWithLooks(t *testing.T) {
	s := crowdedCluster(2)
	for i := range 20 {
		s.inBackoffNow("many", fmt.Sprint("g", i))
	}
	s.inBackoffNow("one", "g")
	checked := map[string]bool{}
	for i := range 20 {
		s.endEarly()
		for id, look := range s.rooms.groups {
			checked[id] = checked[id] || look.crowded
		}
		if !s.lookedFor("one/g") {
			t.Errorf("session %d did not look for room for the only group of its namespace", i)
		}
	}
	if len(checked) != 21 {
		t.Fatalf("%d groups are recorded, want 21", len(checked))
	}
	for id, known := range checked {
		if !known {
			t.Errorf("no session looked for room for %s", id)
		}
	}
}

// TestAGroupInSeveralNamespacesCountsForOne: a group with gangs in several namespaces counts for one namespace, which
// does not depend on the order of its gangs.
func TestAGroupInSeveralNamespacesCountsForOne(t *testing.T) {
	of := func(namespace string) *gang { return &gang{JobInfo: &api.JobInfo{Namespace: namespace}} }
	for _, gangs := range [][]*gang{{of("a"), of("b")}, {of("b"), of("a")}} {
		if got := (&admissionDeadline{gangs: gangs}).namespace(); got != "a" {
			t.Errorf("the group counts for namespace %q, want a", got)
		}
	}
}

// lookedFor reports whether the last session searched for room for the group.
func (s *session) lookedFor(id string) bool { return s.rooms.groups[id].since > s.rooms.sessions }

// TestGroupsThatKeepTimingOutLeaveLooks: a session has time to search for room for one group only. In one namespace, a
// group times out again in every session. The only group of another namespace must still have its turn at least every
// second session. A group that keeps waiting in the first namespace must have a turn, too.
func TestGroupsThatKeepTimingOutLeaveLooks(t *testing.T) {
	const unlike = 20
	s := crowdedCluster(1)
	s.inBackoffNow("many", "waits")
	s.inBackoffNow("one", "g")
	for i := range unlike {
		s.inBackoffNow("many", fmt.Sprint("g", i))
	}
	looks, last := map[string]int{}, 0
	for i := range 2 * (unlike + 1) {
		delete(s.limits, fmt.Sprint("many/g", i%unlike)) // the group is admitted, and times out again
		s.inBackoffNow("many", fmt.Sprint("g", (i+unlike-1)%unlike))
		s.endEarly()
		for _, id := range []string{"one/g", "many/waits"} {
			if s.lookedFor(id) {
				looks[id]++
			}
		}
		if s.lookedFor("one/g") {
			last = i
		}
		if i-last > 1 {
			t.Errorf("session %d: the last look for room for the group of the other namespace was %d sessions ago", i, i-last)
		}
	}
	if looks["one/g"] < unlike || looks["many/waits"] == 0 {
		t.Errorf("number of looks: %v, want one in every second session for one/g, and at least one for many/waits", looks)
	}
}

// TestFullNodesAreNotCopied: a session compares each gang in a backoff with thousands of nodes, most of which are full.
// Resources of full nodes are not copied, and the search does not change those of other nodes.
func TestFullNodesAreNotCopied(t *testing.T) {
	looks := func(cpu string) (allocs float64) {
		s := &session{ssn: &framework.Session{Session: &vcframework.Session{Nodes: map[string]*api.NodeInfo{}}}}
		for i := range 1000 {
			s.ssn.Nodes[fmt.Sprint(i)] = api.NewNodeInfo(holds(cpu).Name(fmt.Sprint(i)).Obj())
		}
		l := &admissionDeadline{id: "g", gangs: []*gang{{JobInfo: ofSizes(2, cores("2"), cores("2"))}}}
		allocs = testing.AllocsPerRun(5, func() {
			looks := 0
			s.hasRoom(l, &looks)
		})
		for name, node := range s.ssn.Nodes {
			if !node.Idle.Equal(node.Allocatable, api.Zero) {
				t.Fatalf("node %s has %v idle, want %v", name, node.Idle, node.Allocatable)
			}
		}
		return allocs
	}
	if got := looks("1"); got > 100 {
		t.Errorf("the search makes %.0f allocations for 1000 full nodes, want at most 100", got)
	}
	looks("2")
}

func TestBecameIdle(t *testing.T) {
	amounts := func(cpu, memory, pods float64) *api.Resource {
		return &api.Resource{MilliCPU: cpu, Memory: memory, ScalarResources: map[v1.ResourceName]float64{v1.ResourcePods: pods}}
	}
	before := amounts(1000, 1<<30, 10)
	for name, tt := range map[string]struct {
		now, request *api.Resource
		want         bool
	}{
		"as much as requested":               {amounts(3000, 1<<30, 10), amounts(2000, 0, 1), true},
		"less than requested":                {amounts(2999, 1<<30, 10), amounts(2000, 0, 1), false},
		"of another resource":                {amounts(1000, 9<<30, 10), amounts(2000, 0, 1), false},
		"of one of two":                      {amounts(3000, 1<<30, 10), amounts(2000, 1, 1), false},
		"less of a resource not requested":   {amounts(3000, 0, 10), amounts(2000, 0, 1), true},
		"room for fewer pods":                {amounts(3000, 1<<30, 11), amounts(2000, 0, 4), true},
		"room for pods that request no more": {amounts(3000, 9<<30, 20), amounts(0, 0, 4), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := becameIdle(before, tt.now, tt.request); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}
