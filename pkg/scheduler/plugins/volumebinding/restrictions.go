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
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// forOnePod reports whether only one pod at a time may use the claim (ReadWriteOncePod, KEP-2485).
func forOnePod(claim *v1.PersistentVolumeClaim) bool {
	return slices.Contains(claim.Spec.AccessModes, v1.ReadWriteOncePod)
}

// users records which pods use a claim: pods on nodes, and pods placed in the session. The record is built when it is first
// needed.
type users struct {
	pods  corelisters.PodLister
	nodes map[string]*api.NodeInfo

	// evicts reports whether the current action evicts pods and places tasks on what these release; nil if that is not known. For
	// such an action, pods that are being deleted do not count.
	evicts func() bool

	// mu guards the fields below, because upstream's actions call predicates for several nodes concurrently. by has the names of
	// pods, by claim and by the pod's UID. It is nil until it is first needed. leaving are the pods that are being deleted, or that the
	// session evicted.
	mu      sync.Mutex
	by      map[types.NamespacedName]map[types.UID]string
	leaving map[types.UID]bool
}

// watch keeps the record of pods that are being deleted up to date while the session evicts pods.
func (u *users) watch(ssn *framework.Session) {
	u.evicts = func() bool { return framework.MakesRoom(ssn) }
	note := func(e *vcframework.Event) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.noteLeaving(e.Task)
	}
	ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: note, DeallocateFunc: note})
}

// areEvicted reports whether the current action evicts pods.
func (u *users) areEvicted() bool { return u.evicts != nil && u.evicts() }

// noteLeaving records whether the task's pod is being deleted. The caller holds u.mu.
func (u *users) noteLeaving(task *api.TaskInfo) {
	if task.Status == api.Releasing {
		u.leaving[task.Pod.UID] = true
	} else {
		delete(u.leaving, task.Pod.UID)
	}
}

// otherThan returns the name of another pod that uses the claim, if only one pod may use it (ReadWriteOncePod). It returns an
// empty name if no other pod uses the claim, or if several pods may use it.
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
	evicts := u.areEvicted()
	for uid, name := range u.by[nameOf(claim)] {
		if uid != pod.UID && !(evicts && u.leaving[uid]) && (first == "" || name < first) {
			first = name
		}
	}
	return first
}

// count records the claims of the pods on the session's nodes, including pods that are being bound. It also records the
// claims of all other unfinished pods that the informer shows on a node, even if the node is not in the session.
func (u *users) count() {
	u.by = map[types.NamespacedName]map[types.UID]string{}
	for _, node := range u.nodes {
		for _, task := range node.Tasks {
			u.addCounted(task.Pod)
			u.noteLeaving(task)
		}
	}
	pods, err := u.pods.List(labels.Everything())
	if err != nil {
		klog.ErrorS(err, "Listing pods failed; ReadWriteOncePod claims of pods on nodes outside of the session are not checked")
	}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" && !podutil.IsPodTerminal(pod) {
			u.addCounted(pod)
		}
	}
}

// add records the claims of a pod that was placed in the session.
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

// hasDisks reports whether a volume of the pod is a disk that several pods on a node can share only for reading, or cannot share.
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

// disksOf returns the disks of the pod, but at most mostDisks and one more. The caller reports an error if there are more than
// mostDisks.
func disksOf(pod *v1.Pod) []*v1.Volume {
	var disks []*v1.Volume
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; isDisk(v) && len(disks) <= mostDisks {
			disks = append(disks, v)
		}
	}
	return disks
}

// diskConflict returns the reason why the pod cannot run on the node; empty if it can. A pod on the node may use one of the same
// disks in a way that excludes this pod, or the pod may have too many disks. The rules are the same as in Kubernetes' plugin
// VolumeRestrictions. If evicts is true, pods that are being deleted do not count.
func diskConflict(pod *v1.Pod, node *api.NodeInfo, evicts bool) string {
	if !hasDisks(pod) {
		return ""
	}
	disks := disksOf(pod)
	if len(disks) > mostDisks {
		return fmt.Sprintf("the pod has more disks than the limit of %d", mostDisks)
	}
	conflict := ""
	for _, task := range node.Tasks {
		if task.Pod.UID == pod.UID || evicts && task.Status == api.Releasing {
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
	return fmt.Sprintf("node(s) with a pod that uses the disk of volume %s", brief.Value(conflict))
}

// sameDisk reports whether the volumes of two pods are the same disk, and the pods cannot share the disk. They can share it if
// both only read the disk, except on AWS.
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
