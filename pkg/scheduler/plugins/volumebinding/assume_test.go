// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func with(objects ...[]runtime.Object) []runtime.Object {
	return append(classes(), slices.Concat(objects...)...)
}

// TestTwoMembersDoNotCountOnOneVolume: the filter for one member sees the volume assumed for another member, even if
// its claims were read before. The volume is free again once the placement is reverted.
func TestTwoMembersDoNotCountOnOneVolume(t *testing.T) {
	objects := with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c0", "local"), schedtest.UnboundClaim("c1", "local"), local("v", "n1")})
	run(t, nil, objects, func(w *testCluster) {
		first, second := member("g-0", "c0"), member("g-1", "c1")
		if refused := w.fits(second, "n1"); refused != "" {
			t.Fatalf("the volume is free: %s", refused)
		}
		w.mustPlace(first, "n1")
		if err := w.session.predicate(second, w.session.users.nodes["n1"]); err == nil {
			t.Error("the filter accepts the second member with the volume of the first")
		}
		if err := w.place(second, "n1"); err == nil {
			t.Error("Reserve gives the volume of the first member to the second")
		}
		w.take(second)
		w.take(first)
		w.nothingAssumed()
		w.mustPlace(second, "n1")
	})
}

// TestTwoMembersDoNotCountOnOneCapacity: capacity for the volume of one member is not free for the other, on any node
// of the capacity object, nor for a second claim of the same pod. It is free again once the placement is undone.
func TestTwoMembersDoNotCountOnOneCapacity(t *testing.T) {
	objects := with(someNodes("n1"), capacity("1536Mi", "n1"), []runtime.Object{
		schedtest.UnboundClaim("c0", "made"), schedtest.UnboundClaim("c1", "made"), claimLike("half", "made", sized("512Mi")),
	})
	run(t, nil, objects, func(w *testCluster) {
		const tooLittle = `node(s) with too little storage capacity for claim "c1" (storage class "made")`
		first, second := member("g-0", "c0"), member("g-1", "c1")
		if w.fits(second, "n1") != "" || w.fits(member("g-2", "c0", "c1"), "n1") == "" {
			t.Fatal("the capacity does not fit one claim, or it fits two")
		}
		w.mustPlace(first, "n1")
		if got := w.fits(second, "n1"); got != tooLittle {
			t.Errorf("beside the first member: %q, want %q", got, tooLittle)
		}
		if err := w.place(second, "n1"); err == nil {
			t.Error("Reserve gives the capacity for the first member to the second")
		}
		w.take(second)
		w.mustPlace(member("g-3", "half"), "n1")
		w.take(member("g-3", "half"))
		w.take(first)
		w.nothingAssumed()
		w.mustPlace(second, "n1")
	})
}

func sized(size string) func(*v1.PersistentVolumeClaim) {
	return func(c *v1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse(size)
	}
}

// TestTheSmallestClaimHasTheSmallestVolume checks that the claims of a pod get volumes in the order of their size, as
// in the Kubernetes binder.
func TestTheSmallestClaimHasTheSmallestVolume(t *testing.T) {
	large := local("large", "n1")
	large.Spec.Capacity[v1.ResourceStorage] = resource.MustParse("2Gi")
	objects := with(someNodes("n1"), []runtime.Object{claimLike("big", "local", sized("2Gi")), schedtest.UnboundClaim("small", "local"), large, local("tight", "n1")})
	run(t, nil, objects, func(w *testCluster) {
		w.mustPlace(member("g-0", "big", "small"), "n1")
	})
}

// TestTrialsLeaveNothingBehind checks that no volume stays assumed after a gang was tried on forty clusters and placed
// on none.
func TestTrialsLeaveNothingBehind(t *testing.T) {
	const clusters = 40
	objects := with([]runtime.Object{schedtest.UnboundClaim("c0", "local"), schedtest.UnboundClaim("c1", "local"), schedtest.UnboundClaim("d", "made")})
	for i := range clusters {
		node := fmt.Sprintf("n%d", i)
		objects = append(objects, schedtest.MakeNode().Name(node).Obj(), local("v-"+node, node))
	}
	run(t, nil, objects, func(w *testCluster) {
		for i := range clusters {
			node := fmt.Sprintf("n%d", i)
			first, second := member("g-0", "c0", "d"), member("g-1", "c1")
			w.mustPlace(first, node)
			if w.fits(second, node) == "" {
				t.Fatalf("the second member fits on %s, want it refused", node)
			}
			w.take(first)
			w.nothingAssumed()
		}
		if list := w.written(); len(list) > 0 {
			t.Errorf("a trial wrote %v", list)
		}
		for i := range clusters { // each volume is as free as before
			w.mustPlace(member("g-1", "c1"), fmt.Sprintf("n%d", i))
			w.take(member("g-1", "c1"))
		}
	})
}

// TestASharedClaimIsReservedUntilItsLastRelease: members that share a claim fit only on the node that its volume
// belongs to. When one of them is released, the volume stays assumed for the other one.
func TestASharedClaimIsReservedUntilItsLastRelease(t *testing.T) {
	for class, refusal := range map[string]string{"local": "can neither offer nor provision a volume", "made": "node(s) other than n1, which is selected for claim"} {
		t.Run(class, func(t *testing.T) {
			objects := with(someNodes("n1", "n2"), []runtime.Object{schedtest.UnboundClaim("shared", class), schedtest.UnboundClaim("other", class)})
			if class == "local" {
				objects = append(objects, local("v", "n1"))
			}
			run(t, nil, objects, func(w *testCluster) {
				first, second := member("g-0", "shared"), member("g-1", "shared")
				w.mustPlace(first, "n1")
				if refused := w.fits(second, "n2"); !strings.Contains(refused, refusal) {
					t.Errorf("the result on the other node is %q, want %q", refused, refusal)
				}
				w.mustPlace(second, "n1")
				w.take(first)
				if refused := w.fits(first, "n2"); !strings.Contains(refused, refusal) {
					t.Errorf("the result while the second member holds the claim is %q, want %q", refused, refusal)
				}
				if fits := w.fits(member("g-2", "other"), "n1") == ""; fits != (class == "made") {
					t.Errorf("another claim gets the volume of the second member: %v", fits)
				}
				w.take(second)
				w.nothingAssumed()
				if w.fits(member("g-2", "other"), "n1") != "" {
					t.Error("the volume is not free although no pod holds it")
				}
			})
		})
	}
}

// TestAssumedVolumesOutliveConfigurations: a reload replaces the plugin, and volumes of transactions in flight stay
// reserved.
func TestAssumedVolumesOutliveConfigurations(t *testing.T) {
	objects := with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c0", "local"), schedtest.UnboundClaim("c1", "local"), local("v", "n1")})
	run(t, nil, objects, func(w *testCluster) {
		spec, factory := Spec(), informers.NewSharedInformerFactory(w.kube, 0)
		before := w.build(spec, nil, factory)
		after := w.build(spec, map[string]any{bindTimeoutArgument: 5}, factory)
		if before.volumes != after.volumes {
			t.Error("the reloaded plugin does not share the assumed volumes")
		}
		if after.bindTimeout.Seconds() != 5 {
			t.Errorf("binding may take %v after the reload, want 5s", after.bindTimeout)
		}
		if other := w.build(spec, nil, informers.NewSharedInformerFactory(w.kube, 0)); other.volumes == after.volumes {
			t.Error("plugins with different informers share their volumes")
		}
	})
}

// TestNothingIsPlacedBeforeVolumesAreKnown: the volume of a claim is unknown until the first lists are read.
func TestNothingIsPlacedBeforeVolumesAreKnown(t *testing.T) {
	run(t, nil, someNodes("n1"), func(w *testCluster) {
		p := w.build(Spec(), nil, informers.NewSharedInformerFactory(w.kube, 0)) // these informers are not started
		w.session = newSession(p, w.session.users.nodes, nil)
		if refused := w.fits(member("g-0", "c"), "n1"); refused != "the scheduler has not read all csidrivers, csinodes, csistoragecapacities, nodes, persistentvolumeclaims, persistentvolumes, pods, storageclasses yet" {
			t.Errorf("refused with %q", refused)
		}
		if refused := w.fits(member("g-0"), "n1"); refused != "" {
			t.Errorf("a pod without claims is refused with %q", refused)
		}
	})
}
