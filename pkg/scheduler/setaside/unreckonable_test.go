// SPDX-License-Identifier: Apache-2.0

package setaside

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestQueuesAreMendedInTheSnapshotAlone: its objects are the cache's, which keeps what users wrote.
func TestQueuesAreMendedInTheSnapshotAlone(t *testing.T) {
	queue := &scheduling.Queue{}
	queue.Name = "q"
	queue.Spec.Parent = "nowhere"
	queue.Spec.Capability = v1.ResourceList{v1.ResourceCPU: resource.MustParse("-5")}
	snapshot := &api.ClusterInfo{Queues: map[api.QueueID]*api.QueueInfo{"q": api.NewQueueInfo(queue)}}
	if wrong := mendQueues(snapshot); wrong["q"] == "" {
		t.Error("nothing is reported of the queue")
	}
	if mended := snapshot.Queues["q"].Queue.Spec; mended.Parent != "" || mended.Capability.Cpu().Sign() < 0 {
		t.Errorf("the session's queue is in %q and has %s cpu, want no parent and 0", mended.Parent, mended.Capability.Cpu())
	}
	if queue.Spec.Parent != "nowhere" || queue.Spec.Capability.Cpu().Value() != -5 {
		t.Errorf("the cache's queue is in %q and has %s cpu, want them as they were", queue.Spec.Parent, queue.Spec.Capability.Cpu())
	}
}

// TestAGangThatIsTooLargeIsReportedAsThat, whatever else is wrong with it: as too large it counts by what it holds.
func TestAGangThatIsTooLargeIsReportedAsThat(t *testing.T) {
	snapshot := kindsWorld(1)
	for _, task := range snapshot.Jobs["old"].Tasks {
		task.Pod.Spec.Tolerations = make([]v1.Toleration, mostTerms+1)
	}
	(*snapshot.Jobs["old"].PodGroup.Spec.MinResources)[v1.ResourceCPU] = resource.MustParse("-5")
	if got := unreckonable(snapshot, nil)["old"]; got.Reason != ObjectTooLarge {
		t.Errorf("it is set aside for %s: %s, want %s", got.Reason, got.Message, ObjectTooLarge)
	}
}
