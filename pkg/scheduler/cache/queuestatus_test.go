// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestARejectedQueueStatusIsSentAgain checks that the allocated resources of a queue are written once the API server
// accepts them, although they have not changed since it rejected them.
func TestARejectedQueueStatusIsSentAgain(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(nodeOf8(0).Obj(), schedtest.MakePodGroup().Name("g").Obj(), pod(0).Node("n00").Phase(v1.PodRunning).Obj())
		var refused atomic.Bool
		refused.Store(true)
		w.cluster.Volcano.PrependReactor("update", "queues", func(clienttesting.Action) (bool, runtime.Object, error) {
			return refused.Load(), nil, apierrors.NewInvalid(schema.GroupKind{Kind: "Queue"}, schedtest.Queue, nil)
		})
		s := newSessions(w, explainConf())
		written := func() (updates []string) {
			for _, write := range w.cluster.Writes() {
				if write == "update queues/status "+schedtest.Queue {
					updates = append(updates, write)
				}
			}
			return updates
		}
		for range 2 {
			s.cycle()
		}
		if len(written()) == 0 {
			t.Fatal("the status was not written at first")
		}
		refused.Store(false)
		time.Sleep(10 * time.Minute)
		s.cycle()
		if diff := cmp.Diff([]string{"update queues/status " + schedtest.Queue}, written()); diff != "" {
			t.Errorf("writes once the API server accepts the status (-want +got):\n%s", diff)
		}
	})
}
