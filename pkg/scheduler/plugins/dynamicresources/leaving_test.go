// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// leaver returns a pod that leaves node n, and its claim, which has the device.
func leaver(device string) (*api.TaskInfo, *resourceapi.ResourceClaim) {
	v := member("v", "vc")
	claim := schedtest.DeviceClaim("vc", one())
	claim.Status.Allocation = allocationOf("n", device)
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "v", UID: v.Pod.UID}}
	v.Status, v.NodeName = api.Releasing, "n"
	return v, claim
}

// pipeline places the task, which waits for pods that leave the node.
func (w *testCluster) pipeline(task *api.TaskInfo, node string) error {
	task.Status, task.NodeName = api.Pipelined, node
	return w.session.Reserve(task, w.nodes[node])
}

// TestNoClaimMovesToADeviceInUse checks a pod that would get a device if the claim of a pod that was placed before moved to the device
// of a pod that leaves the node. The claim may be written before that device is free.
func TestNoClaimMovesToADeviceInUse(t *testing.T) {
	v, vc := leaver("gpu-1")
	placed, onlyA := member("any", "made t"), member("only-a", "made t")
	run(t, append(gpus("n"), vc, made(placed, "t", one()), made(onlyA, "t", one(modelA))), func(w *testCluster) {
		w.nodes["n"].Tasks[api.PodKey(v.Pod)] = v
		w.mustPlace(placed, "n")
		if err := w.pipeline(onlyA, "n"); err == nil {
			t.Error("the pod waits for a device, though the one that leaves does not suit it")
		}
		w.mustPreBind(placed)
		if got := w.claim("any-t").Status.Allocation.Devices.Results[0].Device; got == "gpu-1" {
			t.Error("the claim of the pod that is bound has the device of the pod that still runs")
		}
	})
}

// TestAWaitingClaimIsNotShared checks a claim that waits for the device of a pod that leaves the node. Another pod with the claim, which
// does not wait, is not placed, and the pod that waits cannot be bound.
func TestAWaitingClaimIsNotShared(t *testing.T) {
	v, vc := leaver("gpu-1")
	waits, other := member("p0", "c"), member("p1", "c")
	run(t, append(gpus("n"), vc, schedtest.DeviceClaim("c", one(modelB))), func(w *testCluster) {
		w.nodes["n"].Tasks[api.PodKey(v.Pod)] = v
		if w.fits(waits, "n") == "" {
			t.Error("a pod that does not wait fits a device in use")
		}
		if err := w.pipeline(waits, "n"); err != nil {
			t.Fatal(err)
		}
		if got, want := w.fits(other, "n"), `claim "c" waits for devices that are still in use`; got != want {
			t.Errorf("another pod with the claim: got %q, want %q", got, want)
		}
		if err := w.place(other, "n"); err == nil {
			t.Error("another pod with the claim is placed")
		}
		if w.session.devices.beginPreBind(waits.Pod.UID, "n") != nil {
			t.Error("the pod that waits for a device in use may be bound")
		}
	})
}
