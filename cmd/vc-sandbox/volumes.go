// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// withVolumes shows a gang with volumes. The volume of each member is created on the member's node. One node of the
// cluster where the gang is placed first has no free disk. The whole gang moves to another cluster, and the nodes that
// were selected for its claims in the first cluster are removed from the claims.
func (s *story) withVolumes(ctx context.Context) (err error) {
	if err := s.remove(ctx, s.done); err != nil {
		return err
	}
	first, other := s.freeClusters()
	full, slow := first.nodes[1].Name, map[string]bool{}
	for _, node := range first.nodes {
		slow[node.Name] = node.Name != full
	}
	p, stop, err := startProvisioner(ctx, s.kube, full, slow)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	g := s.sharing("train-e", len(first.nodes))
	g.claims = true
	s.say("%s: a gang like it, each pod with a volume that is provisioned on its node; %s and %s are free, %s in %s has no disk left",
		g.name, first.name, other.name, full, first.name)
	if err := s.addClaims(ctx, g); err != nil {
		return err
	}
	began := time.Now()
	if err := s.submit(ctx, g); err != nil {
		return err
	}
	_, why, err := s.awaitRefusal(ctx, began, g)
	if err != nil {
		return err
	}
	if err := checkNames(why, g, map[string]string{
		"plugin": "plugin volumebinding", "node": "node " + full, "claim": `claim "` + g.name + "-", "class": `storage class "` + diskClass + `"`,
	}); err != nil {
		return err
	}
	took, err := s.awaitIn(ctx, began, g, other)
	if err != nil {
		return err
	}
	if err := s.checkClaims(ctx, g, other); err != nil {
		return err
	}
	s.tick("no disk on %s: the nodes selected for %s are withdrawn, and all %d are bound in %s, with their volumes, %s after the gang was created",
		full, count(p.takenBack(), "other claim"), g.members, other.name, short(took))
	s.addRow("gang "+g.name, g, took, "moved as a whole with its volumes, none selected in "+first.name)
	s.done = g
	return nil
}

// freeClusters returns two clusters without pods: the result first is the cluster in which the scheduler places a gang
// with one member for each node of that cluster, if it can; the result other is another cluster.
func (s *story) freeClusters() (first, other ibCluster) {
	first, other = s.clusters[0], s.clusters[2]
	if len(other.nodes) < len(first.nodes) { // the scheduler prefers the smaller cluster
		first, other = other, first
	}
	return first, other
}

// addClaims creates the storage class, and a claim for each member.
func (s *story) addClaims(ctx context.Context, g gang) error {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: diskClass}, Provisioner: diskClass,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}
	if _, err := s.kube.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating storage class %s: %w", class.Name, err)
	}
	for i := range g.members {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: g.pod(i).Name}, Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class.Name, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("100Gi")}},
		}}
		if _, err := s.kube.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating claim %s: %w", claim.Name, err)
		}
	}
	return nil
}

// checkClaims checks that each claim of the gang has a volume on a node of the cluster, and that no other node is
// selected for it.
func (s *story) checkClaims(ctx context.Context, g gang, in ibCluster) error {
	for i := range g.members {
		claim, err := s.kube.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, g.pod(i).Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("reading a claim of gang %s: %w", g.name, err)
		}
		node := claim.Annotations[volume.AnnSelectedNode]
		if claim.Spec.VolumeName == "" || !slices.ContainsFunc(in.nodes, func(n *corev1.Node) bool { return n.Name == node }) {
			return fmt.Errorf("claim %s has volume %q, made on node %q; want one on a node of %s", claim.Name, claim.Spec.VolumeName, node, in.name)
		}
	}
	return nil
}
