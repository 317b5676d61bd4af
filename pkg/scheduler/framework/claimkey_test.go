// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestVolumeKeys: the first plugin tells volumes with claims apart; a panic leaves that to the claims' names.
func TestVolumeKeys(t *testing.T) {
	claim := v1.Volume{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}
	scratch := v1.Volume{VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}
	says := func(key string) VolumeKeyFn { return func(*v1.Pod, *v1.Volume) string { return key } }
	cases := map[string]struct {
		fns    []VolumeKeyFn
		volume v1.Volume
		want   string
		ok     bool
	}{
		"no plugin":                {volume: claim},
		"a claim":                  {fns: []VolumeKeyFn{says("a")}, volume: claim, want: "a", ok: true},
		"an ephemeral volume":      {fns: []VolumeKeyFn{says("a")}, volume: scratch, want: "a", ok: true},
		"a volume without a claim": {fns: []VolumeKeyFn{says("a")}, volume: v1.Volume{}},
		"two plugins":              {fns: []VolumeKeyFn{says("a"), says("b")}, volume: claim, want: "a", ok: true},
		"a panic":                  {fns: []VolumeKeyFn{func(*v1.Pod, *v1.Volume) string { panic("oh no") }}, volume: claim},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ssn := newSession(nil, nil)
			for _, fn := range tc.fns {
				ssn.AddVolumeKeyFn("p", fn)
			}
			if key, ok := ssn.VolumeKey(&v1.Pod{}, &tc.volume); key != tc.want || ok != tc.ok {
				t.Errorf("got %q, %v, want %q, %v", key, ok, tc.want, tc.ok)
			}
		})
	}
}

// TestResourceClaimKeys: the same goes for claims of devices.
func TestResourceClaimKeys(t *testing.T) {
	says := func(key string) ResourceClaimKeyFn { return func(*v1.Pod, *v1.PodResourceClaim) string { return key } }
	cases := map[string]struct {
		fns  []ResourceClaimKeyFn
		want string
		ok   bool
	}{
		"no plugin":   {},
		"a plugin":    {fns: []ResourceClaimKeyFn{says("a")}, want: "a", ok: true},
		"two plugins": {fns: []ResourceClaimKeyFn{says("a"), says("b")}, want: "a", ok: true},
		"a panic":     {fns: []ResourceClaimKeyFn{func(*v1.Pod, *v1.PodResourceClaim) string { panic("oh no") }}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ssn := newSession(nil, nil)
			for _, fn := range tc.fns {
				ssn.AddResourceClaimKeyFn("p", fn)
			}
			if key, ok := ssn.ResourceClaimKey(&v1.Pod{}, &v1.PodResourceClaim{}); key != tc.want || ok != tc.ok {
				t.Errorf("got %q, %v, want %q, %v", key, ok, tc.want, tc.ok)
			}
		})
	}
}
