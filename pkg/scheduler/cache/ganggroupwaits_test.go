// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"
	"testing/synctest"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// TestAChangeOfAGangEndsTheWaitOfItsGangGroup checks that a change of one gang ends the waits of all gangs that failed
// with it, because they are only placed together. It does not end the wait of another gang.
func TestAChangeOfAGangEndsTheWaitOfItsGangGroup(t *testing.T) {
	tests := map[string]func(w *harness){
		"the PodGroup's spec": func(w *harness) {
			x := w.cluster.PodGroup("x").DeepCopy()
			x.Spec.PriorityClassName = "high"
			w.add(x)
		},
		"a new pod": func(w *harness) { w.add(memberOf("x", 1, "1").Obj()) },
		"a label of a pod": func(w *harness) {
			w.add(memberOf("x", 0, "1").Label("a", "b").Obj())
			time.Sleep(firstRetry)
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.add(nodeOf8(0).Obj(), gangWith("x", 1, gangs.GroupsAnnotation, xAndY), gangWith("y", 1, gangs.GroupsAnnotation, xAndY), gangWith("z", 1),
					memberOf("x", 0, "1").Obj(), memberOf("y", 0, "1").Obj(), memberOf("z", 0, "1").Obj())
				together := &binding.GangGroup{ID: "ns/x,ns/y", Gangs: []binding.GangTerms{{Gang: "ns/x"}, {Gang: "ns/y"}}}
				steps := []binding.Step{failing("storage", "x-0", "z-0")}
				for range 4 {
					w.cache.RetryAll()
					for _, pod := range []string{"x-0", "y-0"} {
						if err := w.cache.AddToTransaction(w.decided(pod, "n00"), together, nil, steps); err != nil {
							t.Fatal(err)
						}
					}
					w.mustPlace("n00", steps, "z-0")
					w.cache.SealTransactions()
					synctest.Wait()
				}
				change(w)
				for gang, want := range map[string]bool{"x": false, "y": false, "z": true} {
					if why, waits := w.cache.Blocked(api.JobID("ns/" + gang)); waits != want {
						t.Errorf("gang %s waits: %t, because %q, want %t", gang, waits, why, want)
					}
				}
			})
		})
	}
}
