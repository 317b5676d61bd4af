// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	. "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestPodsThatAskForADeviceClassByAnExtendedResource share devices with others without a claim that says so.
func TestPodsThatAskForADeviceClassByAnExtendedResource(t *testing.T) {
	classes := map[v1.ResourceName]string{"example.com/card": "card"}
	tests := map[string]struct {
		classes map[v1.ResourceName]string
		pod     *PodBuilder
		want    bool
	}{
		"one that a class hands out":           {classes, MakePod().Limit(Resources{"example.com/card": "1"}), true},
		"one that the node's plugin hands out": {classes, MakePod().Limit(Resources{"example.com/other": "1"}), false},
		"none of it":                           {classes, MakePod().Limit(Resources{"example.com/card": "0"}), false},
		"no device classes":                    {nil, MakePod().Limit(Resources{"example.com/card": "1"}), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := asksFor(tt.pod.Obj(), tt.classes); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}
