// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestVolumes checks that gangs with bound claims, or with separate waiting claims, are placed. Each instance is run
// twice. If the volume binder's assumptions of the first run were not reverted, in each trial and at the end, the
// second run would find volumes in use.
func TestVolumes(t *testing.T) {
	predicates.ResetVolumeBindingPluginForTest()
	b := newBench(t, inventory()...)
	b.waitForVolumes(t)
	m := mix{gangs: 3, volumes: 80, subGroups: 10, topology: true}
	placed := 0
	eachSeed(t, func(seed uint64) bool {
		in := m.instance(seed)
		first, second := b.run(in, b.ours), b.run(m.instance(seed), b.ours)
		if *randomSeed > 0 {
			t.Log(describe(in, map[string]outcome{"first": first, "second": second}))
		}
		ok := true
		for _, fault := range faults(in, first) {
			ok = false
			t.Errorf("-random.seed=%d: %s", seed, fault)
		}
		if first.digest() != second.digest() {
			ok = false
			t.Errorf("-random.seed=%d: the second run differs:\n%s\n%s", seed, first.digest(), second.digest())
		}
		for _, p := range newScene(in, first).pods {
			if p.state == bound && len(p.Spec.Volumes) > 0 {
				placed++
			}
		}
		return ok
	})
	t.Logf("%d pods with claims were bound", placed)
	if *randomSeed == 0 && placed == 0 {
		t.Error("no pod with a claim was bound: the instances are no test")
	}
}

// waitForVolumes waits until the volume binder, which reads from informers, has the inventory: until a gang that
// needs each claim is placed.
func (b *bench) waitForVolumes(t *testing.T) {
	for t.Context().Err() == nil {
		c := &cluster{dice: newDice(1, 6), room: map[string]size{}, slots: map[string]int{}}
		g := c.newGang("canary")
		for i := range inventoryZones {
			node := schedtest.MakeNode().Name(fmt.Sprintf("node-%d", i)).Label(zone, fmt.Sprintf("zone-%d", i)).Obj()
			c.world.Nodes = append(c.world.Nodes, node)
			use(g.addRole(fmt.Sprintf("of-zone-%d", i), 1, size{100, 0, 0}).pod, fmt.Sprintf(zoneClaim, i))
		}
		g.addRole("waiting", waitingClaims, size{100, 0, 0}).ownClaims = true
		g.group.Spec.MinMember = int32(g.tasks())
		for _, r := range g.roles {
			for i := range r.count {
				pod := r.pod.DeepCopy()
				pod.Name = fmt.Sprintf("%s-%d", r.name, i)
				pod.UID = schedtest.MakePod().Name(pod.Name).Obj().UID
				if r.ownClaims {
					g.useClaim(pod)
				}
				c.world.Pods = append(c.world.Pods, pod)
			}
		}
		c.world.PodGroups = append(c.world.PodGroups, g.group)
		if out := b.run(instance{world: c.world, conf: (mix{volumes: 1}).conf(newDice(1, 1))}, b.ours); len(out.bound) == g.tasks() {
			return
		}
	}
}

const (
	waitingClass  = "wait"
	bindCompleted = "pv.kubernetes.io/bind-completed"
)

// inventory returns the volumes, claims and classes of all instances.
func inventory() []runtime.Object {
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	out := []runtime.Object{&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: waitingClass}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &wait,
	}}
	for i := range inventoryZones {
		for k := range volumesPerZone {
			out = append(out, volumeIn(i, fmt.Sprintf("volume-%d-%d", i, k), gibibytes(k)))
		}
		claim, volume := claimOf(fmt.Sprintf(zoneClaim, i), 1), volumeIn(i, fmt.Sprintf("volume-of-zone-%d", i), 1)
		claim.Spec.VolumeName, claim.Status.Phase = volume.Name, v1.ClaimBound
		claim.Annotations = map[string]string{bindCompleted: "yes"}
		volume.Spec.ClaimRef, volume.Status.Phase = &v1.ObjectReference{Namespace: schedtest.Namespace, Name: claim.Name, UID: claim.UID}, v1.VolumeBound
		out = append(out, claim, volume)
	}
	for i := range waitingClaims {
		out = append(out, claimOf(fmt.Sprintf(waitingClaim, i), gibibytes(i)))
	}
	return out
}

func volumeIn(zoneNumber int, name string, size int) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: waitingClass, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany},
			Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse(fmt.Sprintf("%dGi", size))},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: zone, Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprintf("zone-%d", zoneNumber)}}},
			}}}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
}

func claimOf(name string, size int) *v1.PersistentVolumeClaim {
	class := waitingClass
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: schedtest.Namespace, Name: name, UID: schedtest.MakePod().Name(name).Obj().UID, ResourceVersion: "1"},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteMany},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(fmt.Sprintf("%dGi", size))}},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
}
