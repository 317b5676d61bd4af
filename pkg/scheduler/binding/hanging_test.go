// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestHangingCallsGiveTheirSlotsBack checks that calls that hang give their slots back, and that their namespace has
// few slots until these calls end.
func TestHangingCallsGiveTheirSlotsBack(t *testing.T) {
	c := newSlotUsers(128)
	c.want("slow/1", 300)
	c.want("quick/1", 300)
	for range 60 {
		c.end("quick/1")
	}
	c.hang("slow/1")
	if diff := cmp.Diff(map[api.JobID]int{"slow/1": openWindow, "quick/1": 62}, c.held()); diff != "" {
		t.Errorf("slots held when 64 calls hang (-want +got):\n%s", diff)
	}
	c.want("slow/2", 100)
	c.end("quick/1")
	if diff := cmp.Diff(map[api.JobID]int{"slow/1": openWindow, "slow/2": 1, "quick/1": 62}, c.held()); diff != "" {
		t.Errorf("slots held when another gang of the namespace comes (-want +got):\n%s", diff)
	}
	for range 10 {
		w := c.calls["slow/1"][0]
		c.calls["slow/1"] = c.calls["slow/1"][1:]
		c.release(w)
		c.note()
	}
	if diff := cmp.Diff(map[api.JobID]int{"slow/1": openWindow + 10 - 1, "slow/2": 1, "quick/1": 62}, c.held()); diff != "" {
		t.Errorf("slots held when 10 of the calls that hang have ended (-want +got):\n%s", diff)
	}
}

func TestNoMoreCallsHangWithoutASlotThanThereAreSlots(t *testing.T) {
	c := newSlotUsers(8)
	for i := range 6 {
		gang := api.JobID(fmt.Sprintf("%c/1", 'a'+i))
		c.want(gang, 10)
		c.hang(gang)
		c.hang(gang)
	}
	if c.lent != 8 {
		t.Errorf("%d hanging calls have given their slots back, want 8", c.lent)
	}
	c.end("a/1")
	for gang := range c.gangs {
		c.hang(gang)
	}
	if c.lent > 8 {
		t.Errorf("%d hanging calls have given their slots back, want 8", c.lent)
	}
}

// TestHangingBindingsDelayNoOtherGang checks that Bindings that hang until their timeout, for example behind a slow
// admission webhook of one namespace, delay no other gang.
func TestHangingBindingsDelayNoOtherGang(t *testing.T) {
	bubble(t, func(t *testing.T, w *harness) {
		hangs := script{binds: slices.Repeat([]reply{{takes: time.Hour}}, 10)}
		for i := range 4 { // The youngest gang reaches the barrier first.
			gang := api.JobID(fmt.Sprintf("slow/%d", i))
			hangs.steps = []act{{plugin: "a", takes: time.Duration(4-i) * time.Second}}
			w.mustSubmit(t, gang, fmt.Sprintf("h%d-", i), 100, slices.Repeat([]script{hangs}, 100)...)
		}
		time.Sleep(10 * time.Second)
		start := time.Now()
		for _, gang := range []api.JobID{"slow/quick", "other/quick"} {
			w.mustSubmit(t, gang, string(gang[:1])+"q", 3, script{}, script{}, script{})
		}
		synctest.Wait()
		for _, id := range []api.TaskID{"sq0", "sq1", "sq2", "oq0", "oq1", "oq2"} {
			traceIs(id, "bind bound")(t, w)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("the others were bound after %v, want at once", took)
		}
		w.drain(t)
	})
}

// TestHangingBindingsOfManyNamespacesDelayNoOther checks that hanging Bindings of many namespaces delay no other
// gang, whether they begin to hang together or one after the other.
func TestHangingBindingsOfManyNamespacesDelayNoOther(t *testing.T) {
	for name, apart := range map[string]time.Duration{"together": 0, "one after the other": 700 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *harness) {
				hangs := script{binds: slices.Repeat([]reply{{takes: time.Hour}}, 10)}
				for i := range 20 {
					time.Sleep(apart)
					w.mustSubmit(t, api.JobID(fmt.Sprintf("slow%d/g", i)), fmt.Sprintf("h%d-", i), 100, slices.Repeat([]script{hangs}, 100)...)
				}
				time.Sleep(time.Second)
				quick := script{binds: []reply{{takes: 10 * time.Millisecond}}}
				w.mustSubmit(t, "other/g", "q", 100, slices.Repeat([]script{quick}, 100)...)
				time.Sleep(500 * time.Millisecond)
				for i := range 100 {
					traceIs(api.TaskID(fmt.Sprintf("q%d", i)), "bind bound")(t, w)
				}
				w.drain(t)
			})
		})
	}
}
