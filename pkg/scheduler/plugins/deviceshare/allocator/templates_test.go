// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

const templatesText = `
huawei-Ascend-310P:
  vir01: {koordinator.sh/gpu-memory: 3Gi, huawei.com/npu-core: 1, huawei.com/npu-cpu: 1, huawei.com/npu-dvpp: 12}
  vir02: {koordinator.sh/gpu-memory: 6Gi, huawei.com/npu-core: 2, huawei.com/npu-cpu: 2, huawei.com/npu-dvpp: 25}
  vir02_1c: {koordinator.sh/gpu-memory: 6Gi, huawei.com/npu-core: 2, huawei.com/npu-cpu: 1, huawei.com/npu-dvpp: 25}
  vir04: {koordinator.sh/gpu-memory: 12Gi, huawei.com/npu-core: 4, huawei.com/npu-cpu: 4, huawei.com/npu-dvpp: 50}
  twice: {koordinator.sh/gpu-memory: 12Gi, huawei.com/npu-core: 4, huawei.com/npu-cpu: 4, huawei.com/npu-dvpp: 40}
  again: {koordinator.sh/gpu-memory: 12Gi, huawei.com/npu-core: 4, huawei.com/npu-cpu: 4, huawei.com/npu-dvpp: 40}
`

func TestTemplates(t *testing.T) {
	templates, err := ParseTemplates(templatesText)
	if err != nil {
		t.Fatal(err)
	}
	node := func(vendor string) *State {
		d := makeDevice()
		d.Labels[v1alpha1.GPUVendorLabel], d.Labels[v1alpha1.GPUModelLabel] = vendor, "Ascend-310P"
		d.add(v1alpha1.GPU, 0, -1, "", list(memoryName, "24Gi", ratioName, "100", npuCoreName, "8", npuCPUName, "7", npuDVPPName, "100"))
		return d.state(t)
	}
	vir04 := &Allocation{GPU: {{Amounts: Amounts{Memory: 12 << 30, MemoryRatio: 50, NPUCore: 4, NPUCPU: 4, NPUDVPP: 50}, Template: "vir04"}}}
	request := func(memory, core, cpu, dvpp string) *Request {
		return parse(t, makePod(list(sharedName, "1", memoryName, memory, npuCoreName, core, npuCPUName, cpu, npuDVPPName, dvpp)))
	}
	vir01 := request("3Gi", "1", "1", "12")

	t.Run("D29a: the template that has exactly that", func(t *testing.T) {
		got, refusal := Allocate(node("huawei").With(vir04), vir01, Options{Templates: templates})
		if refusal != nil {
			t.Fatal(refusal)
		}
		want := &Allocation{GPU: {{UUID: "gpu-0", Template: "vir01", Amounts: Amounts{Memory: 3 << 30, MemoryRatio: 12, NPUCore: 1, NPUCPU: 1, NPUDVPP: 12}}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("allocation (-want +got):\n%s", diff)
		}
	})
	const none = "no matched GPU shared resource template"
	tests := map[string]struct {
		node    *State
		request *Request
		o       Options
		want    string
	}{
		"D29c: every device is busy":    {inUse(node("huawei"), vir04, vir04), vir01, Options{Templates: templates}, "Insufficient gpu devices"},
		"D29d: a node without a vendor": {node(""), vir01, Options{Templates: templates}, none},
		"another vendor":                {node("nvidia"), vir01, Options{Templates: templates}, none},
		"no template has that":          {node("huawei"), request("3Gi", "1", "2", "12"), Options{Templates: templates}, none},
		"two templates have that":       {node("huawei"), request("12Gi", "4", "4", "40"), Options{Templates: templates}, none},
		"no templates":                  {node("huawei"), vir01, Options{}, none},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { check(t, tt.node, tt.request, tt.o, tt.want, true) })
	}
}
