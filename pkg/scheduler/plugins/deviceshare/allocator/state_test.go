// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// usage returns everything that a state records about its users.
func usage(s *State) []any { return []any{s.used, s.usedVFs, s.exclusive, s.exclusives} }

var compareUsage = cmp.Options{cmp.AllowUnexported(exclusions{}), cmp.Comparer(func(a, b []string) bool { return strings.Join(a, ",") == strings.Join(b, ",") })}

func TestUsersComeAndGo(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		node := randomNode(r, 8, 4, 2)
		s := node.state(t, seed)
		start, before := s, usage(s)
		var given []*Allocation
		for range 20 {
			request, err := ParseRequest(randomPod(r).pod(), RequestOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if request == nil {
				continue
			}
			if a, _ := Allocate(s, request, Options{}); a != nil {
				s, given = s.With(a), append(given, a)
				for u := range s.Devices {
					for i := range s.Devices[u] {
						if d := &s.Devices[u][i]; d.Healthy && !s.used[u][i].Within(d.Total) {
							t.Fatalf("seed %d: %s %d: %v of %v is used", seed, Type(u), d.Minor, s.used[u][i], d.Total)
						}
					}
				}
			}
		}
		r.Shuffle(len(given), func(i, j int) { given[i], given[j] = given[j], given[i] })
		for _, a := range given {
			s = s.Without(a)
		}
		if diff := cmp.Diff(before, usage(s), compareUsage); diff != "" {
			t.Fatalf("seed %d: after all users were removed (-before +after):\n%s", seed, diff)
		}
		if diff := cmp.Diff(before, usage(start), compareUsage); diff != "" {
			t.Fatalf("seed %d: a state changed (-before +after):\n%s", seed, diff)
		}
	}
}

func TestUsersOfDevicesThatDoNotExist(t *testing.T) {
	s := nodeA().state(t)
	a := &Allocation{GPU: {{Minor: -1, Amounts: Amounts{Core: 1}}, {Minor: 99, Amounts: Amounts{Core: 1}}}, FPGA: {{Minor: 0, Amounts: Amounts{FPGAShare: 1}}}}
	if diff := cmp.Diff(usage(s), usage(s.With(a)), compareUsage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
}

// TestUsersOfDevicesThatWereNumberedAgain: after renumbering, the annotation of a pod names one device by its minor and
// another by its UUID. Neither is allocated to other pods.
func TestUsersOfDevicesThatWereNumberedAgain(t *testing.T) {
	d := makeDevice()
	d.gpu(0, 0, "a")
	d.gpu(1, 0, "a")
	d.gpu(2, 0, "a")
	for i, uuid := range []string{"second", "first", "third"} {
		d.Spec.Devices[i].UUID = uuid
	}
	s := d.state(t)
	has := func(minor int32, uuid string) *Allocation {
		return &Allocation{GPU: {{Minor: minor, UUID: uuid, Amounts: Amounts{Core: 100, MemoryRatio: 100}}}}
	}
	one := parse(t, makePod(list(nvidiaName, "1")))
	check(t, s.With(has(0, "first")), one, Options{}, "gpu 2", false)
	check(t, s.With(has(0, "second")), one, Options{}, "gpu 1", false)
	check(t, s.With(has(0, "")), one, Options{}, "gpu 1", false)
	check(t, s.With(has(0, "replaced")), one, Options{}, "gpu 1", false)
	check(t, s.With(has(7, "second")), one, Options{}, "gpu 1", false)
	if diff := cmp.Diff(usage(s), usage(s.With(has(0, "first")).Without(has(0, "first"))), compareUsage); diff != "" {
		t.Errorf("after the user was removed (-want +got):\n%s", diff)
	}
}

func TestExclusiveUsers(t *testing.T) {
	hint := func(text, gpus string) *Request {
		return parse(t, makePod(list(koordGPU, gpus), "device-allocate-hint", text))
	}
	alone := hint(`{"gpu":{"exclusivePolicy":"DeviceLevel"}}`, "50")
	rootAlone := hint(`{"gpu":{"exclusivePolicy":"PCIeLevel"}}`, "50")
	half, three := parse(t, makePod(list(koordGPU, "50"))), parse(t, makePod(list(koordGPU, "300")))
	nic := parse(t, makePod(list(rdmaName, "1")))
	give := func(s *State, r *Request) *State {
		t.Helper()
		a, refusal := Allocate(s, r, Options{})
		if refusal != nil {
			t.Fatal(refusal.Reason)
		}
		// The annotation must contain the whole allocation, because the scheduler reads it after a restart.
		read, err := ParseAllocation(a.Annotation())
		if err != nil {
			t.Fatal(err)
		}
		return s.With(read)
	}
	node := nodeA().state(t)
	most := Options{Strategy: MostAllocated{DefaultWeights}}
	tests := map[string]struct {
		state   *State
		request *Request
		want    string
		refused bool
	}{
		"others keep off a device":                 {give(node, alone), half, "gpu 1@50", false},
		"it takes no device of others":             {node.With(part(50, 0)), alone, "gpu 1@50", false},
		"others keep off a PCIe root":              {give(node, rootAlone), half, "gpu 2@50", false},
		"those that ask for other types do so too": {give(node, rootAlone), nic, "rdma 2", false},
		"it takes no PCIe root of others":          {node.With(part(50, 1)), rootAlone, "gpu 2@50", false},
		"nor one of which others use another type": {node.With(nics(1, 1)), rootAlone, "gpu 2@50", false},
		"whole GPUs too":                           {inUse(give(node, rootAlone), whole(2, 3, 4)), three, "gpu 5,6,7", false},
		"too few are left":                         {inUse(give(node, rootAlone), whole(2, 3, 4, 5)), three, "2 used by or reserved for other pods", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { check(t, tt.state, tt.request, most, tt.want, tt.refused) })
	}
	t.Run("it is gone", func(t *testing.T) {
		a, _ := Allocate(node, rootAlone, most)
		check(t, node.With(a).Without(a), half, most, "gpu 0@50", false)
	})
}

// TestNoDeviceIsOvercommitted checks that any amounts in annotations, however large, are added up and subtracted again
// exactly.
func TestNoDeviceIsOvercommitted(t *testing.T) {
	node := nodeA().state(t)
	forged := part(maxAmount/200, 7)
	s := node
	for range 2000 {
		s = s.With(forged)
	}
	if got, total := s.Used(GPU, 7), node.Devices[GPU][7].Total; got[Core] != 2000*total[Core] || s.Free(GPU, 7) != (Amounts{}) {
		t.Errorf("used %v of %v, free %v", got, total, s.Free(GPU, 7))
	}
	for range 2000 {
		s = s.Without(forged)
	}
	if got := s.Used(GPU, 7); !got.IsZero() {
		t.Errorf("used %v after all users were removed", got)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
