// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubetesting "k8s.io/client-go/testing"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestPodWithTheNameOfAVictimGetsNoCondition checks that a newer pod with the name of a victim gets no condition,
// because it has another UID.
func TestPodWithTheNameOfAVictimGetsNoCondition(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		victim := w.cluster.Pod("p0")
		w.cluster.Put(schedtest.MakePod().Name("p0").Group("g").UID("new").Obj())
		w.Evicted(victim, "uid", "reason")
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
			w.Evicted(w.cluster.Pod("p0"), "", reason)
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
		updates := 0
		w.cluster.Kube.PrependReactor("update", "pods", func(kubetesting.Action) (bool, runtime.Object, error) {
			updates++
			return updates == 1, nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "p0", errors.New("changed"))
		})
		w.Evicted(w.cluster.Pod("p0"), "", "preempt")
		conditions := w.cluster.Pod("p0").Status.Conditions
		if _, got := podutil.GetPodCondition(&v1.PodStatus{Conditions: conditions}, v1.DisruptionTarget); got == nil || updates != 2 {
			t.Errorf("after %d updates the conditions are %v, want one of type DisruptionTarget after 2", updates, conditions)
		}
	})
}
