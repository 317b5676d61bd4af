// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const annotationText = `{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory":"83201216Ki","koordinator.sh/gpu-memory-ratio":"100"},"id":"GPU-a"},` +
	`{"minor":3,"resources":{"huawei.com/npu-core":"1","koordinator.sh/gpu-memory":"3Gi"},"id":"GPU-b","extension":{"gpuSharedResourceTemplate":"vir01"}}],` +
	`"rdma":[{"minor":1,"resources":{"koordinator.sh/rdma":"1"},"id":"0000:1f:00.0","extension":{"vfs":[{"busID":"0000:1f:00.2"},{"minor":3,"busID":"0000:1f:00.5"}],"exclusivePolicy":"PCIeLevel"}}]}`

func annotated() *Allocation {
	return &Allocation{
		GPU: {
			{Minor: 0, UUID: "GPU-a", Amounts: Amounts{Core: 100, MemoryRatio: 100, Memory: gpuMemoryB}},
			{Minor: 3, UUID: "GPU-b", Amounts: Amounts{Memory: 3 << 30, NPUCore: 1}, Template: "vir01"},
		},
		RDMA: {{Minor: 1, UUID: "0000:1f:00.0", Amounts: Amounts{RDMAShare: 1}, VFs: []VF{{0, "0000:1f:00.2"}, {3, "0000:1f:00.5"}}, Exclusive: PCIeLevel}},
	}
}

func TestAnnotation(t *testing.T) {
	if diff := cmp.Diff(annotationText, annotated().Annotation()); diff != "" {
		t.Errorf("annotation (-want +got):\n%s", diff)
	}
	var none *Allocation
	if got := none.Annotation(); got != "{}" {
		t.Errorf("annotation of nothing: %s", got)
	}
}

func TestParsedAnnotations(t *testing.T) {
	gpu0 := &Allocation{GPU: {{Minor: 0, Amounts: Amounts{Core: 50}}}}
	tests := map[string]struct {
		text string
		want *Allocation
		// wrong is a part of the expected error; empty if no error is expected.
		wrong string
	}{
		"what we write":            {text: annotationText, want: annotated()},
		"numbers without quotes":   {text: `{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":50}}]}`, want: gpu0},
		"another type":             {text: `{"npu":[{"minor":[]}],"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50"}}]}`, want: gpu0},
		"another resource":         {text: `{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50","a/b":"1"}}]}`, want: gpu0},
		"another extension":        {text: `{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50"},"extension":{"x":1,"exclusivePolicy":"Other"}}]}`, want: gpu0},
		"in any order":             {text: `{"gpu":[{"minor":2},{"minor":1}]}`, want: &Allocation{GPU: {{Minor: 1}, {Minor: 2}}}},
		"nothing":                  {text: `{"gpu":[null],"rdma":null}`, want: &Allocation{}},
		"no object":                {text: `[]`, wrong: "must be a JSON object"},
		"no text":                  {text: ``, wrong: "must be a JSON object"},
		"a type that is no list":   {text: `{"rdma":{},"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50"}}]}`, want: gpu0, wrong: "rdma"},
		"a device that is no such": {text: `{"gpu":[7,{"minor":0,"resources":{"koordinator.sh/gpu-core":"50"}}]}`, want: gpu0, wrong: "gpu[0]"},
		"a minor twice": {text: `{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"20"}},{"minor":0,"resources":{"koordinator.sh/gpu-core":"50"}}]}`, want: gpu0,
			wrong: "gpu 0: is listed 2 times, must be once"},
		"more than can be summed up": {text: `{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"1e30"}}]}`, want: &Allocation{GPU: {{Minor: 0, Amounts: Amounts{Core: maxAmount}}}}, wrong: coreName},
		"less than nothing":          {text: `{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"-1"}}]}`, want: gpu0, wrong: memoryName},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseAllocation(tt.text)
			if (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("error %v, want %q", err, tt.wrong)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("allocation (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseAllocation(f *testing.F) {
	f.Add(annotationText)
	f.Add(`{"gpu":[{"minor":1e3,"resources":{"koordinator.sh/gpu-core":"1n"}}]}`)
	f.Add(`{"gpu":[null,{"minor":-1,"extension":{"vfs":[null]}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAllocation(text)
		if err != nil {
			if len(err.Error()) > 4096 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		again, err := ParseAllocation(a.Annotation())
		if err != nil || again.Annotation() != a.Annotation() {
			t.Errorf("annotation %s is parsed as %s, with error %v", a.Annotation(), again.Annotation(), err)
		}
		s := nodeA().state(t)
		if used := s.With(a).Without(a); !cmp.Equal(s.used, used.used) {
			t.Errorf("after the allocation was removed, %v is still in use", used.used)
		}
	})
}

func FuzzParseRequest(f *testing.F) {
	f.Add(nvidiaName, "2", "{}", jointPCIe, `{"allocatePolicy":"Restricted","ringBusBandwidth":"100Gi"}`)
	f.Add(sharedName, "0", `{"gpu":null}`, `{"deviceTypes":["gpu","gpu"]}`, `null`)
	f.Add(memoryName, "1e18", `{"rdma":{"selector":{"matchExpressions":[{"key":"a","operator":"In"}]}}}`, `{}`, `{"ringBusBandwidth":"1n"}`)
	f.Fuzz(func(t *testing.T, name, amount, hint, joint, partition string) {
		pod := makePod(nil, "device-allocate-hint", hint, "device-joint-allocate", joint, "gpu-partition-spec", partition)
		q, err := parseQuantity(amount)
		if err != nil {
			return
		}
		pod.Spec.Containers[0].Resources.Limits = quantities(name, q, rdmaName, oneNIC)
		r, err := ParseRequest(pod, RequestOptions{})
		if err != nil {
			if len(err.Error()) > 4096 || !strings.Contains(err.Error(), "ns/p") {
				t.Errorf("the error has %d bytes: %.256s", len(err.Error()), err)
			}
			return
		}
		if a, refusal := Allocate(nodeA().state(t), r, Options{}); refusal == nil && a.IsEmpty() {
			t.Error("the allocation is empty, but the request is not")
		}
	})
}
