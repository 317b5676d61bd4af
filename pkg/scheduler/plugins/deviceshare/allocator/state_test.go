// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
)

// usage is all that a state notes of its users.
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
			t.Fatalf("seed %d: after all are gone (-before +after):\n%s", seed, diff)
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

// TestUsersOfDevicesThatWereNumberedAgain: by number a pod has one device and by UUID another, so that neither is given to others.
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
		t.Errorf("after it is gone (-want +got):\n%s", diff)
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
		// What is kept must be in the annotation, or it is lost when the scheduler starts anew.
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
		"too few are left":                         {inUse(give(node, rootAlone), whole(2, 3, 4, 5)), three, "2 used or kept by others", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { check(t, tt.state, tt.request, most, tt.want, tt.refused) })
	}
	t.Run("it is gone", func(t *testing.T) {
		a, _ := Allocate(node, rootAlone, most)
		check(t, node.With(a).Without(a), half, most, "gpu 0@50", false)
	})
}

// TestNobodyHasMoreOfADeviceThanThereIs: whatever pods say they have, theirs adds up and is given back.
func TestNobodyHasMoreOfADeviceThanThereIs(t *testing.T) {
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
		t.Errorf("used %v after all was given back", got)
	}
}

func TestRecheck(t *testing.T) {
	request := parse(t, makePod(list(nvidiaName, "2", rdmaName, "1"), "device-joint-allocate", jointHint, "device-allocate-hint", vfHint))
	a, refusal := Allocate(nodeA().state(t), request, Options{})
	if refusal != nil {
		t.Fatal(refusal.Reason)
	}
	tests := map[string]struct {
		change func(d *deviceObject)
		others *Allocation
		want   string
	}{
		"nothing changed":              {},
		"a GPU turned unhealthy":       {change: func(d *deviceObject) { d.Spec.Devices[1].Health = false }, want: "device gpu 1 (gpu-1) is unhealthy"},
		"another GPU turned unhealthy": {change: func(d *deviceObject) { d.Spec.Devices[2].Health = false }},
		"the NIC went away":            {change: func(d *deviceObject) { d.Spec.Devices = d.Spec.Devices[:8] }, want: "device rdma 1 is not in the Device object any more"},
		"a GPU was exchanged":          {change: func(d *deviceObject) { d.Spec.Devices[0].UUID = "new" }, want: "device gpu 0 is another device now (new, was gpu-0)"},
		"a GPU has less than before": {change: func(d *deviceObject) {
			d.Spec.Devices[0].Resources = list(coreName, "100", ratioName, "50", memoryName, gpuMemory)
		}, want: "device gpu 0 (gpu-0) is over-booked: koordinator.sh/gpu-memory-ratio 100 of 50 is in use"},
		"the virtual function went away": {change: func(d *deviceObject) { d.Spec.Devices[8].VFGroups = nil }, want: "device rdma 1 (rdma-1) has no virtual function 0000:1f:00.2 any more"},
		"another pod has the GPU":        {others: part(10, 1), want: "device gpu 1 (gpu-1) is over-booked: koordinator.sh/gpu-core 110 of 100 is in use"},
		"another pod has the function":   {others: vf(1, "0000:1f:00.2"), want: "device rdma 1 (rdma-1) has virtual function 0000:1f:00.2 in use by another pod"},
		"another pod has other devices":  {others: &Allocation{GPU: whole(2)[GPU], RDMA: vf(1, "0000:1f:00.3")[RDMA]}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := nodeA()
			if tt.change != nil {
				tt.change(d)
			}
			err := d.state(t).With(a).With(tt.others).Recheck(request, a)
			if got := errorText(err); got != tt.want {
				t.Errorf("recheck: %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRecheckOfTheRequest: devices that are all there, but are not where or what the request wants.
func TestRecheckOfTheRequest(t *testing.T) {
	two := list(nvidiaName, "2", rdmaName, "1")
	blue := map[string]string{"color": "blue"}
	tests := map[string]struct {
		annotations []string
		change      func(d *deviceObject)
		want        string
	}{
		"the NIC is on another PCIe root": {[]string{"device-joint-allocate", jointPCIe}, func(d *deviceObject) { d.Spec.Devices[8].Topology.PCIEID = "pcie3" },
			"none with an RDMA NIC on the same PCIe switch"},
		"a GPU is on another PCIe root": {[]string{"device-allocate-hint", `{"gpu":{"requiredTopologyScope":"PCIe"}}`}, func(d *deviceObject) { d.Spec.Devices[1].Topology.PCIEID = "pcie3" },
			"2 asked for in one PCIe"},
		"a label is another": {[]string{"device-allocate-hint", `{"gpu":{"selector":{"matchLabels":{"color":"blue"}}}}`}, func(d *deviceObject) { d.Spec.Devices[0].Labels = nil },
			"a device of type gpu is not what the request selects"},
		"a label of its virtual function is another": {[]string{"device-allocate-hint", `{"rdma":{"vfSelector":{"matchLabels":{"color":"blue"}}}}`},
			func(d *deviceObject) { d.Spec.Devices[8].VFGroups[0].Labels = nil }, "virtual function"},
		"the partition is gone": {[]string{"gpu-partition-spec", "{}"}, func(d *deviceObject) { d.Annotations[v1alpha1.GPUPartitionsAnnotation] = `{"2":[{"minors":[0,2]}]}` },
			"none of the 1 partitions of 2 fits"},
		"GPUs of two PCIe roots are on one, and a NIC is left over": {[]string{"device-joint-allocate", jointPCIe, "device-allocate-hint", `{"gpu":{"selector":{"matchLabels":{"far":"apart"}}}}`},
			func(d *deviceObject) { d.Spec.Devices[4].Topology = d.Spec.Devices[3].Topology }, "devices that were on the same PCIe switches are not"},
		"the NIC is elsewhere, which may be": {[]string{"device-joint-allocate", jointHint}, func(d *deviceObject) { d.Spec.Devices[8].Topology.PCIEID = "pcie3" }, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := nodeA()
			d.Annotations[v1alpha1.GPUPartitionsAnnotation] = `{"2":[{"minors":[0,1]}]}`
			for _, labelled := range []int{0, 1} {
				d.Spec.Devices[labelled].Labels = blue
			}
			for _, far := range []int{3, 4} {
				d.Spec.Devices[far].Labels = map[string]string{"far": "apart"}
			}
			d.Spec.Devices[8].VFGroups[0].Labels = blue
			request := parse(t, makePod(two, tt.annotations...))
			a, refusal := Allocate(d.state(t), request, Options{})
			if refusal != nil {
				t.Fatal(refusal.Reason)
			}
			if err := d.state(t).With(a).Recheck(request, a); err != nil {
				t.Fatalf("before the change: %v", err)
			}
			tt.change(d)
			err := d.state(t).With(a).Recheck(request, a)
			if got := errorText(err); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("recheck: %q, want %q", got, tt.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
