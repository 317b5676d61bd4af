// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework/workbudget"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestVerdicts has the refusals on all nodes or on one node. They name the claim, the request and the class.
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
		"three of two":              {requests: []resourceapi.DeviceRequest{schedtest.DeviceRequest("r", "gpu", 3)}, want: `claim "p-t" (request "r", class "gpu"): node(s) without a free device for it`},
		"both, one asked for twice": {requests: []resourceapi.DeviceRequest{schedtest.DeviceRequest("a", "gpu", 1, modelA), schedtest.DeviceRequest("b", "gpu", 1, modelA)}, want: `claim "p-t" (request "b", class "gpu"): node(s) without a free device for it`},
		"of a model":                {requests: []resourceapi.DeviceRequest{one(modelB)}},
		"of no model":               {requests: []resourceapi.DeviceRequest{one(`false`)}, want: `claim "p-t" (request "r", class "gpu"): node(s) without a free device for it`},
		"all":                       {requests: []resourceapi.DeviceRequest{all}},
		"all, one of which is another's": {requests: []resourceapi.DeviceRequest{all}, others: []runtime.Object{taken},
			want: `claim "p-t" (request "r", class "gpu"): node(s) without a free device for it`},
		"none is free": {requests: []resourceapi.DeviceRequest{one()}, others: []runtime.Object{taken},
			want: `claim "p-t" (request "r", class "gpu"): node(s) without a free device for it`},
		"administrative access to what others have": {requests: []resourceapi.DeviceRequest{admin}, others: []runtime.Object{taken}},
		"the second alternative":                    {requests: []resourceapi.DeviceRequest{list(sub("best", "gpu", 3), sub("next", "gpu", 1))}},
		"no alternative": {requests: []resourceapi.DeviceRequest{list(sub("best", "gpu", 3), sub("next", "gpu", 1, "false"))},
			want: `claim "p-t" (request "r", class "gpu"): node(s) without a free device for it`},
		"more than a claim can have": {requests: []resourceapi.DeviceRequest{schedtest.DeviceRequest("r", "gpu", 1<<40)},
			want: `claim "p-t" (request "r", class "gpu"): requests 1099511627776 devices, must be at most 32 for each claim`},
		"as many as overflow": {requests: []resourceapi.DeviceRequest{schedtest.DeviceRequest("a", "gpu", 1<<63-1), schedtest.DeviceRequest("b", "gpu", 1<<63-1)},
			want: `claim "p-t" (request "a", class "gpu"): requests 9223372036854775807 devices, must be at most 32 for each claim`},
		"more together": {requests: []resourceapi.DeviceRequest{schedtest.DeviceRequest("a", "gpu", 20), schedtest.DeviceRequest("b", "gpu", 20)},
			want: `claim "p-t": requests 40 devices, must be at most 32`},
		"a part of a device": {requests: []resourceapi.DeviceRequest{part},
			want: `claim "p-t" (request "r", class "gpu"): consumable capacity requires feature gate DRAConsumableCapacity, which is disabled in the scheduler`},
		"a class that is not there": {requests: []resourceapi.DeviceRequest{schedtest.DeviceRequest("r", "tpu", 1)},
			want: `claim "p-t" (request "r", class "tpu"): device class "tpu" does not exist`},
		"of no kind that is known": {requests: []resourceapi.DeviceRequest{{Name: "r"}},
			want: `claim "p-t" (request "r", class ""): the request has neither exactly nor firstAvailable`},
		"being deleted": {requests: []resourceapi.DeviceRequest{one()}, mutate: func(c *resourceapi.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: schedtest.Created.Time} },
			want: `claim "p-t" is being deleted`},
		"of another pod": {requests: []resourceapi.DeviceRequest{one()}, mutate: func(c *resourceapi.ResourceClaim) { c.OwnerReferences[0].UID = "another" },
			want: `claim "p-t" was created for another pod`},
		"used by too many":        {requests: []resourceapi.DeviceRequest{one()}, mutate: full, want: `claim "p-t" is used by 256 pods, which is the maximum`},
		"allocated for elsewhere": {requests: []resourceapi.DeviceRequest{one()}, mutate: elsewhere, want: `claim "p-t" (request "r", class "gpu"): node(s) cannot access its devices`},
		"allocated for all":       {requests: []resourceapi.DeviceRequest{one()}, mutate: func(c *resourceapi.ResourceClaim) { c.Status.Allocation = &resourceapi.AllocationResult{} }},
		"not there":               {claim: "gone", want: `claim "gone" does not exist`},
		"a selector that is none": {requests: []resourceapi.DeviceRequest{one("what?")},
			want: `claim "p-t" (request "r", class "gpu"): device search failed: claim ns/p-t: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:6: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}
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
			run(t, append(objects, own), func(w *testCluster) {
				if diff := cmp.Diff(tc.want, w.fits(p, "n")); diff != "" {
					t.Errorf("verdict (-want +got):\n%s", diff)
				}
				err := w.place(p, "n")
				if (err == nil) != (tc.want == "") {
					t.Errorf("the filter's result is %q, but Reserve returned %v", tc.want, err)
				}
			})
		})
	}
}

// TestAClaimOfPodsThatAreRolledBack checks that a pod with a shared claim waits for the end of another pod's rollback.
func TestAClaimOfPodsThatAreRolledBack(t *testing.T) {
	run(t, append(gpus("n"), schedtest.DeviceClaim("shared", one())), func(w *testCluster) {
		first := member("first", "shared")
		w.mustPlace(first, "n")
		w.mustPreBind(first)
		fails := w.failing("update", "resourceclaims", apierrors.NewInternalError(errors.New("etcd has no leader")))
		if err := w.plugin.Rollback(w.t.Context(), first, "n"); err == nil {
			t.Fatal("the rollback succeeded")
		}
		const want = `claim "shared" is used only by pods being deleted; retrying once they are deleted`
		if got := w.fits(member("next", "shared"), "n"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		fails.Store(false)
		w.rollBack(first)
	})
}

// TestMessagesOfSearchLimits has the reasons why no devices are searched for a namespace.
func TestMessagesOfSearchLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := map[string]string{}
		// search begins a search that takes this long. It returns the refusal, if any.
		search := func(b *workbudget.Budgets, namespace string, takes time.Duration) string {
			ctx, end, err := b.Begin(namespace, time.Second)
			if err != nil {
				return err.Error()
			}
			defer end()
			pause.For(ctx, takes)
			return ""
		}
		until := func(b *workbudget.Budgets, namespace string, takes time.Duration) (refused string) {
			for range 1000 {
				if refused = search(b, namespace, takes); refused != "" {
					break
				}
			}
			return refused
		}
		b := workbudget.New(searches, time.Second, nil)
		got["its searches took the limit of a cycle"] = until(b, "slow", 200*time.Millisecond)
		got["other namespaces took the time for slow searches"] = until(b, "other", 200*time.Millisecond)
		b = nil
		for range 3 {
			b = workbudget.New(searches, time.Second, b)
			got["its searches took the limit of several cycles"] = until(b, "slow", time.Minute)
		}
		want := map[string]string{
			"its searches took the limit of a cycle":           `device search budget of namespace "slow" (1s per cycle) is exhausted; retrying in a later cycle`,
			"other namespaces took the time for slow searches": `device search budget of slow namespaces (1s per cycle) is exhausted; retrying the searches of namespace "other" in a later cycle`,
			"its searches took the limit of several cycles":    `device searches of namespace "slow" take long and get only 1/20 of the time; retrying in a later cycle; fewer requests per claim make them faster`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
	})
}

// TestStepsThatFail has the errors of steps whose claim was changed or deleted after the placement.
func TestStepsThatFail(t *testing.T) {
	const own = `claim "p-t" (request "r", class "gpu"): `
	cases := map[string]struct {
		meanwhile func(w *testCluster)
		want      string
	}{
		"others allocated it": {func(w *testCluster) {
			w.change("p-t", func(c *resourceapi.ResourceClaim) { c.Status.Allocation = allocationOf("n", "gpu-1") })
		}, own + "the claim got another allocation in the meantime"},
		"it is being deleted": {func(w *testCluster) {
			w.change("p-t", func(c *resourceapi.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: schedtest.Created.Time} })
		}, own + "the claim is being deleted"},
		"it is another": {func(w *testCluster) { w.change("p-t", func(c *resourceapi.ResourceClaim) { c.UID = "another" }) }, own + "the claim was deleted and recreated after the pod was placed"},
		"it is gone": {func(w *testCluster) {
			if err := w.kube.ResourceV1().ResourceClaims(schedtest.Namespace).Delete(w.t.Context(), "p-t", metav1.DeleteOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}, own + "the claim was deleted after the pod was placed"},
		"it is given back": {func(w *testCluster) { w.take(w.tasks["p"]) }, "no devices are reserved for the pod's claims on this node"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			alone(t, func(w *testCluster) {
				tc.meanwhile(w)
				if err := w.preBind(w.tasks["p"])(); err == nil || err.Error() != tc.want {
					t.Errorf("got %v, want %q", err, tc.want)
				}
				w.rollBack(w.tasks["p"])
				w.nothingAssumed()
			})
		})
	}
}

// TestAnAllocatedClaimThatOthersChange has the errors of steps whose allocated claim was changed so that the pod may
// not use it on its node.
func TestAnAllocatedClaimThatOthersChange(t *testing.T) {
	const claim = `claim "c" (request "r", class "gpu"): `
	cases := map[string]struct {
		change func(*resourceapi.ResourceClaim)
		want   string
	}{
		"they allocate it again": {func(c *resourceapi.ResourceClaim) { c.Status.Allocation = allocationOf("m", "gpu-0") }, claim + "the claim got another allocation in the meantime"},
		"they free it":           {func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil }, claim + "the claim is no longer allocated"},
		"as many as may use it": {func(c *resourceapi.ResourceClaim) {
			c.Status.ReservedFor = make([]resourceapi.ResourceClaimConsumerReference, resourceapi.ResourceClaimReservedForMaxSize)
		}, claim + "the claim is used by 256 pods, which is the maximum"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			claim := schedtest.DeviceClaim("c", one())
			claim.Status.Allocation = allocationOf("n", "gpu-0")
			run(t, append(gpus("n", "m"), claim), func(w *testCluster) {
				p := member("p", "c")
				w.mustPlace(p, "n")
				w.change("c", tc.change)
				if err := w.preBind(p)(); err == nil || err.Error() != tc.want {
					t.Errorf("got %v, want %q", err, tc.want)
				}
				if slices.Contains(w.users("c"), "p") {
					t.Error("the claim is reserved for the pod")
				}
			})
		})
	}
}

// TestMessagesOfReserve has the reasons why a pod's devices cannot be reserved on a node that fitted the pod before.
func TestMessagesOfReserve(t *testing.T) {
	p := member("p", "made t")
	objects := append(gpus("n"), made(p, "t", schedtest.DeviceRequest("r", "gpu", 2)))
	run(t, objects, func(w *testCluster) {
		state, err := w.session.stateOf(p.Pod)
		if err != nil {
			t.Fatal(err)
		}
		plan, refused := w.session.planFor(p.Pod, state, w.nodes["n"].Node, nil)
		if refused != nil {
			t.Fatal(refused)
		}
		w.plugin.devices.ledger.assume("another", allocationOf("n", "gpu-1"))
		const want = "the devices were allocated to another pod in the meantime"
		if err := w.plugin.devices.assume(p.Pod, plan, w.session.round); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	run(t, objects, func(w *testCluster) {
		state, err := w.session.stateOf(p.Pod)
		if err != nil {
			t.Fatal(err)
		}
		plan, refused := w.session.planFor(p.Pod, state, w.nodes["n"].Node, nil)
		if refused != nil {
			t.Fatal(refused)
		}
		w.mustPlace(p, "n")
		const want = "devices reserved for the pod on node n are not released yet"
		if err := w.plugin.devices.assume(p.Pod, plan, w.session.round); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

// TestMessagesOfAPrioritizedList has the refusal of a request with alternatives if they are disabled.
func TestMessagesOfAPrioritizedList(t *testing.T) {
	p := member("p", "made t")
	list := resourceapi.DeviceRequest{Name: "r", FirstAvailable: []resourceapi.DeviceSubRequest{{Name: "best", DeviceClassName: "gpu", Count: 1}}}
	run(t, append(gpus("n"), made(p, "t", list)), func(w *testCluster) {
		w.plugin.devices.catalog.features.PrioritizedList = false
		const want = `claim "p-t" (request "r", class "gpu"): a prioritized list requires feature gate DRAPrioritizedList, which is disabled in the scheduler`
		if got := w.fits(p, "n"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestMessagesOfPreBind has further errors of the step: for a recreated claim, and for writes that the API server does
// not accept.
func TestMessagesOfPreBind(t *testing.T) {
	p := member("p", "made t")
	down := apierrors.NewInternalError(errors.New("etcd has no leader"))
	fails := func(w *testCluster) { w.failing("update", "resourceclaims", down) }
	allocated := made(p, "t", one())
	allocated.Status.Allocation = allocationOf("n", "gpu-0")
	cases := map[string]struct {
		claim     *resourceapi.ResourceClaim
		meanwhile func(w *testCluster)
		want      string
	}{
		"a claim without requests": {made(p, "t"), func(w *testCluster) { w.change("p-t", func(c *resourceapi.ResourceClaim) { c.UID = "another" }) },
			`claim "p-t" (no requests): the claim was deleted and recreated after the pod was placed`},
		"the finalizer is not written": {made(p, "t", one()), fails,
			`claim "p-t" (request "r", class "gpu"): protecting the claim from deletion: Internal error occurred: etcd has no leader`},
		"the reservation is not written": {allocated, fails,
			`claim "p-t" (request "r", class "gpu"): reserving the claim: Internal error occurred: etcd has no leader`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, append(gpus("n"), tc.claim), func(w *testCluster) {
				w.mustPlace(p, "n")
				tc.meanwhile(w)
				if err := w.preBind(p)(); err == nil || err.Error() != tc.want {
					t.Errorf("got %v, want %s", err, tc.want)
				}
			})
		})
	}
}

// TestMessagesOfACutOffWait has the error of a step whose context ends while it waits for devices to be prepared.
func TestMessagesOfACutOffWait(t *testing.T) {
	p := member("p", "made t")
	slice := schedtest.NodeDevices("n", "gpu-0")
	slice.Spec.Devices[0].BindingConditions, slice.Spec.Devices[0].BindingFailureConditions = []string{"attached"}, []string{"broken"}
	run(t, append(someNodes("n"), schedtest.DeviceClass("gpu"), slice, made(p, "t", one())), func(w *testCluster) {
		w.plugin.devices.catalog.features.DeviceBinding, w.plugin.devices.catalog.features.DeviceStatus = true, true
		w.mustPlace(p, "n")
		ctx, cancel := context.WithCancelCause(w.t.Context())
		done := make(chan error, 1)
		go func() { done <- w.plugin.PreBind(ctx, p, "n") }()
		synctest.Wait()
		cancel(errors.New("the gang fell below its minimum"))
		const want = `claim "p-t" (request "r", class "gpu"): waiting for the binding conditions of its devices: the gang fell below its minimum`
		if err := <-done; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

// TestMessagesOfArguments has the errors of invalid arguments.
func TestMessagesOfArguments(t *testing.T) {
	cases := map[string]struct {
		args map[string]any
		want string
	}{
		"the smallest":  {args: map[string]any{filterTimeoutArgument: 1, searchArgument: 1, bindingTimeoutArgument: 1}},
		"the largest":   {args: map[string]any{filterTimeoutArgument: 60, searchArgument: 60, bindingTimeoutArgument: 86400}},
		"too small":     {args: map[string]any{filterTimeoutArgument: 0}, want: "dynamicresources.filterTimeoutSeconds: found 0, want a whole number from 1 to 60"},
		"too large":     {args: map[string]any{bindingTimeoutArgument: 86401}, want: "dynamicresources.bindingTimeoutSeconds: found 86401, want a whole number from 1 to 86400"},
		"no number":     {args: map[string]any{searchArgument: "x"}, want: "dynamicresources.searchSeconds: found x, want a whole number from 1 to 60"},
		"two are wrong": {args: map[string]any{searchArgument: 61, filterTimeoutArgument: 61}, want: "dynamicresources.filterTimeoutSeconds: found 61, want a whole number from 1 to 60\ndynamicresources.searchSeconds: found 61, want a whole number from 1 to 60"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if _, err := Spec().Load(tc.args); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}
