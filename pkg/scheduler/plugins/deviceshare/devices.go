// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	clientset "github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned"
	"github.com/volcano-prebind/volcano-prebind/pkg/client/informers/externalversions"
	listers "github.com/volcano-prebind/volcano-prebind/pkg/client/listers/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
)

// clusterDevices holds the state that outlives a configuration: the cluster's Device objects, which an informer watches,
// and the history of task classes. Sessions start after the objects are listed, so each session sees all of them. If the
// API server does not serve Device objects, sessions start without them.
type clusterDevices struct {
	kube   kubernetes.Interface
	lister listers.DeviceLister
	// podsOn returns the pods that are bound to a node and have not ended.
	podsOn func(node string) []*v1.Pod
	// changes counts how often the informer has reported a change of a Device object.
	changes atomic.Int64
	counter *counter
	// had has the names of nodes whose Device objects were deleted since this process started. While such a node has no
	// Device object, it takes no pods that only request a number of GPUs, because the kubelet would choose these GPUs.
	// Names are few and small, so they are never removed.
	had sync.Map
	// informer watches the Device objects.
	informer cache.SharedIndexInformer
	// history is used by sessions only.
	history *history

	mu        sync.Mutex
	templates map[string]*templates
	// inventories caches the inventories of nodes, by the options for reading Device objects.
	inventories map[allocator.InventoryOptions]*inventories
}

// watchDevices returns the Device objects of the scheduler's cluster, and the informer that must run for them. All
// plugin configurations of a scheduler share both.
func watchDevices(h framework.Handle) (*clusterDevices, []cache.SharedIndexInformer, error) {
	client, err := clientset.NewForConfig(h.RestConfig())
	if err != nil {
		return nil, nil, fmt.Errorf("creating a client for Device objects: %w", err)
	}
	made, err := newClusterDevices(h, client)
	if err != nil {
		return nil, nil, err
	}
	return made, []cache.SharedIndexInformer{made.informer}, nil
}

// inventoriesOf returns the inventories (devices) of nodes, read with the given options. From then on, the counter of
// nodes' device resources uses these inventories, too.
func (d *clusterDevices) inventoriesOf(options allocator.InventoryOptions) *inventories {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.inventories[options]
	if known == nil {
		known = newInventories(d, options)
		d.inventories[options] = known
	}
	d.counter.inventories.Store(known)
	return known
}

// templatesOf returns the shared-resource templates in the configured ConfigMap, and starts the informer that watches
// the ConfigMap.
func (d *clusterDevices) templatesOf(h framework.Handle, config templatesConfig) (*templates, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := config.Namespace + "/" + config.Name
	if known := d.templates[name]; known != nil {
		return known, h.StartInformers(known.informer)
	}
	made, err := watchTemplates(h.KubeClient(), config, h.Wake)
	if err != nil {
		return nil, err
	}
	if err := h.StartInformers(made.informer); err != nil {
		return nil, err
	}
	d.templates[name] = made
	return made, nil
}

func newClusterDevices(h framework.Handle, client clientset.Interface) (*clusterDevices, error) {
	informer := externalversions.NewSharedInformerFactory(client, 0).Scheduling().V1alpha1().Devices()
	d := &clusterDevices{kube: h.KubeClient(), lister: informer.Lister(), podsOn: h.PodsOn, counter: &counter{}, informer: informer.Informer(), history: newHistory(),
		templates: map[string]*templates{}, inventories: map[allocator.InventoryOptions]*inventories{}}
	changed := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			d.counter.markChanged(key)
		}
		d.changes.Add(1)
		h.Wake()
	}
	deleted := func(object any) {
		if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
			d.had.Store(key, true)
		}
		changed(object)
	}
	_, err := d.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, DeleteFunc: deleted, UpdateFunc: func(was, now any) {
		l, r := was.(*schedulingv1alpha1.Device), now.(*schedulingv1alpha1.Device)
		if !apiequality.Semantic.DeepEqual(l.Spec, r.Spec) || !maps.Equal(l.Labels, r.Labels) || !maps.Equal(l.Annotations, r.Annotations) {
			changed(now)
		}
	}})
	if err != nil {
		return nil, fmt.Errorf("watching Device objects: %w", err)
	}
	return d, nil
}

// of returns the Device object of the named node; nil if the node has no Device object.
func (d *clusterDevices) of(node string) *schedulingv1alpha1.Device {
	device, err := d.lister.Get(node)
	if err != nil {
		return nil
	}
	return device
}

// byNumbers returns why a node without a Device object must not take pods that only request a number of GPUs; empty if
// the node may take them. The kubelet chooses the GPUs of such pods. pods are the pods on the node.
//
// If the Device object is missing only for a moment, pods on the node have devices that their annotations
// device-allocated name. The kubelet could give the same devices to other pods.
func (d *clusterDevices) byNumbers(node string, pods iter.Seq[*v1.Pod]) string {
	if _, had := d.had.Load(node); had {
		return "node(s) whose Device object was deleted; they take no pods that request only a number of GPUs until it exists again"
	}
	for pod := range pods {
		if text := allocated(pod); text == "" || text == noDevices {
			continue
		}
		if allocation, _ := allocator.AllocationOf(pod); !allocation.IsEmpty() {
			return "node(s) with pods that use devices of a Device object that does not exist"
		}
	}
	return ""
}

// inventories holds the devices of nodes. It reads a Device object again when the object or the node's labels have changed.
type inventories struct {
	devices *clusterDevices
	options allocator.InventoryOptions

	mu    sync.Mutex
	seed  maphash.Seed
	known map[string]*inventory
	// capacities has, for each node, the largest amounts of devices that the node has listed since this process started.
	// A node that lists fewer devices for some time, because an agent restarts, still has pods with them.
	capacities map[string]allocator.Amounts
	// made counts how many inventories were read from Device objects.
	made uint64
}

// inventory holds a node's devices, and the objects from which they were read. unused is the state of the devices in
// which no pod uses them.
type inventory struct {
	*allocator.Inventory
	unused *allocator.State
	device *schedulingv1alpha1.Device
	// node is the node whose labels were read, in the version that was last compared with the current node.
	node *v1.Node
	// changes is the value of clusterDevices.changes at the last check that the inventory is up to date.
	changes int64
	// key is equal for inventories that can serve the same requests. number is different for each inventory that was
	// read.
	key, number uint64
}

func newInventories(devices *clusterDevices, options allocator.InventoryOptions) *inventories {
	return &inventories{devices: devices, options: options, seed: maphash.MakeSeed(), known: map[string]*inventory{}, capacities: map[string]allocator.Amounts{}}
}

// of returns the devices of the node; nil for a node without a Device object.
func (i *inventories) of(node *v1.Node) *inventory {
	i.mu.Lock()
	defer i.mu.Unlock()
	known, changes := i.known[node.Name], i.devices.changes.Load() // changes is loaded before the Device object is read, so that later changes are noticed
	if known != nil && known.changes == changes && known.node == node {
		return known
	}
	device := i.devices.of(node.Name)
	switch {
	case device == nil:
		delete(i.known, node.Name)
		return nil
	case known != nil && known.device == device && (known.node == node || maps.Equal(known.node.Labels, node.Labels)):
		known.node, known.changes = node, changes
		return known
	}
	read, err := allocator.NewInventory(device, node, i.options)
	if err != nil {
		klog.ErrorS(err, "Ignored invalid parts of a Device object", "device", device.Name)
	}
	i.made++
	made := &inventory{
		Inventory: read, unused: allocator.NewState(read), device: device, node: node, changes: changes, key: maphash.String(i.seed, read.Key()), number: i.made,
	}
	i.known[node.Name] = made
	i.capacities[node.Name] = i.capacities[node.Name].Max(made.Capacity())
	return made
}

// capacityOf returns, for each resource of devices, the largest amount that the node has had since this process
// started. The amounts come from its Device object and from numbered, in this call and earlier ones. numbered has the
// amounts of GPUs that the node's status counts.
func (i *inventories) capacityOf(node *v1.Node, numbered allocator.Amounts) allocator.Amounts {
	i.of(node)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.capacities[node.Name] = i.capacities[node.Name].Max(numbered)
	return i.capacities[node.Name]
}

// latest returns the current devices of the named node; nil if the node has no Device object. It uses the labels of the
// node that were seen last.
func (i *inventories) latest(node string) *allocator.Inventory {
	device := i.devices.of(node)
	if device == nil {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	known := i.known[node]
	if known != nil && known.device == device {
		return known.Inventory
	}
	seen := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if known != nil {
		seen = known.node
	}
	read, _ := allocator.NewInventory(device, seen, i.options) // errors are ignored: a session that reads the object logs them
	return read
}

// nodeOf returns the last known version of the named node; nil if the node is not known.
func (i *inventories) nodeOf(name string) *v1.Node {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known := i.known[name]; known != nil {
		return known.node
	}
	return nil
}

// keepOnly drops the cached inventories of all nodes that are not in the given map, once there are more inventories
// than nodes. It drops the capacities of such nodes that have no Device object, once about half of all capacities are
// of nodes outside the map.
func (i *inventories) keepOnly(nodes map[string]*api.NodeInfo) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.capacities) > 2*len(nodes)+100 {
		maps.DeleteFunc(i.capacities, func(name string, _ allocator.Amounts) bool { return nodes[name] == nil && i.devices.of(name) == nil })
	}
	if len(i.known) <= len(nodes) {
		return
	}
	for name := range i.known {
		if nodes[name] == nil {
			delete(i.known, name)
		}
	}
}

// model returns the vendor and the model of the node's GPUs.
func (i *inventory) model() model { return model{Vendor: i.Vendor, Model: i.Model} }
