// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// entry is a job's task in the books.
type entry struct {
	Job    api.JobID
	Task   api.TaskID
	Status string
}

// entriesOf returns the tasks of all jobs.
func entriesOf(c *Cache) []entry {
	c.books.Lock()
	defer c.books.Unlock()
	var all []entry
	for id, job := range c.books.Jobs.All() {
		for uid, task := range job.Tasks {
			all = append(all, entry{id, uid, task.Status.String()})
		}
	}
	return all
}

// TestTaskIsFoundInAnyJob checks that a reserved task is found after its pod has changed its PodGroup. The reservation
// is in the first PodGroup, the books have the pod in the second, and the informer's store already in the third. If the
// task were not found, sessions would see it as pending, and at the end it would be in two jobs.
func TestTaskIsFoundInAnyJob(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(schedtest.MakePodGroup().Name("other").Obj(), schedtest.MakePodGroup().Name("third").Obj())
		m := w.reserved()
		w.add(pod(0).Group("other").Obj())
		ahead := w.listed(pod(0).Group("third").Obj())
		if diff := cmp.Diff(map[api.TaskID]*api.TaskInfo(nil), map[api.TaskID]*api.TaskInfo(w.cache.Snapshot().Jobs["ns/other"].TaskStatusIndex[api.Pending])); diff != "" {
			t.Errorf("tasks that wait while their pod is being bound (-want +got):\n%s", diff)
		}
		w.cache.ledger.Released(m, errBroken)
		if diff := cmp.Diff([]entry{{"ns/other", "ns-p0", "Pending"}}, entriesOf(w.cache)); diff != "" {
			t.Errorf("books before upstream's cache has heard of the third PodGroup (-want +got):\n%s", diff)
		}
		w.cache.books.Pods.Show(ahead.(*v1.Pod))
		if diff := cmp.Diff([]entry{{"ns/third", "ns-p0", "Pending"}}, entriesOf(w.cache)); diff != "" {
			t.Errorf("books after it has (-want +got):\n%s", diff)
		}
	})
}

// TestAPodIsNotLostToAnotherOfItsName checks that a pod is not lost to another pod of the same name. Upstream's cache
// loses a pod if its node has another pod of that name. It also keeps a deleted pod on its node if the pod was deleted
// while it was being bound and no longer named a PodGroup.
func TestAPodIsNotLostToAnotherOfItsName(t *testing.T) {
	tests := map[string]func(w *harness, m *binding.Member){
		"seen by a session":         func(*harness, *binding.Member) {},
		"the other one is released": func(w *harness, m *binding.Member) { w.cache.ledger.Released(m, errBroken) },
		"the other one was bound":   func(w *harness, m *binding.Member) { w.cache.ledger.Bound(m) },
		"seen, and it is released":  func(w *harness, m *binding.Member) { w.cache.Snapshot(); w.cache.ledger.Released(m, errBroken) },
	}
	for name, ends := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				m := w.reserved()
				orphan := pod(0).Obj()
				delete(orphan.Annotations, v1beta1.KubeGroupNameAnnotationKey)
				w.add(orphan)
				w.cache.Snapshot()
				w.remove(orphan)
				w.add(pod(0).UID("new").Node("n").Obj())
				ends(w, m)
				w.cache.Snapshot()
				if diff := cmp.Diff([]entry{{gang, "new", "Bound"}}, entriesOf(w.cache)); diff != "" {
					t.Errorf("books (-want +got):\n%s", diff)
				}
				if got := idleCPU(w.cache, "n"); got != 7000 {
					t.Errorf("%v milli-cpu are idle, want 7000 with the new pod on its node", got)
				}
			})
		})
	}
}

// TestABoundPodIsPendingUntilTheWatchShowsIt checks that a pod is pending in the books while only the informer's store
// has it with its node, and the handler has not been called. Registering the node again does not change that.
func TestABoundPodIsPendingUntilTheWatchShowsIt(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		w.listed(pod(0).Node("n").Obj())
		w.again("n")
		w.cache.Snapshot()
		if diff := cmp.Diff([]string{"Pending"}, booked(w.cache, "p0")); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
	})
}

// TestAReservationFollowsAPodWithoutPodGroup checks that a reservation follows a pod without a PodGroup. Upstream's
// cache keeps the pod's former state on the node if the pod named no PodGroup at first.
func TestAReservationFollowsAPodWithoutPodGroup(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.reserved()
		for _, cpu := range []string{"1", "2"} {
			orphan := pod(0).Req(schedtest.Resources{"cpu": cpu}).Obj()
			delete(orphan.Annotations, v1beta1.KubeGroupNameAnnotationKey)
			w.add(orphan)
			w.cache.Snapshot()
		}
		if got := idleCPU(w.cache, "n"); got != 7000 {
			t.Errorf("%v milli-CPU are idle, want 7000 with what was reserved for the pod", got)
		}
	})
}

// TestALateClaimIsCountedAtOnce checks that a late claim is counted at once. The volumes of a pod are counted once
// its claim exists or, if the pod is being bound at that time, once its transaction has ended. A pod that waits for a
// claim is not retried at any other time.
func TestALateClaimIsCountedAtOnce(t *testing.T) {
	const volumes = v1.ResourceName("attachable-volumes-csi-csi.example")
	tests := map[string]struct {
		reserve bool
		end     func(w *harness, m *binding.Member)
	}{
		"of a pod that waits":       {end: func(*harness, *binding.Member) {}},
		"of a pod that is released": {reserve: true, end: func(w *harness, m *binding.Member) { w.cache.ledger.Released(m, errBroken) }},
		"of a pod that is bound": {reserve: true, end: func(w *harness, m *binding.Member) {
			w.add(pod(0).Volume("late").Node("n").Obj())
			w.cache.ledger.Bound(m)
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(0, 1)
				addKnown(w, schedtest.LateClass("late", "csi.example"))
				w.add(pod(0).Volume("late").Obj(), pod(1).Volume("other").Obj())
				var m *binding.Member
				if tt.reserve {
					var err error
					if m, err = reserve(w.cache, w.decided("p0", "n"), nil, nil); err != nil {
						t.Fatal(err)
					}
				}
				claim := schedtest.UnboundClaim("late", "late")
				addKnown(w, claim)
				w.cache.changes.storage.claimChanged(claim)
				if tt.reserve && taskNamed(w.cache, "p0").Status != api.Binding {
					t.Errorf("the task being bound is %v", taskNamed(w.cache, "p0"))
				}
				tt.end(w, m)
				if got := taskNamed(w.cache, "p0").Resreq.ScalarResources[volumes]; got != 1 {
					t.Errorf("%v volumes of the pod are counted, want 1", got)
				}
			})
		})
	}
}

// addKnown adds a class or a claim to the informer's store.
func addKnown(w *harness, object runtime.Object) {
	w.t.Helper()
	core, storage := w.cache.SharedInformerFactory().Core().V1(), w.cache.SharedInformerFactory().Storage().V1()
	store := storage.StorageClasses().Informer().GetStore()
	if _, ok := object.(*v1.PersistentVolumeClaim); ok {
		store = core.PersistentVolumeClaims().Informer().GetStore()
	}
	if err := store.Add(object); err != nil {
		w.t.Fatal(err)
	}
}
