// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestQueuesAreNormalizedInTheSnapshotOnly checks that invalid values of queues are corrected only in the snapshot. The
// cache's own objects keep the users' values.
func TestQueuesAreNormalizedInTheSnapshotOnly(t *testing.T) {
	queue := &scheduling.Queue{}
	queue.Name = "q"
	queue.Spec.Parent = "nowhere"
	queue.Spec.Capability = v1.ResourceList{v1.ResourceCPU: resource.MustParse("-5")}
	snapshot := &api.ClusterInfo{Queues: map[api.QueueID]*api.QueueInfo{"q": api.NewQueueInfo(queue)}}
	if wrong := correctQueues(snapshot); wrong["q"] == "" {
		t.Error("nothing is reported of the queue")
	}
	if corrected := snapshot.Queues["q"].Queue.Spec; corrected.Parent != "" || corrected.Capability.Cpu().Sign() < 0 {
		t.Errorf("the session's queue is in %q and has %s cpu, want no parent and 0", corrected.Parent, corrected.Capability.Cpu())
	}
	if queue.Spec.Parent != "nowhere" || queue.Spec.Capability.Cpu().Value() != -5 {
		t.Errorf("the cache's queue is in %q and has %s cpu, want them as they were", queue.Spec.Parent, queue.Spec.Capability.Cpu())
	}
}

// TestAGangThatIsTooLargeIsReportedAsThat checks that a gang that is too large is reported as too large, even if other
// values of it are invalid, too.
func TestAGangThatIsTooLargeIsReportedAsThat(t *testing.T) {
	snapshot := kindsSnapshot(1)
	for _, task := range snapshot.Jobs["old"].Tasks {
		task.Pod.Spec.Tolerations = make([]v1.Toleration, mostTerms+1)
	}
	(*snapshot.Jobs["old"].PodGroup.Spec.MinResources)[v1.ResourceCPU] = resource.MustParse("-5")
	if got := checkObjects(snapshot, nil)["old"]; got.Reason != ObjectTooLarge {
		t.Errorf("it is quarantined for %s: %s, want %s", got.Reason, got.Message, ObjectTooLarge)
	}
}

// TestInvalidQueuesAreNormalized checks that the amounts in each resource list of a queue, and parents that do not lead
// to the root queue, are corrected. Amounts that are too large are reduced without a report. Other invalid values are
// reported.
func TestInvalidQueuesAreNormalized(t *testing.T) {
	spec := func(parent, capability, deserved, guarantee string) scheduling.QueueSpec {
		list := func(cpu string) v1.ResourceList { return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)} }
		return scheduling.QueueSpec{Parent: parent, Capability: list(capability), Deserved: list(deserved), Guarantee: scheduling.Guarantee{Resource: list(guarantee)}}
	}
	type specs map[api.QueueID]scheduling.QueueSpec
	const most, beyond = "8e15", "8000000000000001"
	root := spec("", "8", "8", "8")
	tests := map[string]struct {
		has, want specs
		wrong     map[api.QueueID]string
	}{
		"well":   {has: specs{"root": root, "a": spec("root", most, "0", "3"), "b": spec("a", "1", "2", "3")}, want: specs{"root": root, "a": spec("root", most, "0", "3"), "b": spec("a", "1", "2", "3")}},
		"beyond": {has: specs{"a": spec("", beyond, "2", "3"), "b": spec("", "1", beyond, "3"), "c": spec("", "1", "2", beyond)}, want: specs{"a": spec("", most, "2", "3"), "b": spec("", "1", most, "3"), "c": spec("", "1", "2", most)}},
		"below 0": {has: specs{"a": spec("", "-1", "2", "3"), "b": spec("", "1", "-2", "3"), "c": spec("", "1", "2", "-3")}, want: specs{"a": spec("", "0", "2", "3"), "b": spec("", "1", "0", "3"), "c": spec("", "1", "2", "0")},
			wrong: map[api.QueueID]string{"a": "queue a: spec.capability[cpu] is -1, must be 0 or more", "b": "queue b: spec.deserved[cpu] is -2, must be 0 or more",
				"c": "queue c: spec.guarantee.resource[cpu] is -3, must be 0 or more"}},
		"below a root that is not there": {has: specs{"a": spec("root", "1", "2", "3")}, want: specs{"a": spec("root", "1", "2", "3")}},
		"two below 0, and none": {has: specs{"a": spec("", "-1", "0", "-3")}, want: specs{"a": spec("", "0", "0", "0")},
			wrong: map[api.QueueID]string{"a": "queue a: spec.capability[cpu] is -1, must be 0 or more (and 1 more)"}},
		"without a parent": {has: specs{"a": spec("gone", "1", "2", "3"), "b": spec("a", "1", "-2", "3")}, want: specs{"a": spec("", "1", "2", "3"), "b": spec("", "1", "0", "3")},
			wrong: map[api.QueueID]string{"a": "queue a: spec.parent leads to queue gone, which does not exist",
				"b": "queue b: spec.deserved[cpu] is -2, must be 0 or more (and 1 more)"}},
		"a circle": {has: specs{"a": spec("b", "1", "2", "3"), "b": spec("a", "1", "2", "3"), "c": spec("", "1", "2", "3")}, want: specs{"a": spec("", "1", "2", "3"), "b": spec("", "1", "2", "3"), "c": spec("", "1", "2", "3")},
			wrong: map[api.QueueID]string{"a": "queue a: spec.parent is b, which forms a cycle; it must lead to queue root", "b": "queue b: spec.parent is a, which forms a cycle; it must lead to queue root"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			snapshot := gangs(0)
			for id, spec := range tt.has {
				queue := &scheduling.Queue{Spec: spec}
				queue.Name = string(id)
				snapshot.Queues[id] = api.NewQueueInfo(queue)
			}
			wrong, got := correctQueues(snapshot), specs{}
			for id, queue := range snapshot.Queues {
				got[id] = queue.Queue.Spec
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("queues (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(fmt.Sprint(tt.wrong), fmt.Sprint(wrong)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestInvalidGangsAreNormalizedOrLeftOut checks that an invalid gang is left out of the session. If it uses
// resources, it stays with normalized amounts.
func TestInvalidGangsAreNormalizedOrLeftOut(t *testing.T) {
	wrongQueue := Verdict{InvalidResources, "queue q: spec.capability[cpu] is -1, must be 0 or more"}
	wrongGang := Verdict{InvalidResources, "spec.minResources[cpu] is -5, must be 0 or more"}
	large := Verdict{ObjectTooLarge, "pod old: spec.tolerations: 1001, must be at most 1000"}
	tests := map[string]struct {
		queue, cpu string
		large      bool
		want       *Verdict
		mended     string
	}{
		"well":                           {queue: "1", cpu: "5", mended: "5"},
		"its queue":                      {queue: "-1", cpu: "5", want: &wrongQueue, mended: "5"},
		"below 0":                        {queue: "1", cpu: "-5", want: &wrongGang, mended: "0"},
		"both":                           {queue: "-1", cpu: "-5", want: &wrongGang, mended: "0"},
		"beyond all bounds":              {queue: "1", cpu: "9e15", mended: "8e15"},
		"too large":                      {queue: "1", cpu: "5", large: true, want: &large, mended: "5"},
		"too large, in such a queue":     {queue: "-1", cpu: "5", large: true, want: &large, mended: "5"},
		"too large, and beyond all else": {queue: "1", cpu: "9e15", large: true, want: &large, mended: "8e15"},
	}
	for name, tt := range tests {
		for _, holds := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, holds: %t", name, holds), func(t *testing.T) {
				snapshot := gangs(0)
				job := askFor(snapshot, "old", time.Unix(1, 0), "cpu")
				job.Queue = "q"
				job.PodGroup.Spec.MinResources = &v1.ResourceList{v1.ResourceCPU: resource.MustParse(tt.cpu)}
				for _, task := range job.Tasks {
					if tt.large {
						task.Pod.Spec.Tolerations = make([]v1.Toleration, mostTerms+1)
					}
				}
				if holds {
					job.AddTaskInfo(api.NewTaskInfo(schedtest.MakePod().Name("runs").Node("n").Phase(v1.PodRunning).Obj()))
				}
				queue := &scheduling.Queue{}
				queue.Name, queue.Spec.Capability = "q", v1.ResourceList{v1.ResourceCPU: resource.MustParse(tt.queue)}
				snapshot.Queues["q"] = api.NewQueueInfo(queue)

				verdicts, want := checkObjects(snapshot, nil), map[api.JobID]Verdict{}
				if tt.want != nil {
					want["old"] = *tt.want
				}
				if diff := cmp.Diff(want, verdicts); diff != "" {
					t.Errorf("verdicts (-want +got):\n%s", diff)
				}
				if stays := snapshot.Jobs["old"] != nil; stays != (holds || tt.want == nil) {
					t.Errorf("it is in the session: %t, while it holds resources: %t", stays, holds)
				}
				if diff := cmp.Diff(&v1.ResourceList{v1.ResourceCPU: resource.MustParse(tt.mended)}, job.PodGroup.Spec.MinResources); diff != "" {
					t.Errorf("minResources (-want +got):\n%s", diff)
				}
			})
		}
	}
}
