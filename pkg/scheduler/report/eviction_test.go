// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubetesting "k8s.io/client-go/testing"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestPodWithTheNameOfAVictimGetsNoCondition checks that a newer pod with the name of a victim gets no condition,
// because it has another UID.
func TestPodWithTheNameOfAVictimGetsNoCondition(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		victim := w.cluster.Pod("p0")
		w.cluster.Put(schedtest.MakePod().Name("p0").Group("g").UID("new").Obj())
		w.reporter.Evicted(victim, "uid", "reason")
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
			w.reporter.Evicted(w.cluster.Pod("p0"), "", reason)
			_, got := podutil.GetPodCondition(&w.cluster.Pod("p0").Status, v1.DisruptionTarget)
			if got == nil || got.Message != want {
				t.Errorf("evicted for %q: condition %v, want the message %q", reason, got, want)
			}
		})
	}
}

// TestConditionsOfAnEvictedPodReplaceNoOthers checks that conditions that another client has written since the watch showed the pod
// stay.
func TestConditionsOfAnEvictedPodReplaceNoOthers(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		victim := w.cluster.Pod("p0").DeepCopy()
		changed := victim.DeepCopy()
		changed.Status.Conditions = append(changed.Status.Conditions, v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionTrue})
		w.cluster.Put(changed)
		w.reporter.Evicted(victim, "", "preempt")
		status := &w.cluster.Pod("p0").Status
		for _, kind := range []v1.PodConditionType{v1.ContainersReady, v1.DisruptionTarget} {
			if _, got := podutil.GetPodCondition(status, kind); got == nil || got.Status != v1.ConditionTrue {
				t.Errorf("the conditions are %v, want %s to be true", status.Conditions, kind)
			}
		}
	})
}

// TestConditionsOfAnEvictedPodWithUpstreamsPermissions checks that an evicted pod gets its conditions if the scheduler may update
// the status of pods, but not patch it.
func TestConditionsOfAnEvictedPodWithUpstreamsPermissions(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.cluster.Kube.PrependReactor("patch", "pods", func(kubetesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods/status"}, "p0", nil)
		})
		w.reporter.Evicted(w.cluster.Pod("p0"), "uid", "preempt")
		for _, kind := range []v1.PodConditionType{conditions.Evicted, v1.DisruptionTarget} {
			if _, got := podutil.GetPodCondition(&w.cluster.Pod("p0").Status, kind); got == nil || got.Status != v1.ConditionTrue {
				t.Errorf("condition %s is %v, want True", kind, got)
			}
		}
	})
}

// TestAPodThatStaysSaysSo checks that a pod whose second eviction fails does not keep the condition of the first attempt, whichever
// of its conditions the watch has shown.
func TestAPodThatStaysSaysSo(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		for range 2 {
			shown := w.cluster.Pod("p0").DeepCopy()
			w.reporter.Evicted(shown, "", "preempt")
			w.reporter.NotEvicted(shown, false)
			for _, c := range w.cluster.Pod("p0").Status.Conditions {
				if (c.Type == conditions.Evicted || c.Type == v1.DisruptionTarget) && c.Status != v1.ConditionFalse {
					t.Errorf("condition %s of the pod that stays is %s, want False", c.Type, c.Status)
				}
			}
		}
	})
}
