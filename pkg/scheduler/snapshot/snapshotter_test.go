// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestOnlyWhatChangedIsCopied: the rest is handed out again, in a snapshot that is as a full one. What sessions of the whole
// cache get is tested there.
func TestOnlyWhatChangedIsCopied(t *testing.T) {
	const gang = api.JobID(schedtest.Namespace + "/g")
	running := schedtest.MakePod().Name("p1").Group("g").Node("n").Phase(v1.PodRunning).Obj()
	tests := map[string]struct {
		change func(*testing.T, *vccache.SchedulerCache, *api.ClusterInfo)
		want   []string
	}{
		"nothing": {change: func(*testing.T, *vccache.SchedulerCache, *api.ClusterInfo) {}},
		"a pod comes on a node": {
			change: func(_ *testing.T, cache *vccache.SchedulerCache, _ *api.ClusterInfo) { cache.AddPod(running) },
			want:   []string{"job g", "node n"},
		},
		"a session took a task off": {
			change: func(t *testing.T, _ *vccache.SchedulerCache, given *api.ClusterInfo) {
				if err := given.Nodes["m"].RemoveTask(given.Jobs[gang].Tasks["ns-p0"]); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{"node m"},
		},
		"a session wrote a status, which all do": {
			change: func(_ *testing.T, _ *vccache.SchedulerCache, given *api.ClusterInfo) {
				given.Jobs[gang].PodGroup.Status.Phase = "Inqueue"
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cache := schedtest.NewCluster().Cache
			cache.AddQueueV1beta1(schedtest.MakeQueue().Name(schedtest.Queue).Obj())
			cache.AddPodGroupV1beta1(schedtest.MakePodGroup().Name("g").MinMember(1).Obj())
			for _, name := range []string{"n", "m"} {
				if err := cache.AddOrUpdateNode(schedtest.MakeNode().Name(name).Obj()); err != nil {
					t.Fatal(err)
				}
			}
			cache.AddPod(schedtest.MakePod().Name("p0").Group("g").Node("m").Phase(v1.PodRunning).Obj())
			s := New()
			given := s.Snapshot(cache, cache.HyperNodesInfo)
			for _, job := range given.Jobs {
				job.MinAvailable = 1 // as the cache sets it
			}
			before := map[string]any{}
			for name, node := range given.Nodes {
				before["node "+name] = node
			}
			for id, job := range given.Jobs {
				before["job "+strings.TrimPrefix(string(id), schedtest.Namespace+"/")] = job
			}
			tt.change(t, cache, given)

			again := s.Snapshot(cache, cache.HyperNodesInfo)
			var made []string
			for name, node := range again.Nodes {
				if before["node "+name] != node {
					made = append(made, "node "+name)
				}
			}
			for id, job := range again.Jobs {
				name := "job " + strings.TrimPrefix(string(id), schedtest.Namespace+"/")
				if before[name] != job {
					made = append(made, name)
				}
			}
			slices.Sort(made)
			if diff := cmp.Diff(tt.want, made); diff != "" {
				t.Errorf("copies made (-want +got):\n%s", diff)
			}
			full := Full(cache, cache.HyperNodesInfo)
			if got, want := again.Nodes["m"].Used, full.Nodes["m"].Used; !cmp.Equal(got, want) {
				t.Errorf("node m has %v used, want %v", got, want)
			}
			if got, want := again.Jobs[gang].PodGroup.Status.Phase, full.Jobs[gang].PodGroup.Status.Phase; got != want {
				t.Errorf("the gang's phase is %q, want %q", got, want)
			}
		})
	}
}
