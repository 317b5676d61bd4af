// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// diskClass is the storage class of the demo, and the name of its provisioner. Volumes are created once a node is
// selected for a claim.
const diskClass = "demo-disks"

// provisioner creates a volume for each claim of class diskClass, on the node that is selected for the claim. Only pods
// on that node can use the volume. The node that the field full names has no free disk. For claims on this node, the
// provisioner asks the scheduler for another node, as real provisioners do.
type provisioner struct {
	kube kubernetes.Interface
	full string
	// slow are the nodes on which the provisioner does not answer: it neither creates volumes nor asks for another node.
	slow map[string]bool

	mu sync.Mutex
	// withdrawn are the claims whose selected node the scheduler removed.
	withdrawn map[string]bool
	err       error
}

// startProvisioner starts a provisioner. The returned function stops it and returns its first error.
func startProvisioner(ctx context.Context, kube kubernetes.Interface, full string, slow map[string]bool) (_ *provisioner, stop func() error, _ error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &provisioner{kube: kube, full: full, slow: slow, withdrawn: map[string]bool{}}
	factory := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(namespace))
	claims := factory.Core().V1().PersistentVolumeClaims().Informer()
	_, err := claims.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			p.recordError(p.changed(ctx, before.(*corev1.PersistentVolumeClaim), after.(*corev1.PersistentVolumeClaim)))
		},
	})
	if err != nil {
		cancel()
		return nil, nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return p, func() error {
		cancel()
		factory.Shutdown()
		return p.err
	}, nil
}

func (p *provisioner) recordError(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
}

// changed handles a change of the node that is selected for a claim.
func (p *provisioner) changed(ctx context.Context, before, after *corev1.PersistentVolumeClaim) error {
	former, node := before.Annotations[volume.AnnSelectedNode], after.Annotations[volume.AnnSelectedNode]
	if former == node || ptr.Deref(after.Spec.StorageClassName, "") != diskClass || after.Spec.VolumeName != "" {
		return nil
	}
	switch {
	case node == "" && former != p.full:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.withdrawn[after.Name] = true
		return nil
	case node == "" || p.slow[node]:
		return nil
	case node == p.full:
		return p.askForAnother(ctx, after)
	default:
		return p.provision(ctx, after, node)
	}
}

// askForAnother removes the selected node from the claim, so that the scheduler selects a different node.
func (p *provisioner) askForAnother(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, volume.AnnSelectedNode)
	if _, err := p.kube.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("requesting another node for claim %s: %w", claim.Name, err)
	}
	return nil
}

// provision creates a volume that is reserved for the claim. kube-controller-manager then binds the claim to the volume.
func (p *provisioner) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, node string) error {
	made := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "demo-" + claim.Name, Annotations: map[string]string{volume.AnnDynamicallyProvisioned: diskClass}},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName:              diskClass,
			Capacity:                      claim.Spec.Resources.Requests,
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disks/" + claim.Name}},
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
	if _, err := p.kube.CoreV1().PersistentVolumes().Create(ctx, made, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("provisioning a volume for claim %s on node %s: %w", claim.Name, node, err)
	}
	return nil
}

// takenBack returns the number of claims whose selected node the scheduler removed.
func (p *provisioner) takenBack() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.withdrawn)
}
