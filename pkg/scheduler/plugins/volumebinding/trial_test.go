// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestARollbackWhileASessionTriesAPodThatSharesTheClaim: a trial places a pod that shares a claim with another pod. The
// rollback of that other pod withdraws its write for the claim, because the trial may be reverted.
func TestARollbackWhileASessionTriesAPodThatSharesTheClaim(t *testing.T) {
	cases := map[string]struct {
		class, volume string
		objects       []runtime.Object
	}{
		"a local volume":              {"local", "v", []runtime.Object{local("v", "n1")}},
		"a volume that is to be made": {"made", "", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, map[string]any{bindTimeoutArgument: 1}, with(someNodes("n1"), tc.objects, []runtime.Object{schedtest.UnboundClaim("c", tc.class)}), func(w *testCluster) {
				begun, tried := member("g-0", "c"), member("g-1", "c")
				w.mustPlace(begun, "n1")
				w.written()
				end := w.preBind(begun)
				if len(w.written()) == 0 {
					t.Fatal("the step wrote nothing")
				}
				w.open()
				w.mustPlace(tried, "n1")
				if end() == nil {
					t.Fatal("the step succeeded without a volume")
				}
				w.rollBack(begun)
				w.untouched("c", tc.volume)
				w.take(tried)
				w.untouched("c", tc.volume)
				w.nothingAssumed()
			})
		})
	}
}
