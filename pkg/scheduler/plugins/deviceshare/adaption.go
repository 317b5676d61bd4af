// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// Annotations that device plugins read instead of device-allocated.
const (
	// bindTimestamp is when the choice was made, in nanoseconds since 1970: a device plugin that is asked for devices takes the pod that has
	// waited longest for them.
	bindTimestamp = "scheduling.koordinator.sh/bind-timestamp"
	// gpuMinors are the minors of the pod's GPUs, such as "0,1".
	gpuMinors = "scheduling.koordinator.sh/gpu-minors"
)

// adapt annotates the pod for device plugins.
func adapt(pod *v1.Pod, allocation *allocator.Allocation) {
	pod.Annotations[bindTimestamp] = strconv.FormatInt(time.Now().UnixNano(), 10)
	if gpus := allocation[allocator.GPU]; len(gpus) > 0 {
		minors := make([]string, len(gpus))
		for i, gpu := range gpus {
			minors[i] = strconv.Itoa(int(gpu.Minor))
		}
		pod.Annotations[gpuMinors] = strings.Join(minors, ",")
	}
}
