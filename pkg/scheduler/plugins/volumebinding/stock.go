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

// stock is which volumes and capacities a session's nodes reach. What comes to be while the session lasts is found by the next;
// what goes, or is taken, is known at once: whoever looks sees the objects as they are now. The mutex of volumes guards it, and is
// held by who calls its methods, but for those that say so.
type stock struct {
	*volumes
	labels *nodeLabels
	// jobs are those of the session.
	jobs map[api.JobID]*api.JobInfo

	classes map[string]*classStock
	pending *pendingClaims
}

// classStock is the stock of a storage class.
type classStock struct {
	// free are the volumes that no claim had when the session asked first, by node; everywhere those that all nodes reach.
	free       map[string][]*freeVolumes
	everywhere *freeVolumes
	// capacities are by node, in order of their names; tracked is false if its driver does not tell any.
	capacities map[string][]types.NamespacedName
	tracked    bool
	// shared is true if several nodes reach one of the free volumes, so that what is placed on one counts on others.
	shared bool
	// pools are capacities that several nodes draw from, as they were when the session asked first.
	pools []pool
}

// pool is what is left of a capacity. bySize is true if its driver says how large a volume may be, too, by which the first is
// made however little is left.
type pool struct {
	left   int64
	bySize bool
}

func newStock(v *volumes, nodes map[string]*api.NodeInfo, jobs map[api.JobID]*api.JobInfo) *stock {
	return &stock{volumes: v, labels: newNodeLabels(nodes), jobs: jobs, classes: map[string]*classStock{}}
}

// of returns the stock of the storage class.
func (s *stock) of(class string) *classStock {
	if known := s.classes[class]; known != nil {
		return known
	}
	c := &classStock{free: map[string][]*freeVolumes{}, capacities: map[string][]types.NamespacedName{}}
	s.classes[class] = c
	s.addFree(c, class)
	s.addCapacities(c, class)
	return c
}

func (s *stock) addCapacities(c *classStock, name string) {
	class, err := s.volumes.objects.classes.Get(name)
	if err != nil {
		return
	}
	driver, err := s.objects.drivers.Get(class.Provisioner)
	if err != nil || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return
	}
	c.tracked = true
	s.claimed()                                              // of what is left now
	all, _ := s.objects.capacities.List(labels.Everything()) // of a store in memory, which does not fail
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
			c.pools = append(c.pools, pool{capacity.Capacity.Value() - s.drawn[key], capacity.MaximumVolumeSize != nil})
		}
	}
}

func capacityName(capacity *storagev1.CSIStorageCapacity) types.NamespacedName {
	return types.NamespacedName{Namespace: capacity.Namespace, Name: capacity.Name}
}

// coupled is true if the verdict on a claim may depend on what is placed on other nodes than the one that is asked about: if
// several reach one of the volumes that it may have, or the same capacity, which would not do for one more if all that is pending
// were placed.
func (s *stock) coupled(claim *v1.PersistentVolumeClaim) bool {
	name := volume.GetPersistentVolumeClaimClass(claim)
	c := s.of(name)
	if c.shared {
		return true
	}
	claimed := s.claimed()
	return slices.ContainsFunc(c.pools, func(p pool) bool {
		return p.left < claimed.bytes[name]+claimed.most[name] && (p.bySize || p.left >= sizeOf(claim))
	})
}

func sizeOf(claim *v1.PersistentVolumeClaim) int64 {
	size := claim.Spec.Resources.Requests[v1.ResourceStorage]
	return size.Value()
}

// pendingClaims are the claims without a volume of the tasks that the session may place, or has placed when somebody asks first: how
// many pods have each, and how much is claimed of a storage class, by all and by the pod that claims most.
type pendingClaims struct {
	users       map[types.NamespacedName]int
	bytes, most map[string]int64
	// selectors are those of the claims of a storage class, each once.
	selectors map[string]map[string]labels.Selector
}

// claimed returns what the session's tasks claim.
func (s *stock) claimed() *pendingClaims {
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

func (s *stock) count(p *pendingClaims, pod *v1.Pod) {
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

// mostSelectors is how many selectors of a storage class count when volumes are told apart by how many claims could have them.
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
