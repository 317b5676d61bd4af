// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAPodGroupThatAnotherSchedulerTakesOverIsLeftAlone checks a PodGroup whose new first owner selects another of the
// schedulers that share the cluster. This scheduler keeps nothing of the gang and writes no status that it
// had decided before. The owner of the pod still selects this scheduler.
func TestAPodGroupThatAnotherSchedulerTakesOverIsLeftAlone(t *testing.T) {
	t.Setenv(multiScheduler, "true")
	t.Setenv(schedulerCount, "2")
	t.Setenv(ownPodName, "volcano-0")
	withHarness(t, func(t *testing.T, w *harness) {
		// named returns a name that the ring assigns to this scheduler, or to the other one.
		named := func(ours bool) string {
			for i := 0; ; i++ {
				if name := fmt.Sprintf("x%d", i); w.cache.changes.responsible.forName(name) == ours {
					return name
				}
			}
		}
		node, group := named(true), schedtest.MakePodGroup().Name("g").MinMember(1).Obj()
		own := func(owner string) []metav1.OwnerReference {
			return []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: owner, UID: "owner"}}
		}
		group.OwnerReferences = own(node)
		member := pod(0).Obj()
		member.OwnerReferences = own(node)
		w.add(schedtest.MakeNode().Name(node).Obj(), group, member)
		var away atomic.Bool
		away.Store(true)
		w.cluster.Volcano.PrependReactor("patch", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, errBroken
		})
		w.mustPlace(node, []binding.Step{failing("storage", "p0")}, "p0")
		w.cache.SealTransactions()
		synctest.Wait()
		if w.cache.reports.Remembered() == 0 {
			t.Fatal("the failure of the gang is not remembered at first")
		}

		group = group.DeepCopy()
		group.OwnerReferences = own(named(false))
		w.add(group)
		w.cluster.Writes()
		away.Store(false)
		time.Sleep(statuswriter.LastRetry)
		synctest.Wait()
		if left := w.cache.reports.Remembered(); left != 0 {
			t.Errorf("%d things are remembered of the gang", left)
		}
		if why, waits := w.cache.Blocked(gang); waits {
			t.Errorf("the gang waits, because %q", why)
		}
		for _, write := range w.cluster.Writes() {
			if strings.Contains(write, "podgroups") {
				t.Errorf("written to the PodGroup of another scheduler: %s", write)
			}
		}
	})
}
