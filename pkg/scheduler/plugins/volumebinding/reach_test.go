// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	k8sfeature "k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	k8s "k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// inTreeSources has a volume source of each driver that Kubernetes moved from its own code to CSI, and one (NFS) that
// it did not move.
var inTreeSources = map[string]v1.PersistentVolumeSource{
	"kubernetes.io/aws-ebs":         {AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://a/vol-1"}},
	"kubernetes.io/gce-pd":          {GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d"}},
	"kubernetes.io/cinder":          {Cinder: &v1.CinderPersistentVolumeSource{VolumeID: "d"}},
	"kubernetes.io/azure-disk":      {AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: "/d"}},
	"kubernetes.io/azure-file":      {AzureFile: &v1.AzureFilePersistentVolumeSource{SecretName: "s", ShareName: "d"}},
	"kubernetes.io/vsphere-volume":  {VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{VolumePath: "[d] d"}},
	"kubernetes.io/portworx-volume": {PortworxVolume: &v1.PortworxVolumeSource{VolumeID: "d"}},
	"kubernetes.io/nfs":             {NFS: &v1.NFSVolumeSource{Server: "s", Path: "/"}},
}

// TestTheBinderReachesTheSame checks that the plugin and the Kubernetes binder agree whether a node reaches a bound
// volume, whether or not the node's kubelet uses CSI instead of the volume's driver.
func TestTheBinderReachesTheSame(t *testing.T) {
	reached := map[bool]int{}
	nodes := map[string]map[string]string{
		"plain": {v1.LabelTopologyZone: "a"}, "other": {v1.LabelTopologyZone: "b"},
		"csi": {
			v1.LabelTopologyZone: "b", "topology.ebs.csi.aws.com/zone": "a", "topology.gke.io/zone": "a", "topology.cinder.csi.openstack.org/zone": "a",
			"topology.disk.csi.azure.com/zone": "a",
		},
	}
	for driver, source := range inTreeSources {
		for _, labelled := range []bool{false, true} {
			for _, restricted := range []bool{false, true} {
				for migrated, annotation := range map[string]string{"none": "", "its driver": "kubernetes.io/x," + driver, "another driver": "kubernetes.io/x"} {
					pv, claim := local("v", ""), schedtest.UnboundClaim("c", "local")
					pv.Spec.PersistentVolumeSource, pv.Spec.NodeAffinity = source, nil
					if labelled {
						pv.Labels = map[string]string{v1.LabelTopologyZone: "a", v1.LabelTopologyRegion: "r"}
					}
					if restricted {
						pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
							MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}},
						}}}}
					}
					schedtest.BindVolume(claim, pv)
					objects := []runtime.Object{pv, claim}
					for name, labels := range nodes {
						node := schedtest.MakeNode().Name(name).Obj()
						node.Labels = labels
						objects = append(objects, node, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
							Name: name, Annotations: map[string]string{v1.MigratedPluginsAnnotationKey: annotation},
						}})
					}
					t.Run(fmt.Sprintf("%s, labelled %v, restricted %v, moved to CSI: %s", driver, labelled, restricted, migrated), func(t *testing.T) {
						run(t, nil, with(objects), func(w *testCluster) {
							for node := range nodes {
								want := w.binderReaches(node)
								if got := w.fits(member("g-0", "c"), node) == ""; got != want {
									t.Errorf("node %s is reached: %v, but the binder returns %v", node, got, want)
								}
								reached[want]++
							}
						})
					})
				}
			}
		}
	}
	if reached[true] < 20 || reached[false] < 20 {
		t.Errorf("the test has too few cases of one kind: %v", reached)
	}
}

// binderReaches returns the Kubernetes binder's answer for a pod with the bound claim c.
func (w *testCluster) binderReaches(name string) bool {
	w.t.Helper()
	core, storage := w.factory.Core().V1(), w.factory.Storage().V1()
	claims, pvs := &claimFeed{}, &volumeFeed{}
	binder := k8s.NewVolumeBinder(klog.Background(), nil, k8sfeature.Features{EnableCSIMigrationPortworx: true}, core.Pods(), core.Nodes(), storage.CSINodes(),
		claims, pvs, storage.StorageClasses(), k8s.CapacityCheck{CSIDriverInformer: storage.CSIDrivers(), CSIStorageCapacityInformer: storage.CSIStorageCapacities()}, time.Minute)
	claims.OnAdd(w.claim("c"), false)
	pvs.OnAdd(w.volume("v"), false)
	pod := member("g-0", "c").Pod
	found, err := binder.GetPodVolumeClaims(klog.Background(), pod)
	if err != nil {
		w.t.Fatal(err)
	}
	node, err := w.plugin.volumes.objects.nodes.Get(name)
	if err != nil {
		w.t.Fatal(err)
	}
	_, reasons, err := binder.FindPodVolumes(klog.Background(), pod, found, node)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(reasons) == 0
}
