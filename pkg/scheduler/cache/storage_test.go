// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func free() *v1.PersistentVolume { return schedtest.FreeVolume("v", "local", "n") }

// reserved returns the volume once it is reserved for a claim.
func reserved() *v1.PersistentVolume {
	return changed(free(), func(v *v1.PersistentVolume) {
		v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "c", UID: "uid"}
	})
}

func csiNode(drivers ...string) *storagev1.CSINode {
	node := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for _, driver := range drivers {
		node.Spec.Drivers = append(node.Spec.Drivers, storagev1.CSINodeDriver{Name: driver, NodeID: "n"})
	}
	return node
}

func capacityOf(amount string) *storagev1.CSIStorageCapacity {
	capacity := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "capacity"}, StorageClassName: "made"}
	if amount != "" {
		capacity.Capacity = new(resource.MustParse(amount))
	}
	return capacity
}

// allocated returns a device claim that this number of pods use.
func allocated(users int) *resourcev1.ResourceClaim {
	claim := schedtest.DeviceClaim("c")
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	claim.Status.ReservedFor = make([]resourcev1.ResourceClaimConsumerReference, users)
	return claim
}

func taintRule(effect resourcev1alpha3.DeviceTaintEffect) *resourcev1alpha3.DeviceTaintRule {
	rule := &resourcev1alpha3.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "rule"}}
	rule.Spec.Taint.Effect = effect
	return rule
}

// TestDevicesOfADeletedClaimAreFree checks that the devices of a deleted claim are free for other claims.
func TestDevicesOfADeletedClaimAreFree(t *testing.T) {
	for claim, want := range map[*resourcev1.ResourceClaim][]Urgency{allocated(0): {WakeNow}, schedtest.DeviceClaim("c"): nil} {
		withHarness(t, func(t *testing.T, w *harness) {
			w.cache.changes.storage.storageDeleted(claim)
			if diff := cmp.Diff(want, w.woken()); diff != "" {
				t.Errorf("wake-ups (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStorageChangesThatWakeTheLoop(t *testing.T) {
	phase := func(v *v1.PersistentVolume, phase v1.PersistentVolumePhase) *v1.PersistentVolume {
		v.Status.Phase = phase
		return v
	}
	class := func() *storagev1.StorageClass { return schedtest.LateClass("local", "disks.example.com") }
	driver := func(capacities bool) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &capacities}}
	}
	now := []Urgency{WakeNow}
	tests := map[string]struct {
		// before is nil if the object is new, and after is nil if it is deleted.
		before, after runtime.Object
		want          []Urgency
	}{
		"a new volume":                              {after: free(), want: now},
		"a new volume that is not ready yet":        {after: phase(free(), v1.VolumePending)},
		"a volume that was made for a claim":        {after: reserved()},
		"a volume is ready":                         {before: phase(free(), v1.VolumePending), after: free(), want: now},
		"a volume is free again":                    {before: reserved(), after: free(), want: now},
		"a volume is reserved":                      {before: free(), after: reserved()},
		"a volume is bound":                         {before: reserved(), after: phase(reserved(), v1.VolumeBound)},
		"a volume is seen again":                    {before: free(), after: free()},
		"a volume gets a label":                     {before: free(), after: changed(free(), func(v *v1.PersistentVolume) { v.Labels = map[string]string{"a": "b"} }), want: now},
		"a new class":                               {after: class(), want: now},
		"a class in the place of another":           {before: class(), after: changed(class(), func(c *storagev1.StorageClass) { c.UID = "other" }), want: now},
		"a class is described":                      {before: class(), after: changed(class(), func(c *storagev1.StorageClass) { c.Annotations = map[string]string{"a": "b"} })},
		"a class is for more zones":                 {before: class(), after: changed(class(), func(c *storagev1.StorageClass) { c.AllowedTopologies = []v1.TopologySelectorTerm{{}} }), want: now},
		"a new CSINode":                             {after: csiNode(), want: now},
		"a driver comes to a node":                  {before: csiNode(), after: csiNode("d"), want: now},
		"a CSINode is seen again":                   {before: csiNode("d"), after: csiNode("d")},
		"a driver's capacities do not count":        {before: driver(true), after: driver(false), want: now},
		"a driver is seen again":                    {before: driver(true), after: driver(true)},
		"a new capacity":                            {after: capacityOf("1Gi"), want: now},
		"a capacity grows":                          {before: capacityOf("1Gi"), after: capacityOf("2Gi"), want: now},
		"a capacity shrinks":                        {before: capacityOf("2Gi"), after: capacityOf("1Gi")},
		"a capacity is reported for the first time": {before: capacityOf(""), after: capacityOf("1Gi"), want: now},
		"new devices":                               {after: schedtest.NodeDevices("n", "gpu-0"), want: now},
		"devices have other names":                  {before: schedtest.NodeDevices("n", "gpu-0"), after: schedtest.NodeDevices("n", "gpu-1"), want: now},
		"devices go":                                {before: schedtest.NodeDevices("n", "gpu-0"), want: now},
		"devices are tainted":                       {after: taintRule("NoSchedule")},
		"devices are tainted otherwise":             {before: taintRule("NoSchedule"), after: taintRule("NoExecute"), want: now},
		"a rule that taints is seen again":          {before: taintRule("NoSchedule"), after: taintRule("NoSchedule")},
		"devices are tainted no more":               {before: taintRule("NoSchedule"), want: now},
		"devices are seen again":                    {before: schedtest.NodeDevices("n", "gpu-0"), after: schedtest.NodeDevices("n", "gpu-0")},
		"a new device class":                        {after: schedtest.DeviceClass("gpu"), want: now},
		"a device class has selectors":              {before: schedtest.DeviceClass("gpu"), after: schedtest.DeviceClass("gpu", "true"), want: now},
		"a new claim of devices":                    {after: schedtest.DeviceClaim("c"), want: now},
		"a claim is allocated":                      {before: schedtest.DeviceClaim("c"), after: allocated(0)},
		"a claim is allocated otherwise":            {before: allocated(0), after: changed(allocated(0), func(c *resourcev1.ResourceClaim) { c.Status.Allocation.NodeSelector = &v1.NodeSelector{} }), want: now},
		"a claim is allocated no more":              {before: allocated(0), after: schedtest.DeviceClaim("c"), want: now},
		"a claim has one user less":                 {before: allocated(2), after: allocated(1)},
		"a claim has room for a user":               {before: allocated(256), after: allocated(255), want: now},
		"a driver whose capacities counted goes":    {before: driver(true), want: now},
		"a driver whose capacities did not goes":    {before: driver(false)},
		"a volume is detached":                      {before: &storagev1.VolumeAttachment{}, want: now},
		"a capacity goes":                           {before: capacityOf("1Gi")},
		"a volume goes":                             {before: free()},
		"larger volumes may be made": {
			before: capacityOf("2Gi"), after: changed(capacityOf("2Gi"), func(c *storagev1.CSIStorageCapacity) { c.MaximumVolumeSize = new(resource.MustParse("1Gi")) }), want: now,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				switch {
				case tt.before == nil:
					w.cache.changes.storage.storageAdded(tt.after)
				case tt.after == nil:
					w.cache.changes.storage.storageDeleted(tt.before)
				default:
					w.cache.changes.storage.storageUpdated(tt.before, tt.after)
				}
				if diff := cmp.Diff(tt.want, w.woken()); diff != "" {
					t.Errorf("wake-ups (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestClaimsOfDevicesWakeForTheirPods checks that device claims wake the loop for their pods. Allocations of other
// schedulers, and statuses from drivers, need a cycle if a pod waits with the claim. A pod that is being bound makes
// such changes itself.
func TestClaimsOfDevicesWakeForTheirPods(t *testing.T) {
	condition := func(status metav1.ConditionStatus) *resourcev1.ResourceClaim {
		return changed(allocated(0), func(c *resourcev1.ResourceClaim) {
			c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Conditions: []metav1.Condition{{Type: "broken", Status: status}}}}
		})
	}
	named := func(name string) *resourcev1.ResourceClaim {
		claim := schedtest.DeviceClaim(name)
		claim.Status.Allocation = &resourcev1.AllocationResult{}
		return claim
	}
	changes := map[string]struct {
		before, after *resourcev1.ResourceClaim
		helps         bool
	}{
		"allocated":         {schedtest.DeviceClaim("p0-t"), named("p0-t"), true},
		"a condition ends":  {condition("True"), condition("False"), true},
		"a user goes":       {allocated(2), allocated(1), false},
		"it is seen again":  {condition("True"), condition("True"), false},
		"it gets a label":   {allocated(0), changed(allocated(0), func(c *resourcev1.ResourceClaim) { c.Labels = map[string]string{"a": "b"} }), false},
		"of another's name": {schedtest.DeviceClaim("other"), named("other"), false},
	}
	pods := map[string]struct {
		arrange func(w *harness)
		waits   bool
	}{
		"a pod waits with it":               {func(w *harness) { w.add(pod(0).ResourceClaim("c").MadeClaim("t").Obj()) }, true},
		"no pod uses it":                    {func(w *harness) { w.add(pod(0).Obj()) }, false},
		"its pod is bound":                  {func(w *harness) { w.add(pod(0).ResourceClaim("c").MadeClaim("t").Node("n").Obj()) }, false},
		"a pod of another scheduler has it": {func(w *harness) { w.add(pod(0).ResourceClaim("c").MadeClaim("t").Scheduler("other").Obj()) }, false},
		"its pod is being bound": {func(w *harness) {
			w.add(pod(0).ResourceClaim("c").MadeClaim("t").Obj())
			w.mustPlace("n", nil, "p0")
		}, false},
	}
	for who, tt := range pods {
		for what, change := range changes {
			t.Run(who+", "+what, func(t *testing.T) {
				withHarness(t, func(t *testing.T, w *harness) {
					w.gangOf(0, 1)
					tt.arrange(w)
					w.woken()
					w.cache.changes.storage.storageUpdated(change.before, change.after)
					want := []Urgency(nil)
					if tt.waits && change.helps {
						want = []Urgency{WakeNow}
					}
					if diff := cmp.Diff(want, w.woken()); diff != "" {
						t.Errorf("wake-ups (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// TestStorageEndsTheWaitOfGangsWithClaims checks that changes of storage end the wait of gangs with claims, whose
// failure may have its cause there, but not of gangs without claims.
func TestStorageEndsTheWaitOfGangsWithClaims(t *testing.T) {
	tests := map[string]struct {
		claim   string
		added   runtime.Object
		pause   time.Duration
		blocked bool
	}{
		"a volume":   {claim: "data", added: free(), pause: firstRetry},
		"a class":    {claim: "data", added: schedtest.LateClass("local", "disks.example.com"), pause: firstRetry},
		"a capacity": {claim: "data", added: capacityOf("1Gi"), pause: firstRetry},
		"a volume at once, which its own steps freed": {claim: "data", added: free(), blocked: true},
		"a volume, for a gang without claims":         {added: free(), pause: firstRetry, blocked: true},
		"a driver on its node, whatever it failed of": {added: csiNode("d"), pause: firstRetry},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(2, 2)
				for i := range 2 {
					if tt.claim != "" {
						w.add(pod(i).Volume(tt.claim).Obj())
					}
				}
				w.failGang()
				w.failGang() // The wait is longer than a first one.
				time.Sleep(tt.pause)
				w.cache.changes.storage.storageAdded(tt.added)
				if _, blocked := w.cache.Blocked(gang); blocked != tt.blocked {
					t.Errorf("the gang waits: %v, want %v", blocked, tt.blocked)
				}
			})
		})
	}
}

// TestStorageIsWatched checks that storage is watched. Objects of each kind wake the loop when they are created or
// deleted. Kinds that only some plugins use do so once a plugin has requested them.
func TestStorageIsWatched(t *testing.T) {
	tests := map[string]struct {
		asked func(*Cache) toolscache.SharedIndexInformer
		// there is the object that exists before.
		there  runtime.Object
		change func(context.Context, *schedtest.Cluster) error
	}{
		"volumes": {change: func(ctx context.Context, c *schedtest.Cluster) error {
			_, err := c.Kube.CoreV1().PersistentVolumes().Create(ctx, free(), metav1.CreateOptions{})
			return err
		}},
		"classes": {change: func(ctx context.Context, c *schedtest.Cluster) error {
			_, err := c.Kube.StorageV1().StorageClasses().Create(ctx, schedtest.LateClass("local", "d"), metav1.CreateOptions{})
			return err
		}},
		"CSINodes": {change: func(ctx context.Context, c *schedtest.Cluster) error {
			_, err := c.Kube.StorageV1().CSINodes().Create(ctx, csiNode(), metav1.CreateOptions{})
			return err
		}},
		"drivers that go": {
			asked: func(c *Cache) toolscache.SharedIndexInformer {
				return c.handle.InformerFactory().Storage().V1().CSIDrivers().Informer()
			},
			there: &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true)}},
			change: func(ctx context.Context, c *schedtest.Cluster) error {
				return c.Kube.StorageV1().CSIDrivers().Delete(ctx, "d", metav1.DeleteOptions{})
			},
		},
		"attachments that go": {
			there: &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
			change: func(ctx context.Context, c *schedtest.Cluster) error {
				return c.Kube.StorageV1().VolumeAttachments().Delete(ctx, "a", metav1.DeleteOptions{})
			},
		},
		"capacities": {
			asked: func(c *Cache) toolscache.SharedIndexInformer {
				return c.handle.InformerFactory().Storage().V1().CSIStorageCapacities().Informer()
			},
			change: func(ctx context.Context, c *schedtest.Cluster) error {
				_, err := c.Kube.StorageV1().CSIStorageCapacities("ns").Create(ctx, capacityOf("1Gi"), metav1.CreateOptions{})
				return err
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := schedtest.NewCluster()
			if tt.there != nil {
				if err := cluster.Kube.Tracker().Add(tt.there); err != nil {
					t.Fatal(err)
				}
			}
			woken := make(chan Urgency, 100)
			c := mustWrap(t, cluster, quiet{}, func(u Urgency) { woken <- u })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := c.Start(ctx, ctx); err != nil {
				t.Fatal(err)
			}
			if tt.asked != nil {
				informer := tt.asked(c)
				if err := c.handle.StartInformers(informer); err != nil || !toolscache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
					t.Fatalf("the informer does not run: %v", err)
				}
			}
			for len(woken) > 0 {
				<-woken
			}
			if err := tt.change(ctx, cluster); err != nil {
				t.Fatal(err)
			}
			select {
			case u := <-woken:
				if u != WakeNow {
					t.Errorf("woken with urgency %v", u)
				}
			case <-time.After(time.Minute):
				t.Error("not woken")
			}
		})
	}
}
