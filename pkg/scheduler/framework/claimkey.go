// SPDX-License-Identifier: Apache-2.0

package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// VolumeKeyFn tells volumes with claims apart: equal keys mean that no verdict depends on which of the volumes a pod has.
type VolumeKeyFn = func(pod *v1.Pod, volume *v1.Volume) string

// ResourceClaimKeyFn tells claims of devices apart in the same way.
type ResourceClaimKeyFn = func(pod *v1.Pod, claim *v1.PodResourceClaim) string

// AddVolumeKeyFn has pods whose volumes have equal keys, and that are equal otherwise, be of one class: without it the name of
// a claim makes each pod with a claim of its own a class of its own. The plugin's verdict on a pod must hold for all that have
// its key, unless the pod is uncacheable (AddUncacheableTaskFn). One plugin has that say; the first is asked.
func (ssn *Session) AddVolumeKeyFn(plugin string, fn VolumeKeyFn) { ssn.volumeKey.add(plugin, fn) }

// AddResourceClaimKeyFn does for the resource claims of pods what AddVolumeKeyFn does for their volumes.
func (ssn *Session) AddResourceClaimKeyFn(plugin string, fn ResourceClaimKeyFn) {
	ssn.claimKey.add(plugin, fn)
}

// VolumeKey returns the key of a volume with a claim; false when no plugin says, or it panics.
func (ssn *Session) VolumeKey(pod *v1.Pod, volume *v1.Volume) (key string, ok bool) {
	if volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil {
		return "", false
	}
	return ssn.volumeKey.ask(pod, volume)
}

// ResourceClaimKey returns the key of a pod's claim; false when no plugin says, or it panics.
func (ssn *Session) ResourceClaimKey(pod *v1.Pod, claim *v1.PodResourceClaim) (key string, ok bool) {
	return ssn.claimKey.ask(pod, claim)
}

// claimKey is what one plugin says of what pods claim. The zero value says nothing.
type claimKey[T any] struct {
	plugin string
	fn     func(pod *v1.Pod, claim *T) string
}

func (k *claimKey[T]) add(plugin string, fn func(*v1.Pod, *T) string) {
	if k.fn == nil {
		k.plugin, k.fn = plugin, fn
	}
}

func (k *claimKey[T]) ask(pod *v1.Pod, claim *T) (key string, ok bool) {
	if k.fn == nil {
		return "", false
	}
	defer func() {
		if p := recover(); p != nil {
			klog.Background().Error(nil, "Plugin panicked", "plugin", k.plugin, "panic", p)
			key, ok = "", false
		}
	}()
	return k.fn(pod, claim), true
}
