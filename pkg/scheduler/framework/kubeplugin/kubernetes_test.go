// SPDX-License-Identifier: Apache-2.0

package kubeplugin

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const kubernetesConf = `
actions: allocate
tiers:
- plugins:
  - name: gang
    enableJobStarving: false
  - name: kubernetes
- plugins:
  - name: predicates
    arguments: {predicate.VolumeBindingEnable: false}
`

// kubernetes is a gang of two that was placed with one of Kubernetes' own plugins.
type kubernetes struct {
	session *sessiontest.Session
	kube    *kubefake.Clientset
	plugin  k8sframework.Plugin
	adapted transacting
}

// placeWith places a gang of two on two nodes. mutate changes each member.
func placeWith(t *testing.T, build Factory, mutate func(*schedtest.PodBuilder) *schedtest.PodBuilder, objects func(pods []*v1.Pod) []runtime.Object) *kubernetes {
	t.Helper()
	w := gangOf(0, 2, 2)
	for i := range 2 {
		w.Pods = append(w.Pods, mutate(schedtest.MakePod().Group("g").Name(fmt.Sprintf("g-%d", i)).Req(schedtest.Resources{"cpu": "1"})).Obj())
	}
	w.Objects = objects(w.Pods)
	out := &kubernetes{}
	registry := framework.NewRegistry()
	registry.RegisterPlugin(framework.PluginSpec{Name: "kubernetes", Load: framework.WithoutArguments(func(h framework.Handle) (framework.Plugin, error) {
		made, err := New("kubernetes", h, func(h k8sframework.Handle) (_ k8sframework.Plugin, err error) {
			out.plugin, err = build(h)
			return out.plugin, err
		})
		if err != nil {
			return nil, err
		}
		out.adapted, _ = made.(transacting)
		return made, h.StartInformers()
	})})
	registry.RegisterAction(allocate.New())
	cluster := sessiontest.New(w)
	t.Cleanup(cluster.Close)
	for _, pod := range w.Pods { // The steps look up these pods.
		if err := cluster.Cache().SharedInformerFactory().Core().V1().Pods().Informer().GetStore().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	out.kube, out.session = cluster.Kube(), cluster.Open(registry, kubernetesConf)
	action, _ := vcframework.GetAction("allocate")
	out.session.Run(action)
	if handed := len(out.session.Handed()); handed != 2 {
		t.Fatalf("%d members were committed, want 2", handed)
	}
	out.session.Close()
	return out
}

// ends runs the transaction, and fails the test unless this number of members are bound and no state is kept.
func (k *kubernetes) ends(t *testing.T, bound int) {
	t.Helper()
	r := sessiontest.Transact(k.session, "ns/g", fateOf(2)).Wait()
	if len(r.Bound) != bound || len(r.Bound)+len(r.Failed) != 2 {
		t.Errorf("%d are bound and %v failed, want %d bound", len(r.Bound), r.Failed, bound)
	}
	k.adapted.mu.Lock()
	defer k.adapted.mu.Unlock()
	if n := len(k.adapted.held); n > 0 {
		t.Errorf("%d tasks are kept", n)
	}
}

// refuse makes updates of the object fail.
func (k *kubernetes) refuse(resource, name string) {
	k.kube.PrependReactor("update", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		object := action.(clienttesting.UpdateAction).GetObject().(metav1.Object)
		return object.GetName() == name, nil, errors.New("it is refused")
	})
}

// TestKubernetesVolumeBinding checks that each member of a gang gets a local volume. The claims are bound before the
// pods. If a claim cannot be bound, no pod is bound and no volume stays assumed.
func TestKubernetesVolumeBinding(t *testing.T) {
	for name, fails := range map[string]bool{"bound": false, "a volume cannot be reserved": true} {
		t.Run(name, func(t *testing.T) {
			k := placeWith(t,
				func(h k8sframework.Handle) (k8sframework.Plugin, error) {
					return volumebinding.New(context.Background(), &config.VolumeBindingArgs{BindTimeoutSeconds: 10}, h, feature.Features{})
				},
				func(p *schedtest.PodBuilder) *schedtest.PodBuilder { return p.Volume("data-" + p.Obj().Name) },
				func([]*v1.Pod) []runtime.Object {
					return []runtime.Object{schedtest.LateClass("local", volume.NotSupportedProvisioner),
						schedtest.UnboundClaim("data-g-0", "local"), schedtest.UnboundClaim("data-g-1", "local"),
						schedtest.FreeVolume("v1", "local", "n1"), schedtest.FreeVolume("v2", "local", "n2")}
				})
			k.kube.PrependReactor("update", "persistentvolumes", k.bindClaim)
			if fails {
				k.refuse("persistentvolumes", "v2")
				k.ends(t, 0)
				k.bindable(t, "g-1") // The volume of the other pod may be bound already.
				return
			}
			k.ends(t, 2)
			for _, claim := range []string{"data-g-0", "data-g-1"} {
				live, err := k.kube.CoreV1().PersistentVolumeClaims(schedtest.Namespace).Get(t.Context(), claim, metav1.GetOptions{})
				if err != nil || live.Spec.VolumeName == "" {
					t.Errorf("claim %s is bound to %q: %v", claim, live.Spec.VolumeName, err)
				}
			}
		})
	}
}

// bindClaim binds a claim to the volume that is reserved for it, as Kubernetes' volume controller does. Both objects
// get new versions.
func (k *kubernetes) bindClaim(action clienttesting.Action) (bool, runtime.Object, error) {
	v := action.(clienttesting.UpdateAction).GetObject().(*v1.PersistentVolume).DeepCopy()
	if v.Spec.ClaimRef == nil {
		return false, nil, nil
	}
	claims := v1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	object, err := k.kube.Tracker().Get(claims, v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name)
	if err != nil {
		return true, nil, err
	}
	claim := object.(*v1.PersistentVolumeClaim).DeepCopy()
	claim.Spec.VolumeName, claim.ResourceVersion, v.ResourceVersion = v.Name, "2", "2"
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBindCompleted, "yes")
	return true, v, errors.Join(k.kube.Tracker().Update(action.GetResource(), v, ""), k.kube.Tracker().Update(claims, claim, claim.Namespace))
}

// bindable fails the test unless the plugin finds a free volume for the pod's claim on some node, so that no volume is
// still assumed.
func (k *kubernetes) bindable(t *testing.T, name string) {
	t.Helper()
	binder, pod := k.plugin.(*volumebinding.VolumeBinding).Binder, schedtest.MakePod().Name(name).Volume("data-"+name).Obj()
	claims, err := binder.GetPodVolumeClaims(klog.Background(), pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"n1", "n2"} {
		volumes, reasons, err := binder.FindPodVolumes(klog.Background(), pod, claims, schedtest.MakeNode().Name(node).Obj())
		if err == nil && len(reasons) == 0 && len(volumes.StaticBindings) == 1 {
			return
		}
	}
	t.Errorf("no volume is free for %s", name)
}

// TestKubernetesDynamicResources checks that each member of a gang gets a device. The claims are written before the
// pods are bound. If a claim cannot be written, no pod is bound and no device stays reserved.
func TestKubernetesDynamicResources(t *testing.T) {
	for name, fails := range map[string]bool{"bound": false, "a claim cannot be written": true} {
		t.Run(name, func(t *testing.T) {
			k := placeWith(t,
				func(h k8sframework.Handle) (k8sframework.Plugin, error) {
					return dynamicresources.New(context.Background(), &config.DynamicResourcesArgs{}, h, feature.Features{EnableDynamicResourceAllocation: true})
				},
				func(p *schedtest.PodBuilder) *schedtest.PodBuilder { return p.MadeClaim("t") },
				func(pods []*v1.Pod) []runtime.Object {
					objects := []runtime.Object{schedtest.DeviceClass("gpu"), schedtest.NodeDevices("n1", "gpu-0"), schedtest.NodeDevices("n2", "gpu-0")}
					for _, pod := range pods {
						objects = append(objects, schedtest.DeviceClaimFor(pod, "t", schedtest.DeviceRequest("r", "gpu", 1)))
					}
					return objects
				})
			want, bound := map[string]int{"n1": 1, "n2": 1}, 2
			if fails {
				k.refuse("resourceclaims", "g-1-t")
				want, bound = map[string]int{}, 0
			}
			k.ends(t, bound)
			if diff := cmp.Diff(want, k.users(t)); diff != "" {
				t.Errorf("pods that claims are reserved for, by the pool of their device (-want +got):\n%s", diff)
			}
		})
	}
}

// users returns the number of pods for which claims are reserved, by the pool of the claims' devices.
func (k *kubernetes) users(t *testing.T) map[string]int {
	t.Helper()
	users := map[string]int{}
	list, err := k.kube.ResourceV1().ResourceClaims(schedtest.Namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if n := len(list.Items[i].Status.ReservedFor); n > 0 {
			users[poolOf(&list.Items[i])] += n
		}
	}
	return users
}

func poolOf(claim *resourcev1.ResourceClaim) string {
	if claim.Status.Allocation == nil {
		return "none"
	}
	return claim.Status.Allocation.Devices.Results[0].Pool
}
