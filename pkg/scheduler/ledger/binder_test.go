// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestABindingIsForOnePod checks that a Binding is for one pod: a later pod with the member's name is not bound in
// its place.
func TestABindingIsForOnePod(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		m := w.reserved()
		w.cluster.Put(pod(0).UID("new").Obj())
		if err := w.binder().Bind(t.Context(), m); err == nil {
			t.Error("the Binding was taken")
		}
		if got := w.cluster.Pod("p0").Spec.NodeName; got != "" {
			t.Errorf("the new pod is on node %s", got)
		}
	})
}

// TestAForgedAnnotationOfDevicesIsReplaced checks that a forged devices annotation is replaced. A pod's owner never
// decides on its devices, whatever plugins the configuration names.
func TestAForgedAnnotationOfDevicesIsReplaced(t *testing.T) {
	const key, forged, decided = schedulingv1alpha1.DeviceAllocatedAnnotation, `{"gpu":[{"minor":0}]}`, `{"gpu":[{"minor":1}]}`
	tests := map[string]struct {
		before, after, decided, want string
	}{
		"written at first":            {before: forged, want: noDevices},
		"written while it is bound":   {after: forged, want: noDevices},
		"written for what is decided": {before: forged, after: forged, decided: decided, want: decided},
		"not written":                 {},
		"not written, and decided":    {decided: decided, want: decided},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				m := w.reserved()
				if tt.before != "" {
					metav1.SetMetaDataAnnotation(&m.Task.Pod.ObjectMeta, key, tt.before)
					m = binding.NewMember(m.Task, m.Node, nil)
				}
				if tt.decided != "" {
					m.Stage(key, tt.decided)
				}
				if tt.after != "" {
					w.add(pod(0).Annotation(key, tt.after).Obj())
				}
				if err := w.binder().Bind(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				if got := w.cluster.Pod("p0").Annotations[key]; got != tt.want {
					t.Errorf("annotation is %q, want %q", got, tt.want)
				}
			})
		})
	}
}

func TestGetBinding(t *testing.T) {
	tests := map[string]struct {
		happens func(w *harness)
		want    binding.PodBinding
	}{
		"a pod on no node":                       {happens: func(*harness) {}},
		"a bound pod":                            {happens: func(w *harness) { w.cluster.Put(pod(0).Node("n").Obj()) }, want: binding.PodBinding{Node: "n"}},
		"a pod that is gone":                     {happens: func(w *harness) { w.cluster.Remove(pod(0).Obj()) }, want: binding.PodBinding{Gone: true}},
		"another pod of its name, that is bound": {happens: func(w *harness) { w.cluster.Put(pod(0).UID("new").Node("n").Obj()) }, want: binding.PodBinding{Gone: true}},
		"a pod that is being deleted":            {happens: func(w *harness) { w.cluster.Put(pod(0).Terminating().Obj()) }, want: binding.PodBinding{Gone: true}},
		"a bound pod that is being deleted":      {happens: func(w *harness) { w.cluster.Put(pod(0).Node("n").Terminating().Obj()) }, want: binding.PodBinding{Node: "n"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				m := w.reserved()
				w.add(schedtest.MakeNode().Name("m").Obj())
				tt.happens(w)
				got, err := w.binder().GetBinding(t.Context(), m)
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

// TestABindingOfAnotherClientLacksTheAnnotations checks that a pod that another client bound to the member's node is
// distinguished from a pod that the member's own Binding has bound, by the annotations that came with it.
func TestABindingOfAnotherClientLacksTheAnnotations(t *testing.T) {
	tests := map[string]struct {
		bind func(w *harness, m *binding.Member) error
		want binding.PodBinding
	}{
		"its own Binding": {func(w *harness, m *binding.Member) error {
			return w.binder().Bind(t.Context(), m)
		}, binding.PodBinding{Node: "n"}},
		"its own Binding, of which an annotation was removed": {func(w *harness, m *binding.Member) error {
			w.cluster.Put(pod(0).Node("n").Annotation("b", "2").Obj())
			return nil
		}, binding.PodBinding{Node: "n"}},
		"another client": {func(w *harness, m *binding.Member) error {
			w.cluster.Put(pod(0).Node("n").Annotation("b", "3").Obj())
			return nil
		}, binding.PodBinding{Node: "n", Foreign: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				m := w.reserved()
				m.Stage("a", "1")
				m.Stage("b", "2")
				if err := tt.bind(w, m); err != nil {
					t.Fatal(err)
				}
				got, err := w.binder().GetBinding(t.Context(), m)
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

func (w *harness) binder() *binder { return &binder{w.cluster.Kube, w.watched.pods} }
