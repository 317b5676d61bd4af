// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/volume"
)

// freeVolumes lists free volumes of one storage class that the same nodes reach. All these nodes share the list, because there may
// be thousands of volumes that all nodes reach. Equal claims share the search for the best volume.
type freeVolumes struct {
	reach *nodeSet
	// list is sorted by preference. A claim takes the first volume in the list that suits the claim.
	list []freeVolume
	// best caches the best volume in list for claims with equal specs. The key is claimRequest.like, which is made from the spec.
	best map[string]bestVolume
}

// freeVolume is a volume that no claim uses. A claim takes the smallest suitable volume. Among volumes of equal size, it takes the
// volume that the fewest selectors of pending claims match, then the volume that the fewest nodes reach, then the first by name.
// So volumes that suit more claims are left to other claims.
type freeVolume struct {
	name   string
	size   int64
	wanted int
	nodes  int
}

func inOrder(l, r freeVolume) int {
	return cmp.Or(cmp.Compare(l.size, r.size), cmp.Compare(l.wanted, r.wanted), cmp.Compare(l.nodes, r.nodes), cmp.Compare(l.name, r.name))
}

// bestVolume is the cached best volume for a claim. The freeVolume is nil if no volume suits the claim. The field at is the value
// of the counter assumptions.reservations. The result is valid until a volume is reserved or released, which changes the counter.
type bestVolume struct {
	*freeVolume
	at int64
}

// addFree adds the free volumes of the storage class to c, which is the inventory of this class.
func (s *volumeInventory) addFree(c *classInventory, class string) {
	selectors, lists := s.claimed().selectors[class], map[*nodeSet]*freeVolumes{}
	for _, pv := range s.objects.byIndex(freeIndex, class) {
		reach := s.labels.reaching(pv)
		if lists[reach] == nil {
			lists[reach] = &freeVolumes{reach: reach, best: map[string]bestVolume{}}
		}
		size := pv.Spec.Capacity[v1.ResourceStorage]
		free := freeVolume{name: pv.Name, size: size.Value(), nodes: len(reach.nodes)}
		for _, selector := range selectors {
			if selector.Matches(labels.Set(pv.Labels)) {
				free.wanted++
			}
		}
		lists[reach].list = append(lists[reach].list, free)
	}
	for reach, volumes := range lists {
		slices.SortFunc(volumes.list, inOrder)
		c.shared = c.shared || len(reach.nodes) > 1
		if reach == s.labels.everywhere {
			c.everywhere = volumes
			continue
		}
		for _, node := range reach.nodes {
			c.free[node.Name] = append(c.free[node.Name], volumes)
		}
	}
}

// reachedFrom returns the lists of free volumes that the node reaches.
func (c *classInventory) reachedFrom(node string) []*freeVolumes {
	if c.everywhere == nil {
		return c.free[node]
	}
	return append(slices.Clone(c.free[node]), c.everywhere)
}

// freeVolume returns the existing volume that the claim would get on the node. This is a volume that is already reserved for the
// claim, or the best free volume that suits the claim; nil if none suits. taken has the volumes that other claims of the pod would
// get.
func (s *volumeInventory) freeVolume(claim claimRequest, node *v1.Node, taken claimedVolumes) (*v1.PersistentVolume, error) {
	free := s.of(volume.GetPersistentVolumeClaimClass(claim.PersistentVolumeClaim)).reachedFrom(node.Name)
	if len(claim.reserved) > 0 || claim.Spec.VolumeAttributesClassName != nil {
		return s.reservedOrFree(claim, free, node, taken)
	}
	var best *freeVolume
	for _, volumes := range free {
		found, err := s.bestOf(volumes, claim, node, taken)
		if err != nil {
			return nil, err
		}
		if found != nil && (best == nil || inOrder(*found, *best) < 0) {
			best = found
		}
	}
	if best == nil {
		return nil, nil
	}
	return s.objects.volumes.Get(best.name)
}

// reservedOrFree returns the existing volume for a claim that has reserved volumes, or that requests a VolumeAttributesClass. It
// prefers reserved volumes that suit the claim to free volumes.
func (s *volumeInventory) reservedOrFree(claim claimRequest, free []*freeVolumes, node *v1.Node, taken claimedVolumes) (*v1.PersistentVolume, error) {
	pvs := slices.Clone(claim.reserved)
	for _, volumes := range free {
		for i := range volumes.list {
			if pv := s.stillFree(&volumes.list[i], claim); pv != nil {
				pvs = append(pvs, pv)
			}
		}
	}
	return volume.FindMatchingVolume(claim.plain, pvs, node, taken.volumes, true, s.objects.attributesClasses)
}

// bestOf returns the best volume of the list for the claim; nil if no volume suits. taken has the volumes that other claims of the
// pod would get. If taken has no volumes, the result is cached until any volume is reserved or released.
func (s *volumeInventory) bestOf(volumes *freeVolumes, claim claimRequest, node *v1.Node, taken claimedVolumes) (*freeVolume, error) {
	known, ok := volumes.best[claim.like]
	alone := len(taken.volumes) == 0
	if ok && alone && known.at == s.assumptions.reservations && (known.freeVolume == nil || s.stillFree(known.freeVolume, claim) != nil) {
		return known.freeVolume, nil
	}
	var best *freeVolume
	size := sizeOf(claim.PersistentVolumeClaim)
	first, _ := slices.BinarySearchFunc(volumes.list, size, func(v freeVolume, size int64) int { return cmp.Compare(v.size, size) })
	for i := first; i < len(volumes.list) && best == nil; i++ {
		pv := s.stillFree(&volumes.list[i], claim)
		if pv == nil {
			continue
		}
		suits, err := volume.FindMatchingVolume(claim.plain, []*v1.PersistentVolume{pv}, node, taken.volumes, true, s.objects.attributesClasses)
		if err != nil {
			return nil, err
		}
		if suits != nil {
			best = &volumes.list[i]
		}
	}
	if alone {
		volumes.best[claim.like] = bestVolume{best, s.assumptions.reservations}
	}
	return best, nil
}

// stillFree returns the current version of the volume; nil if the volume is no longer free, or if the claim's selector does not
// match it.
func (s *volumeInventory) stillFree(free *freeVolume, claim claimRequest) *v1.PersistentVolume {
	pv, err := s.objects.volumes.Get(free.name)
	if err != nil || s.assumptions.reserved[free.name] != nil || pv.Spec.ClaimRef != nil || !claim.selector.Matches(labels.Set(pv.Labels)) {
		return nil
	}
	return pv
}
