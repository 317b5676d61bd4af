// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestVerdicts: what keeps a pod from all nodes, or from one, names claim, request and class.
func TestVerdicts(t *testing.T) {
	all := schedtest.DeviceRequest("r", "gpu", 0)
	all.Exactly.AllocationMode = resourceapi.DeviceAllocationModeAll
	admin := one()
	admin.Exactly.AdminAccess = new(true)
	part := one()
	part.Exactly.Capacity = &resourceapi.CapacityRequirements{}
	sub := func(name, class string, count int64, expressions ...string) resourceapi.DeviceSubRequest {
		r := schedtest.DeviceRequest(name, class, count, expressions...).Exactly
		return resourceapi.DeviceSubRequest{Name: name, DeviceClassName: class, AllocationMode: r.AllocationMode, Count: count, Selectors: r.Selectors}
	}
	list := func(subs ...resourceapi.DeviceSubRequest) resourceapi.DeviceRequest {
		return resourceapi.DeviceRequest{Name: "r", FirstAvailable: subs}
	}
	full := func(c *resourceapi.ResourceClaim) {
		c.Status.Allocation = &resourceapi.AllocationResult{}
		for i := range resourceapi.ResourceClaimReservedForMaxSize {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", UID: types.UID(fmt.Sprint(i))})
		}
	}
	elsewhere := func(c *resourceapi.ResourceClaim) {
		c.Status.Allocation = &resourceapi.AllocationResult{NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"other"}}}}}}}
	}
	taken := schedtest.DeviceClaim("taken", schedtest.DeviceRequest("r", "gpu", 2))
	taken.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Driver: schedtest.DeviceDriver, Pool: "n", Device: "gpu-0"}, {Driver: schedtest.DeviceDriver, Pool: "n", Device: "gpu-1"}}}}
	cases := map[string]struct {
		requests []resourceapi.DeviceRequest
		mutate   func(*resourceapi.ResourceClaim)
		others   []runtime.Object
		claim    string
		want     string
	}{
		"one of two":                {requests: []resourceapi.DeviceRequest{one()}},
		"both":                      {requests: []resourceapi.DeviceRequest{schedtest.DeviceRequest("r", "gpu", 2)}},
		"three of two":              {requests: []resourceapi.DeviceRequest{schedtest.DeviceRequest("r", "gpu", 3)}, want: `claim "p-t" (request "r", class "gpu"): node(s) have no free device for it`},
		"both, one asked for twice": {requests: []resourceapi.DeviceRequest{schedtest.DeviceRequest("a", "gpu", 1, modelA), schedtest.DeviceRequest("b", "gpu", 1, modelA)}, want: `claim "p-t" (request "b", class "gpu"): node(s) have no free device for it`},
		"of a model":                {requests: []resourceapi.DeviceRequest{one(modelB)}},
		"of no model":               {requests: []resourceapi.DeviceRequest{one(`false`)}, want: `claim "p-t" (request "r", class "gpu"): node(s) have no free device for it`},
		"all":                       {requests: []resourceapi.DeviceRequest{all}},
		"all, one of which is another's": {requests: []resourceapi.DeviceRequest{all}, others: []runtime.Object{taken},
			want: `claim "p-t" (request "r", class "gpu"): node(s) have no free device for it`},
		"none is free": {requests: []resourceapi.DeviceRequest{one()}, others: []runtime.Object{taken},
			want: `claim "p-t" (request "r", class "gpu"): node(s) have no free device for it`},
		"administrative access to what others have": {requests: []resourceapi.DeviceRequest{admin}, others: []runtime.Object{taken}},
		"the second alternative":                    {requests: []resourceapi.DeviceRequest{list(sub("best", "gpu", 3), sub("next", "gpu", 1))}},
		"no alternative": {requests: []resourceapi.DeviceRequest{list(sub("best", "gpu", 3), sub("next", "gpu", 1, "false"))},
			want: `claim "p-t" (request "r", class "gpu"): node(s) have no free device for it`},
		"more than a claim can have": {requests: []resourceapi.DeviceRequest{schedtest.DeviceRequest("r", "gpu", 1<<40)},
			want: `claim "p-t" (request "r", class "gpu"): 1099511627776 devices are asked for, and a claim can have 32`},
		"as many as overflow": {requests: []resourceapi.DeviceRequest{schedtest.DeviceRequest("a", "gpu", 1<<63-1), schedtest.DeviceRequest("b", "gpu", 1<<63-1)},
			want: `claim "p-t" (request "a", class "gpu"): 9223372036854775807 devices are asked for, and a claim can have 32`},
		"more together": {requests: []resourceapi.DeviceRequest{schedtest.DeviceRequest("a", "gpu", 20), schedtest.DeviceRequest("b", "gpu", 20)},
			want: `claim "p-t": 40 devices are asked for, and a claim can have 32`},
		"a part of a device": {requests: []resourceapi.DeviceRequest{part},
			want: `claim "p-t" (request "r", class "gpu"): a part of a device is asked for, and the feature gate DRAConsumableCapacity of the scheduler is off`},
		"a class that is not there": {requests: []resourceapi.DeviceRequest{schedtest.DeviceRequest("r", "tpu", 1)},
			want: `claim "p-t" (request "r", class "tpu"): device class "tpu" does not exist`},
		"of no kind that is known": {requests: []resourceapi.DeviceRequest{{Name: "r"}},
			want: `claim "p-t" (request "r", class ""): the request is of a kind that this scheduler does not know`},
		"being deleted": {requests: []resourceapi.DeviceRequest{one()}, mutate: func(c *resourceapi.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: schedtest.Created.Time} },
			want: `claim "p-t" is being deleted`},
		"of another pod": {requests: []resourceapi.DeviceRequest{one()}, mutate: func(c *resourceapi.ResourceClaim) { c.OwnerReferences[0].UID = "another" },
			want: `claim "p-t" was made for another pod`},
		"used by too many":        {requests: []resourceapi.DeviceRequest{one()}, mutate: full, want: `claim "p-t" is used by 256 pods, and can be by no more`},
		"allocated for elsewhere": {requests: []resourceapi.DeviceRequest{one()}, mutate: elsewhere, want: `claim "p-t" (request "r", class "gpu"): node(s) do not reach the devices that it has`},
		"allocated for all":       {requests: []resourceapi.DeviceRequest{one()}, mutate: func(c *resourceapi.ResourceClaim) { c.Status.Allocation = &resourceapi.AllocationResult{} }},
		"not there":               {claim: "gone", want: `claim "gone" does not exist`},
		"a selector that is none": {requests: []resourceapi.DeviceRequest{one("what?")},
			want: `claim "p-t" (request "r", class "gpu"): searching for devices: claim ns/p-t: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:6: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}
 | what?
 | .....^`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			claim := "made t"
			if tc.claim != "" {
				claim = tc.claim
			}
			p := member("p", claim)
			objects := append(gpus("n"), tc.others...)
			own := made(p, "t", tc.requests...)
			if tc.mutate != nil {
				tc.mutate(own)
			}
			run(t, append(objects, own), func(w *world) {
				if diff := cmp.Diff(tc.want, w.fits(p, "n")); diff != "" {
					t.Errorf("verdict (-want +got):\n%s", diff)
				}
				err := w.place(p, "n")
				if (err == nil) != (tc.want == "") {
					t.Errorf("the verdict is %q, and reserving says %v", tc.want, err)
				}
			})
		})
	}
}

// TestAClaimThatIsNotMadeYet: the pod waits for what makes claims from templates.
func TestAClaimThatIsNotMadeYet(t *testing.T) {
	run(t, gpus("n"), func(w *world) {
		p := member("p", "made t")
		p.Pod.Status.ResourceClaimStatuses = nil
		if got, want := w.fits(p, "n"), `claim "t" of the pod has not been made yet from template "t"`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		p.Pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "t"}}
		if got := w.fits(p, "n"); got != "" {
			t.Errorf("a claim that is made for nobody keeps the pod from its node: %s", got)
		}
	})
}

// TestAClaimThatChangesAfterItsPodsTurnCame: the pod is placed by what the claim is then.
func TestAClaimThatChangesAfterItsPodsTurnCame(t *testing.T) {
	for name, allocations := range map[string][2]*resourceapi.AllocationResult{
		"it is freed":     {allocationOf("n", "gpu-1"), nil},
		"it is allocated": {nil, allocationOf("n", "gpu-1")},
	} {
		t.Run(name, func(t *testing.T) {
			claim := schedtest.DeviceClaim("c", one())
			claim.Status.Allocation = allocations[0]
			run(t, append(gpus("n"), claim), func(w *world) {
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

// TestAPodWithVeryManyClaims: looking at them takes time, on every node.
func TestAPodWithVeryManyClaims(t *testing.T) {
	objects, names := gpus("n"), []string(nil)
	for i := range mostClaims + 1 {
		names = append(names, fmt.Sprint("c", i))
		objects = append(objects, schedtest.DeviceClaim(names[i], one()))
	}
	run(t, objects, func(w *world) {
		if got, want := w.fits(member("p", names...), "n"), "the pod has 129 claims for devices, and is placed with 128 at most"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := w.fits(member("q", names[1:]...), "n"); strings.Contains(got, "at most") {
			t.Errorf("got %q", got)
		}
	})
}
