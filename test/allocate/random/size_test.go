// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const gpu = "nvidia.com/gpu"

// size is a pod's request or a node's capacity: milli-CPU, GiB of memory, GPUs.
type size struct{ cpu, memory, gpus int }

// fits reports whether the size is within the other in every dimension.
func (s size) fits(other size) bool {
	return s.cpu <= other.cpu && s.memory <= other.memory && s.gpus <= other.gpus
}

func (s size) minus(other size) size {
	return size{s.cpu - other.cpu, s.memory - other.memory, s.gpus - other.gpus}
}

func (s size) times(n int) size { return size{s.cpu * n, s.memory * n, s.gpus * n} }

// resources omits the resources whose amount is 0.
func (s size) resources() schedtest.Resources {
	out := schedtest.Resources{}
	if s.cpu > 0 {
		out["cpu"] = fmt.Sprintf("%dm", s.cpu)
	}
	if s.memory > 0 {
		out["memory"] = fmt.Sprintf("%dGi", s.memory)
	}
	if s.gpus > 0 {
		out[gpu] = fmt.Sprint(s.gpus)
	}
	return out
}

// capacity returns the resources together with a number of pods.
func (s size) capacity(pods int) schedtest.Resources {
	out := s.resources()
	out["pods"] = fmt.Sprint(pods)
	return out
}
