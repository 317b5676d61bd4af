// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestRegressionStartupRace is upstream's defect of that id: the first cycle sees part of the nodes, because they reach the cache
// through a queue that nobody waits for. Here all that was listed is in the books when Start returns.
func TestRegressionStartupRace(t *testing.T) {
	const nodes, gangs = 1000, 100
	objects := []runtime.Object{schedtest.MakeQueue().Name(schedtest.Queue).Obj()}
	for i := range nodes {
		objects = append(objects, schedtest.MakeNode().Name(fmt.Sprintf("n%d", i)).Obj())
	}
	for i := range gangs {
		name := fmt.Sprintf("g%d", i)
		objects = append(objects, schedtest.MakePodGroup().Name(name).MinMember(1).Obj(), schedtest.MakePod().Name(name).Group(name).Obj())
	}
	w := startLive(t, schedtest.NewCluster(objects...), quiet{})
	first := w.Snapshot()
	if got := len(first.Nodes); got != nodes {
		t.Errorf("the first session sees %d of %d nodes", got, nodes)
	}
	tasks := 0
	for _, job := range first.Jobs {
		tasks += len(job.Tasks)
	}
	if len(first.Jobs) != gangs || tasks != gangs {
		t.Errorf("the first session sees %d gangs with %d pods, want %d with one each", len(first.Jobs), tasks, gangs)
	}
}
