// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestRegressionPrebindBlocksSession covers upstream's defect prebind-blocks-session (volcano#4692): in upstream, one
// slow pre-bind stalls the scheduling loop. Here sessions go on and bind another gang, and the slow gang is bound when
// it is ready.
func TestRegressionPrebindBlocksSession(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.add(schedtest.MakePodGroup().Name("other").Obj(), schedtest.MakePod().Name("o").Group("other").Obj())
		goOn := make(chan struct{})
		w.mustPlace("n", []binding.Step{waiting("slow", goOn)}, "p0", "p1")
		w.cache.SealTransactions()
		synctest.Wait()
		w.mustPlace("n", nil, "o")
		w.cache.SealTransactions()
		synctest.Wait()
		if diff := cmp.Diff([]string{"", "", "n"}, nodesOf(w.cluster, "p0", "p1", "o")); diff != "" {
			t.Errorf("nodes while a pre-bind waits (-want +got):\n%s", diff)
		}
		close(goOn)
		synctest.Wait()
		if diff := cmp.Diff([]string{"n", "n", "n"}, nodesOf(w.cluster, "p0", "p1", "o")); diff != "" {
			t.Errorf("nodes in the end (-want +got):\n%s", diff)
		}
	})
}

// TestRegressionPartialGang covers upstream's defect partial-gang: with minMember 4, one pre-bind fails, and upstream
// binds the other 3 pods, which stay. Here they are bound only if they reach the minimum.
func TestRegressionPartialGang(t *testing.T) {
	tests := map[string]struct {
		minMember int32
		want      []string
		idle      float64
	}{
		"below the minimum no member is bound":       {minMember: 4, want: []string{"", "", "", ""}, idle: 8000},
		"at the minimum those that passed are bound": {minMember: 3, want: []string{"", "n", "n", "n"}, idle: 5000},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(4, tt.minMember)
				w.mustPlace("n", []binding.Step{failing("storage", "p0")}, "p0", "p1", "p2", "p3")
				w.cache.SealTransactions()
				synctest.Wait()
				if diff := cmp.Diff(tt.want, nodesOf(w.cluster, "p0", "p1", "p2", "p3")); diff != "" {
					t.Errorf("nodes (-want +got):\n%s", diff)
				}
				if got := idleCPU(w.cache, "n"); got != tt.idle {
					t.Errorf("%v milli-cpu are idle, want %v", got, tt.idle)
				}
			})
		})
	}
}
