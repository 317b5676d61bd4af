// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// forOnePod reports whether only one pod at a time may use the claim (ReadWriteOncePod, KEP-2485).
func forOnePod(claim *v1.PersistentVolumeClaim) bool {
	return slices.Contains(claim.Spec.AccessModes, v1.ReadWriteOncePod)
}

// users are the pods on nodes, and the pods placed in the session, by their claims. They are counted at the first use.
type users struct {
	pods  corelisters.PodLister
	nodes map[string]*api.NodeInfo

	// mu guards by, which is nil before the first use. It is needed because upstream's actions call predicates for
	// several nodes concurrently.
	mu sync.Mutex
	by map[types.NamespacedName]map[types.UID]string
}

// otherThan names another pod than this one that uses the claim, which is for one pod at a time; empty if there is
// none.
func (u *users) otherThan(pod *v1.Pod, claim *v1.PersistentVolumeClaim) string {
	if !forOnePod(claim) {
		return ""
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by == nil {
		u.count()
	}
	first := ""
	for uid, name := range u.by[nameOf(claim)] {
		if uid != pod.UID && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

// count counts the pods on the session's nodes, including pods being bound, and all other pods, which may be on nodes outside of
// the session.
func (u *users) count() {
	u.by = map[types.NamespacedName]map[types.UID]string{}
	for _, node := range u.nodes {
		for _, task := range node.Tasks {
			u.addCounted(task.Pod)
		}
	}
	pods, err := u.pods.List(labels.Everything())
	if err != nil {
		klog.ErrorS(err, "Listing pods failed, ReadWriteOncePod claims of pods on nodes outside of the session are not checked")
	}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && !podutil.IsPodTerminal(pod) {
			u.addCounted(pod)
		}
	}
}

// add records a pod that was placed.
func (u *users) add(pod *v1.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.by != nil {
		u.addCounted(pod)
	}
}

func (u *users) addCounted(pod *v1.Pod) {
	for _, own := range claimVolumes(pod) {
		if u.by[own.claim] == nil {
			u.by[own.claim] = map[types.UID]string{}
		}
		u.by[own.claim][pod.UID] = pod.Name
	}
}

func (u *users) remove(pod *v1.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, own := range claimVolumes(pod) {
		delete(u.by[own.claim], pod.UID)
	}
}

// hasDisks reports whether the pod has a disk that can be attached to one node at a time, or to several only for
// reading.
func hasDisks(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if isDisk(&pod.Spec.Volumes[i]) {
			return true
		}
	}
	return false
}

func isDisk(v *v1.Volume) bool {
	return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.ISCSI != nil || v.RBD != nil
}

// disksOf returns the pod's disks, up to a limit.
func disksOf(pod *v1.Pod) []*v1.Volume {
	var disks []*v1.Volume
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; isDisk(v) && len(disks) <= mostDisks {
			disks = append(disks, v)
		}
	}
	return disks
}

// diskConflict returns the pod on the node that has one of the pod's disks in a way that excludes this pod; empty if
// there is none. The rules are the same as in Kubernetes' VolumeRestrictions plugin.
func diskConflict(pod *v1.Pod, node *api.NodeInfo) string {
	if !hasDisks(pod) {
		return ""
	}
	disks := disksOf(pod)
	if len(disks) > mostDisks {
		return fmt.Sprintf("the pod has more disks than the limit of %d", mostDisks)
	}
	conflict := ""
	for _, task := range node.Tasks {
		if task.Pod.UID == pod.UID {
			continue
		}
		for i := range task.Pod.Spec.Volumes {
			other := &task.Pod.Spec.Volumes[i]
			if !isDisk(other) {
				continue
			}
			if at := slices.IndexFunc(disks, func(own *v1.Volume) bool { return sameDisk(own, other) }); at >= 0 && (conflict == "" || disks[at].Name < conflict) {
				conflict = disks[at].Name
			}
		}
	}
	if conflict == "" {
		return ""
	}
	return fmt.Sprintf("node(s) run a pod that uses the disk of volume %s", brief.Value(conflict))
}

// sameDisk reports whether the two volumes are one disk that they cannot share. Volumes that only read a disk can share
// it, except on AWS.
func sameDisk(a, b *v1.Volume) bool {
	switch {
	case a.GCEPersistentDisk != nil && b.GCEPersistentDisk != nil:
		l, r := a.GCEPersistentDisk, b.GCEPersistentDisk
		return l.PDName == r.PDName && !(l.ReadOnly && r.ReadOnly)
	case a.AWSElasticBlockStore != nil && b.AWSElasticBlockStore != nil:
		return a.AWSElasticBlockStore.VolumeID == b.AWSElasticBlockStore.VolumeID
	case a.ISCSI != nil && b.ISCSI != nil:
		return a.ISCSI.IQN == b.ISCSI.IQN && !(a.ISCSI.ReadOnly && b.ISCSI.ReadOnly)
	case a.RBD != nil && b.RBD != nil:
		l, r := a.RBD, b.RBD
		shared := slices.ContainsFunc(l.CephMonitors, func(monitor string) bool { return slices.Contains(r.CephMonitors, monitor) })
		return shared && l.RBDPool == r.RBDPool && l.RBDImage == r.RBDImage && !(l.ReadOnly && r.ReadOnly)
	}
	return false
}
