// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestWhichDevicesMembersGet checks that the chosen devices are handed over with each member, and that members with
// neighbouring ranks have neighbouring devices.
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
			members: 1, resources: schedtest.Resources{"koordinator.sh/gpu": "400"}, running: []*v1.Pod{runningWith("other", "n1", "100", 0)},
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
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(pods, tc.running...)})
			if diff := cmp.Diff(tc.want, w.allocate(t).decided); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
