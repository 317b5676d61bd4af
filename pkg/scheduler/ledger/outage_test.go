// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAGangThatFailsAsTheServerComesBackDoesNotWait checks that a gang does not wait if its transaction was in flight
// during an outage of the API server and failed. The transaction ends and ServerBack runs concurrently, many times, so
// that they overlap at every step of the ledger.
func TestAGangThatFailsAsTheServerComesBackDoesNotWait(t *testing.T) {
	w := newWorld(t, schedtest.NewCluster())
	defer w.Abort()
	w.gangOf(1, 1)
	m := w.reserved()
	failed := binding.Result{Gang: gang, Gangs: []api.JobID{gang}, Failed: []binding.Failure{{Member: m, Err: errBroken}}, Took: time.Hour}
	for range 5000 {
		w.serverBack.Store(0)
		w.backoff.Forget(gang)
		w.reports.ForgetFailure(gang)
		var ends sync.WaitGroup
		ends.Go(func() { w.Ended(failed) })
		ends.Go(func() {
			for !w.reports.HasFailed(gang) { // Later events decide how long the gang waits.
				runtime.Gosched()
			}
			w.ServerBack()
		})
		ends.Wait()
		if reason, until, blocked := w.backoff.Blocked(gang); blocked {
			t.Fatalf("the gang waits for another %v because of %q", time.Until(until), reason)
		}
	}
}
