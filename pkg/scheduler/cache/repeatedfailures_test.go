// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
)

// TestAPodGetsTheConditionOfARepeatedFailure checks that a pod gets the condition that says why it is not bound, even
// if the condition of the first failure could not be written before the gang's next transaction began. A pod that is
// being bound gets no condition, so that first condition is dropped.
func TestAPodGetsTheConditionOfARepeatedFailure(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		var slow atomic.Bool
		slow.Store(true)
		w.cluster.Kube.PrependReactor("update", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return slow.Load(), nil, errBroken
		})
		w.mustPlace("n", []binding.Step{failing("storage", "p0", "p1")}, "p0", "p1")
		w.cache.SealTransactions()
		time.Sleep(2 * firstRetry)
		synctest.Wait()

		goOn := make(chan struct{})
		step := binding.Step{Plugin: "storage", Timeout: time.Hour, PreBind: func(context.Context, *api.TaskInfo, string) error {
			<-goOn
			return errBroken
		}}
		w.mustPlace("n", []binding.Step{step}, "p0", "p1")
		w.cache.SealTransactions()
		slow.Store(false)
		time.Sleep(statuswriter.LastRetry) // the writer tries the first conditions again
		synctest.Wait()
		if diff := cmp.Diff([]string{"Binding on n", "Binding on n"}, booked(w.cache, "p0", "p1")); diff != "" {
			t.Errorf("books during the second transaction (-want +got):\n%s", diff)
		}
		close(goOn)
		synctest.Wait()
		for _, pod := range []string{"p0", "p1"} {
			if got, want := podScheduled(w.cluster, pod), "False SchedulerError: "; !strings.HasPrefix(got, want) || !strings.Contains(got, errBroken.Error()) {
				t.Errorf("condition of pod %s is %q, want it to begin with %q and to say %q", pod, got, want, errBroken)
			}
		}
	})
}
