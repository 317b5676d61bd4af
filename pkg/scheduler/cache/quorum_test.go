// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestRegressionScaleUpPartial covers upstream's defect scale-up-partial. The minimum of the PodGroup was raised
// together with new pods, and the watch has shown the pods but not the PodGroup. Upstream then binds a part of the
// gang.
func TestRegressionScaleUpPartial(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(4, 2)
		w.cluster.Put(schedtest.MakePodGroup().Name("g").MinMember(4).Obj()) // The watch is late.
		w.mustPlace("n", nil, "p0", "p1", "p2")
		w.cache.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{"", "", "", ""}, nodesOf(w.cluster, "p0", "p1", "p2", "p3")); diff != "" {
			t.Errorf("nodes of a gang short of its live minimum (-want +got):\n%s", diff)
		}
		if reason, _ := w.cache.Blocked(gang); !strings.Contains(reason, "only 3 of minMember 4 can be bound") {
			t.Errorf("the gang waits for %q, want the live minimum named", reason)
		}
	})
}

// TestQuorumSurvivesAHiccup checks that an API server that does not answer for a moment does not make a gang fail.
func TestQuorumSurvivesAHiccup(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		failures := 2
		w.cluster.Volcano.PrependReactor("get", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
			failures--
			return failures >= 0, nil, apierrors.NewInternalError(errors.New("etcd has no leader"))
		})
		w.mustPlace("n", nil, "p0", "p1")
		w.cache.SealTransactions()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.cache.Drain(ctx); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"n", "n"}, nodesOf(w.cluster, "p0", "p1")); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
	})
}
