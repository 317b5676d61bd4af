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
	kubetesting "k8s.io/client-go/testing"
	"volcano.sh/volcano/pkg/scheduler/api"
)

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
				kube, deletions := w.cluster.Kube, 0
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
				if tt.replaced {
					w.cluster.Put(pod(0).UID("new").Obj())
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
