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

// TestAGangThatFailsAsTheServerComesBackDoesNotWait checks that a gang that fails as the API server returns does not
// wait. Its transaction was in flight during the outage, and may end before, after or while the API server returns.
// The runs are concurrent, so some of them overlap at every step of the ledger.
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
