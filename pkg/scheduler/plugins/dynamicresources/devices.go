// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	feature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework/workbudget"
)

// devices holds the devices and claims of a cluster as informers show them, and the allocations that are assumed for placed pods.
// One instance exists for each set of informers. It outlives sessions and configurations.
type devices struct {
	kube kubernetes.Interface
	// claims has the latest known version of each claim: as informers show it, or as the plugin wrote it since.
	claims    *assumecache.AssumeCache
	nodes     corelisters.NodeLister
	catalog   catalog
	inventory *inventory
	// synced has one function for each informer. The function reports whether the informer's initial list has been processed.
	synced []cache.InformerSynced
	// unrecovered are the claims for which a former leader's writes could not be withdrawn yet.
	unrecovered *framework.Unrecovered

	// mu guards the fields below. It is not held during a search or a call to the API server.
	mu sync.Mutex
	// assumed are the placed pods that hold claims, by the pod's UID. held are the claims that placed pods hold, by the claim's
	// UID. chosen are, by the name of the first holder's node, the claims in held whose devices this plugin chose.
	assumed map[types.UID]*assumedPod
	held    map[types.UID]*assumedClaim
	chosen  map[string]map[*assumedClaim]bool
	// rounds counts sessions. budgets limits the time of device searches in the current session. Between sessions it has the
	// values of the last session.
	rounds  int64
	budgets *workbudget.Budgets
	ledger  *ledger
	// freeing has an element for each claim that is being deallocated because the nodes of its devices no longer exist (see
	// freeStranded). Its capacity limits how many claims are deallocated at a time.
	freeing chan struct{}
}

// catalog reads ResourceSlices and device classes, and evaluates the rules for selecting devices.
type catalog struct {
	// slices lists the ResourceSlices. Their devices do not have the taints that DeviceTaintRules add.
	slices   resourcelisters.ResourceSliceLister
	classes  classLister
	features structured.Features
	// compiled caches compiled selectors for both the allocator and the inventory.
	compiled *selectorCache
}

// classLister adapts the lister of device classes to the allocator's interface.
type classLister struct {
	resourcelisters.DeviceClassLister
}

// List implements structured.DeviceClassLister.
func (l classLister) List() ([]*resourceapi.DeviceClass, error) {
	return l.DeviceClassLister.List(labels.Everything())
}

// served returns an error if the API server does not serve the API version of ResourceClaims that this plugin uses. It returns nil
// if the API server does not answer in time.
func served(api discovery.DiscoveryInterface) error {
	group := resourceapi.SchemeGroupVersion.String()
	answered := make(chan error, 1)
	go func() { // the client has no deadline, so the select below does not wait for a late answer
		_, err := api.ServerResourcesForGroupVersion(group)
		answered <- err
	}()
	select {
	case err := <-answered:
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("plugin %s: the API server does not serve %s, which needs Kubernetes 1.34 or later; remove the plugin from the configuration, or upgrade Kubernetes", Name, group)
		}
	case <-time.After(callTimeout):
	}
	return nil
}

// newDevices returns a new devices object, and the informers that it reads. The caller must run these informers.
func newDevices(h framework.Handle) (*devices, []cache.SharedIndexInformer, error) {
	if err := served(h.KubeClient().Discovery()); err != nil {
		return nil, nil, err
	}
	factory := h.InformerFactory()
	resources, enabled := factory.Resource().V1(), feature.DefaultFeatureGate.Enabled
	features := structured.Features{
		AdminAccess:          enabled(features.DRAAdminAccess),
		ConsumableCapacity:   enabled(features.DRAConsumableCapacity),
		DeviceBinding:        enabled(features.DRADeviceBindingConditions),
		DeviceStatus:         enabled(features.DRAResourceClaimDeviceStatus),
		DeviceTaints:         enabled(features.DRADeviceTaints),
		PartitionableDevices: enabled(features.DRAPartitionableDevices),
		PrioritizedList:      enabled(features.DRAPrioritizedList),
	}
	claims := resources.ResourceClaims().Informer()
	needed := []cache.SharedIndexInformer{claims, resources.ResourceSlices().Informer(), resources.DeviceClasses().Informer(), factory.Core().V1().Nodes().Informer()}
	d := &devices{
		kube:   h.KubeClient(),
		claims: assumecache.NewAssumeCache(klog.Background(), claims, "ResourceClaim", "", nil),
		nodes:  factory.Core().V1().Nodes().Lister(),
		catalog: catalog{
			slices:   resources.ResourceSlices().Lister(),
			classes:  classLister{resources.DeviceClasses().Lister()},
			features: features,
			compiled: newSelectorCache(cel.Features{EnableConsumableCapacity: features.ConsumableCapacity}),
		},
		inventory: newInventory(features.PartitionableDevices),
		ledger:    newLedger(features.ConsumableCapacity),
		assumed:   map[types.UID]*assumedPod{},
		held:      map[types.UID]*assumedClaim{},
		chosen:    map[string]map[*assumedClaim]bool{},
		freeing:   make(chan struct{}, mostFreed),
	}
	d.unrecovered = framework.NewUnrecovered(Name, recovery{d}, h.Wake)
	registration := d.claims.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: d.refresh, UpdateFunc: d.refreshBoth, DeleteFunc: d.refresh,
	})
	d.synced = []cache.InformerSynced{registration.HasSynced, needed[1].HasSynced, needed[2].HasSynced, needed[3].HasSynced}
	// Upstream's cache applies the DeviceTaintRules to ResourceSlices. This informer only requests a cycle when a rule changes.
	if features.DeviceTaints {
		needed = append(needed, factory.Resource().V1alpha3().DeviceTaintRules().Informer())
	}
	return d, needed, nil
}

// refresh updates the ledger with the latest known version of a claim. It reads that version again: events of one claim may be
// handled at the same time, in any order.
func (d *devices) refresh(object any) {
	claim, ok := object.(*resourceapi.ResourceClaim)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var stored *resourceapi.AllocationResult
	if latest, err := d.claimNamed(claim.Namespace, claim.Name); err == nil && latest.UID == claim.UID {
		stored = latest.Status.Allocation
	}
	d.ledger.store(claim.UID, stored)
}

// refreshBoth handles an update of a claim. If the claim was deleted and recreated while the watch was interrupted, both versions
// have different UIDs.
func (d *devices) refreshBoth(before, now any) {
	d.refresh(before)
	d.refresh(now)
}

// claimNamed returns the latest known version of the claim. This may be a version that the plugin wrote and informers do not show
// yet. The error is assumecache.ErrNotFound if the claim does not exist.
func (d *devices) claimNamed(namespace, name string) (*resourceapi.ResourceClaim, error) {
	object, err := d.claims.Get(namespace + "/" + name)
	if err != nil {
		return nil, err
	}
	return object.(*resourceapi.ResourceClaim), nil
}

// wrote records a version of the claim that the plugin wrote, unless informers have already shown a later one or the claim's
// deletion.
func (d *devices) wrote(claim *resourceapi.ResourceClaim) {
	if d.claims.Assume(claim) == nil {
		d.refresh(claim) // the event of Assume may be handled later, by another goroutine
	}
}

// isReady reports whether the informers have processed their initial lists.
func (d *devices) isReady() bool {
	return !slices.ContainsFunc(d.synced, func(synced cache.InformerSynced) bool { return !synced() })
}

var errNotReady = errors.New("the scheduler has not read all claims and devices yet")

// listSlices returns the current ResourceSlices. If the feature gate DRADeviceTaints is on, it reads them from the cache of
// upstream's scheduler, which adds the taints of DeviceTaintRules.
func (c *catalog) listSlices(shared k8sframework.SharedDRAManager) ([]*resourceapi.ResourceSlice, error) {
	if c.features.DeviceTaints && shared != nil {
		return shared.ResourceSlices().ListWithDeviceTaintRules()
	}
	return c.slices.List(labels.Everything())
}
