// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
)

// driverParameter is a parameter of a StorageClass. It names the CSI driver of the class's volumes if the provisioner
// is not that driver.
const driverParameter = "csi.storage.k8s.io/csi-driver-name"

// unlimitedProvisioners are provisioners whose volumes do not count against a node's attach limit, in addition to the
// provisioners that the flag --ignored-provisioners names. Volumes of the first two are directories of the node, and
// CSINodes give no limits for them. Volumes of the last are not provisioned dynamically and have no driver.
var unlimitedProvisioners = []string{"rancher.io/local-path", "hostpath.csi.k8s.io", volume.NotSupportedProvisioner}

// volumes counts the volumes that pods attach, for each CSI driver. A volume that several pods of a node share counts
// once for each of these pods.
type volumes struct {
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	ignored sets.Set[string]
}

func newVolumes(factory informers.SharedInformerFactory, ignored []string) *volumes {
	core := factory.Core().V1()
	return &volumes{
		claims: core.PersistentVolumeClaims().Lister(), volumes: core.PersistentVolumes().Lister(),
		classes: factory.Storage().V1().StorageClasses().Lister(),
		ignored: sets.New(slices.Concat(ignored, unlimitedProvisioners)...),
	}
}

// of returns how many volumes the pod attaches, by the attach-limit resource of their CSI driver. If a claim cannot be
// read, the error names this claim.
func (v *volumes) of(pod *v1.Pod) (map[v1.ResourceName]int64, error) {
	var counts map[v1.ResourceName]int64
	for i := range pod.Spec.Volumes {
		source := &pod.Spec.Volumes[i]
		var name string
		switch {
		case source.PersistentVolumeClaim != nil:
			name = source.PersistentVolumeClaim.ClaimName
		case source.Ephemeral != nil:
			name = ephemeral.VolumeClaimName(pod, source)
		default:
			continue
		}
		claim, err := v.claims.PersistentVolumeClaims(pod.Namespace).Get(name)
		if err != nil {
			return nil, fmt.Errorf("reading PersistentVolumeClaim %s/%s: %w", pod.Namespace, name, err)
		}
		if source.Ephemeral != nil {
			if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
				return nil, err
			}
		}
		driver, err := v.driver(claim)
		if err != nil {
			return nil, err
		}
		if driver == "" || v.ignored.Has(driver) {
			continue
		}
		if counts == nil {
			counts = map[v1.ResourceName]int64{}
		}
		counts[books.AttachLimit(driver)]++
	}
	return counts, nil
}

// driver returns the CSI driver of the claim's volume; empty if the volume is of another kind. While the claim has no
// volume, or the volume is unknown, it returns the driver of the claim's StorageClass; empty if there is none.
func (v *volumes) driver(claim *v1.PersistentVolumeClaim) (string, error) {
	if claim.Spec.VolumeName != "" {
		if bound, err := v.volumes.Get(claim.Spec.VolumeName); err == nil {
			if bound.Spec.CSI == nil {
				return "", nil
			}
			return bound.Spec.CSI.Driver, nil
		}
	}
	name := volumeClass(claim)
	if name == "" {
		return "", nil
	}
	class, err := v.classes.Get(name)
	if err != nil {
		return "", fmt.Errorf("reading StorageClass %s of PersistentVolumeClaim %s/%s: %w", name, claim.Namespace, claim.Name, err)
	}
	return cmp.Or(class.Parameters[driverParameter], class.Provisioner), nil
}

// volumeClass returns the name of the claim's StorageClass, which may also be in the deprecated annotation.
func volumeClass(claim *v1.PersistentVolumeClaim) string {
	if class, ok := claim.Annotations[v1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}
