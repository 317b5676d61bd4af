// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// claimClass is the storage class of claims. Their volumes are created by a provisioner without attach limits once
// the pod has a node, or they already exist.
const (
	claimClass       = "late"
	claimProvisioner = "rancher.io/local-path"
	noProvisioner    = "kubernetes.io/no-provisioner"
)

// claimObjects returns the storage class, a claim for each pod, and the volumes or capacities that the shape has. With
// clusters, volumes are local: each node has as many as pods fit on it. The first node of each cluster lacks one,
// except in the second-to-last cluster. With local, each node has one volume.
func (s shape) claimObjects() []runtime.Object {
	objects := []runtime.Object{schedulertesting.LateClass(claimClass, claimProvisioner)}
	switch {
	case s.storage.bound:
	case s.clusters > 0 || s.storage.local:
		objects = append([]runtime.Object{schedulertesting.LateClass(claimClass, noProvisioner)}, s.localVolumes()...)
	case s.storage.capacities:
		objects = append(objects, s.capacityObjects()...)
	}
	nodes := s.nodeList()
	for gang := range s.gangs {
		for i := range s.gangSize {
			claim := schedulertesting.UnboundClaim(podName(gang, i), claimClass)
			if s.storage.bound {
				objects = append(objects, s.boundVolume(claim, nodes[i*len(nodes)/s.gangSize].Name))
			}
			objects = append(objects, claim)
		}
	}
	return objects
}

// boundVolume binds the claim to a separate volume, which it returns. If volumes are local, the volume is on the
// node.
func (s shape) boundVolume(claim *v1.PersistentVolumeClaim, node string) *v1.PersistentVolume {
	var nodes []string
	if s.storage.local {
		nodes = []string{node}
	}
	pv := schedulertesting.FreeVolume("volume-of-"+claim.Name, claimClass, nodes...)
	schedulertesting.BindVolume(claim, pv)
	return pv
}

func (s shape) localVolumes() []runtime.Object {
	var volumes []runtime.Object
	perCluster := s.nodes / max(s.clusters, 1)
	for i, node := range s.nodeList() {
		n := int(s.podsPerNode())
		if s.storage.local {
			n = 1
		} else if i%perCluster == 0 && i/perCluster != s.clusters-2 {
			n--
		}
		for k := range n {
			volumes = append(volumes, schedulertesting.FreeVolume(fmt.Sprintf("%s-%d", node.Name, k), claimClass, node.Name))
		}
	}
	return volumes
}

// capacityObjects returns a CSI driver whose capacities count, and a capacity of each node that suffices for as many
// volumes as pods fit on it.
func (s shape) capacityObjects() []runtime.Object {
	counts := true
	objects := []runtime.Object{&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: claimProvisioner}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &counts}}}
	for _, node := range s.nodeList() {
		left := resource.MustParse(fmt.Sprintf("%dGi", s.podsPerNode()))
		objects = append(objects, &storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Namespace: podNamespace, Name: node.Name}, StorageClassName: claimClass, Capacity: &left,
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelHostname: node.Name}},
		})
	}
	return objects
}

// clusterFor returns a cluster with the shape's claims or topology for all runs of a work, and a function that ends
// it. Shapes without either share one cluster.
func (b *bench) clusterFor(sh shape) (cluster *sessiontest.Cluster, end func()) {
	switch {
	case sh.storage.claims:
		cluster = sessiontest.New(sessiontest.ClusterSpec{Objects: sh.claimObjects()})
	case sh.dra.devices > 0:
		cluster = sessiontest.New(sessiontest.ClusterSpec{Objects: sh.deviceObjects()})
	case sh.gathered:
		cluster = sessiontest.New(sessiontest.ClusterSpec{Topology: insession.Topology()})
	default:
		return b.cluster, func() {}
	}
	return cluster, cluster.Close
}

// claimsKnown waits until the side's plugins have the claims of a waiting pod, which they read from watches.
func claimsKnown(ssn *sessiontest.Session) error {
	for _, job := range ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pending] {
			return wait.PollUntilContextTimeout(context.Background(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
				return ssn.PrePredicateFn(task) == nil, nil
			})
		}
	}
	return nil
}

// releaseHanded releases the plugins' reservations for committed pods, which are not bound, because the next run has
// the same claims.
func releaseHanded(handed map[string]sessiontest.Bind) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(handed)) {
		bind := handed[name]
		for _, step := range slices.Backward(bind.Steps) {
			if step.Rollback == nil || !step.RollbackIfNotRun {
				continue
			}
			if err := step.Rollback(context.Background(), bind.Task, bind.Node); err != nil {
				errs = append(errs, fmt.Errorf("pod %s, plugin %s: %w", name, step.Plugin, err))
			}
		}
	}
	return errors.Join(errs...)
}
