// SPDX-License-Identifier: Apache-2.0

package devices

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/fake"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestMessages compares the errors of pods that get no devices, and of configurations with other kinds of devices.
func TestMessages(t *testing.T) {
	locked := func(value string) string {
		lock := NodeLock{Kube: fake.NewClientset(schedtest.MakeNode().Name("n").Annotation("hamivgpu", value).Obj()), Annotation: "hamivgpu"}
		_, err := lock.Take(t.Context(), "n", "now", func(string) (bool, error) { return true, nil })
		return fmt.Sprint(err)
	}
	got := map[string]string{
		"the node is locked": locked("2026-03-01T12:00:00Z"),
		"another kind":       fmt.Sprint(Unchanged([]string{"deviceshare.GPUSharingEnable"}, []string{"deviceshare.VGPUEnable"})),
		"one kind more":      fmt.Sprint(Unchanged(nil, []string{DeviceObjects, "deviceshare.VGPUEnable"})),
		"no kind is enabled": fmt.Sprint(Unchanged([]string{DeviceObjects}, nil)),
	}
	want := map[string]string{
		"the node is locked": `node n is locked (annotation hamivgpu: "2026-03-01T12:00:00Z"): another pod is being allocated its devices`,
		"another kind": `plugin "deviceshare": found deviceshare.VGPUEnable enabled, but the scheduler started with deviceshare.GPUSharingEnable enabled; ` +
			"kinds of devices cannot change while it runs, restart it",
		"one kind more": `plugin "deviceshare": found Device objects, deviceshare.VGPUEnable enabled, but the scheduler started with no kind enabled; ` +
			"kinds of devices cannot change while it runs, restart it",
		"no kind is enabled": `plugin "deviceshare": found no kind enabled, but the scheduler started with Device objects enabled; ` +
			"kinds of devices cannot change while it runs, restart it",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
