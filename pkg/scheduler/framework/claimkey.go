// SPDX-License-Identifier: Apache-2.0

package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// ResourceClaimKeyFn tells claims of devices apart: equal keys mean that no verdict depends on which of the claims a pod has.
type ResourceClaimKeyFn func(pod *v1.Pod, claim *v1.PodResourceClaim) string

// AddResourceClaimKeyFn does for the resource claims of pods what AddVolumeKeyFn does for their volumes: pods whose claims have
// equal keys, and that are equal otherwise, are of one class. One plugin has that say; the first is asked.
func (ssn *Session) AddResourceClaimKeyFn(plugin string, fn ResourceClaimKeyFn) {
	if ssn.claimKey == nil {
		ssn.claimKey, ssn.claimKeyBy = fn, plugin
	}
}

// ResourceClaimKey returns the key of a pod's claim; false when no plugin says, or it panics.
func (ssn *Session) ResourceClaimKey(pod *v1.Pod, claim *v1.PodResourceClaim) (key string, ok bool) {
	if ssn.claimKey == nil {
		return "", false
	}
	defer func() {
		if p := recover(); p != nil {
			klog.Background().Error(nil, "Plugin panicked", "plugin", ssn.claimKeyBy, "panic", p)
			key, ok = "", false
		}
	}()
	return ssn.claimKey(pod, claim), true
}
