// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestABindingIsForOnePod: a pod that came after the member's, with its name, is not bound in its place.
func TestABindingIsForOnePod(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		m := w.reserved()
		w.cluster.Put(pod(0).UID("new").Obj())
		if err := w.Bind(t.Context(), m); err == nil {
			t.Error("the Binding was taken")
		}
		if got := w.cluster.Pod("p0").Spec.NodeName; got != "" {
			t.Errorf("the new pod is on node %s", got)
		}
	})
}

func TestGetBinding(t *testing.T) {
	tests := map[string]struct {
		happens func(w *world)
		want    binding.PodBinding
	}{
		"a pod on no node":                       {happens: func(*world) {}},
		"a bound pod":                            {happens: func(w *world) { w.cluster.Put(pod(0).Node("n").Obj()) }, want: binding.PodBinding{Node: "n"}},
		"a pod that is gone":                     {happens: func(w *world) { w.cluster.Remove(pod(0).Obj()) }, want: binding.PodBinding{Gone: true}},
		"another pod of its name, that is bound": {happens: func(w *world) { w.cluster.Put(pod(0).UID("new").Node("n").Obj()) }, want: binding.PodBinding{Gone: true}},
		"a pod that is being deleted":            {happens: func(w *world) { w.cluster.Put(pod(0).Terminating().Obj()) }, want: binding.PodBinding{Gone: true}},
		"a bound pod that is being deleted":      {happens: func(w *world) { w.cluster.Put(pod(0).Node("n").Terminating().Obj()) }, want: binding.PodBinding{Node: "n"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				m := w.reserved()
				w.add(schedtest.MakeNode().Name("m").Obj())
				tt.happens(w)
				got, err := w.GetBinding(t.Context(), m)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("fate (-want +got):\n%s", diff)
				}
			})
		})
	}
}
