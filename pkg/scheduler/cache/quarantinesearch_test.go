// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestDuringASearchNothingIsEvicted checks that nothing is evicted during a search. A gang waits if its queue is only
// partially visible, because the resources used in the hidden part are not counted.
func TestDuringASearchNothingIsEvicted(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(0, 1)
		w.add(schedtest.MakeQueue().Name("other").Obj(), pod(0).Node("n").Phase(v1.PodRunning).Obj(),
			schedtest.MakePodGroup().Name("a").Obj(), schedtest.MakePodGroup().Name("b").Queue("other").Obj(), schedtest.MakePodGroup().Name("z").Obj())
		type state struct {
			Sees         []api.JobID
			Waits, Evict bool
		}
		look := func() state {
			snapshot, _, _ := w.cache.SessionSnapshot()
			s := state{Sees: slices.Sorted(maps.Keys(snapshot.Jobs)), Evict: !errors.Is(w.cache.Evict(taskNamed(w.cache, "p0"), "it must go"), errSearching)}
			_, s.Waits = w.cache.Blocked("ns/a")
			if _, waits := w.cache.Blocked("ns/b"); waits {
				t.Error("a gang waits whose queue is seen as a whole")
			}
			return s
		}
		w.cache.SessionSnapshot()
		w.cache.quarantine.CyclePanicked("", "oh no")
		got := []state{look()}
		for range 3 {
			w.cache.quarantine.CycleSucceeded()
			got = append(got, look())
		}
		want := []state{
			{},
			{Sees: []api.JobID{"ns/a", "ns/b"}, Waits: true},
			{Sees: []api.JobID{"ns/a", "ns/b", "ns/g", "ns/z"}},
			{Sees: []api.JobID{"ns/a", "ns/b", "ns/g", "ns/z"}, Evict: true},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sessions (-want +got):\n%s", diff)
		}
	})
}

// TestQuarantinedObjectsAreRetriedUnderANewConfiguration checks that quarantined objects are retried under a new
// configuration, which may omit the plugin that panicked.
func TestQuarantinedObjectsAreRetriedUnderANewConfiguration(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		w.cache.SessionSnapshot()
		w.cache.quarantine.CyclePanicked(gang, "oh no")
		if snapshot, _, _ := w.cache.SessionSnapshot(); snapshot.Jobs[gang] != nil {
			t.Error("the gang is in the session after the one that panicked")
		}
		if why, blocked := w.cache.Blocked(gang); !blocked {
			t.Errorf("the quarantined gang has another message: %q", why)
		}
		w.cache.RetryAll()
		if snapshot, _, _ := w.cache.SessionSnapshot(); snapshot.Jobs[gang] == nil {
			t.Error("the gang is quarantined under the new configuration")
		}
	})
}
