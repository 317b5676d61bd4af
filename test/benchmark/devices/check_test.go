// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/vgpu"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// has returns the commit of a pod: the node, and the assigned shares of its GPUs and NICs, by minor.
func has(node string, gpus, nics map[int]int) sessiontest.Bind {
	list := func(kind string, of map[int]int, resources ...string) string {
		var all []string
		for minor, amount := range of {
			var amounts []string
			for _, resource := range resources {
				amounts = append(amounts, fmt.Sprintf("%q:\"%d\"", resource, amount))
			}
			all = append(all, fmt.Sprintf(`{"minor":%d,"id":"%s-%s-%[1]d","resources":{%[4]s}}`, minor, node, kind, strings.Join(amounts, ",")))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	annotation := fmt.Sprintf(`{"gpu":%s,"rdma":%s}`, list("gpu", gpus, gpuCore, gpuRatio), list("rdma", nics, rdma))
	return sessiontest.Bind{Node: node, Decided: map[string]string{v1alpha1.DeviceAllocatedAnnotation: annotation}}
}

func TestCheck(t *testing.T) {
	type amounts = map[int]int
	pairs := work{nodes: 4, gangs: 1, gangSize: 2, asks: []ask{{gpu: 200, nic: 50}}}
	halves := work{nodes: 4, gangs: 2, gangSize: 1, asks: []ask{{gpu: 60}}}
	clusters := pairs
	clusters.clusters = 2
	tests := map[string]struct {
		work work
		// first and second are the commits of the two pods. An empty Bind means that the pod is not placed.
		first, second sessiontest.Bind
		want          string
	}{
		"each its own":                 {pairs, has("node-0000", amounts{0: 100, 1: 100}, amounts{0: 50}), has("node-0000", amounts{2: 100, 3: 100}, amounts{1: 50}), ""},
		"on two switches":              {pairs, has("node-0000", amounts{0: 100, 2: 100}, amounts{0: 50, 1: 50}), has("node-0000", amounts{1: 100, 3: 100}, amounts{0: 50, 1: 50}), ""},
		"no pod placed":                {pairs, sessiontest.Bind{}, sessiontest.Bind{}, ""},
		"a gang in part":               {pairs, has("node-0000", amounts{0: 100, 1: 100}, amounts{0: 50}), sessiontest.Bind{}, "1 of the 2 pods of gang gang-00000"},
		"a GPU twice":                  {pairs, has("node-0000", amounts{0: 100, 1: 100}, amounts{0: 50}), has("node-0000", amounts{1: 100, 0: 100}, amounts{0: 50}), "200% of koordinator.sh/gpu-core is given"},
		"too few GPUs":                 {pairs, has("node-0000", amounts{0: 100}, amounts{0: 50}), sessiontest.Bind{}, "it has 100% of GPUs on 1, asks for 200%"},
		"too little of a NIC":          {pairs, has("node-0000", amounts{0: 100, 1: 100}, amounts{0: 40}), sessiontest.Bind{}, "of NIC 0 it has 40%, asks for 50%"},
		"a NIC of another switch":      {pairs, has("node-0000", amounts{0: 100, 1: 100}, amounts{1: 50}), sessiontest.Bind{}, "a GPU on PCIe switch 0, and no NIC"},
		"a NIC too many":               {pairs, has("node-0000", amounts{0: 100, 1: 100}, amounts{0: 50, 1: 50}), sessiontest.Bind{}, "2 NICs for GPUs on 1 PCIe switches"},
		"a device that there is not":   {pairs, has("node-0000", amounts{0: 100, 8: 100}, amounts{0: 50}), sessiontest.Bind{}, `gpu 8 ("node-0000-gpu-8") is none of the node's`},
		"no annotation":                {pairs, sessiontest.Bind{Node: "node-0000"}, sessiontest.Bind{}, "cannot be read"},
		"in two clusters":              {clusters, has("node-0000", amounts{0: 100, 1: 100}, amounts{0: 50}), has("node-0002", amounts{0: 100, 1: 100}, amounts{0: 50}), "in 2 clusters"},
		"a NIC that the cluster lacks": {clusters, has("node-0002", amounts{6: 100, 7: 100}, amounts{3: 50}), sessiontest.Bind{}, "is none of the node's"},
		"shares of two GPUs":           {halves, has("node-0000", amounts{0: 60}, nil), has("node-0000", amounts{1: 60}, nil), ""},
		"shares of more than a GPU":    {halves, has("node-0000", amounts{0: 60}, nil), has("node-0000", amounts{0: 60}, nil), "120% of koordinator.sh/gpu-core is given"},
		"a share in two parts":         {halves, has("node-0000", amounts{0: 30, 1: 30}, nil), sessiontest.Bind{}, "it has 60% of GPUs on 2"},
		"a NIC that was not requested": {halves, has("node-0000", amounts{0: 60}, amounts{0: 10}), sessiontest.Bind{}, "of NIC 0 it has 10%, asks for 0%"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			handed := map[string]sessiontest.Bind{}
			for i, bind := range []sessiontest.Bind{tt.first, tt.second} {
				if bind.Node != "" {
					handed["ns/"+podName(i/tt.work.gangSize, i%tt.work.gangSize)] = bind
				}
			}
			err := check(tt.work, handed)
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestCheckShared(t *testing.T) {
	w := work{nodes: 2, gangs: 1, gangSize: 2, asks: []ask{{gpu: 100}}}
	shared := func(node, gpu string) sessiontest.Bind {
		return sessiontest.Bind{Node: node, Decided: map[string]string{vgpu.AssignedIDsAnnotations: gpu + ",NVIDIA,81920,0:"}}
	}
	first := map[string]sessiontest.Bind{"ns/" + podName(0, 0): shared("node-0000", "node-0000-gpu-0")}
	tests := map[string]struct {
		second sessiontest.Bind
		want   string
	}{
		"each its own":        {shared("node-0000", "node-0000-gpu-1"), ""},
		"a GPU twice":         {shared("node-0000", "node-0000-gpu-0"), "pods ns/gang-00000-0000 and ns/gang-00000-0001 were both given GPU node-0000-gpu-0"},
		"another node's":      {shared("node-0001", "node-0000-gpu-1"), `GPU "node-0000-gpu-1" on node node-0001`},
		"without a GPU":       {sessiontest.Bind{Node: "node-0000"}, `GPU "" on node node-0000`},
		"the gang is in part": {sessiontest.Bind{}, "1 of the 2 pods"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			handed := maps.Clone(first)
			if tt.second.Node != "" {
				handed["ns/"+podName(0, 1)] = tt.second
			}
			err := checkShared(w, handed)
			if (tt.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}
