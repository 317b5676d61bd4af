// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// sound returns the slices from which devices may be allocated: the sound slices of the node's own part and of the
// shared part.
func (r *reach) sound() []*slice { return slices.Concat(r.own.sound, r.shared.sound) }

// sharedSlice returns a slice that nodes of the zone reach. Without a zone, all nodes reach it.
func sharedSlice(name, zone string, generation int64, devices ...string) *resourceapi.ResourceSlice {
	slice := schedtest.NodeDevices(name, devices...)
	slice.Name, slice.Spec.NodeName, slice.Spec.Pool.Generation = name, nil, generation
	if zone == "" {
		slice.Spec.AllNodes = new(true)
		return slice
	}
	slice.Spec.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{zone}}},
	}}}
	return slice
}

// TestAChangeOfASharedSliceIsLookedAtOnce checks that a change of a shared slice keeps the cached reach of nodes.
// Thousands of nodes may reach the slice, so the change must not be processed once for each of them.
func TestAChangeOfASharedSliceIsLookedAtOnce(t *testing.T) {
	nodes := map[string]*v1.Node{}
	for _, name := range []string{"a1", "a2", "b1"} {
		nodes[name] = schedtest.MakeNode().Name(name).Label("zone", name[:1]).Obj()
	}
	before := []*resourceapi.ResourceSlice{sharedSlice("in-a", "a", 1, "nic"), sharedSlice("in-b", "b", 1, "nic"), schedtest.NodeDevices("a1", "gpu")}
	n := newInventory(false)
	n.update(before)
	places, ofB := map[string]string{}, n.reach(nodes["b1"]).shared
	for name, node := range nodes {
		n.reach(node)
		places[name] = n.views[name].places
	}
	changed := slices.Clone(before)
	changed[0] = sharedSlice("in-a", "a", 2, "nic", "nic-2")
	n.update(changed)
	for name, view := range n.views {
		if view.places != places[name] {
			t.Errorf("node %s reaches other slices", name)
		}
	}
	if len(n.views) != len(nodes) {
		t.Errorf("the reach of %d nodes is cached, want %d", len(n.views), len(nodes))
	}
	first, second := n.reach(nodes["a1"]), n.reach(nodes["a2"])
	if first.shared != second.shared {
		t.Error("nodes that reach the same shared slices do not share their cached state")
	}
	if n.reach(nodes["b1"]).shared != ofB {
		t.Error("the cached state of slices that did not change was dropped")
	}
	if diff := cmp.Diff([]string{"a1-devices/gpu", "in-a/nic", "in-a/nic-2"}, devicesIn(first.sound())); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
}

func devicesIn(list []*slice) []string {
	var names []string
	for _, s := range list {
		for i := range s.Spec.Devices {
			names = append(names, s.Name+"/"+s.Spec.Devices[i].Name)
		}
	}
	return names
}

// TestReachAfterChanges checks that after random changes, each node reaches the same slices as in a new inventory of
// the current slices.
func TestReachAfterChanges(t *testing.T) {
	zones := []string{"", "a", "b"}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 0))
		pick := func(of ...string) string { return of[rng.IntN(len(of))] }
		nodes := make([]*v1.Node, 6)
		n, now := newInventory(false), map[string]*resourceapi.ResourceSlice{}
		for step := range 60 {
			for range 1 + rng.IntN(3) {
				name := fmt.Sprint("s", rng.IntN(12))
				var made *resourceapi.ResourceSlice
				switch rng.IntN(8) {
				case 0:
					delete(now, name)
					continue
				case 1, 2:
					made = schedtest.NodeDevices(fmt.Sprint("n", rng.IntN(len(nodes))), pick("d0", "d1", "d2"))
					made.Name = name
				default:
					made = sharedSlice(name, pick(zones...), int64(1+rng.IntN(2)), pick("d0", "d1", "d2"))
				}
				made.Spec.Pool.Name = pick("p0", "p1", "p2", "p3")
				now[name] = made
			}
			var list []*resourceapi.ResourceSlice
			for _, s := range now {
				list = append(list, s)
			}
			n.update(list)
			fresh := newInventory(false)
			fresh.update(list)
			for i := range nodes {
				if nodes[i] == nil || rng.IntN(10) == 0 {
					nodes[i] = schedtest.MakeNode().Name(fmt.Sprint("n", i)).Label("zone", pick(zones...)).Obj()
				}
				if rng.IntN(4) == 0 { // the node is not filtered in this session
					continue
				}
				got, want := n.reach(nodes[i]), fresh.reach(nodes[i])
				for what, lists := range map[string][2][]*slice{"all": {got.all(), want.all()}, "sound": {got.sound(), want.sound()}} {
					if diff := cmp.Diff(devicesIn(lists[1]), devicesIn(lists[0])); diff != "" {
						t.Fatalf("seed %d, step %d, %s of node %s (-want +got):\n%s", seed, step, what, nodes[i].Name, diff)
					}
				}
				whole := newPart(want.all())
				if diff := cmp.Diff(devicesIn(whole.sound), devicesIn(got.sound())); diff != "" || got.pools() != len(whole.pools) {
					t.Fatalf("seed %d, step %d: node %s has %d pools, want %d; of all its slices at once (-want +got):\n%s", seed, step, nodes[i].Name, got.pools(), len(whole.pools), diff)
				}
			}
		}
	}
}
