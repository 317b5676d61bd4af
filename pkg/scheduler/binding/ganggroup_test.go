// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

const (
	gangX api.JobID = "ns/x"
	gangY api.JobID = "ns/y"
)

func gangGroupOf(terms ...GangTerms) *GangGroup {
	gangGroup := &GangGroup{}
	for i, of := range terms {
		if i > 0 {
			gangGroup.ID += ","
		}
		gangGroup.ID += string(of.Gang)
		gangGroup.Gangs = append(gangGroup.Gangs, of)
	}
	return gangGroup
}

// TestGangGroup compares the number of bound members of two gangs, by their settings and the failed members. The
// names of the cases use Koordinator's words.
func TestGangGroup(t *testing.T) {
	well, fails := script{steps: []act{{plugin: "a"}}}, script{steps: []act{{plugin: "a"}, {plugin: "b", err: errStep}}}
	tests := map[string]struct {
		gangGroup  *GangGroup
		minX, minY int
		// ranX and ranY are the numbers of members bound before.
		ranX, ranY int
		x, y       []script
		// bound is the numbers of members of x and y that are bound now.
		bound [2]int
	}{
		"only-waiting counts no running member (G13)":        {gangGroupOf(GangTerms{gangX, false, CountNone}), 3, 0, 2, 0, []script{well}, nil, [2]int{0, 0}},
		"only-waiting takes a whole gang (G13)":              {gangGroupOf(GangTerms{gangX, false, CountNone}), 3, 0, 5, 0, []script{well, well, well}, nil, [2]int{3, 0}},
		"waiting-and-running counts both (G14)":              {gangGroupOf(GangTerms{gangX, false, CountBound}), 3, 0, 2, 0, []script{well}, nil, [2]int{1, 0}},
		"waiting-and-running, too few (G14)":                 {gangGroupOf(GangTerms{gangX, false, CountBound}), 3, 0, 1, 0, []script{well}, nil, [2]int{0, 0}},
		"a satisfied gang asks for nothing":                  {gangGroupOf(GangTerms{gangX, false, CountSatisfied}), 3, 0, 1, 0, []script{well}, nil, [2]int{1, 0}},
		"a group waits for each gang (G17)":                  {gangGroupOf(GangTerms{gangX, false, CountNone}, GangTerms{gangY, false, CountNone}), 2, 3, 0, 0, []script{well, well}, []script{well, well}, [2]int{0, 0}},
		"a group goes together (G17)":                        {gangGroupOf(GangTerms{gangX, false, CountNone}, GangTerms{gangY, false, CountNone}), 2, 3, 0, 0, []script{well, well}, []script{well, well, well}, [2]int{2, 3}},
		"one gang's satisfaction is not the other's (G19)":   {gangGroupOf(GangTerms{gangX, false, CountSatisfied}, GangTerms{gangY, false, CountBound}), 2, 3, 2, 0, nil, []script{well}, [2]int{0, 0}},
		"a member above the minimum fails, NonStrict (G46)":  {gangGroupOf(GangTerms{gangX, false, CountBound}), 3, 0, 0, 0, []script{well, well, well, fails}, nil, [2]int{3, 0}},
		"a member above the minimum fails, Strict (G46)":     {gangGroupOf(GangTerms{gangX, true, CountBound}), 3, 0, 0, 0, []script{well, well, well, fails}, nil, [2]int{0, 0}},
		"a satisfied gang is not strict any more":            {gangGroupOf(GangTerms{gangX, true, CountSatisfied}), 3, 0, 3, 0, []script{well, fails}, nil, [2]int{1, 0}},
		"a member of one gang of a group fails (G47)":        {gangGroupOf(GangTerms{gangX, false, CountBound}, GangTerms{gangY, false, CountBound}), 2, 2, 0, 0, []script{well, well}, []script{well, fails}, [2]int{0, 0}},
		"a surplus member of a group fails, NonStrict":       {gangGroupOf(GangTerms{gangX, false, CountBound}, GangTerms{gangY, false, CountBound}), 2, 2, 0, 0, []script{well, well}, []script{well, well, fails}, [2]int{2, 2}},
		"a surplus member of a group fails, one gang Strict": {gangGroupOf(GangTerms{gangX, false, CountBound}, GangTerms{gangY, true, CountBound}), 2, 2, 0, 0, []script{well, well}, []script{well, well, fails}, [2]int{0, 0}},
		"a surplus member fails, the other gang Strict":      {gangGroupOf(GangTerms{gangX, true, CountBound}, GangTerms{gangY, false, CountBound}), 2, 2, 0, 0, []script{well, well}, []script{well, well, fails}, [2]int{2, 2}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness()
				w.setMinimum(gangX, 0)
				w.setMinimum(gangY, 0)
				ran := append(membersOn(w, gangX, "ran-x", make([]script, test.ranX)...), membersOn(w, gangY, "ran-y", make([]script, test.ranY)...)...)
				if len(ran) > 0 {
					if err := w.submitGangGroup(gangX, gangGroupOf(GangTerms{Gang: gangX}, GangTerms{Gang: gangY}), ran...); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					time.Sleep(time.Minute)
				}
				w.setMinimum(gangX, test.minX)
				w.setMinimum(gangY, test.minY)
				members := append(membersOn(w, gangX, "x", test.x...), membersOn(w, gangY, "y", test.y...)...)
				if err := w.submitGangGroup(test.gangGroup.Gangs[0].Gang, test.gangGroup, members...); err != nil {
					t.Fatal(err)
				}
				w.drain(t)
				var bound [2]int
				for _, m := range w.results[len(w.results)-1].Bound {
					if m.Task.Job == gangX {
						bound[0]++
					} else {
						bound[1]++
					}
				}
				if bound != test.bound {
					t.Errorf("%v of x and y are bound, want %v", bound, test.bound)
				}
				w.noViolations(t)
			})
		})
	}
}

// membersOn returns members of the gang on one node, one for each script.
func membersOn(w *harness, gang api.JobID, name string, scripts ...script) (members []*Member) {
	for i, s := range scripts {
		members = append(members, w.member(gang, name+string(rune('0'+i)), "n", s))
	}
	return members
}

// TestGangGroupsTakeTurns checks that a transaction of several gangs waits for an earlier transaction of any of these
// gangs, and delays later ones. While it has not ended, each of its gangs is in flight.
func TestGangGroupsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness()
		slow := script{steps: []act{{plugin: "a", takes: 10 * time.Second}}}
		group := gangGroupOf(GangTerms{Gang: gangX}, GangTerms{Gang: gangY})
		y1, both, x2 := membersOn(w, gangY, "y1-", slow), append(membersOn(w, gangX, "x1-", slow), membersOn(w, gangY, "y2-", slow)...), membersOn(w, gangX, "x2-", slow)
		for _, submit := range []func() error{
			func() error { return w.submit(gangY, y1...) },
			func() error { return w.submitGangGroup(gangX, group, both...) },
			func() error { return w.submit(gangX, x2...) },
		} {
			if err := submit(); err != nil {
				t.Fatal(err)
			}
		}
		var took []time.Duration
		begun := time.Now()
		for len(took) < 3 {
			synctest.Wait()
			for n := len(took); n < len(w.results); n++ {
				took = append(took, time.Since(begun).Round(10*time.Second))
			}
			for _, gang := range []api.JobID{gangX, gangY} {
				inFlight := len(took) < 2 || gang == gangX && len(took) < 3
				if got := w.engine.InFlight(gang); got != inFlight {
					t.Errorf("after %d transactions gang %s is in flight: %t", len(took), gang, got)
				}
			}
			if got, want := w.engine.GroupsInFlight(), max(0, min(1, 2-len(took))); got != want {
				t.Errorf("after %d transactions %d groups are in flight, want %d", len(took), got, want)
			}
			time.Sleep(time.Second)
		}
		if diff := cmp.Diff([]time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second}, took); diff != "" {
			t.Errorf("when transactions ended (-want +got):\n%s", diff)
		}
		w.drain(t)
		w.noViolations(t)
	})
}

// TestGangGroupLosesAGang checks that the deletion of a PodGroup of a gang group fails the members of all gangs of the
// group.
func TestGangGroupLosesAGang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newHarness()
		w.setMinimum(gangX, 1)
		w.setMinimum(gangY, 1)
		slow := script{steps: []act{{plugin: "a", takes: 10 * time.Second}}}
		members := append(membersOn(w, gangX, "x", slow), membersOn(w, gangY, "y", slow)...)
		if err := w.submitGangGroup(gangX, gangGroupOf(GangTerms{Gang: gangX}, GangTerms{Gang: gangY}), members...); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.engine.CancelGang(gangY, errDeleted)
		w.drain(t)
		if r := w.results[0]; len(r.Bound) > 0 || len(r.Failed) != 2 {
			t.Errorf("result %+v", r)
		}
		w.noViolations(t)
	})
}

func TestBindingInfo(t *testing.T) {
	group := gangGroupOf(GangTerms{Gang: gangX}, GangTerms{Gang: gangY})
	tests := map[string]struct {
		gangGroup *GangGroup
		x, y      int
		want      map[string]string
	}{
		"gang without terms": {nil, 3, 0, map[string]string{}},
		"a member by itself": {gangGroupOf(GangTerms{Gang: gangX}), 1, 0, map[string]string{}},
		"a gang": {gangGroupOf(GangTerms{Gang: gangX}), 3, 0, map[string]string{
			gangs.BindGroupAnnotation: "ns/x", gangs.OldBindGroupAnnotation: "ns/x", gangs.BindMembersAnnotation: "3", gangs.OldBindMembersAnnotation: "3",
		}},
		"a group": {group, 2, 2, map[string]string{
			gangs.BindGroupAnnotation: "ns/x,ns/y", gangs.OldBindGroupAnnotation: "ns/x,ns/y", gangs.BindMembersAnnotation: "4", gangs.OldBindMembersAnnotation: "4",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHarness()
				members := append(membersOn(w, gangX, "x", make([]script, test.x)...), membersOn(w, gangY, "y", make([]script, test.y)...)...)
				if err := w.submitGangGroup(gangX, test.gangGroup, members...); err != nil {
					t.Fatal(err)
				}
				w.drain(t)
				for _, m := range members {
					if diff := cmp.Diff(test.want, m.StagedAnnotations()); diff != "" {
						t.Errorf("annotations of %s in the Binding (-want +got):\n%s", m.Task.Name, diff)
					}
				}
			})
		})
	}
}
