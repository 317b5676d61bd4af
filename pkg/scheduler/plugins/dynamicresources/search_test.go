// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework/workbudget"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// hard returns a claim for which the allocator's search never ends: it needs several devices, of which two must have an
// equal attribute, but the attribute is different on all devices.
func hard(name string) *resourceapi.ResourceClaim {
	var requests []resourceapi.DeviceRequest
	claim := schedtest.DeviceClaim(name)
	for i := range 12 {
		requests = append(requests, schedtest.DeviceRequest(fmt.Sprint("r", i), "gpu", 1))
	}
	claim.Spec.Devices.Requests = requests
	claim.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{
		Requests: []string{"r10", "r11"}, MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(schedtest.DeviceDriver + "/unique")),
	}}
	return claim
}

// TestAClaimThatTakesForEver checks that the search times out, that all searches of its namespace have a limit, and
// that other namespaces have their own limit.
func TestAClaimThatTakesForEver(t *testing.T) {
	var devices []string
	for i := range 30 {
		devices = append(devices, fmt.Sprintf("gpu-%d unique=%d", i, i))
	}
	d := newRandomCluster(rand.New(rand.NewPCG(1, 1))).devices // runs in real time
	d.inventory.update([]*resourceapi.ResourceSlice{schedtest.NodeDevices("n", devices...)})
	d.unrecovered = framework.NewUnrecovered(Name, recovery{d}, func() {})
	p := &plugin{settings: settings{filterTimeout: 200 * time.Millisecond, search: 500 * time.Millisecond}, devices: d}
	s := newSession(p, nil, nil, waitsNever)
	node := schedtest.MakeNode().Name("n").Obj()
	pod := schedtest.MakePod().Name("p").Obj()
	verdict := func(namespace string, claim *resourceapi.ResourceClaim) string {
		own := pod.DeepCopy()
		own.Namespace = namespace
		_, status := s.planFor(own, &taskState{claims: []podClaim{{claim, true}}, selectors: make([]*nodeaffinity.NodeSelector, 1)}, node, nil)
		if status == nil {
			return ""
		}
		return status.Reason
	}
	var got []string
	for len(got) < 20 && (len(got) == 0 || !strings.Contains(got[len(got)-1], "is exhausted; retrying in a later cycle")) {
		got = append(got, verdict("ns", hard("c")))
	}
	if got[0] != `claim "c" (request "r0", class "gpu"): device search on the node timed out` {
		t.Errorf("got %q", got[0])
	}
	if want := `device search budget of namespace "ns" (500ms per cycle) is exhausted; retrying in a later cycle`; got[len(got)-1] != want {
		t.Errorf("got %q, want %q", got[len(got)-1], want)
	}
	if got := verdict("ns", schedtest.DeviceClaim("easy", one())); got == "" {
		t.Error("the namespace has no limit")
	}
	if got := verdict("other", schedtest.DeviceClaim("easy", one())); got != "" {
		t.Errorf("another namespace: %s", got)
	}
}

// TestSelectorsThatTakeLongToCompile: a search waits for the compilation of its selectors until its time limit, and
// searches with other selectors do not wait. The compilation continues, and the next session uses its result.
func TestSelectorsThatTakeLongToCompile(t *testing.T) {
	p, q := member("p", "made t"), member("q", "made t")
	run(t, append(gpus("n"), made(p, "t", one("true", "true || true")), made(q, "t", one(modelA))), func(w *testCluster) {
		if got := w.fits(q, "n"); got != "" {
			t.Fatal(got)
		}
		compiled, begun := make(chan struct{}), time.Now()
		w.plugin.devices.catalog.compiled.compile = func(string) { <-compiled }
		if got, want := w.fits(p, "n"), `claim "p-t" (request "r", class "gpu"): device search on the node timed out`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if took := time.Since(begun); took != time.Second {
			t.Errorf("it took %v, want dynamicresources.filterTimeoutSeconds", took)
		}
		if got := w.fits(q, "n"); got != "" {
			t.Errorf("selectors that are compiled: %s", got)
		}
		close(compiled)
		w.open()
		if got := w.fits(p, "n"); got != "" {
			t.Error(got)
		}
	})
}

// TestASelectorWhoseCompilerPanics checks that the panic does not affect other selectors.
func TestASelectorWhoseCompilerPanics(t *testing.T) {
	c := newSelectorCache(cel.Features{})
	c.compile = func(string) { panic("oh no") }
	for range 2 {
		if err := c.ready(t.Context(), schedtest.DeviceClass("c", "true").Spec.Selectors); err != nil {
			t.Error(err)
		}
	}
}

// TestMatchingDetectsInfeasibleClaims checks that an infeasible claim is rejected at once, where the allocator would
// try all orders of devices.
func TestMatchingDetectsInfeasibleClaims(t *testing.T) {
	var devices []string
	for i := range 31 {
		devices = append(devices, fmt.Sprintf("gpu-%d model=a", i))
	}
	p := member("p", "made t")
	requests := []resourceapi.DeviceRequest{schedtest.DeviceRequest("many", "gpu", 31), one(modelA)}
	runWith(t, framework.Arguments{filterTimeoutArgument: 60}, append(someNodes("n"), schedtest.DeviceClass("gpu"), schedtest.NodeDevices("n", devices...), made(p, "t", requests...)), func(w *testCluster) {
		if got, want := w.fits(p, "n"), `claim "p-t" (request "r", class "gpu"): node(s) without a free device for it`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestManyMembersMakeRoom: each member needs the device of the member before it, so that all members must be moved in
// turn.
func TestManyMembersMakeRoom(t *testing.T) {
	const members = 16
	var devices []string
	objects := append(someNodes("n"), schedtest.DeviceClass("gpu"))
	var tasks []string
	for i := range members {
		devices = append(devices, fmt.Sprintf("gpu-%02d model=%c", i, 'a'+i))
		tasks = append(tasks, fmt.Sprintf("p%02d", i))
		var or []string
		for k := range members - i {
			or = append(or, fmt.Sprintf(`device.attributes["dra.example.com"].model == "%c"`, 'a'+k))
		}
		objects = append(objects, made(member(tasks[i], "made t"), "t", one(strings.Join(or, " || "))))
	}
	run(t, append(objects, schedtest.NodeDevices("n", devices...)), func(w *testCluster) {
		for _, name := range tasks {
			w.mustPlace(member(name, "made t"), "n")
		}
		got, want := map[string]string{}, map[string]string{}
		for i, name := range tasks {
			got[name], want[name] = strings.Join(w.devicesOf(name+"-t"), ","), fmt.Sprintf("gpu-%02d", members-1-i)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("devices (-want +got):\n%s", diff)
		}
	})
}

func TestMatch(t *testing.T) {
	cases := map[string]struct {
		suiting [][]int
		devices int
		want    []int
		short   int
	}{
		"the first that is free":        {suiting: [][]int{{0, 1}, {0, 1}}, devices: 2, want: []int{0, 1}},
		"one gives way":                 {suiting: [][]int{{0, 1}, {0}}, devices: 2, want: []int{1, 0}},
		"a chain gives way":             {suiting: [][]int{{0, 1}, {1, 2}, {0}}, devices: 3, want: []int{1, 2, 0}},
		"nothing suits":                 {suiting: [][]int{{0}, {}}, devices: 2, short: 1},
		"two that want the same":        {suiting: [][]int{{0}, {0}}, devices: 2, short: 1},
		"three of which two are enough": {suiting: [][]int{{0, 1}, {0, 1}, {1, 0}}, devices: 3, short: 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var units []deviceRequest
			for _, suiting := range tc.suiting {
				units = append(units, deviceRequest{suiting: suiting})
			}
			given, short, ok := match(t.Context(), units, tc.devices)
			if diff := cmp.Diff(tc.want, given); diff != "" || ok != (tc.want != nil) || short != tc.short {
				t.Errorf("ok %v, short %d (-want +got):\n%s", ok, short, diff)
			}
		})
	}
}

// TestMatchingEndsWithItsSearch checks that matching ends with the context, because a tenant's claims may request any
// number of devices.
func TestMatchingEndsWithItsSearch(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, short, ok := match(ctx, []deviceRequest{{suiting: []int{0}}}, 1); ok || short != 0 {
		t.Errorf("ok %v, short %d", ok, short)
	}
}

// TestANamespaceThatSearchesForEverDoesNotKeepOthersOut checks that each namespace has its share of the time in the
// session after a namespace used up all of it.
func TestANamespaceThatSearchesForEverDoesNotKeepOthersOut(t *testing.T) {
	run(t, nil, func(w *testCluster) {
		searched := map[string]int{}
		for range 5 {
			w.open()
			for _, namespace := range []string{"greedy", "greedy-too", "modest"} {
				for range 100_000 {
					_, end, err := w.session.budgets.Begin(namespace, time.Second)
					if err != nil {
						break
					}
					searched[namespace]++
					time.Sleep(workbudget.Free)
					end()
					if namespace == "modest" {
						break
					}
				}
			}
		}
		if searched["modest"] < 4 {
			t.Errorf("searches by namespace: %v, want some of each in four sessions of five", searched)
		}
	})
}

// TestTheSelectorCacheIsBounded: tenants write selectors, and each slice caches which devices match them.
func TestTheSelectorCacheIsBounded(t *testing.T) {
	p := member("p", "made t")
	long := "true" + strings.Repeat(" ", 10_000)
	run(t, append(gpus("n"), made(p, "t", schedtest.DeviceRequest("a", "gpu", 1, long, long, long), one(long))), func(w *testCluster) {
		if got := w.fits(p, "n"); got != "" {
			t.Fatal(got)
		}
		size := 0
		for _, slice := range w.plugin.devices.inventory.known {
			for key := range slice.kept {
				size += len(fmt.Sprint(key))
			}
		}
		if size == 0 || size > 1000 {
			t.Errorf("%d bytes are kept", size)
		}
	})
}
