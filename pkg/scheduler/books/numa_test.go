// SPDX-License-Identifier: Apache-2.0

package books

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	nodeinfov1alpha1 "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const decision = "volcano.sh/topology-decision"

func withFourCPUs(t *testing.T) *Books {
	b := newBooks(t)
	b.Nodes.ShowNUMA(&nodeinfov1alpha1.Numatopology{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec:       nodeinfov1alpha1.NumatopoSpec{NumaResMap: map[string]nodeinfov1alpha1.ResourceInfo{"cpu": {Allocatable: "0-3", Capacity: 4}}},
	})
	return b
}

// TestASessionSurvivesADecisionForAResourceThatTheNodeLacks checks that a session survives a NUMA decision for a
// resource that the node lacks. A tenant may write the annotation, and upstream panics on it when the session places
// or evicts the pod.
func TestASessionSurvivesADecisionForAResourceThatTheNodeLacks(t *testing.T) {
	b := withFourCPUs(t)
	const unknown = `{"numa":{"0":{"example.com/unknown":"1"}}}`
	b.Pods.Show(schedtest.MakePod().Name("p").Node("n").Group("g").Phase(v1.PodRunning).Annotation(decision, unknown).Obj())
	b.Lock()
	given := b.Snapshot(api.NewHyperNodesInfo(nil))
	b.Unlock()
	victim := api.NewTaskInfo(schedtest.MakePod().Name("p").Node("n").Group("g").Phase(v1.PodRunning).Annotation(decision, unknown).Obj())
	victim.Status = api.Releasing
	if err := given.Nodes["n"].UpdateTask(victim); err != nil {
		t.Error(err)
	}
	if given.Nodes["n"].NumaSchedulerInfo == nil {
		t.Error("the session does not see the CPUs of the node")
	}
}

// TestDecisionsLeaveNothing checks that NUMA decisions leave nothing behind. A tenant may write another NUMA node
// into the annotation as often as it likes.
func TestDecisionsLeaveNothing(t *testing.T) {
	b := withFourCPUs(t)
	for i := range 10 {
		b.Pods.Show(schedtest.MakePod().Name("p").Node("n").Phase(v1.PodRunning).Annotation(decision, fmt.Sprintf(`{"numa":{"%d":{"cpu":"1"}}}`, i)).Obj())
	}
	if used := b.Nodes.Get("n").NumaInfo.NumaResMap["cpu"].UsedPerNuma; len(used) > 1 {
		t.Errorf("the node has uses of %d NUMA nodes by one pod: %v", len(used), used)
	}
}
