// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestWaiting: what sessions do not see must not be taken for nothing. In the outage that this comes from, pods waited for
// a PodGroup that was long in coming, no session had them, and the loop went idle for ever.
func TestWaiting(t *testing.T) {
	running := schedtest.MakePodGroup().Name("g").Phase(v1beta1.PodGroupRunning).Obj
	completed := schedtest.MakePodGroup().Name("g").Phase(v1beta1.PodGroupCompleted).Obj
	tests := map[string]struct {
		there func(w *world)
		want  bool
	}{
		"nothing":                       {there: func(*world) {}},
		"a pod without its PodGroup":    {there: func(w *world) { w.add(pod(0).Obj()) }, want: true},
		"a PodGroup without pods":       {there: func(w *world) { w.add(schedtest.MakePodGroup().Name("g").Obj()) }, want: true},
		"a pod of a PodGroup that runs": {there: func(w *world) { w.add(running(), pod(0).Obj()) }, want: true},
		"a PodGroup that runs":          {there: func(w *world) { w.add(running()) }},
		"a PodGroup that has ended":     {there: func(w *world) { w.add(completed()) }},
		"a pod on a node": {there: func(w *world) {
			w.add(schedtest.MakeNode().Name("n").Obj(), running(), pod(0).Node("n").Phase("Running").Obj())
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				tt.there(w)
				if got := w.Waiting(); got != tt.want {
					t.Errorf("something waits: %v, want %v", got, tt.want)
				}
			})
		})
	}
}
