// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	v1 "k8s.io/api/core/v1"
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

// TestConditionsOfAnEvictedPodReplaceNoOthers checks that conditions that another client has written since the watch showed the pod
// stay.
func TestConditionsOfAnEvictedPodReplaceNoOthers(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		victim := w.cluster.Pod("p0").DeepCopy()
		changed := victim.DeepCopy()
		changed.Status.Conditions = append(changed.Status.Conditions, v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionTrue})
		w.cluster.Put(changed)
		w.Evicted(victim, "", "preempt")
		status := &w.cluster.Pod("p0").Status
		for _, kind := range []v1.PodConditionType{v1.ContainersReady, v1.DisruptionTarget} {
			if _, got := podutil.GetPodCondition(status, kind); got == nil || got.Status != v1.ConditionTrue {
				t.Errorf("the conditions are %v, want %s to be true", status.Conditions, kind)
			}
		}
	})
}
