// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestDevicePluginAnnotations checks the annotations for device plugins, in the formats of their vendors.
func TestDevicePluginAnnotations(t *testing.T) {
	two := []allocator.DeviceAllocation{
		{Minor: 0, UUID: "a", Amounts: allocator.Amounts{allocator.Core: 100, allocator.Memory: 32 << 30}},
		{Minor: 3, UUID: "b", Amounts: allocator.Amounts{allocator.Core: 100, allocator.Memory: 32 << 30}},
	}
	share := []allocator.DeviceAllocation{{Minor: 1, UUID: "c", Amounts: allocator.Amounts{allocator.Core: 10, allocator.Memory: 1 << 30}, Template: "vir01"}}
	tests := map[string]struct {
		vendor, model string
		gpus          []allocator.DeviceAllocation
		want          map[string]string
		err           string
	}{
		"NICs alone":              {},
		"any":                     {gpus: two, want: map[string]string{gpuMinors: "0,3"}},
		"Huawei's":                {vendor: "huawei", gpus: two, want: map[string]string{gpuMinors: "0,3", huaweiNPUCore: "0,3"}},
		"Huawei's by template":    {vendor: "huawei", gpus: share, want: map[string]string{gpuMinors: "1", huaweiNPUCore: "1-vir01"}},
		"Huawei's 310P":           {vendor: "huawei", model: duo310P, gpus: two, want: map[string]string{gpuMinors: "0,3", huawei310P: "Ascend310P-0,Ascend310P-3"}},
		"a part of Huawei's 310P": {vendor: "huawei", model: duo310P, gpus: share, err: "annotating the pod for the device plugin of huawei: NPUs of model Ascend-310P3-300I-DUO cannot be divided, but the pod requests a share of one (template vir01); request whole NPUs"},
		"Cambricon's":             {vendor: "cambricon", gpus: share, want: map[string]string{gpuMinors: "1", cambriconAssigned: "false", cambriconProfile: "1_10_4"}},
		"two of Cambricon's":      {vendor: "cambricon", gpus: two, err: "annotating the pod for the device plugin of cambricon: the pod has 2 devices, must be 1"},
		"MetaX's":                 {vendor: "metax", gpus: share, want: map[string]string{gpuMinors: "1", metaxAllocated: `[[{"uuid":"c","compute":10,"vRam":1024}]]`}},
		"MetaX's without memory":  {vendor: "metax", gpus: []allocator.DeviceAllocation{{Amounts: allocator.Amounts{allocator.Core: 10}}}, err: "annotating the pod for the device plugin of metax: the pod has koordinator.sh/gpu-core 10 and koordinator.sh/gpu-memory 0 of gpu 0, must be above 0 and at least 1Mi"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
			err := adapt(pod, &allocator.Inventory{Vendor: tc.vendor, Model: tc.model}, &allocator.Allocation{allocator.GPU: tc.gpus})
			if (err != nil) != (tc.err != "") || err != nil && err.Error() != tc.err {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if tc.err != "" {
				return
			}
			if pod.Annotations[bindTimestamp] == "" || (pod.Annotations[predicateTime] != "") != (tc.vendor == "huawei") {
				t.Errorf("the annotations have no time: %v", pod.Annotations)
			}
			maps.DeleteFunc(pod.Annotations, func(key, _ string) bool { return key == bindTimestamp || key == predicateTime })
			if tc.want == nil {
				tc.want = map[string]string{}
			}
			if diff := cmp.Diff(tc.want, pod.Annotations); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPodsTakeTurnsOnALockedNode checks that a lock counts only until it expires and while its pod exists.
func TestPodsTakeTurnsOnALockedNode(t *testing.T) {
	const lock = "hami.io/mutex.lock"
	at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }
	tests := map[string]struct {
		value string
		takes bool
	}{
		"none":                            {"", true},
		"another pod's":                   {at(time.Minute) + ",ns,other", false},
		"that pod's own":                  {at(time.Minute) + ",ns,p", true},
		"one that has expired":            {at(6*time.Minute) + ",ns,other", true},
		"of a pod that is gone":           {at(time.Minute) + ",ns,gone", true},
		"in another format":               {"someone", false},
		"of a time that cannot be parsed": {"noon,ns,other", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := schedtest.MakeNode().Name("n").Obj()
			if tc.value != "" {
				metav1.SetMetaDataAnnotation(&node.ObjectMeta, lock, tc.value)
			}
			pod, other := schedtest.MakePod().Name("p").Obj(), schedtest.MakePod().Name("other").Obj()
			kube := kubefake.NewClientset(node, pod, other)
			value := func() string {
				now, err := kube.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				return now.Annotations[lock]
			}
			if err := lockNode(t.Context(), kube, lock, pod, "n"); (err == nil) != tc.takes {
				t.Fatalf("the result of taking the lock is %v", err)
			}
			if got := isLockOf(value(), pod); got != tc.takes {
				t.Errorf("the lock is %q", value())
			}
			if err := unlockNode(t.Context(), kube, lock, pod, "n"); err != nil {
				t.Fatal(err)
			}
			want := tc.value
			if tc.takes {
				want = ""
			}
			if got := value(); got != want {
				t.Errorf("after unlocking, the lock is %q, want %q", got, want)
			}
		})
	}
}
