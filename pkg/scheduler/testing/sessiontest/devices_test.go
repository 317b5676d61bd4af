// SPDX-License-Identifier: Apache-2.0

package sessiontest_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned"
	"github.com/volcano-prebind/volcano-prebind/pkg/client/informers/externalversions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

func device(name string, healthy bool) *v1alpha1.Device {
	return &v1alpha1.Device{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.DeviceSpec{Devices: []v1alpha1.DeviceInfo{{Health: healthy}}}}
}

// informerOf returns an informer that a plugin requests from the handle and starts.
func informerOf(t *testing.T, cluster *sessiontest.Cluster) toolscache.SharedIndexInformer {
	t.Helper()
	client, err := versioned.NewForConfig(cluster.Handle().RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	informer := externalversions.NewSharedInformerFactory(client, 0).Scheduling().V1alpha1().Devices().Informer()
	for range 2 { // The second call does nothing.
		if err := cluster.Handle().StartInformers(informer); err != nil {
			t.Fatal(err)
		}
	}
	return informer
}

// TestInformersShowDevices checks that informers show the devices of the ClusterSpec at once, and later changes soon.
func TestInformersShowDevices(t *testing.T) {
	cluster := sessiontest.New(sessiontest.ClusterSpec{Devices: []*v1alpha1.Device{device("n1", true), device("n2", true)}})
	defer cluster.Close()
	informer := informerOf(t, cluster)
	keys := informer.GetStore().ListKeys()
	slices.Sort(keys)
	if diff := cmp.Diff([]string{"n1", "n2"}, keys); diff != "" {
		t.Fatalf("devices (-want +got):\n%s", diff)
	}
	cluster.Devices().Put(device("n2", false), device("n3", true))
	cluster.Devices().Remove("n1")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	changed := func() bool {
		object, there, _ := informer.GetStore().GetByKey("n2")
		_, gone, _ := informer.GetStore().GetByKey("n1")
		_, made, _ := informer.GetStore().GetByKey("n3")
		return there && !object.(*v1alpha1.Device).Spec.Devices[0].Health && !gone && made
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), changed) {
		t.Errorf("the changes are not shown: %v", informer.GetStore().List())
	}
}

// TestAWorldWithoutDevicesServesNone checks that a ClusterSpec without devices serves none, like a cluster without
// the CRD.
func TestAWorldWithoutDevicesServesNone(t *testing.T) {
	cluster := sessiontest.New(sessiontest.ClusterSpec{})
	defer cluster.Close()
	if informerOf(t, cluster).HasSynced() {
		t.Error("devices are served")
	}
}
