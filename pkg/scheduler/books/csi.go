// SPDX-License-Identifier: Apache-2.0

package books

import (
	"math"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// unlimited is the attach limit for a CSI driver whose CSINode states no limit. Each driver needs a limit, because pods
// count the volumes of all drivers as requests.
const unlimited = math.MaxInt32

// AttachLimit returns the name of the resource that counts the volumes of a CSI driver.
func AttachLimit(driver string) v1.ResourceName {
	return v1.ResourceName(volumeutil.GetCSIAttachLimitKey(driver))
}

// ShowCSI is called with each version of a CSINode.
func (n *Nodes) ShowCSI(shown *storagev1.CSINode) {
	status, limits := &api.CSINodeStatusInfo{CSINodeName: shown.Name, DriverStatus: map[string]bool{}}, v1.ResourceList{}
	for _, driver := range shown.Spec.Drivers {
		limited := driver.Allocatable != nil && driver.Allocatable.Count != nil
		count := int64(unlimited)
		if limited {
			count = int64(*driver.Allocatable.Count)
		}
		status.DriverStatus[driver.Name] = limited
		limits[AttachLimit(driver.Name)] = *resource.NewScaledQuantity(count, resource.Milli)
	}
	n.lock.Lock()
	defer n.lock.Unlock()
	n.csiLimits[shown.Name], n.csiStatuses[shown.Name] = limits, status
	n.limit(shown.Name)
}

// HideCSI is called when the watch shows that the CSINode was deleted.
func (n *Nodes) HideCSI(name string) {
	n.lock.Lock()
	defer n.lock.Unlock()
	delete(n.csiLimits, name)
	delete(n.csiStatuses, name)
	n.limit(name)
}

// limit rebuilds the node's entry with the attach limits of the node's current CSINode.
func (n *Nodes) limit(name string) {
	if e := n.entries[name]; e != nil && e.shown != nil {
		n.recent.note(e)
		n.rebuild(e, n.withVolumeLimits(e.shown))
	}
}
