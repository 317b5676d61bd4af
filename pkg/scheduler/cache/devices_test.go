// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/gpushare"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// gpuPod returns a pod that requests a GPU of a node with two.
func gpuPod() *schedtest.PodBuilder {
	return pod(0).Limit(schedtest.Resources{gpushare.VolcanoGPUNumber: "1"})
}

// holders returns the pods that use the node's second GPU.
func holders(node *api.NodeInfo) []string {
	return slices.Sorted(maps.Keys(node.Others[gpushare.DeviceName].(*gpushare.GPUDevices).Device[1].PodMap))
}

// TestBooksCountDevices checks that devices chosen by a session count as used while the pod is on its node, in the
// cache and in the next session.
func TestBooksCountDevices(t *testing.T) {
	gpushare.GpuNumberEnable = true
	t.Cleanup(func() { gpushare.GpuNumberEnable = false })
	bound := func(w *harness, m *binding.Member) {
		w.cache.ledger.Bound(m)
		w.add(gpuPod().Node("n").Annotation(gpushare.GPUIndex, "1").Obj())
	}
	tests := map[string]struct {
		then func(w *harness, m *binding.Member)
		want []string
	}{
		"reserved":               {then: func(*harness, *binding.Member) {}, want: []string{"ns-p0"}},
		"released":               {then: func(w *harness, m *binding.Member) { w.cache.ledger.Released(m, errBroken) }},
		"bound and not seen yet": {then: func(w *harness, m *binding.Member) { w.cache.ledger.Bound(m) }, want: []string{"ns-p0"}},
		"bound":                  {then: bound, want: []string{"ns-p0"}},
		"seen on its node before it is": {then: func(w *harness, m *binding.Member) {
			w.add(gpuPod().Node("n").Annotation(gpushare.GPUIndex, "1").Obj())
			w.cache.ledger.Bound(m)
		}, want: []string{"ns-p0"}},
		"bound and deleted":                 {then: func(w *harness, m *binding.Member) { bound(w, m); w.remove(pod(0).Obj()) }},
		"deleted while it is being bound":   {then: func(w *harness, m *binding.Member) { w.remove(pod(0).Obj()); w.cache.ledger.Released(m, errBroken) }},
		"changed while it is being bound":   {then: func(w *harness, m *binding.Member) { w.add(gpuPod().Label("new", "").Obj()) }, want: []string{"ns-p0"}},
		"reserved when the node is changed": {then: func(w *harness, m *binding.Member) { w.add(gpuNode().Label("new", "").Obj()) }, want: []string{"ns-p0"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.add(gpuNode().Obj(), schedtest.MakePodGroup().Name("g").MinMember(1).Obj(), gpuPod().Obj())
				m, err := reserve(w.cache, w.decided("p0", "n"), map[string]string{gpushare.GPUIndex: "1"}, nil)
				if err != nil {
					t.Fatal(err)
				}
				tt.then(w, m)
				if diff := cmp.Diff(tt.want, holders(w.cache.books.Nodes.Get("n"))); diff != "" {
					t.Errorf("holders of the GPU in the cache (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.want, holders(w.cache.Snapshot().Nodes["n"])); diff != "" {
					t.Errorf("holders of the GPU in a session (-want +got):\n%s", diff)
				}
				if w.cache.books.Pods.Held() > 0 && tt.want == nil {
					t.Errorf("the cache remembers %d pods of transactions", w.cache.books.Pods.Held())
				}
			})
		})
	}
}

func gpuNode() *schedtest.NodeBuilder {
	return schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "8", "pods": "10", gpushare.VolcanoGPUResource: "32", gpushare.VolcanoGPUNumber: "2"})
}

// TestDecisionsEndWithTheTransaction checks that a device decision ends with its transaction. A pod whose transaction
// failed equals the pod in the API server again, so no part of the decision is taken for a setting of the user.
func TestDecisionsEndWithTheTransaction(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		m, err := reserve(w.cache, w.decided("p0", "n"), map[string]string{"rank": "1"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := taskNamed(w.cache, "p0").Pod.Annotations["rank"]; got != "1" {
			t.Errorf("the books have rank %q while the pod is being bound, want 1", got)
		}
		shared := w.latest["*v1.Pod ns/p0"].(*v1.Pod)
		if rank, ok := shared.Annotations["rank"]; ok {
			t.Errorf("the informer's pod was given rank %q", rank)
		}
		w.cache.ledger.Released(m, errBroken)
		if diff := cmp.Diff(shared, taskNamed(w.cache, "p0").Pod); diff != "" {
			t.Errorf("the books' pod and the informer's (-want +got):\n%s", diff)
		}
	})
}

// TestSessionsOwnTheirLedgers checks that a session's changes to a node's devices are visible neither to the cache
// nor to another session.
func TestSessionsOwnTheirLedgers(t *testing.T) {
	gpushare.GpuNumberEnable = true
	t.Cleanup(func() { gpushare.GpuNumberEnable = false })
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(gpuNode().Obj())
		first := w.cache.Snapshot().Nodes["n"]
		first.Others[gpushare.DeviceName].(*gpushare.GPUDevices).AddResource(gpuPod().Annotation(gpushare.GPUIndex, "1").Obj())
		for name, node := range map[string]*api.NodeInfo{"the cache": w.cache.books.Nodes.Get("n"), "the next session": w.cache.Snapshot().Nodes["n"]} {
			if got := holders(node); len(got) > 0 {
				t.Errorf("%s has %v on the GPU, which another session put there", name, got)
			}
		}
	})
}
