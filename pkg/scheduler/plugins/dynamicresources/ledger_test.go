// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestTheLatestVersionOfAClaimCounts checks that the latest version of a claim counts, whatever the order of writes and
// informer events.
func TestTheLatestVersionOfAClaimCounts(t *testing.T) {
	claim := func(version string, devices ...string) *resourceapi.ResourceClaim {
		c := schedtest.DeviceClaim("c")
		if c.ResourceVersion = version; len(devices) > 0 {
			c.Status.Allocation = allocationOf("n", devices...)
		}
		return c
	}
	var d *devices
	var events cache.ResourceEventHandler
	shows := func(c *resourceapi.ResourceClaim) func() { return func() { events.OnUpdate(nil, c) } }
	wrote := func(c *resourceapi.ResourceClaim) func() { return func() { d.wrote(c) } }
	cases := map[string]struct {
		steps []func()
		// taken reports whether the device of the claim is in use.
		taken bool
	}{
		"it is shown":                              {[]func(){shows(claim("5", "gpu"))}, true},
		"it is written, and not shown yet":         {[]func(){shows(claim("5")), wrote(claim("6", "gpu"))}, true},
		"it is written, and shown":                 {[]func(){shows(claim("5")), wrote(claim("6", "gpu")), shows(claim("6", "gpu"))}, true},
		"it is shown before the answer comes":      {[]func(){shows(claim("6", "gpu")), wrote(claim("6", "gpu")), shows(claim("7"))}, false},
		"others free it before the answer comes":   {[]func(){shows(claim("7")), wrote(claim("6", "gpu"))}, false},
		"others free it after it was written":      {[]func(){wrote(claim("6", "gpu")), shows(claim("7"))}, false},
		"of two answers the first comes later":     {[]func(){wrote(claim("7")), wrote(claim("6", "gpu"))}, false},
		"an older version is shown when it is not": {[]func(){shows(claim("7")), shows(claim("6", "gpu"))}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d = &devices{ledger: newLedger(false)}
			d.claims = assumecache.NewAssumeCache(klog.Background(), informer{&events}, "ResourceClaim", "", nil)
			d.claims.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: d.refresh, UpdateFunc: d.refreshBoth, DeleteFunc: d.refresh})
			events.OnAdd(claim("4"), true)
			for _, step := range tc.steps {
				step()
			}
			if taken := !d.ledger.free(allocationOf("n", "gpu")); taken != tc.taken {
				t.Errorf("the claim's device is in use: %v, want %v", taken, tc.taken)
			}
			events.OnDelete(claim("9"))
			wrote(claim("8", "gpu"))()
			if len(d.ledger.claims)+len(d.ledger.users) > 0 {
				t.Errorf("claims %v and users %v remain of a deleted claim", d.ledger.claims, d.ledger.users)
			}
		})
	}
}

// informer is an informer whose events the test sends.
type informer struct{ events *cache.ResourceEventHandler }

func (i informer) AddEventHandler(events cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	*i.events = events
	return nil, nil
}

// TestStoredAndAssumedDevicesAreTaken: a claim may be stored with one device and assumed to have another. No other
// claim may have either.
func TestStoredAndAssumedDevicesAreTaken(t *testing.T) {
	l := newLedger(false)
	stored, assumed := allocationOf("n", "stored"), allocationOf("n", "assumed")
	claim := schedtest.DeviceClaim("c")
	expect := func(when string, storedTaken, assumedTaken bool) {
		t.Helper()
		if got := !l.free(stored); got != storedTaken {
			t.Errorf("%s: the stored device is taken: %v, want %v", when, got, storedTaken)
		}
		if got := !l.free(assumed); got != assumedTaken {
			t.Errorf("%s: the assumed device is taken: %v, want %v", when, got, assumedTaken)
		}
	}
	l.store(claim.UID, stored)
	l.assume(claim.UID, assumed)
	expect("both", true, true)
	l.assume(claim.UID, nil)
	expect("stored", true, false)
	l.assume(claim.UID, allocationOf("n", "stored"))
	expect("stored as assumed", true, false)
	for device, users := range l.users {
		if users != 1 {
			t.Errorf("device %v counts for %d claims, want 1", device, users)
		}
	}
	l.store(claim.UID, nil)
	l.assume(claim.UID, nil)
	expect("gone", false, false)
}
