// SPDX-License-Identifier: Apache-2.0

package quantity

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestOf(t *testing.T) {
	tests := map[string]struct {
		name   v1.ResourceName
		amount float64
		want   string
	}{
		"whole CPUs":        {v1.ResourceCPU, 4000, "4"},
		"a part of a CPU":   {v1.ResourceCPU, 2500, "2500m"},
		"memory":            {v1.ResourceMemory, 8 << 30, "8Gi"},
		"pods":              {v1.ResourcePods, 110, "110"},
		"an extended one":   {"nvidia.com/gpu", 8000, "8"},
		"ephemeral storage": {v1.ResourceEphemeralStorage, 1000 << 30, "1073741824"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Of(tt.name, tt.amount); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
