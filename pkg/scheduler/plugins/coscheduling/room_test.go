// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestRoomForGroupsThatWereSentBack: for the minima of all gangs, were each member as large as the largest; and not on more nodes than are
// looked at in a session.
func TestRoomForGroupsThatWereSentBack(t *testing.T) {
	of := func(minimum int32, sizes ...string) *gang {
		var all []schedtest.Resources
		for _, size := range sizes {
			all = append(all, cores(size))
		}
		return &gang{JobInfo: ofSizes(minimum, all...)}
	}
	type verdict struct{ Room, Known bool }
	for name, tt := range map[string]struct {
		gangs []*gang
		nodes []string
		looks int
		want  verdict
	}{
		"just enough":                  {[]*gang{of(2, "2", "2", "2"), of(1, "2")}, []string{"4", "2"}, 0, verdict{true, true}},
		"one too few":                  {[]*gang{of(2, "2", "2"), of(1, "2")}, []string{"4", "1"}, 0, verdict{false, true}},
		"the second gang is larger":    {[]*gang{of(1, "1"), of(1, "3")}, []string{"5"}, 0, verdict{false, true}},
		"the first gang is larger":     {[]*gang{of(1, "3"), of(1, "1")}, []string{"5", "3"}, 0, verdict{true, true}},
		"a gang that lacks members":    {[]*gang{of(1, "1"), of(2, "1")}, []string{"64"}, 0, verdict{false, true}},
		"no minimum":                   {[]*gang{of(0, "64")}, []string{"1"}, 0, verdict{true, true}},
		"the last node that is looked": {[]*gang{of(1, "1")}, []string{"1"}, maxRoomLooks - 1, verdict{true, true}},
		"no more nodes are looked at":  {[]*gang{of(1, "1")}, []string{"1"}, maxRoomLooks, verdict{false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &session{ssn: &framework.Session{Session: &vcframework.Session{Nodes: map[string]*api.NodeInfo{}}}}
			for i, cpu := range tt.nodes {
				s.ssn.Nodes[fmt.Sprint(i)] = api.NewNodeInfo(holds(cpu).Name(fmt.Sprint(i)).Obj())
			}
			looks := tt.looks
			room, known := s.hasRoom(&admissionDeadline{gangs: tt.gangs}, &looks)
			if diff := cmp.Diff(tt.want, verdict{room, known}); diff != "" {
				t.Errorf("room (-want +got):\n%s", diff)
			}
			if looks > tt.looks+len(tt.nodes) {
				t.Errorf("%d looks at %d nodes", looks-tt.looks, len(tt.nodes))
			}
		})
	}
}

// TestOnlyRoomThatHasComeEndsABackoff: where there was room all the time something else is in the way; where nodes are not looked at, what was
// known stays known.
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
				crowded: map[string]bool{"g": tt.before}, limits: map[string]*admissionDeadline{"g": l}}
			s.endEarly()
			if ended := tt.backsOff && l.until.IsZero(); ended != tt.ends || s.crowded["g"] != tt.crowded {
				t.Errorf("it ends: %t, and it is known that there was no room: %t; want %t and %t", ended, s.crowded["g"], tt.ends, tt.crowded)
			}
		})
	}
}

// TestNodesThatAreNotLookedAtEndNoBackoff: a cluster of more nodes than a session looks at may have had room for the group all the time.
func TestNodesThatAreNotLookedAtEndNoBackoff(t *testing.T) {
	s := &session{ssn: &framework.Session{Session: &vcframework.Session{Nodes: map[string]*api.NodeInfo{}}},
		limits: map[string]*admissionDeadline{"g": {id: "g", until: time.Unix(1, 0), gangs: []*gang{{JobInfo: ofSizes(2, cores("1"), cores("1"))}}}}}
	small := api.NewNodeInfo(holds("0").Name("n").Obj())
	for i := range maxRoomLooks + 1 {
		s.ssn.Nodes[fmt.Sprint(i)] = small
	}
	if s.endEarly(); s.crowded["g"] || s.limits["g"].until.IsZero() {
		t.Errorf("the backoff ends: %t; it is recorded that the cluster has no room: %t; want neither", s.limits["g"].until.IsZero(), s.crowded["g"])
	}
}
