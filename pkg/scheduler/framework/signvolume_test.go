// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

type (
	volumeKey func(*v1.Pod, *v1.Volume) string
	claimKey  func(*v1.Pod, *v1.PodResourceClaim) string
)

// keyed is a Signer with keys of volumes and claims.
type keyed struct {
	DefaultSigner
	volume volumeKey
	claim  claimKey
}

func (k keyed) SignVolume(pod *v1.Pod, volume *v1.Volume) string         { return k.volume(pod, volume) }
func (k keyed) SignClaim(pod *v1.Pod, claim *v1.PodResourceClaim) string { return k.claim(pod, claim) }

// TestVolumeKeys checks that the first plugin decides the key of a volume with a claim. A volume has no key if it has
// no claim, if no plugin signs volumes, or if the plugin panics.
func TestVolumeKeys(t *testing.T) {
	claim := v1.Volume{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}
	scratch := v1.Volume{VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}
	says := func(key string) volumeKey { return func(*v1.Pod, *v1.Volume) string { return key } }
	cases := map[string]struct {
		fns    []volumeKey
		volume v1.Volume
		want   string
		ok     bool
	}{
		"no plugin":                {volume: claim},
		"a claim":                  {fns: []volumeKey{says("a")}, volume: claim, want: "a", ok: true},
		"an ephemeral volume":      {fns: []volumeKey{says("a")}, volume: scratch, want: "a", ok: true},
		"a volume without a claim": {fns: []volumeKey{says("a")}, volume: v1.Volume{}},
		"two plugins":              {fns: []volumeKey{says("a"), says("b")}, volume: claim, want: "a", ok: true},
		"a panic":                  {fns: []volumeKey{func(*v1.Pod, *v1.Volume) string { panic("oh no") }}, volume: claim},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := newSigners()
			for _, fn := range tc.fns {
				v.add("p", keyed{volume: fn}, nil, true)
			}
			if key, ok := v.VolumeKey(&v1.Pod{}, &tc.volume); key != tc.want || ok != tc.ok {
				t.Errorf("got %q, %v, want %q, %v", key, ok, tc.want, tc.ok)
			}
		})
	}
}

// TestResourceClaimKeys checks the same for device claims.
func TestResourceClaimKeys(t *testing.T) {
	says := func(key string) claimKey { return func(*v1.Pod, *v1.PodResourceClaim) string { return key } }
	cases := map[string]struct {
		fns  []claimKey
		want string
		ok   bool
	}{
		"no plugin":   {},
		"a plugin":    {fns: []claimKey{says("a")}, want: "a", ok: true},
		"two plugins": {fns: []claimKey{says("a"), says("b")}, want: "a", ok: true},
		"a panic":     {fns: []claimKey{func(*v1.Pod, *v1.PodResourceClaim) string { panic("oh no") }}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			v := newSigners()
			for _, fn := range tc.fns {
				v.add("p", keyed{claim: fn}, nil, true)
			}
			if key, ok := v.ClaimKey(&v1.Pod{}, &v1.PodResourceClaim{}); key != tc.want || ok != tc.ok {
				t.Errorf("got %q, %v, want %q, %v", key, ok, tc.want, tc.ok)
			}
		})
	}
}
