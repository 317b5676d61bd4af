// SPDX-License-Identifier: Apache-2.0

package sessiontest

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/capabilities/volumebinding"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"
	"volcano.sh/volcano/pkg/scheduler/plugins/util/k8s"

	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// lastSeen is the name of the objects that settle adds after all other objects.
const lastSeen = "last-seen"

// volumeBinder creates the volume binder that upstream's predicates plugin will use with this cache, with the plugin's
// default arguments. The binder starts its watches here, so that settle can wait for their objects.
func volumeBinder(cache *vccache.SchedulerCache) volumebinding.SchedulerVolumeBinder {
	predicates.ResetVolumeBindingPluginForTest()
	plugin := predicates.New(nil).(*predicates.PredicatesPlugin)
	plugin.Handle = k8s.NewFramework(map[string]fwk.NodeInfo{},
		k8s.WithClientSet(cache.Client()), k8s.WithInformerFactory(cache.SharedInformerFactory()), k8s.WithSharedDRAManager(cache.SharedDRAManager()))
	plugin.InitPlugin()
	return plugin.FilterPlugins[volumebinding.Name].(*volumebinding.VolumeBinding).Binder
}

// settle waits until the caches of volumes and claims have all objects of the API server. These caches are filled from
// watches, which do not signal completion. But a watch delivers objects in order: when the object named lastSeen has
// arrived, all earlier objects have also arrived.
func settle(cache *vccache.SchedulerCache, tracker clienttesting.ObjectTracker, binder volumebinding.SchedulerVolumeBinder) {
	claim := schedulertesting.UnboundClaim(lastSeen, lastSeen)
	pod := schedulertesting.MakePod().Name(lastSeen).Volume(lastSeen).Obj()
	node := schedulertesting.MakeNode().Name(lastSeen).Obj()
	objects := map[schema.GroupVersionResource]runtime.Object{
		storagev1.SchemeGroupVersion.WithResource("storageclasses"):  schedulertesting.LateClass(lastSeen, "kubernetes.io/no-provisioner"),
		v1.SchemeGroupVersion.WithResource("persistentvolumes"):      schedulertesting.FreeVolume(lastSeen, lastSeen),
		v1.SchemeGroupVersion.WithResource("persistentvolumeclaims"): claim,
		resourcev1.SchemeGroupVersion.WithResource("resourceclaims"): &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: lastSeen, Namespace: claim.Namespace, ResourceVersion: "1"}},
		resourcev1.SchemeGroupVersion.WithResource("resourceslices"): &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: lastSeen}},
		resourcev1.SchemeGroupVersion.WithResource("deviceclasses"):  &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: lastSeen}},
	}
	err := wait.PollUntilContextTimeout(context.Background(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		for resource, object := range objects { // again in each round, because a watch may begin after its list and miss an object
			if err := put(tracker, resource, object); err != nil {
				return false, err
			}
		}
		claims, err := binder.GetPodVolumeClaims(klog.Background(), pod)
		if err != nil {
			return false, nil
		}
		_, conflicts, err := binder.FindPodVolumes(klog.Background(), pod, claims, node)
		if err != nil || len(conflicts) > 0 {
			return false, nil
		}
		if dra := cache.SharedDRAManager(); dra != nil {
			return hasLastSeen(dra, claim.Namespace)
		}
		return true, nil
	})
	if err != nil {
		panic(err)
	}
}

// hasLastSeen reports whether the manager has received the objects named lastSeen: the ResourceClaim, the ResourceSlice
// and the DeviceClass.
func hasLastSeen(dra k8sframework.SharedDRAManager, namespace string) (bool, error) {
	if _, err := dra.ResourceClaims().Get(namespace, lastSeen); err != nil {
		return false, nil
	}
	if _, err := dra.DeviceClasses().Get(lastSeen); err != nil {
		return false, nil
	}
	slices, err := dra.ResourceSlices().ListWithDeviceTaintRules()
	for _, slice := range slices {
		if slice.Name == lastSeen {
			return true, nil
		}
	}
	return false, err
}

func put(tracker clienttesting.ObjectTracker, resource schema.GroupVersionResource, object runtime.Object) error {
	namespace := object.(metav1.Object).GetNamespace()
	if err := tracker.Create(resource, object, namespace); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return tracker.Update(resource, object, namespace)
}
