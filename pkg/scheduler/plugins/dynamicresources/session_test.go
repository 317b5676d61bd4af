// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAClaimThatIsNotMadeYet checks that a pod waits for the controller that creates claims from templates.
func TestAClaimThatIsNotMadeYet(t *testing.T) {
	run(t, gpus("n"), func(w *testCluster) {
		p := member("p", "made t")
		p.Pod.Status.ResourceClaimStatuses = nil
		if got, want := w.fits(p, "n"), `claim "t" of the pod has not been created from template "t" yet`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		p.Pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "t"}}
		if got := w.fits(p, "n"); got != "" {
			t.Errorf("a pod whose template creates no claim is refused: %s", got)
		}
	})
}

// TestAClaimThatChangesAfterItsPodsTurnCame checks that a pod is placed with the current state of its claim if the
// claim changes after the filter ran.
func TestAClaimThatChangesAfterItsPodsTurnCame(t *testing.T) {
	for name, allocations := range map[string][2]*resourceapi.AllocationResult{
		"it is freed":     {allocationOf("n", "gpu-1"), nil},
		"it is allocated": {nil, allocationOf("n", "gpu-1")},
	} {
		t.Run(name, func(t *testing.T) {
			claim := schedtest.DeviceClaim("c", one())
			claim.Status.Allocation = allocations[0]
			run(t, append(gpus("n"), claim), func(w *testCluster) {
				p := member("p", "c")
				if refused := w.fits(p, "n"); refused != "" {
					t.Fatal(refused)
				}
				w.change("c", func(c *resourceapi.ResourceClaim) { c.Status.Allocation = allocations[1] })
				if err := w.place(p, "n"); err != nil {
					t.Fatal(err)
				}
				w.mustPreBind(p)
			})
		})
	}
}

// TestAPodWithVeryManyClaims: checking the claims takes time on every node, so a pod may have only a limited number.
func TestAPodWithVeryManyClaims(t *testing.T) {
	objects, names := gpus("n"), []string(nil)
	for i := range mostClaims + 1 {
		names = append(names, fmt.Sprint("c", i))
		objects = append(objects, schedtest.DeviceClaim(names[i], one()))
	}
	run(t, objects, func(w *testCluster) {
		if got, want := w.fits(member("p", names...), "n"), "spec.resourceClaims has 129 claims, must have at most 128"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := w.fits(member("q", names[1:]...), "n"); strings.Contains(got, "at most") {
			t.Errorf("got %q", got)
		}
	})
}
