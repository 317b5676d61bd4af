// SPDX-License-Identifier: Apache-2.0

package testing

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	vcfake "volcano.sh/apis/pkg/client/clientset/versioned/fake"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
)

// Cluster is a cluster in memory: a fake API server, and upstream's cache connected to it.
//
// The API server is client-go's fake with three additions. It counts resource versions. It rejects an update of an
// object with an older resource version. And it accepts Bindings: the pod's UID is a precondition, annotations are
// merged into the pod, and a bound pod is not bound again.
type Cluster struct {
	Kube    *kubefake.Clientset
	Volcano *vcfake.Clientset
	// Cache is upstream's cache; it uses the clients Kube and Volcano. Its informers do not run before the test starts
	// it.
	Cache  *vccache.SchedulerCache
	Events *Events
	// Devices serves the Device objects, which the fake clients do not support. The CRD of Device is not installed
	// before the first call of Put.
	Devices *DeviceServer

	// writes makes each write atomic, as in etcd: watches get objects in the order of their resource versions, and no
	// other write occurs between the reading and the writing of an object.
	writes  sync.Mutex
	version uint64
}

// NewCluster returns a cluster that contains the objects. Upstream's cache has goroutines that never end, so create the
// cluster outside of a synctest bubble.
func NewCluster(objects ...runtime.Object) *Cluster {
	c := &Cluster{Events: &Events{}, Devices: &DeviceServer{}}
	c.Cache = vccache.NewCustomMockSchedulerCache(SchedulerName, nil, nil, nil, nil, c.Events)
	c.Kube = c.Cache.Client().(*kubefake.Clientset)
	c.Volcano = c.Cache.VCClient().(*vcfake.Clientset)
	for _, fake := range []struct {
		*clienttesting.Fake
		tracker clienttesting.ObjectTracker
	}{{&c.Kube.Fake, c.Kube.Tracker()}, {&c.Volcano.Fake, c.Volcano.Tracker()}} {
		fake.PrependReactor("create", "*", c.create(fake.tracker))
		fake.PrependReactor("update", "*", c.update(fake.tracker))
		fake.PrependReactor("patch", "podgroups", c.patch(fake.tracker))
	}
	c.Kube.PrependReactor("create", "pods/binding", c.bind)
	c.Kube.PrependReactor("patch", "pods", c.patch(c.Kube.Tracker()))
	for _, object := range objects {
		c.Put(object)
	}
	return c
}

// Put creates or replaces the object in the API server without a client's call, so that Writes does not list it. It
// returns the object with its new resource version.
func (c *Cluster) Put(object runtime.Object) runtime.Object {
	c.writes.Lock()
	defer c.writes.Unlock()
	object = c.stamped(object)
	tracker, resource := c.locate(object)
	accessor, _ := meta.Accessor(object)
	err := tracker.Create(resource, object, accessor.GetNamespace())
	if apierrors.IsAlreadyExists(err) {
		err = tracker.Update(resource, object, accessor.GetNamespace())
	}
	if err != nil {
		panic(err)
	}
	return object
}

// Remove deletes the object from the API server without a client's call, so that Writes does not list it.
func (c *Cluster) Remove(object runtime.Object) {
	c.writes.Lock()
	defer c.writes.Unlock()
	tracker, resource := c.locate(object)
	accessor, _ := meta.Accessor(object)
	if err := tracker.Delete(resource, accessor.GetNamespace(), accessor.GetName()); err != nil {
		panic(err)
	}
}

// Pod returns the pod with this name in the namespace Namespace, in its current state in the API server.
func (c *Cluster) Pod(name string) *v1.Pod {
	object, err := c.Kube.Tracker().Get(v1.SchemeGroupVersion.WithResource("pods"), Namespace, name)
	if err != nil {
		panic(err)
	}
	return object.(*v1.Pod)
}

// PodGroup returns the PodGroup with this name in the namespace Namespace, in its current state in the API server.
func (c *Cluster) PodGroup(name string) *v1beta1.PodGroup {
	object, err := c.Volcano.Tracker().Get(v1beta1.SchemeGroupVersion.WithResource("podgroups"), Namespace, name)
	if err != nil {
		panic(err)
	}
	return object.(*v1beta1.PodGroup)
}

// Writes returns the write calls of clients since the last call of Writes, each as "verb resource[/subresource] name".
func (c *Cluster) Writes() []string {
	var writes []string
	for _, fake := range []*clienttesting.Fake{&c.Kube.Fake, &c.Volcano.Fake} {
		for _, action := range fake.Actions() {
			what := action.GetResource().Resource
			if sub := action.GetSubresource(); sub != "" {
				what += "/" + sub
			}
			switch a := action.(type) {
			case clienttesting.CreateActionImpl:
				writes = append(writes, fmt.Sprintf("create %s %s", what, nameOf(a.Object)))
			case clienttesting.UpdateActionImpl:
				writes = append(writes, fmt.Sprintf("update %s %s", what, nameOf(a.Object)))
			case clienttesting.PatchActionImpl:
				writes = append(writes, fmt.Sprintf("patch %s %s", what, a.Name))
			}
		}
		fake.ClearActions()
	}
	return writes
}

func nameOf(object runtime.Object) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return "?"
	}
	return accessor.GetName()
}

func (c *Cluster) locate(object runtime.Object) (clienttesting.ObjectTracker, schema.GroupVersionResource) {
	switch object.(type) {
	case *v1.Pod:
		return c.Kube.Tracker(), v1.SchemeGroupVersion.WithResource("pods")
	case *v1.Node:
		return c.Kube.Tracker(), v1.SchemeGroupVersion.WithResource("nodes")
	case *v1beta1.PodGroup:
		return c.Volcano.Tracker(), v1beta1.SchemeGroupVersion.WithResource("podgroups")
	case *v1beta1.Queue:
		return c.Volcano.Tracker(), v1beta1.SchemeGroupVersion.WithResource("queues")
	case *schedulingv1.PriorityClass:
		return c.Kube.Tracker(), schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")
	case *topologyv1alpha1.HyperNode:
		return c.Volcano.Tracker(), topologyv1alpha1.SchemeGroupVersion.WithResource("hypernodes")
	default:
		panic(fmt.Sprintf("no tracker for %T", object))
	}
}

// stamped returns a copy of the object with the next resource version. The caller holds the mutex writes until the copy
// is stored, so that objects are stored in the order of their versions.
func (c *Cluster) stamped(object runtime.Object) runtime.Object {
	object = object.DeepCopyObject()
	if accessor, err := meta.Accessor(object); err == nil {
		c.version++
		accessor.SetResourceVersion(strconv.FormatUint(c.version, 10))
	}
	return object
}

func (c *Cluster) create(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		a, ok := action.(clienttesting.CreateActionImpl)
		if !ok || a.Subresource != "" {
			return false, nil, nil
		}
		c.writes.Lock()
		defer c.writes.Unlock()
		object := c.stamped(a.Object)
		return true, object, tracker.Create(a.Resource, object, a.Namespace)
	}
}

func (c *Cluster) update(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		a, ok := action.(clienttesting.UpdateActionImpl)
		if !ok {
			return false, nil, nil
		}
		wanted, err := meta.Accessor(a.Object)
		if err != nil {
			return true, nil, err
		}
		c.writes.Lock()
		defer c.writes.Unlock()
		current, err := tracker.Get(a.Resource, a.Namespace, wanted.GetName())
		if err != nil {
			return true, nil, err
		}
		stored, err := meta.Accessor(current)
		if err != nil {
			return true, nil, err
		}
		if v := wanted.GetResourceVersion(); v != "" && v != stored.GetResourceVersion() {
			return true, nil, apierrors.NewConflict(a.Resource.GroupResource(), wanted.GetName(), fmt.Errorf("the object has been modified"))
		}
		object := c.stamped(a.Object)
		return true, object, tracker.Update(a.Resource, object, a.Namespace)
	}
}

// patch returns a reaction that applies merge patches, also strategic ones. As an API server does, it rejects a patch that names another
// resource version or UID than the stored object has.
func (c *Cluster) patch(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		a, ok := action.(clienttesting.PatchActionImpl)
		if !ok || a.PatchType != types.MergePatchType && a.PatchType != types.StrategicMergePatchType {
			return false, nil, nil
		}
		var patch map[string]any
		if err := json.Unmarshal(a.Patch, &patch); err != nil {
			return true, nil, apierrors.NewBadRequest(err.Error())
		}
		c.writes.Lock()
		defer c.writes.Unlock()
		current, err := tracker.Get(a.Resource, a.Namespace, a.Name)
		if err != nil {
			return true, nil, err
		}
		stored, err := meta.Accessor(current)
		if err != nil {
			return true, nil, err
		}
		metadata, _ := patch["metadata"].(map[string]any)
		for field, is := range map[string]string{"uid": string(stored.GetUID()), "resourceVersion": stored.GetResourceVersion()} {
			if wanted, ok := metadata[field]; ok && wanted != is {
				return true, nil, apierrors.NewConflict(a.Resource.GroupResource(), a.Name, fmt.Errorf("its %s is %s, not %v", field, is, wanted))
			}
		}
		next, err := meta.Accessor(c.stamped(current))
		if err != nil {
			return true, nil, err
		}
		if metadata == nil {
			metadata = map[string]any{}
			patch["metadata"] = metadata
		}
		metadata["resourceVersion"] = next.GetResourceVersion()
		if a.Patch, err = json.Marshal(patch); err != nil {
			return true, nil, err
		}
		return clienttesting.ObjectReaction(tracker)(a)
	}
}

func (c *Cluster) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	a := action.(clienttesting.CreateActionImpl)
	binding := a.Object.(*v1.Binding)
	tracker := c.Kube.Tracker()
	c.writes.Lock()
	defer c.writes.Unlock()
	current, err := tracker.Get(a.Resource, a.Namespace, binding.Name)
	if err != nil {
		return true, nil, err
	}
	pod := current.DeepCopyObject().(*v1.Pod)
	switch {
	case binding.UID != "" && binding.UID != pod.UID:
		return true, nil, apierrors.NewConflict(a.Resource.GroupResource(), pod.Name, fmt.Errorf("the UID in the precondition (%s) is not %s", binding.UID, pod.UID))
	case pod.Spec.NodeName != "":
		return true, nil, apierrors.NewConflict(a.Resource.GroupResource(), pod.Name, fmt.Errorf("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName))
	}
	pod.Spec.NodeName = binding.Target.Name
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, binding.Annotations)
	return true, binding, tracker.Update(a.Resource, c.stamped(pod), a.Namespace)
}
