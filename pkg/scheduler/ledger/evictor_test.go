// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestPodWithTheNameOfAVictimGetsNoCondition checks that a newer pod with the name of a victim gets no condition,
// because it has another UID.
func TestPodWithTheNameOfAVictimGetsNoCondition(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		victim := w.cluster.Pod("p0")
		w.cluster.Put(pod(0).UID("new").Obj())
		if err := NewEvictor(w.cluster.Kube, w.books, w.reports).explain(victim, "reason", "message"); err != nil {
			t.Error(err)
		}
		if got := w.cluster.Pod("p0").Status.Conditions; len(got) > 0 {
			t.Errorf("the other pod has conditions %v", got)
		}
	})
}

func TestDisruptionTargetOfAnEvictedPod(t *testing.T) {
	for reason, want := range map[string]string{
		"preempt": "volcano: evicted to free resources for other pods",
		"reclaim": "volcano: evicted to free resources for other pods",
		"the gang was partially bound for more than 5m0s (evictPartiallyBoundAfter)": "volcano: evicted: the gang was partially bound for more than 5m0s (evictPartiallyBoundAfter)",
	} {
		withHarness(t, func(t *testing.T, w *harness) {
			w.gangOf(1, 1)
			if err := NewEvictor(w.cluster.Kube, w.books, w.reports).explain(w.cluster.Pod("p0"), reason, "message"); err != nil {
				t.Fatal(err)
			}
			_, got := podutil.GetPodCondition(&w.cluster.Pod("p0").Status, v1.DisruptionTarget)
			if got == nil || got.Message != want {
				t.Errorf("evicted for %q: condition %v, want the message %q", reason, got, want)
			}
		})
	}
}

// TestAnEvictedPodGetsItsConditionsAfterAConflict checks that an eviction whose status write meets another client's
// write is still explained on the pod: a Job that ignores evicted pods must not count it as failed.
func TestAnEvictedPodGetsItsConditionsAfterAConflict(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		victim := pod(0).Node("n").Phase(v1.PodRunning).Obj()
		kube := fake.NewClientset(victim)
		var updates, deletions int
		var written *v1.Pod
		kube.PrependReactor("update", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
			if updates++; updates == 1 {
				return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p0", errBroken)
			}
			written = action.(kubetesting.UpdateAction).GetObject().(*v1.Pod)
			return false, nil, nil
		})
		kube.PrependReactor("delete", "pods", func(kubetesting.Action) (bool, runtime.Object, error) {
			deletions++
			return false, nil, nil
		})
		w.add(victim)
		if err := NewEvictor(kube, w.books, w.reports).evict(victim, "preempt"); err != nil {
			t.Fatal(err)
		}
		if written == nil {
			t.Fatal("the conditions were not written")
		}
		if _, got := podutil.GetPodCondition(&written.Status, v1.DisruptionTarget); got == nil {
			t.Errorf("the conditions are %v, want one of type DisruptionTarget", written.Status.Conditions)
		}
		if deletions != 1 {
			t.Errorf("the pod was deleted %d times, want once", deletions)
		}
	})
}

func TestEvictDeletesEvenIfTheStatusWriteFails(t *testing.T) {
	broken := apierrors.NewInternalError(errBroken)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p0", errBroken)
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p0", errBroken)
	tests := map[string]struct {
		before []v1.PodCondition
		// statusErr is the error of the status update. fails are the errors of successive deletions, which are
		// accepted afterwards.
		statusErr error
		fails     []error
		// replaced makes a newer pod take the victim's name.
		replaced  bool
		wantErr   bool
		deletions int
	}{
		"a pod":                              {deletions: 1},
		"a pod that was explained already":   {before: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "Evict", Message: "Evicted: preempt"}}, deletions: 1},
		"the status cannot be written":       {statusErr: broken, deletions: 1},
		"the deletion fails at first":        {fails: []error{broken, broken}, deletions: 3},
		"the pod is gone":                    {fails: []error{apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p0")}, deletions: 1},
		"another pod has its name":           {fails: []error{conflict}, replaced: true, deletions: 1},
		"a conflict for another cause":       {fails: []error{conflict, conflict}, deletions: 3},
		"conflicts that do not end":          {fails: slices.Repeat([]error{conflict}, 10), wantErr: true, deletions: 6},
		"the deletion is forbidden at first": {fails: []error{forbidden, forbidden}, deletions: 3},
		"the deletion is forbidden":          {fails: slices.Repeat([]error{forbidden}, 10), wantErr: true, deletions: 6},
		"the deletion is not valid":          {fails: []error{apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p0", nil)}, wantErr: true, deletions: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				victim := pod(0).Node("n").Phase(v1.PodRunning).Obj()
				victim.Status.Conditions = tt.before
				live := victim
				if tt.replaced {
					live = pod(0).UID("new").Obj()
				}
				kube := fake.NewClientset(live)
				deletions := 0
				kube.PrependReactor("delete", "pods", func(action kubetesting.Action) (bool, runtime.Object, error) {
					deletions++
					if on := action.(kubetesting.DeleteActionImpl).DeleteOptions.Preconditions; on == nil || on.UID == nil || *on.UID != victim.UID {
						t.Errorf("the deletion has preconditions %v, want the UID of the pod", on)
					}
					if deletions <= len(tt.fails) {
						return true, nil, tt.fails[deletions-1]
					}
					return false, nil, nil
				})
				kube.PrependReactor("update", "pods", func(kubetesting.Action) (bool, runtime.Object, error) {
					return tt.statusErr != nil, nil, tt.statusErr
				})
				w.add(victim)
				if _, _, err := w.books.Pods.Evict(api.NewTaskInfo(victim)); err != nil {
					t.Fatal(err)
				}
				err := NewEvictor(kube, w.books, w.reports).evict(victim, "preempt")
				if (err != nil) != tt.wantErr {
					t.Errorf("Evict returned %v, want an error: %v", err, tt.wantErr)
				}
				if diff := cmp.Diff(tt.deletions, deletions); diff != "" {
					t.Errorf("deletions (-want +got):\n%s", diff)
				}
				if got := w.task("p0").Status == api.Releasing; got == tt.wantErr {
					t.Errorf("booked as leaving: %v, want %v", got, !tt.wantErr)
				}
				if _, err := kube.CoreV1().Pods("ns").Get(t.Context(), "p0", metav1.GetOptions{}); !tt.wantErr && len(tt.fails) != 1 && !apierrors.IsNotFound(err) {
					t.Errorf("the pod is still there (%v)", err)
				}
			})
		})
	}
}
