// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestWhichDevicesMembersGet: what is chosen travels with the member, and its gang's ranks are neighbours.
func TestWhichDevicesMembersGet(t *testing.T) {
	tests := map[string]struct {
		members   int
		resources schedtest.Resources
		change    []func(*v1.Pod)
		running   []*v1.Pod
		want      map[string]string
	}{
		"whole GPUs, rank by rank": {
			members: 4, resources: schedtest.Resources{"koordinator.sh/gpu": "200"},
			want: map[string]string{"g-0": "n1: gpu 0,1", "g-1": "n1: gpu 2,3", "g-2": "n1: gpu 4,5", "g-3": "n1: gpu 6,7"},
		},
		"GPUs and NICs of one switch": {
			members: 2, resources: schedtest.Resources{"koordinator.sh/gpu": "200", "koordinator.sh/rdma": "100"}, change: []func(*v1.Pod){jointly},
			want: map[string]string{"g-0": "n1: gpu 0,1; rdma 0", "g-1": "n1: gpu 2,3; rdma 1"},
		},
		"not what others have": {
			members: 1, resources: schedtest.Resources{"koordinator.sh/gpu": "400"}, running: []*v1.Pod{has("other", "n1", "100", 0)},
			want: map[string]string{"g-0": "n1: gpu 4,5,6,7"},
		},
		"vendor's resource": {
			members: 1, resources: schedtest.Resources{"nvidia.com/gpu": "1"},
			want: map[string]string{"g-0": "n1: gpu 0"},
		},
		"no devices": {members: 1, want: map[string]string{"g-0": "n1"}},
		"more than there are": {
			members: 5, resources: schedtest.Resources{"koordinator.sh/gpu": "200"}, want: map[string]string{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			nodes[0].Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("8")
			podGroup, pods := gang("g", tc.members, tc.resources, tc.change...)
			w := newWorld(t, sessiontest.World{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(pods, tc.running...)})
			if diff := cmp.Diff(tc.want, w.allocate(t).decided); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhyAGangWaitsForDevices names what is missing, and a pod that nothing can help.
func TestWhyAGangWaitsForDevices(t *testing.T) {
	tests := map[string]struct {
		resources schedtest.Resources
		change    []func(*v1.Pod)
		devices   func([]*schedulingv1alpha1.Device) []*schedulingv1alpha1.Device
		want      string
	}{
		"an amount that cannot be": {
			resources: schedtest.Resources{"koordinator.sh/gpu": "150"}, want: "koordinator.sh/gpu",
		},
		"no Device object": {
			resources: schedtest.Resources{"koordinator.sh/gpu": "100"},
			devices:   func([]*schedulingv1alpha1.Device) []*schedulingv1alpha1.Device { return []*schedulingv1alpha1.Device{} },
			want:      "node(s) have no Device object",
		},
		"no Device objects at all": {
			resources: schedtest.Resources{"koordinator.sh/gpu": "100"},
			devices:   func([]*schedulingv1alpha1.Device) []*schedulingv1alpha1.Device { return nil },
			want:      "node(s) have no Device object",
		},
		"too few": {resources: schedtest.Resources{"koordinator.sh/gpu": "1600"}, want: "GPU"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			if tc.devices != nil {
				devices = tc.devices(devices)
			}
			podGroup, pods := gang("g", 1, tc.resources, tc.change...)
			w := newWorld(t, sessiontest.World{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			got := w.allocate(t)
			if len(got.decided) > 0 {
				t.Errorf("placed %v", got.decided)
			}
			said := got.said["g-0"]
			if !strings.Contains(said, tc.want) {
				t.Errorf("said %q, want it to name %q", said, tc.want)
			}
		})
	}
}
