// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/gpushare"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// addTwoGangs creates gang g on node n with a waiting pod, and gang h on node m with every kind of content that a copy
// can have.
func addTwoGangs(w *harness) {
	w.t.Helper()
	w.add(schedtest.MakeNode().Name("n").Obj())
	full := schedtest.MakeNode().Name("m").Label(v1beta1.RevocableZone, "z").Obj()
	full.Status.Images = []v1.ContainerImage{{Names: []string{"image"}, SizeBytes: 5}}
	w.add(full)
	w.cache.books.Nodes.Get("m").ResourceUsage = &api.NodeUsage{CPUUsageAvg: map[string]float64{"5m": 1}, MEMUsageAvg: map[string]float64{"5m": 2}}
	w.add(schedtest.MakePodGroup().Name("g").MinMember(1).Obj(), pod(0).Node("n").Phase(v1.PodRunning).Obj(), pod(1).Obj())
	other := schedtest.MakePodGroup().Name("h").MinMember(1).PriorityClass("high").MinTaskMember("worker", 2).SubGroups("racks", "rack", 1, 1).
		SubGroupTopology(v1beta1.SoftNetworkTopologyMode, 1).Topology(v1beta1.SoftNetworkTopologyMode, 2).Phase(v1beta1.PodGroupRunning).Obj()
	other.OwnerReferences = []metav1.OwnerReference{{Name: "owner", Controller: new(bool)}}
	other.Finalizers = []string{"f"}
	other.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: &metav1.FieldsV1{Raw: []byte("{}")}}}
	other.Spec.MinResources = &v1.ResourceList{"cpu": schedtest.MakeNode().Obj().Status.Capacity["cpu"]}
	w.add(other, schedtest.MakePod().Name("q0").Group("h").Label("rack", "0").Role("worker").Node("m").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "1"}).Obj(),
		schedtest.MakePod().Name("q1").Group("h").Node("m").Phase(v1.PodRunning).Obj())
}

// TestCopiesThatAreMadeAgain checks that only changed entries are copied again.
func TestCopiesThatAreMadeAgain(t *testing.T) {
	tests := map[string]struct {
		change func(*harness, *api.ClusterInfo)
		want   []string
	}{
		"nothing": {change: func(*harness, *api.ClusterInfo) {}},
		"a pod runs on the node": {
			change: func(w *harness, _ *api.ClusterInfo) { w.add(pod(2).Node("n").Phase(v1.PodRunning).Obj()) },
			want:   []string{"job g", "node n"},
		},
		"a pod of another scheduler runs on the node": {
			change: func(w *harness, _ *api.ClusterInfo) {
				w.add(schedtest.MakePod().Name("x").Scheduler("other").Node("m").Phase(v1.PodRunning).Obj())
			},
			want: []string{"node m"},
		},
		"a pod waits": {
			change: func(w *harness, _ *api.ClusterInfo) { w.add(pod(2).Obj()) },
			want:   []string{"job g"},
		},
		"a task is being bound": {
			change: func(w *harness, _ *api.ClusterInfo) { w.mustPlace("n", nil, "p1") },
			want:   []string{"job g", "node n"},
		},
		"the node has a taint": {
			change: func(w *harness, _ *api.ClusterInfo) {
				w.add(schedtest.MakeNode().Name("n").Taint("t", v1.TaintEffectNoSchedule).Obj())
			},
			want: []string{"node n"},
		},
		"the PodGroup changed": {
			change: func(w *harness, _ *api.ClusterInfo) { w.add(schedtest.MakePodGroup().Name("g").MinMember(2).Obj()) },
			want:   []string{"job g"},
		},
		"a priority class changed": {
			change: func(w *harness, _ *api.ClusterInfo) {
				showPriorityClass(w.cache, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7})
			},
		},
		"upstream's device code is on": {
			change: func(w *harness, _ *api.ClusterInfo) {
				gpushare.GpuSharingEnable = true
				w.t.Cleanup(func() { gpushare.GpuSharingEnable = false })
			},
			want: []string{"node m", "node n"},
		},
		"a session wrote what sessions write all the time": {
			change: func(_ *harness, s *api.ClusterInfo) {
				g := s.Jobs["ns/g"]
				g.PodGroup.Status.Conditions = append(g.PodGroup.Status.Conditions, scheduling.PodGroupCondition{Type: "Scheduled"})
				g.JobFitErrors, g.NodesFitErrors["ns-p1"] = "none", api.NewFitErrors()
				waiting := g.Tasks["ns-p1"]
				waiting.Pod.Spec.NodeName, waiting.Pod.Annotations["device"] = "n", "3"
				waiting.GenerateLastTxContext()
			},
		},
		"a session took a task off": {
			change: func(_ *harness, s *api.ClusterInfo) { _ = s.Nodes["m"].RemoveTask(s.Jobs["ns/h"].Tasks["ns-q0"]) },
			want:   []string{"node m"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				addTwoGangs(w)
				before, _, _ := w.cache.SessionSnapshot()
				nodes, jobs := before.Nodes, before.Jobs
				tt.change(w, before)
				after, _, _ := w.cache.SessionSnapshot()
				var got []string
				for name, node := range after.Nodes {
					if nodes[name] != node {
						got = append(got, "node "+name)
					}
				}
				for id, job := range after.Jobs {
					if jobs[id] != job {
						got = append(got, "job "+strings.TrimPrefix(string(id), "ns/"))
					}
				}
				slices.Sort(got)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("copied again (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestChangesOfASessionDoNotReachTheNext checks that a session's changes do not reach the next session. The test
// changes every field and entry of the session's copies, and fails if upstream adds a field that it does not cover.
func TestChangesOfASessionDoNotReachTheNext(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		addTwoGangs(w)
		for i, n := 0, 1; i < n; i++ {
			given, _, _ := w.cache.SessionSnapshot()
			changes := slices.Concat(changesOf(given.Nodes["n"]), changesOf(given.Nodes["m"]), changesOf(given.Jobs["ns/g"]), changesOf(given.Jobs["ns/h"]))
			n = len(changes)
			if n < 400 {
				t.Fatalf("there are %d things to change, it does not look right", n)
			}
			changes[i].do()
			want := w.cache.Snapshot()
			got, _, _ := w.cache.SessionSnapshot()
			if !reflect.DeepEqual(want.Nodes, got.Nodes) || !reflect.DeepEqual(want.Jobs, got.Jobs) {
				t.Errorf("the next session sees: %s", changes[i].path)
			}
		}
	})
}
