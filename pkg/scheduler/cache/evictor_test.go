// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestVictimIsLeavingUntilItsDeletionIsSeen checks that a victim is releasing until its deletion is seen. The watch
// shows a new condition of the victim before its deletion. If the victim then counted as a running pod, a cycle at that
// time would evict another pod.
func TestVictimIsLeavingUntilItsDeletionIsSeen(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		running := pod(0).Node("n").Phase(v1.PodRunning).Obj()
		w.add(running)
		status := func() api.TaskStatus { return w.cache.Snapshot().Jobs[gang].Tasks["ns-p0"].Status }
		idle := w.cache.Snapshot().Nodes["n"].FutureIdle().MilliCPU
		if got := status(); got != api.Running {
			t.Fatalf("the pod is %s before its eviction, want Running", got)
		}
		if err := recordVictim(w.cache, running); err != nil {
			t.Fatal(err)
		}
		changed := running.DeepCopy()
		changed.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget}}
		w.add(changed)
		if got := status(); got != api.Releasing {
			t.Errorf("the pod is %s while it is being evicted, want Releasing", got)
		}
		if got := w.cache.Snapshot().Nodes["n"].FutureIdle().MilliCPU - idle; got != 1000 {
			t.Errorf("%v milli-cpu are counted as coming, want the victim's 1000", got)
		}
		w.cache.books.Pods.Spare(running)
		if got := status(); got != api.Running {
			t.Errorf("the pod is %s after its eviction failed, want Running", got)
		}
	})
}
