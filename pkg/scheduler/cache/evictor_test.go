// SPDX-License-Identifier: Apache-2.0

package cache

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
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestVictimIsLeavingUntilItsDeletionIsSeen: the watch shows the victim's new status before its deletion, and upstream's
// cache takes it for a pod that runs. A cycle then must not look for another victim.
func TestVictimIsLeavingUntilItsDeletionIsSeen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(1, 1)
		running := pod(0).Node("n").Phase(v1.PodRunning).Obj()
		w.add(running)
		status := func() api.TaskStatus { return w.Snapshot().Jobs[gang].Tasks["ns-p0"].Status }
		idle := w.Snapshot().Nodes["n"].FutureIdle().MilliCPU
		if got := status(); got != api.Running {
			t.Fatalf("the pod is %s before its eviction, want Running", got)
		}
		if err := w.victim(running); err != nil {
			t.Fatal(err)
		}
		changed := running.DeepCopy()
		changed.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget}}
		w.add(changed)
		if got := status(); got != api.Releasing {
			t.Errorf("the pod is %s while it is being evicted, want Releasing", got)
		}
		if got := w.Snapshot().Nodes["n"].FutureIdle().MilliCPU - idle; got != 1000 {
			t.Errorf("%v milli-cpu are counted as coming, want the victim's 1000", got)
		}
		w.Cache.books.Pods.Spare(running)
		if got := status(); got != api.Running {
			t.Errorf("the pod is %s after its eviction failed, want Running", got)
		}
	})
}

// TestAnotherPodOfAVictimsNameIsNotSaidToBeEvicted: it came since the session began.
func TestAnotherPodOfAVictimsNameIsNotSaidToBeEvicted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.gangOf(1, 1)
		victim := w.latest["*v1.Pod ns/p0"].(*v1.Pod)
		w.cluster.Put(pod(0).UID("new").Obj())
		if err := w.evictor.explain(victim, "reason"); err != nil {
			t.Error(err)
		}
		if got := w.cluster.Pod("p0").Status.Conditions; len(got) > 0 {
			t.Errorf("the other pod has conditions %v", got)
		}
	})
}

func TestEvictDeletesWhateverTheStatusSays(t *testing.T) {
	broken := apierrors.NewInternalError(errBroken)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p0", errBroken)
	tests := map[string]struct {
		before []v1.PodCondition
		// fails are the answers to deletions, one after the other; nil answers the rest.
		statusErr error
		fails     []error
		wantErr   bool
		deletions int
	}{
		"a pod":                              {deletions: 1},
		"a pod that was explained already":   {before: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse, Reason: "Evict", Message: "Pod is evicted, because of preempt"}}, deletions: 1},
		"the status cannot be written":       {statusErr: broken, deletions: 1},
		"the deletion fails at first":        {fails: []error{broken, broken}, deletions: 3},
		"the pod is gone":                    {fails: []error{apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "p0")}, deletions: 1},
		"the deletion is forbidden at first": {fails: []error{forbidden, forbidden}, deletions: 3},
		"the deletion is forbidden":          {fails: slices.Repeat([]error{forbidden}, 10), wantErr: true, deletions: 6},
		"the deletion is not valid":          {fails: []error{apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p0", nil)}, wantErr: true, deletions: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.gangOf(1, 1)
				victim := pod(0).Node("n").Phase(v1.PodRunning).Obj()
				victim.Status.Conditions = tt.before
				kube := fake.NewClientset(victim)
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
				w.kube = kube
				w.add(victim)
				if err := w.victim(victim); err != nil {
					t.Fatal(err)
				}
				err := w.evictor.evict(victim, "preempt")
				if (err != nil) != tt.wantErr {
					t.Errorf("Evict returned %v, want an error: %v", err, tt.wantErr)
				}
				if diff := cmp.Diff(tt.deletions, deletions); diff != "" {
					t.Errorf("deletions (-want +got):\n%s", diff)
				}
				if got := w.isVictim(victim); got == tt.wantErr {
					t.Errorf("booked as leaving: %v, want %v", got, !tt.wantErr)
				}
				if _, err := kube.CoreV1().Pods("ns").Get(t.Context(), "p0", metav1.GetOptions{}); !tt.wantErr && len(tt.fails) != 1 && !apierrors.IsNotFound(err) {
					t.Errorf("the pod is still there (%v)", err)
				}
			})
		})
	}
}
