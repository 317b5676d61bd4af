// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestWhichTasksAreAskedAboutOneByOne checks which tasks are uncacheable: the result for them on one node may depend on
// placements on other nodes.
func TestWhichTasksAreAskedAboutOneByOne(t *testing.T) {
	network := func(devices ...string) *resourceapi.ResourceSlice {
		slice := schedtest.NodeDevices("network", devices...)
		slice.Spec.NodeName, slice.Spec.AllNodes = nil, new(true)
		return slice
	}
	isA := schedtest.DeviceClass("a", modelA)
	cases := map[string]struct {
		task    *api.TaskInfo
		request resourceapi.DeviceRequest
		mutate  func(*resourceapi.ResourceClaim)
		others  []runtime.Object
		want    bool
	}{
		"a claim of its own":           {request: one()},
		"no claim":                     {task: member("p")},
		"a claim that others may have": {task: member("p", "shared"), others: []runtime.Object{schedtest.DeviceClaim("shared", one())}, want: true},
		"a claim that is not there":    {task: member("p", "gone"), want: true},
		"a claim that is allocated":    {request: one(), mutate: func(c *resourceapi.ResourceClaim) { c.Status.Allocation = allocationOf("n", "gpu-0") }, want: true},
		"a claim that somebody uses": {request: one(), mutate: func(c *resourceapi.ResourceClaim) {
			c.Status.ReservedFor = make([]resourceapi.ResourceClaimConsumerReference, 1)
		}, want: true},
		"a device of the network suits it":               {request: one(modelA), others: []runtime.Object{network("nic model=a")}, want: true},
		"no device of the network suits it":              {request: one(modelB), others: []runtime.Object{network("nic model=a")}},
		"a device of the network is of its class":        {request: schedtest.DeviceRequest("r", "a", 1), others: []runtime.Object{network("nic model=a"), isA}, want: true},
		"no device of the network is of its class":       {request: schedtest.DeviceRequest("r", "a", 1), others: []runtime.Object{network("nic model=b"), isA}},
		"the network's devices cannot be asked about it": {request: one("what?"), others: []runtime.Object{network("nic")}, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			task := tc.task
			objects := append(gpus("n"), tc.others...)
			if task == nil {
				task = member("p", "made t")
				claim := made(task, "t", tc.request)
				if tc.mutate != nil {
					tc.mutate(claim)
				}
				objects = append(objects, claim)
			}
			run(t, objects, func(w *testCluster) {
				for range 2 { // the second call returns the cached result
					if got := w.session.uncacheable(task); got != tc.want {
						t.Errorf("got %v, want %v", got, tc.want)
					}
				}
			})
		})
	}
}

// TestPodsWithEqualClaims checks that claims with equal requests have the same signature until one of them is assumed.
func TestPodsWithEqualClaims(t *testing.T) {
	p0, p1, p2 := member("p0", "made t"), member("p1", "made t"), member("p2", "made t")
	run(t, append(gpus("n"), made(p0, "t", one(modelA)), made(p1, "t", one(modelA)), made(p2, "t", one(modelB))), func(w *testCluster) {
		key := func(of *api.TaskInfo) string { return w.session.SignClaim(of.Pod, &of.Pod.Spec.ResourceClaims[0]) }
		if key(p0) != key(p1) {
			t.Error("equal claims have different signatures")
		}
		if key(p0) == key(p2) {
			t.Error("unequal claims have the same signature")
		}
		w.mustPlace(p0, "n")
		if key(p0) == key(p1) {
			t.Error("a held claim has the same signature as one that is not held")
		}
		if key(member("q", "gone")) == key(member("q", "lost")) {
			t.Error("two claims that do not exist have the same signature")
		}
	})
}
