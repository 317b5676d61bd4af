// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
)

// candidate is the volume that a claim would get on a node. The field volume is an existing volume; nil if a volume is to be
// provisioned.
type candidate struct {
	claim  *v1.PersistentVolumeClaim
	volume *v1.PersistentVolume
	// capacity is the CSIStorageCapacity from which the volume would be provisioned; nil if none is known.
	capacity *storagev1.CSIStorageCapacity
}

// refusal is the reason why a claim cannot get a volume on a node.
type refusal int

const (
	accepted refusal = iota
	// noVolume means that no existing volume suits the claim, and none can be provisioned for the node.
	noVolume
	// selectedElsewhere means that the claim's volume is to be provisioned for a different node.
	selectedElsewhere
	// noCapacity means that the node's storage capacities are too small to provision a volume for the claim.
	noCapacity
)

func (r refusal) String() string {
	switch r {
	case noVolume:
		return "no volume is available, and none can be provisioned"
	case selectedElsewhere:
		return "another node is selected"
	case noCapacity:
		return "too little storage capacity"
	default:
		return "accepted"
	}
}

// claimRequest is an unbound claim, in the version that was read last. reserved are the volumes that are already reserved for the
// claim.
type claimRequest struct {
	*v1.PersistentVolumeClaim
	reserved []*v1.PersistentVolume
	// plain is the claim without its selector. Kubernetes' volume functions would parse the selector for each node. selector is
	// the parsed selector.
	plain    *v1.PersistentVolumeClaim
	selector labels.Selector
	// like is a key made from the claim's spec. Claims that request the same have equal keys.
	like string
}

// readRequest parses the claim's selector, and finds the volumes that are reserved for the claim.
func (o *objects) readRequest(claim *v1.PersistentVolumeClaim) (claimRequest, error) {
	w := claimRequest{claim, o.reservedFor(claim), claim, labels.Everything(), claimSignature(claim)}
	if claim.Spec.Selector == nil {
		return w, nil
	}
	plain := *claim
	plain.Spec.Selector = nil
	w.plain = &plain
	var err error
	if w.selector, err = metav1.LabelSelectorAsSelector(claim.Spec.Selector); err != nil {
		return claimRequest{}, fmt.Errorf("reading the selector of %s: %w", describe(claim), err)
	}
	return w, nil
}

// claimedVolumes records the volumes that other claims of the same pod would get on a node. drawn is, for each CSIStorageCapacity,
// the bytes that these claims would use.
type claimedVolumes struct {
	volumes map[string]*v1.PersistentVolume
	drawn   map[types.NamespacedName]int64
}

func newBasket() claimedVolumes {
	return claimedVolumes{volumes: map[string]*v1.PersistentVolume{}, drawn: map[types.NamespacedName]int64{}}
}

// candidates returns the volumes that the claims of a pod would get on the node, by the rules of Kubernetes' volume binder. For
// speed, it considers only volumes and storage capacities that the node reaches. The smallest claims come first, so that each
// claim gets the smallest suitable volume. Volumes assumed for other pods are not available. Unlike the binder, it subtracts
// volumes that are to be provisioned for other pods from the storage capacities.
//
// A volume that is assumed for the pod itself does not restrict the pod's claims to a node. The reason is that the filter result
// is cached for all pods with equal claims.
func (s *volumeInventory) candidates(pod types.UID, claims []claimRequest, node *v1.Node) ([]candidate, refusal, error) {
	s.assumptions.mu.Lock()
	defer s.assumptions.mu.Unlock()
	return s.candidatesLocked(pod, claims, node)
}

const (
	// mostOrders is the maximum number of orders that are tried for a pod's claims, if a claim finds no volume. If the pod has
	// more than mostOrdered unbound claims, only one order is tried.
	mostOrders  = 6
	mostOrdered = 16
)

// candidatesLocked returns the volumes that the claims would get on the node. It tries several orders of the claims. A claim that
// finds no volume comes first in the next order. The reason is that an earlier claim may have taken the only volume that suits
// this claim, although other volumes suit the earlier claim. The caller holds assumptions.mu.
func (s *volumeInventory) candidatesLocked(pod types.UID, claims []claimRequest, node *v1.Node) ([]candidate, refusal, error) {
	found, why, err := s.candidatesInOrder(pod, claims, node)
	if len(claims) > mostOrdered {
		return found, why, err
	}
	for tries, order, again := 1, claims, why; tries < min(mostOrders, len(claims)) && again == noVolume && err == nil; tries++ {
		blocked := len(found)
		if blocked == 0 {
			break
		}
		order = slices.Insert(slices.Delete(slices.Clone(order), blocked, blocked+1), 0, order[blocked])
		found, again, err = s.candidatesInOrder(pod, order, node)
		if err == nil && again == accepted {
			return found, accepted, nil
		}
	}
	return found, why, err
}

// candidatesInOrder finds the volumes that the claims would get on the node, one claim after the other. It stops at the first
// claim that can get no volume. It then returns the volumes found so far, and the reason.
func (s *volumeInventory) candidatesInOrder(pod types.UID, claims []claimRequest, node *v1.Node) ([]candidate, refusal, error) {
	taken := newBasket()
	found := make([]candidate, 0, len(claims))
	for _, claim := range claims {
		made, why, err := s.candidateFor(pod, claim, node, taken)
		if err != nil || why != accepted {
			return found, why, err
		}
		found = append(found, made)
	}
	return found, accepted, nil
}

// candidateFor returns the volume that one claim would get on the node. It records the volume in taken, so that no other claim of
// the pod gets it. The caller holds assumptions.mu.
func (s *volumeInventory) candidateFor(pod types.UID, claim claimRequest, node *v1.Node, taken claimedVolumes) (candidate, refusal, error) {
	made := candidate{claim: claim.PersistentVolumeClaim}
	if held := s.assumptions.heldByOthers(pod, claim.PersistentVolumeClaim); held != nil {
		return s.heldCandidate(held, made, claim, node)
	}
	if selected := claim.Annotations[volume.AnnSelectedNode]; selected == "" {
		pv, err := s.freeVolume(claim, node, taken)
		if err != nil {
			return candidate{}, accepted, err
		}
		if made.volume = pv; pv != nil {
			taken.volumes[pv.Name] = pv
			return made, accepted, nil
		}
	} else if selected != node.Name {
		return candidate{}, selectedElsewhere, nil
	}
	why, err := s.provision(&made, node, taken)
	return made, why, err
}

// heldByOthers returns the entry of the claim in as.held if a placed pod other than the given pod holds the claim; nil otherwise.
func (as *assumptions) heldByOthers(pod types.UID, claim *v1.PersistentVolumeClaim) *assumedClaim {
	held := as.held[nameOf(claim)]
	if held == nil || held.claim.UID != claim.UID {
		return nil
	}
	for other := range held.pods {
		if other != pod {
			return held
		}
	}
	return nil
}

// heldCandidate returns the candidate in made, with the volume that is already assumed for its claim because another pod shares
// the claim. It returns a refusal if the node does not reach this volume.
func (s *volumeInventory) heldCandidate(held *assumedClaim, made candidate, claim claimRequest, node *v1.Node) (candidate, refusal, error) {
	if held.volume == "" {
		selected := cmp.Or(made.claim.Annotations[volume.AnnSelectedNode], held.node)
		if forSeveralNodes(made.claim) && selected == held.node {
			why, err := s.mayReach(claim, node)
			return made, why, err
		}
		if held.node != node.Name || selected != node.Name {
			return candidate{}, selectedElsewhere, nil
		}
		return made, accepted, nil
	}
	pv, err := s.objects.volumes.Get(held.volume)
	if apierrors.IsNotFound(err) || err == nil && pv.Spec.ClaimRef != nil && !volume.IsVolumeBoundToClaim(pv, made.claim) {
		return candidate{}, noVolume, nil // the volume was deleted, or is reserved for another claim
	}
	if err == nil {
		pv, _, err = volume.GetBindVolumeToClaim(pv, made.claim)
	}
	if err != nil {
		return candidate{}, accepted, fmt.Errorf("reading the volume reserved for %s: %w", describe(made.claim), err)
	}
	made.volume, err = volume.FindMatchingVolume(claim.plain, []*v1.PersistentVolume{pv}, node, nil, true, s.objects.attributesClasses)
	if err != nil || made.volume == nil {
		return candidate{}, noVolume, err
	}
	return made, accepted, nil
}

// forSeveralNodes reports whether pods on several nodes may use the claim at the same time.
func forSeveralNodes(claim *v1.PersistentVolumeClaim) bool {
	return slices.Contains(claim.Spec.AccessModes, v1.ReadWriteMany) || slices.Contains(claim.Spec.AccessModes, v1.ReadOnlyMany)
}

// mayReach checks a node for a claim whose volume is to be provisioned for another node, and which pods on several nodes may use.
// It is not known yet which nodes will reach the volume, so mayReach accepts all nodes that the storage class allows. If the pod's
// node does not reach the provisioned volume, the pod's pre-bind step fails.
func (s *volumeInventory) mayReach(claim claimRequest, node *v1.Node) (refusal, error) {
	class, err := s.objects.classes.Get(volume.GetPersistentVolumeClaimClass(claim.PersistentVolumeClaim))
	if err != nil {
		return accepted, fmt.Errorf("reading the storage class of %s: %w", describe(claim.PersistentVolumeClaim), err)
	}
	if !v1helper.MatchTopologySelectorTerms(class.AllowedTopologies, labels.Set(node.Labels)) {
		return noVolume, nil
	}
	return accepted, nil
}

// provision checks whether a volume can be provisioned on the node for the claim in made. It records in made from which
// CSIStorageCapacity the volume would be provisioned, and in taken how many of its bytes the volume would use.
func (s *volumeInventory) provision(made *candidate, node *v1.Node, taken claimedVolumes) (refusal, error) {
	name := volume.GetPersistentVolumeClaimClass(made.claim)
	class, err := s.objects.classes.Get(name)
	if err != nil {
		return accepted, fmt.Errorf("reading the storage class of %s: %w", describe(made.claim), err)
	}
	if class.Provisioner == "" || class.Provisioner == volume.NotSupportedProvisioner ||
		!v1helper.MatchTopologySelectorTerms(class.AllowedTopologies, labels.Set(node.Labels)) {
		return noVolume, nil
	}
	_, sized := made.claim.Spec.Resources.Requests[v1.ResourceStorage]
	c := s.of(name)
	if !sized || !c.tracked {
		return accepted, nil
	}
	size := sizeOf(made.claim)
	for _, key := range c.capacities[node.Name] {
		capacity, err := s.objects.capacities.CSIStorageCapacities(key.Namespace).Get(key.Name)
		if err != nil {
			continue
		}
		if !suffices(capacity, s.assumptions.drawn[key]+taken.drawn[key], size) {
			continue
		}
		taken.drawn[key] += size
		made.capacity = capacity
		return accepted, nil
	}
	return noCapacity, nil
}

// suffices reports whether a volume of size bytes can be provisioned from the storage capacity, if other volumes use drawn bytes
// of the capacity. Kubernetes' binder checks only the maximum volume size, if the driver publishes one. If drawn is not 0,
// suffices also checks the remaining capacity, if the driver publishes the capacity.
func suffices(capacity *storagev1.CSIStorageCapacity, drawn, size int64) bool {
	largest := capacity.MaximumVolumeSize
	if largest == nil {
		largest = capacity.Capacity
	}
	if largest == nil || largest.Value() < size {
		return false
	}
	return drawn == 0 || capacity.Capacity == nil || capacity.Capacity.Value()-drawn >= size
}
