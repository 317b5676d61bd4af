// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// volumeInventory holds the volumes and storage capacities that the nodes of a session reach. Objects created during the session
// are not added. If an object is deleted or reserved during the session, the inventory respects this at once, because each use
// reads the current object. assumptions.mu guards the inventory. Callers hold it unless a method says otherwise.
type volumeInventory struct {
	objects     *objects
	assumptions *assumptions
	labels      *nodeLabels
	jobs        map[api.JobID]*api.JobInfo

	classes map[string]*classInventory
	pending *pendingClaims
}

// classInventory has the volumes and storage capacities of one storage class that the nodes of a session reach.
type classInventory struct {
	// free maps the name of a node to the lists of volumes without a claim that the node reaches. Volumes that all nodes reach are in
	// everywhere instead. Both fields are filled when the session first needs the storage class.
	free       map[string][]*freeVolumes
	everywhere *freeVolumes
	// capacities are the names of the CSIStorageCapacities that a node reaches, by node name. They are sorted by namespace and
	// name. tracked reports whether the CSI driver publishes CSIStorageCapacities.
	capacities map[string][]types.NamespacedName
	tracked    bool
	// shared reports whether several nodes reach one of the free volumes. In that case, a placement on one node affects other
	// nodes.
	shared bool
	// pools are the storage capacities that several nodes share, in their state when the session first needed the storage class.
	pools []capacityPool
}

// capacityPool is the storage capacity that several nodes share. left is the number of bytes that remain. bySize reports whether
// the driver also publishes a maximum volume size. If bySize is true, the first volume that is taken from the pool may be
// larger than left: only the maximum size limits it.
type capacityPool struct {
	left   int64
	bySize bool
}

func newInventory(v *volumes, nodes map[string]*api.NodeInfo, jobs map[api.JobID]*api.JobInfo) *volumeInventory {
	return &volumeInventory{objects: &v.objects, assumptions: &v.assumptions, labels: newNodeLabels(nodes), jobs: jobs, classes: map[string]*classInventory{}}
}

// of returns the inventory of the storage class. The first call for a storage class builds the inventory.
func (s *volumeInventory) of(class string) *classInventory {
	if known := s.classes[class]; known != nil {
		return known
	}
	c := &classInventory{free: map[string][]*freeVolumes{}, capacities: map[string][]types.NamespacedName{}}
	s.classes[class] = c
	s.addFree(c, class)
	s.addCapacities(c, class)
	return c
}

func (s *volumeInventory) addCapacities(c *classInventory, name string) {
	class, err := s.objects.classes.Get(name)
	if err != nil {
		return
	}
	driver, err := s.objects.drivers.Get(class.Provisioner)
	if err != nil || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return
	}
	c.tracked = true
	s.claimed()                                              // counts pending claims now, to compare them with the capacities below
	all, _ := s.objects.capacities.List(labels.Everything()) // the lister reads from memory and returns no error
	all = slices.DeleteFunc(all, func(capacity *storagev1.CSIStorageCapacity) bool {
		return capacity.StorageClassName != name || capacity.NodeTopology == nil
	})
	slices.SortFunc(all, func(l, r *storagev1.CSIStorageCapacity) int {
		return cmp.Or(cmp.Compare(l.Namespace, r.Namespace), cmp.Compare(l.Name, r.Name))
	})
	for _, capacity := range all {
		nodes, key := s.labels.selected(capacity.NodeTopology), capacityName(capacity)
		for _, node := range nodes {
			c.capacities[node.Name] = append(c.capacities[node.Name], key)
		}
		if capacity.Capacity != nil && len(nodes) > 1 {
			c.pools = append(c.pools, capacityPool{capacity.Capacity.Value() - s.assumptions.drawn[key], capacity.MaximumVolumeSize != nil})
		}
	}
}

func capacityName(capacity *storagev1.CSIStorageCapacity) types.NamespacedName {
	return types.NamespacedName{Namespace: capacity.Namespace, Name: capacity.Name}
}

// coupled reports whether placements on other nodes may change which nodes have a volume for the claim. They may if several nodes
// reach a free volume of the claim's storage class. They also may if several nodes share a storage capacity that is too small for
// the requests of all pending claims plus the largest request of a pod.
func (s *volumeInventory) coupled(claim *v1.PersistentVolumeClaim) bool {
	name := volume.GetPersistentVolumeClaimClass(claim)
	c := s.of(name)
	if c.shared {
		return true
	}
	claimed := s.claimed()
	return slices.ContainsFunc(c.pools, func(p capacityPool) bool {
		return p.left < claimed.bytes[name]+claimed.most[name] && (p.bySize || p.left >= sizeOf(claim))
	})
}

func sizeOf(claim *v1.PersistentVolumeClaim) int64 {
	size := claim.Spec.Resources.Requests[v1.ResourceStorage]
	return size.Value()
}

// pendingClaims counts the unbound claims of tasks that were pending, allocated or pipelined when the session first needed the
// counts. users is the number of pods that use each claim. bytes is the storage that all pods together request from each storage
// class. most is the largest request of one pod from each storage class.
type pendingClaims struct {
	users       map[types.NamespacedName]int
	bytes, most map[string]int64
	// selectors are the label selectors of the counted claims, by storage class and by the text of the selector.
	selectors map[string]map[string]labels.Selector
}

// claimed returns the counts of the unbound claims of the session's tasks. The first call counts them.
func (s *volumeInventory) claimed() *pendingClaims {
	if s.pending != nil {
		return s.pending
	}
	p := &pendingClaims{users: map[types.NamespacedName]int{}, bytes: map[string]int64{}, most: map[string]int64{}, selectors: map[string]map[string]labels.Selector{}}
	for _, job := range s.jobs {
		for _, status := range []api.TaskStatus{api.Pending, api.Allocated, api.Pipelined} {
			for _, task := range job.TaskStatusIndex[status] {
				s.count(p, task.Pod)
			}
		}
	}
	s.pending = p
	return p
}

func (s *volumeInventory) count(p *pendingClaims, pod *v1.Pod) {
	own := map[string]int64{}
	for _, v := range claimVolumes(pod) {
		claim, err := s.objects.claims.PersistentVolumeClaims(v.claim.Namespace).Get(v.claim.Name)
		if err != nil || isBound(claim) {
			continue
		}
		p.users[v.claim]++
		p.addSelector(claim)
		own[volume.GetPersistentVolumeClaimClass(claim)] += sizeOf(claim)
	}
	for class, bytes := range own {
		p.bytes[class] += bytes
		p.most[class] = max(p.most[class], bytes)
	}
}

// mostSelectors is the maximum number of claim selectors of a storage class that are compared with each free volume. A volume that
// fewer selectors match is preferred.
const mostSelectors = 32

func (p *pendingClaims) addSelector(claim *v1.PersistentVolumeClaim) {
	class := volume.GetPersistentVolumeClaimClass(claim)
	if claim.Spec.Selector == nil || checkSize(claim) != nil || len(p.selectors[class]) == mostSelectors {
		return
	}
	selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector)
	if err != nil {
		return
	}
	if p.selectors[class] == nil {
		p.selectors[class] = map[string]labels.Selector{}
	}
	p.selectors[class][selector.String()] = selector
}
