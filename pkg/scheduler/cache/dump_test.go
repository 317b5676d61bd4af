// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestADumpChangesNothing checks that a dump of the cache, which may run during a session, changes nothing that
// sessions decide: which gangs the running session left incomplete, and which gangs are quarantined.
func TestADumpChangesNothing(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		goOn := make(chan struct{})
		step := binding.Step{
			Plugin: "slow", RollbackIfNotRun: true,
			PreBind:  func(context.Context, *api.TaskInfo, string) error { return nil },
			Rollback: func(context.Context, *api.TaskInfo, string) error { <-goOn; return nil },
		}
		w.mustPlace("n", []binding.Step{step}, "p0")
		w.cache.ReleaseIncomplete()
		synctest.Wait()
		large := w.cluster.Pod("p1").DeepCopy()
		for i := range 1001 { // one more than a pod may have
			large.Spec.Tolerations = append(large.Spec.Tolerations, v1.Toleration{Key: fmt.Sprint(i), Operator: v1.TolerationOpExists})
		}
		w.cache.books.Pods.Show(large)
		w.cluster.Writes()

		dump := ForDump(w.cache).Snapshot()
		synctest.Wait()
		if job := dump.Jobs[gang]; job == nil || len(job.Tasks) != 2 || dump.Nodes["n"] == nil {
			t.Errorf("the dump has job %v and node %v", job, dump.Nodes["n"])
		}
		if w.cache.ledger.Failing(gang) {
			t.Error("after the dump, a gang counts as failed that the session left incomplete")
		}
		if reason, _, is := w.cache.quarantine.objects.Why(gang); is {
			t.Errorf("after the dump, the gang is quarantined: %s", reason)
		}
		if writes := w.cluster.Writes(); len(writes) > 0 {
			t.Errorf("the dump has written %q", writes)
		}
		close(goOn)
		synctest.Wait()
	})
}

// TestADumpMovesNoJob checks that a dump does not move a job to the queue that its PodGroup names meanwhile. The running
// session places the job's tasks within the limits of the former queue.
func TestADumpMovesNoJob(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.cache.changes.showQueue(schedtest.MakeQueue().Name("other").Obj())
		w.gangOf(1, 1)
		w.cache.Snapshot()
		w.add(schedtest.MakePodGroup().Name("g").Queue("other").Obj())
		ForDump(w.cache).Snapshot()
		w.cache.books.Lock()
		queue := w.cache.books.Jobs.Get(gang).Queue
		w.cache.books.Unlock()
		if queue != schedtest.Queue {
			t.Errorf("after the dump, the job is in queue %s, want %s", queue, schedtest.Queue)
		}
	})
}
