// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestMembersWithEqualRequestsLeaveRoomForEachOther: the first member gets devices that leave room for the others, even
// if other devices would be best for it alone.
func TestMembersWithEqualRequestsLeaveRoomForEachOther(t *testing.T) {
	table := `{"2":[{"minors":[0,1],"allocationScore":3},{"minors":[1,2],"allocationScore":1},{"minors":[0,3],"allocationScore":1}]}`
	halves := schedtest.Resources{"koordinator.sh/gpu.shared": "2", "koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
	tests := map[string]struct {
		members   int
		resources schedtest.Resources
		change    []func(*v1.Pod)
		table     string
		running   []*v1.Pod
	}{
		"by partition": {members: 2, resources: schedtest.Resources{"koordinator.sh/gpu": "200"}, table: table,
			change: []func(*v1.Pod){annotated(schedulingv1alpha1.GPUPartitionSpecAnnotation, `{}`)}, running: []*v1.Pod{runningWith("b", "n1", "100", 4, 5, 6, 7)}},
		"shares of two, halves are free":             {members: 2, resources: halves, running: []*v1.Pod{runningWith("a", "n1", "50", 0, 1), runningWith("b", "n1", "100", 2, 4, 5, 6, 7)}},
		"shares of two, on one of which all must be": {members: 3, resources: halves, running: []*v1.Pod{runningWith("a", "n1", "50", 0, 1, 2, 3), runningWith("b", "n1", "100", 5, 6, 7)}},
	}
	for name, tc := range tests {
		for _, strategy := range []string{"LeastAllocated", "MostAllocated", "Fragmentation"} {
			for members := 1; members <= tc.members; members++ {
				t.Run(fmt.Sprintf("%s, %d by %s", name, members, strategy), func(t *testing.T) {
					nodes, devices := machines("n1")
					if tc.table != "" {
						devices[0].Annotations = map[string]string{schedulingv1alpha1.GPUPartitionsAnnotation: tc.table}
					}
					podGroup, pods := gang("g", members, tc.resources, tc.change...)
					w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(pods, tc.running...)})
					w.conf += "    arguments: {scoringStrategy: {type: " + strategy + "}}\n"
					got := w.allocate(t)
					if len(got.decided) != members {
						t.Errorf("placed %v of %d, message %v", got.decided, members, got.said)
					}
				})
			}
		}
	}
}

// TestRanksAreNeighboursAsTheirFrameworksCount: members are ordered by the rank in their name or annotation, not by
// name. A node may have any number of members.
func TestRanksAreNeighboursAsTheirFrameworksCount(t *testing.T) {
	want := func(members, perGPU int) map[string]string {
		decided := map[string]string{}
		for rank := range members {
			decided[fmt.Sprintf("worker-%d", rank)] = fmt.Sprintf("n1: gpu %d", rank/perGPU)
		}
		return decided
	}
	tests := map[string]struct {
		members, perGPU int
		// index is the annotation with the rank; empty if the rank is in the pod's name.
		index string
	}{
		"by number in their names": {members: 12, perGPU: 2},
		"more than GPUs":           {members: 24, perGPU: 4},
		"by index":                 {members: 12, perGPU: 2, index: "batch.kubernetes.io/job-completion-index"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, devices := machines("n1")
			podGroup, pods := gang("worker", tc.members, schedtest.Resources{"koordinator.sh/gpu": fmt.Sprint(100 / tc.perGPU)})
			decided := want(tc.members, tc.perGPU)
			if tc.index != "" { // the order of the names is the opposite
				decided = map[string]string{}
				for i, pod := range pods {
					rank := tc.members - 1 - i
					annotated(tc.index, fmt.Sprint(rank))(pod)
					decided[pod.Name] = fmt.Sprintf("n1: gpu %d", rank/tc.perGPU)
				}
			}
			w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: pods})
			got := w.allocate(t)
			if diff := cmp.Diff(decided, maps.Clone(got.decided)); diff != "" {
				t.Errorf("(-want +got):\n%s\nmessage: %v", diff, got.said)
			}
		})
	}
}

// TestManyUnlikeMembersOnANodeArePlannedTogether: 24 members have shares of GPUs, and a further member needs five GPUs
// that some of them use. It fits, because they get other GPUs. A second such member does not fit.
func TestManyUnlikeMembersOnANodeArePlannedTogether(t *testing.T) {
	nodes, devices := machines("n1")
	for i := range 5 {
		devices[0].Spec.Devices[i].Labels = map[string]string{"fast": "yes"}
	}
	podGroup, pods := gang("g", 24, schedtest.Resources{"koordinator.sh/gpu": "10"})
	_, more := gang("g", 26, schedtest.Resources{"koordinator.sh/gpu": "500"}, annotated(schedulingv1alpha1.DeviceAllocateHintAnnotation,
		`{"gpu":{"selector":{"matchLabels":{"fast":"yes"}}}}`))
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(pods, more[24:]...)})
	ssn := w.Open(w.registry, w.conf)
	defer ssn.Close()
	tasks := map[string]*api.TaskInfo{}
	for _, job := range ssn.Jobs {
		for _, task := range job.Tasks {
			tasks[task.Name] = task
		}
	}
	place := func(name string) {
		if err := ssn.PrePredicateFn(tasks[name]); err != nil {
			t.Fatal(err)
		}
		if err := vcframework.NewStatement(ssn.Session.Session).Allocate(tasks[name], ssn.Nodes["n1"]); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range pods {
		place(pod.Name)
	}
	for _, name := range []string{"g-24", "g-25"} {
		if err := ssn.PrePredicateFn(tasks[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := ssn.PredicateFn(tasks["g-24"], ssn.Nodes["n1"]); err != nil {
		t.Fatalf("the member does not fit beside 24 others: %v", err)
	}
	place("g-24")
	for range 2 { // the second call returns the cached result
		if err := ssn.PredicateFn(tasks["g-25"], ssn.Nodes["n1"]); err == nil {
			t.Error("two members that need the same devices are accepted")
		}
	}
}

// TestOneUnlikeMemberHasFewNodesAskedAgain checks that the plugin scores a node again only after the node has changed,
// even for a gang of unlike members.
func TestOneUnlikeMemberHasFewNodesAskedAgain(t *testing.T) {
	const machinesCount, workers = 40, 20
	var names []string
	for i := range machinesCount {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	nodes, devices := machines(names...)
	podGroup, pods := gang("g", workers, schedtest.Resources{"koordinator.sh/gpu": "800"})
	_, launcher := gang("g", workers+1, schedtest.Resources{"koordinator.sh/gpu": "100"})
	podGroup.Spec.MinMember = workers + 1
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(pods, launcher[workers])})
	ssn := w.Open(w.registry, w.conf)
	asked := 0
	ssn.Session.Session.AddNodeOrderFn(deviceshare.Name, func(*api.TaskInfo, *api.NodeInfo) (float64, error) {
		asked++
		return 0, nil
	})
	if got := allocateIn(t, ssn).decided; len(got) != workers+1 {
		t.Fatalf("placed %d members, want %d", len(got), workers+1)
	}
	if most := 4 * (machinesCount + workers); asked > most { // twice for each task class and each changed node
		t.Errorf("the plugin scored nodes %d times, want at most %d", asked, most)
	}
}
