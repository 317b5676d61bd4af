// SPDX-License-Identifier: Apache-2.0

package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// VolumeKeyFn tells volumes with claims apart: equal keys mean that no verdict depends on which of the volumes a pod has.
type VolumeKeyFn func(pod *v1.Pod, volume *v1.Volume) string

// AddVolumeKeyFn has pods whose volumes have equal keys, and that are equal otherwise, be of one class: without it the name of
// a claim makes each pod with a claim of its own a class of its own. The plugin's verdict on a pod must hold for all that have
// its key, unless the pod is uncacheable (AddUncacheableTaskFn). One plugin has that say; the first is asked.
func (ssn *Session) AddVolumeKeyFn(plugin string, fn VolumeKeyFn) {
	if ssn.volumeKey == nil {
		ssn.volumeKey, ssn.volumeKeyBy = fn, plugin
	}
}

// VolumeKey returns the key of a volume with a claim; false when no plugin says, or it panics.
func (ssn *Session) VolumeKey(pod *v1.Pod, volume *v1.Volume) (key string, ok bool) {
	if ssn.volumeKey == nil || volume.PersistentVolumeClaim == nil && volume.Ephemeral == nil {
		return "", false
	}
	defer func() {
		if p := recover(); p != nil {
			klog.Background().Error(nil, "Plugin panicked", "plugin", ssn.volumeKeyBy, "panic", p)
			key, ok = "", false
		}
	}()
	return ssn.volumeKey(pod, volume), true
}
