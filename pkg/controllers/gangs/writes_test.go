// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// podGroup adds a Volcano PodGroup that this controller did not create.
func (w *harness) podGroup(name string, change func(*v1beta1.PodGroup)) {
	w.t.Helper()
	group := &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: types.UID("uid-" + name)}}
	change(group)
	if _, err := w.volcano.SchedulingV1beta1().PodGroups(ns).Create(w.t.Context(), group, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// TestPodGroupThatIsBeingDeleted checks that a gang that is created again while its former PodGroup is being deleted
// does not change that PodGroup, and gets a new one after the deletion.
func TestPodGroupThatIsBeingDeleted(t *testing.T) {
	withController(t, func(w *harness) {
		w.podGroup("g", func(group *v1beta1.PodGroup) {
			group.Annotations = map[string]string{gangs.SourceAnnotation: fromAnnotations, schedulerAnnotation: "volcano"}
			group.DeletionTimestamp, group.Finalizers = &metav1.Time{Time: time.Now()}, []string{"test"}
		})
		w.member("p", minimum(1))
		w.writes()
		w.settle()
		if written := w.writes(); len(written) > 0 || w.in("p") != "" {
			t.Errorf("written %v, p is in %q, while the former PodGroup ends", written, w.in("p"))
		}
		if err := w.volcano.SchedulingV1beta1().PodGroups(ns).Delete(t.Context(), "g", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if group := w.group("g"); group == nil || group.DeletionTimestamp != nil || w.in("p") != "g" {
			t.Errorf("PodGroup %v, p is in %q, once the former one is deleted", group, w.in("p"))
		}
	})
}

// TestOwnPodGroupsOfPodsThatAreNotHandedOverStay checks that the PodGroup that upstream's controller created for a
// pod is kept while the pod cannot be assigned to its gang's PodGroup. Upstream's controller creates the PodGroup
// before it annotates the pod.
func TestOwnPodGroupsOfPodsThatAreNotHandedOverStay(t *testing.T) {
	withController(t, func(w *harness) {
		w.podGroup("g", func(group *v1beta1.PodGroup) {
			group.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "job", UID: "1", Controller: new(true)}}
		})
		w.podGroup("podgroup-uid-p", func(*v1beta1.PodGroup) {})
		w.member("p", minimum(1))
		w.settle()
		if w.group("podgroup-uid-p") == nil {
			t.Error("the PodGroup that upstream made for a pod outside of the gang's PodGroup was deleted")
		}
	})
}

// TestAGangOfAnOutageIsMadeSoonAfterIt checks that the PodGroup of a gang that was created during an outage is
// created soon after the outage. Its requests failed during the outage, and the queue's backoff would have grown to a
// minute.
func TestAGangOfAnOutageIsMadeSoonAfterIt(t *testing.T) {
	withController(t, func(w *harness) {
		var away atomic.Bool
		away.Store(true)
		w.volcano.PrependReactor("create", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
			if !away.Load() {
				return false, nil, nil
			}
			return true, nil, &url.Error{Op: "Post", URL: "https://server", Err: errors.New("connection refused")}
		})
		w.member("p", minimum(1))
		time.Sleep(90 * time.Second)
		away.Store(false)
		time.Sleep(2 * awayRetry)
		synctest.Wait()
		if w.group("g") == nil {
			t.Errorf("the gang has no PodGroup %v after the outage", 2*awayRetry)
		}
	})
}

// TestPatchesAreOfTheVersionThatWasRead checks that patches carry the resource version that was read. So a patch fails
// if the pod was bound since, or if the status was computed from an outdated object.
func TestPatchesAreOfTheVersionThatWasRead(t *testing.T) {
	withController(t, func(w *harness) {
		w.object(1, func(group *v1alpha1.PodGroup) { group.ResourceVersion = "7" })
		w.labelled("p", func(pod *corev1.Pod) { pod.ResourceVersion = "8" })
		w.settle()
		first := func(actions []clienttesting.Action, resource string) metav1.ObjectMeta {
			for _, action := range actions {
				if patch, ok := action.(clienttesting.PatchAction); ok && action.GetResource().Resource == resource {
					var object metav1.PartialObjectMetadata
					if err := json.Unmarshal(patch.GetPatch(), &object); err != nil {
						t.Fatal(err)
					}
					return metav1.ObjectMeta{UID: object.UID, ResourceVersion: object.ResourceVersion}
				}
			}
			return metav1.ObjectMeta{}
		}
		if diff := cmp.Diff(metav1.ObjectMeta{UID: "uid-object", ResourceVersion: "7"}, first(w.ours.Actions(), "podgroups")); diff != "" {
			t.Errorf("the first patch of the object (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(metav1.ObjectMeta{UID: "uid-p", ResourceVersion: "8"}, first(w.kube.Actions(), "pods")); diff != "" {
			t.Errorf("the first patch of the pod (-want +got):\n%s", diff)
		}
	})
}

// TestDeletesAreOfThePodGroupThatWasRead checks that a delete applies to the PodGroup that was read, not to one
// created since with the same name.
func TestDeletesAreOfThePodGroupThatWasRead(t *testing.T) {
	withController(t, func(w *harness) {
		w.podGroup("podgroup-uid-p", func(*v1beta1.PodGroup) {})
		w.member("p", minimum(1))
		w.settle()
		var deleted []types.UID
		for _, action := range w.volcano.Actions() {
			if del, ok := action.(clienttesting.DeleteActionImpl); ok {
				if preconditions := del.DeleteOptions.Preconditions; preconditions != nil && preconditions.UID != nil {
					deleted = append(deleted, *preconditions.UID)
				} else {
					deleted = append(deleted, "any")
				}
			}
		}
		if diff := cmp.Diff([]types.UID{"uid-podgroup-uid-p"}, deleted); diff != "" {
			t.Errorf("UIDs of deletes (-want +got):\n%s", diff)
		}
	})
}

// TestALargeGangTakesTurns checks that other gangs are synced between the batches of a large gang.
func TestALargeGangTakesTurns(t *testing.T) {
	withController(t, func(w *harness) {
		var lock sync.Mutex
		at := map[time.Time]int{} // No time passes while a sync writes.
		w.kube.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			lock.Lock()
			defer lock.Unlock()
			at[time.Now().Round(0)]++
			return false, nil, nil
		})
		w.stop()
		for i := range turn + 1 {
			w.member(fmt.Sprintf("p%05d", i), minimum(turn+1))
		}
		w.start()
		w.settle()
		if diff := cmp.Diff([]int{1, turn}, slices.Sorted(maps.Values(at))); diff != "" {
			t.Errorf("pods that were patched in a turn (-want +got):\n%s", diff)
		}
	})
}

// TestOneChangedMemberCostsFewPatches checks that a changed member costs few patches. The oldest member decides on
// the settings of a gang, so each change of that member changes the messages about invalid settings of the other
// members.
func TestOneChangedMemberCostsFewPatches(t *testing.T) {
	tests := map[string]struct {
		said map[string]string
		flip []map[string]string
		// waiting reports whether no member is in a PodGroup, because no valid minimum is declared.
		waiting bool
	}{
		"the oldest says something else than the others": {
			said: map[string]string{gangs.MinAvailableAnnotation: "40", gangs.WaitingTimeAnnotation: "10m"},
			flip: []map[string]string{{gangs.WaitingTimeAnnotation: "11m"}, {gangs.WaitingTimeAnnotation: "12m"}, {gangs.WaitingTimeAnnotation: "10m"}},
		},
		"the oldest no longer says the only minimum": {
			flip: []map[string]string{{gangs.MinAvailableAnnotation: "40"}, {gangs.MinAvailableAnnotation: "x"}, {gangs.MinAvailableAnnotation: "y"}, {gangs.MinAvailableAnnotation: "39"}},
		},
		"the oldest has a minimum that cannot be read": {
			waiting: true,
			flip:    []map[string]string{{gangs.MinAvailableAnnotation: "x"}, {gangs.MinAvailableAnnotation: "y"}, {gangs.MinAvailableAnnotation: "-1"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			withController(t, func(w *harness) {
				change := func(said map[string]string) {
					w.changePod("p000", func(pod *corev1.Pod) { maps.Copy(pod.Annotations, said) })
				}
				for i := range 40 {
					w.member(fmt.Sprintf("p%03d", i), test.said)
				}
				w.settle()
				if len(test.said) == 0 && !test.waiting {
					change(test.flip[0])
					w.settle()
				}
				if got := w.in("p039") == ""; got != test.waiting {
					t.Fatalf("the last member waits for a PodGroup: %t, want %t", got, test.waiting)
				}
				for _, said := range test.flip {
					w.writes()
					change(said)
					w.settle()
					written := w.writes()
					patches := len(slices.DeleteFunc(written, func(write string) bool { return write != "patch pods" }))
					if patches > reportingMembers+1 {
						t.Errorf("%v on one member: %d patches of pods, want at most %d", said, patches, reportingMembers+1)
					}
				}
				if test.waiting {
					expectTold(t, w.messageOf("p001"), gangs.MinAvailableAnnotation, "-1")
					expectTold(t, w.messageOf("p039"), "gang a/g cannot be scheduled", messageAnnotation, fmt.Sprint(reportingMembers))
				}
			})
		})
	}
}

// TestDisruptionBudgetsOfPods checks that minimum availability takes precedence over maximum unavailability when a
// pod sets both, as in upstream.
func TestDisruptionBudgetsOfPods(t *testing.T) {
	w := &desired{annotations: map[string]string{}, labels: map[string]string{}}
	w.fromPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1beta1.JDBMinAvailable: "2", v1beta1.JDBMaxUnavailable: "1"}}})
	if diff := cmp.Diff(map[string]string{v1beta1.JDBMinAvailable: "2"}, w.annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
