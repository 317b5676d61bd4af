// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/storage/volume"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func changed[T runtime.Object](object T, change func(T)) T {
	change(object)
	return object
}

func TestWhichChangesWakeTheLoop(t *testing.T) {
	node := func() *v1.Node { return schedtest.MakeNode().Name("n").Obj() }
	pg := func() *v1beta1.PodGroup { return schedtest.MakePodGroup().Name("g").Obj() }
	queue := func() *v1beta1.Queue { return schedtest.MakeQueue().Name("q").Obj() }
	now, soon := []Urgency{WakeNow}, []Urgency{WakeDelayed}
	tests := map[string]struct {
		// before is nil if the object is new. after is nil if the object is deleted.
		before, after runtime.Object
		want          []Urgency
	}{
		"a new pod of a gang not known yet":    {after: pod(0).Obj(), want: soon},
		"a new pod of another scheduler":       {after: pod(0).Scheduler("other").Obj()},
		"a new pod on a node":                  {after: pod(0).Node("n").Obj()},
		"a pod is bound":                       {before: pod(0).Obj(), after: pod(0).Node("n").Obj(), want: soon},
		"a pod starts to run":                  {before: pod(0).Node("n").Obj(), after: pod(0).Node("n").Phase(v1.PodRunning).Obj(), want: soon},
		"a pod has succeeded":                  {before: pod(0).Node("n").Phase(v1.PodRunning).Obj(), after: pod(0).Node("n").Phase(v1.PodSucceeded).Obj(), want: now},
		"a pod of another scheduler has ended": {before: pod(0).Scheduler("other").Node("n").Obj(), after: pod(0).Scheduler("other").Node("n").Phase(v1.PodFailed).Obj(), want: now},
		"a pod is being deleted":               {before: pod(0).Node("n").Obj(), after: pod(0).Node("n").Terminating().Obj(), want: now},
		"a waiting pod gets a label":           {before: pod(0).Obj(), after: pod(0).Label("a", "b").Obj(), want: now},
		"a waiting pod gets a condition": {before: pod(0).Obj(), after: changed(pod(0).Obj(), func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse}}
		})},
		"a claim of a waiting pod was made": {before: changed(pod(0).MadeClaim("t").Obj(), func(p *v1.Pod) { p.Status.ResourceClaimStatuses = nil }),
			after: pod(0).MadeClaim("t").Obj(), want: now},
		"a running pod is resized to less":          {before: pod(0).Node("n").Req(schedtest.Resources{"cpu": "2"}).Obj(), after: pod(0).Node("n").Obj(), want: now},
		"a running pod is resized to more":          {before: pod(0).Node("n").Obj(), after: pod(0).Node("n").Req(schedtest.Resources{"cpu": "2"}).Obj()},
		"a running pod gets a label":                {before: pod(0).Node("n").Obj(), after: pod(0).Node("n").Label("a", "b").Obj()},
		"a waiting pod of another one gets a label": {before: pod(0).Scheduler("other").Obj(), after: pod(0).Scheduler("other").Label("a", "b").Obj()},
		"a waiting pod is deleted":                  {before: pod(0).Obj(), want: now},
		"a waiting pod of another one is deleted":   {before: pod(0).Scheduler("other").Obj()},
		"a placed pod of another one is deleted":    {before: pod(0).Scheduler("other").Node("n").Obj(), want: now},
		"a new node":                                {after: node(), want: now},
		"a node's heartbeat":                        {before: node(), after: changed(node(), func(n *v1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() })},
		"a node is cordoned":                        {before: node(), after: changed(node(), func(n *v1.Node) { n.Spec.Unschedulable = true }), want: now},
		"a node is not ready":                       {before: node(), after: changed(node(), func(n *v1.Node) { n.Status.Conditions[0].Status = v1.ConditionFalse }), want: now},
		"a node gets a label":                       {before: node(), after: schedtest.MakeNode().Name("n").Label("a", "b").Obj(), want: now},
		"a node grows":                              {before: node(), after: schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "9"}).Obj(), want: now},
		"a node is deleted":                         {before: node(), want: now},
		"an agent annotates a node":                 {before: node(), after: changed(node(), func(n *v1.Node) { n.Annotations = map[string]string{"seen": "now"} })},
		"a new PodGroup without its pods":           {after: pg(), want: soon},
		"a new PodGroup that a controller waits for": {
			after: schedtest.MakePodGroup().Name("g").OwnedBy("batch.volcano.sh/v1alpha1", "Job").Obj(), want: now,
		},
		"a PodGroup's minimum is changed":             {before: pg(), after: schedtest.MakePodGroup().Name("g").MinMember(2).Obj(), want: now},
		"a PodGroup gets an annotation":               {before: pg(), after: schedtest.MakePodGroup().Name("g").Annotation("a", "b").Obj(), want: now},
		"a PodGroup's status is written by ourselves": {before: pg(), after: schedtest.MakePodGroup().Name("g").Phase(v1beta1.PodGroupRunning).Obj()},
		"a PodGroup is deleted":                       {before: pg(), want: soon},
		"a new queue":                                 {after: queue(), want: now},
		"a queue is deleted":                          {before: queue(), want: soon},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				if tt.before != nil {
					w.add(tt.before)
				}
				w.woken()
				if tt.after != nil {
					w.add(tt.after)
				} else {
					w.remove(tt.before)
				}
				if diff := cmp.Diff(tt.want, w.woken()); diff != "" {
					t.Errorf("wake-ups (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestAGangAsksForACycleOnceItIsWhole(t *testing.T) {
	pg := schedtest.MakePodGroup().Name("g").MinMember(2).Obj()
	first, second := pod(0).Obj(), pod(1).Obj()
	tests := map[string]struct {
		arrive []runtime.Object
		want   []Urgency
	}{
		"the PodGroup first":   {arrive: []runtime.Object{pg, first, second}, want: []Urgency{WakeDelayed, WakeDelayed, WakeNow}},
		"the PodGroup last":    {arrive: []runtime.Object{first, second, pg}, want: []Urgency{WakeDelayed, WakeDelayed, WakeNow}},
		"the PodGroup between": {arrive: []runtime.Object{first, pg, second}, want: []Urgency{WakeDelayed, WakeDelayed, WakeNow}},
		"a pod that left it does not count": {
			arrive: []runtime.Object{pg, first, pod(0).Group("other").Obj(), second}, want: []Urgency{WakeDelayed, WakeDelayed, WakeNow, WakeDelayed},
		},
		"a pod beyond its minimum counts": {arrive: []runtime.Object{pg, first, second, pod(2).Obj()}, want: []Urgency{WakeDelayed, WakeDelayed, WakeNow, WakeNow}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.woken()
				for _, object := range tt.arrive {
					w.add(object.DeepCopyObject())
				}
				if diff := cmp.Diff(tt.want, w.woken()); diff != "" {
					t.Errorf("wake-ups (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestQueueChangesThatWakeTheLoop(t *testing.T) {
	tests := map[string]struct {
		change func(q *v1beta1.Queue)
		want   []Urgency
	}{
		"its weight":                      {change: func(q *v1beta1.Queue) { q.Spec.Weight = 9 }, want: []Urgency{WakeNow}},
		"it is closed":                    {change: func(q *v1beta1.Queue) { q.Status.State = v1beta1.QueueStateClosed }, want: []Urgency{WakeNow}},
		"what it has allocated is no one": {change: func(q *v1beta1.Queue) { q.Status.Allocated = v1.ResourceList{} }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				before := schedtest.MakeQueue().Name("q").Obj()
				w.cache.changes.queueUpdated(before, changed(before.DeepCopy(), tt.change))
				if diff := cmp.Diff(tt.want, w.woken()); diff != "" {
					t.Errorf("wake-ups (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestWhichChangesEndAGangsWait(t *testing.T) {
	tests := map[string]struct {
		change  func(w *harness)
		blocked bool
	}{
		"a new member": {change: func(w *harness) { w.add(pod(2).Obj()) }},
		"a member is changed a moment later": {change: func(w *harness) {
			time.Sleep(firstRetry)
			w.add(pod(1).Label("a", "b").Obj())
		}},
		"a member is changed at once, which its own steps may have done, does not": {
			change: func(w *harness) { w.add(pod(1).Label("a", "b").Obj()) }, blocked: true,
		},
		"its PodGroup is changed": {change: func(w *harness) { w.add(schedtest.MakePodGroup().Name("g").MinMember(1).Obj()) }},
		"its PodGroup's annotations are changed a moment later": {change: func(w *harness) {
			time.Sleep(firstRetry)
			w.add(changed(schedtest.MakePodGroup().Name("g").MinMember(2).Obj(), func(pg *v1beta1.PodGroup) { pg.Annotations = map[string]string{"a": "b"} }))
		}},
		"its PodGroup's annotations are changed at once, which its own steps may have done, does not": {change: func(w *harness) {
			w.add(changed(schedtest.MakePodGroup().Name("g").MinMember(2).Obj(), func(pg *v1beta1.PodGroup) { pg.Annotations = map[string]string{"a": "b"} }))
		}, blocked: true},
		"its PodGroup is deleted": {change: func(w *harness) { w.remove(schedtest.MakePodGroup().Name("g").Obj()) }},
		"its node is changed a moment later": {change: func(w *harness) {
			time.Sleep(firstRetry)
			w.add(schedtest.MakeNode().Name("n").Label("a", "b").Obj())
		}},
		"its node is changed at once, which its own steps may have done, does not": {
			change: func(w *harness) { w.add(schedtest.MakeNode().Name("n").Label("a", "b").Obj()) }, blocked: true,
		},
		"its node's annotations are changed a moment later": {change: func(w *harness) {
			time.Sleep(firstRetry)
			w.add(changed(schedtest.MakeNode().Name("n").Obj(), func(n *v1.Node) { n.Annotations = map[string]string{"devices": "8"} }))
		}},
		"its node's heartbeat does not": {change: func(w *harness) {
			time.Sleep(firstRetry)
			w.add(changed(schedtest.MakeNode().Name("n").Obj(), func(n *v1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }))
		}, blocked: true},
		"its node is deleted":            {change: func(w *harness) { w.remove(schedtest.MakeNode().Name("n").Obj()) }},
		"another gang's member does not": {change: func(w *harness) { w.add(schedtest.MakePod().Name("x").Group("other").Obj()) }, blocked: true},
		"a node it was not to go to does not": {change: func(w *harness) {
			w.add(schedtest.MakeNode().Name("m").Obj(), schedtest.MakeNode().Name("m").Label("a", "b").Obj())
		}, blocked: true},
		"a write of its own conditions does not": {change: func(w *harness) {
			w.deliver(w.cluster.PodGroup("g"))
			w.sync("p0", "p1")
		}, blocked: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(2, 2)
				w.failGang()
				w.failGang() // The wait is longer than a first one.
				tt.change(w)
				if _, blocked := w.cache.Blocked(gang); blocked != tt.blocked {
					t.Errorf("the gang waits: %v, want %v", blocked, tt.blocked)
				}
			})
		})
	}
}

// TestAnObjectInThePlaceOfAnother checks that an update that replaces a pod, PodGroup or node by another object of its
// name is handled as a deletion and a creation. The watch shows such an update if both fell into a gap.
func TestAnObjectInThePlaceOfAnother(t *testing.T) {
	again := func(w *harness, before, after metav1.Object) {
		after.SetUID(before.GetUID() + "-again")
		after.SetResourceVersion("1000000")
	}
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		w.failGang()
		w.failGang()
		first := w.latest["*v1.Pod ns/p0"].(*v1.Pod)
		second := first.DeepCopy()
		again(w, first, second)
		w.cache.changes.podUpdated(first, second)
		if n := w.cache.changes.pods.count(gang); n != 2 {
			t.Errorf("the gang of two counts %d pods", n)
		}
		if _, blocked := w.cache.Blocked(gang); blocked {
			t.Error("the gang still waits although a member is new")
		}
		w.failGang()
		group := w.latest["*v1beta1.PodGroup ns/g"].(*v1beta1.PodGroup)
		anew := group.DeepCopy()
		again(w, group, anew)
		w.cache.changes.podGroupUpdated(group, anew)
		if w.cache.reports.HasFailed(gang) {
			t.Error("the failure of a former PodGroup with that name is remembered")
		}
		w.failGang()
		w.failGang()
		node := w.latest["*v1.Node n"].(*v1.Node)
		other := node.DeepCopy()
		again(w, node, other)
		w.cache.changes.nodeUpdated(node, other)
		if _, blocked := w.cache.Blocked(gang); blocked {
			t.Error("the gang still waits although its node was replaced")
		}
	})
}

func TestClaimUpdatesThatWakeTheLoop(t *testing.T) {
	tests := map[string]struct {
		change func(c *v1.PersistentVolumeClaim)
		want   []Urgency
	}{
		"a resync":                 {change: func(*v1.PersistentVolumeClaim) {}},
		"its capacity is reported": {change: func(c *v1.PersistentVolumeClaim) { c.Status.Capacity = v1.ResourceList{"storage": {}} }},
		"it is reported as bound":  {change: func(c *v1.PersistentVolumeClaim) { c.Status.Phase = v1.ClaimBound }},
		"it is lost":               {change: func(c *v1.PersistentVolumeClaim) { c.Status.Phase = v1.ClaimLost }, want: []Urgency{WakeNow}},
		"it gets a volume":         {change: func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }, want: []Urgency{WakeNow}},
		"its node is chosen":       {change: func(c *v1.PersistentVolumeClaim) { c.Annotations = map[string]string{"selected-node": "n"} }, want: []Urgency{WakeNow}},
		"it is being deleted":      {change: func(c *v1.PersistentVolumeClaim) { now := metav1.Now(); c.DeletionTimestamp = &now }, want: []Urgency{WakeNow}},
		"it is another one":        {change: func(c *v1.PersistentVolumeClaim) { c.UID = "other" }, want: []Urgency{WakeNow}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(0, 1)
				w.add(pod(0).Volume("data").Obj())
				w.woken()
				before := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "uid"}}
				w.cache.changes.storage.claimUpdated(before, changed(before.DeepCopy(), tt.change))
				if diff := cmp.Diff(tt.want, w.woken()); diff != "" {
					t.Errorf("wake-ups (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestClaimChangesThatWakeNoSession checks that a change of a claim wakes the loop only if a pod waits with the claim.
// While a gang's volumes are bound, each of its claims changes several times, and a cycle for each change would find no
// work.
func TestClaimChangesThatWakeNoSession(t *testing.T) {
	tests := map[string]struct {
		arrange func(w *harness)
		want    []Urgency
	}{
		"a pod waits with it": {
			arrange: func(w *harness) { w.add(pod(0).Volume("data").Obj()) },
			want:    []Urgency{WakeNow},
		},
		"one of several pods waits with it": {
			arrange: func(w *harness) {
				for i := range 4 {
					w.add(pod(i).Volume("data").Node("n").Obj())
				}
				w.add(pod(4).Volume("data").Obj())
				for i := range 4 {
					w.add(pod(5 + i).Volume("data").Node("n").Obj())
				}
			},
			want: []Urgency{WakeNow},
		},
		"a pod waits with it that the books do not know yet": {
			arrange: func(w *harness) { w.listed(pod(0).Volume("data").Obj()) },
			want:    []Urgency{WakeNow},
		},
		"a pod waits with it whose gang the books do not know yet": {
			arrange: func(w *harness) { w.listed(pod(0).Group("unknown").Volume("data").Obj()) },
			want:    []Urgency{WakeNow},
		},
		"a pod is bound that the books do not know yet": {
			arrange: func(w *harness) { w.listed(pod(0).Group("unknown").Node("n").Volume("data").Obj()) },
		},
		"no pod uses it":   {arrange: func(*harness) {}},
		"its pod is bound": {arrange: func(w *harness) { w.add(pod(0).Volume("data").Node("n").Obj()) }},
		"its pod is being bound": {
			arrange: func(w *harness) {
				w.add(pod(0).Volume("data").Obj())
				w.mustPlace("n", nil, "p0")
			},
		},
		"a pod of another scheduler waits with it": {
			arrange: func(w *harness) { w.add(pod(0).Group("").Scheduler("other").Volume("data").Obj()) },
		},
		"another pod of the gang that is being bound waits with it": {
			arrange: func(w *harness) {
				w.add(pod(0).Obj(), pod(1).Volume("data").Obj())
				w.mustPlace("n", nil, "p0")
			},
			want: []Urgency{WakeNow},
		},
		"another gang waits with it": {
			arrange: func(w *harness) {
				w.add(pod(0).Volume("data").Obj())
				w.mustPlace("n", nil, "p0")
				w.add(schedtest.MakePodGroup().Name("h").MinMember(1).Obj(), pod(1).Group("h").Volume("data").Obj())
			},
			want: []Urgency{WakeNow},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(0, 1)
				tt.arrange(w)
				w.woken()
				w.cache.changes.storage.claimChanged(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data"}})
				if diff := cmp.Diff(tt.want, w.woken()); diff != "" {
					t.Errorf("wake-ups (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestClaimChangesThatEndAGangsWait(t *testing.T) {
	claim := func(name string) *v1.PersistentVolumeClaim {
		return &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	}
	tests := map[string]struct {
		claim   *v1.PersistentVolumeClaim
		blocked bool
	}{
		"a claim that a member names":               {claim: claim("data")},
		"a claim made for a member":                 {claim: claim("p1-scratch")},
		"a claim of others":                         {claim: claim("theirs"), blocked: true},
		"a claim of that name in another namespace": {claim: &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "data"}}, blocked: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(2, 2)
				for i := range 2 {
					member := pod(i).Volume("data").Obj()
					member.Spec.Volumes = append(member.Spec.Volumes, v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}})
					w.add(member)
				}
				w.failGang()
				w.failGang() // The wait is longer than a first one.
				time.Sleep(firstRetry)
				w.cache.changes.storage.claimChanged(tt.claim)
				if _, blocked := w.cache.Blocked(gang); blocked != tt.blocked {
					t.Errorf("the gang waits: %v, want %v", blocked, tt.blocked)
				}
			})
		})
	}
}

// TestAVolumeThatIsSeenAfterItsClaim checks that a pod with a bound claim is placed once the volume is seen. Volumes
// have their own watch, so the event of the volume may arrive after that of the claim.
func TestAVolumeThatIsSeenAfterItsClaim(t *testing.T) {
	bound := func() *v1.PersistentVolumeClaim {
		claim := schedtest.UnboundClaim("data", "made")
		claim.Spec.VolumeName, claim.Annotations = "v", map[string]string{volume.AnnBindCompleted: "yes"}
		return claim
	}
	of := func(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
		v := schedtest.FreeVolume("v", "made")
		v.Spec.ClaimRef, v.Status.Phase = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}, v1.VolumeBound
		return v
	}
	tests := map[string]struct {
		claim *v1.PersistentVolumeClaim
		added *v1.PersistentVolume
		want  []Urgency
	}{
		"its own":                     {claim: bound(), added: of(bound()), want: []Urgency{WakeNow}},
		"before it is bound":          {claim: schedtest.UnboundClaim("data", "made"), added: of(bound())},
		"another that is made for it": {claim: changed(bound(), func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "w" }), added: of(bound())},
		"of a claim before it":        {claim: changed(bound(), func(c *v1.PersistentVolumeClaim) { c.UID = "anew" }), added: of(bound())},
		"of a claim that is not seen": {claim: changed(bound(), func(c *v1.PersistentVolumeClaim) { c.Name = "other" }), added: of(bound())},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(0, 1)
				w.add(pod(0).Volume("data").Obj())
				addKnown(w, tt.claim)
				w.woken()
				w.cache.changes.storage.storageAdded(tt.added)
				if diff := cmp.Diff(tt.want, w.woken()); diff != "" {
					t.Errorf("wake-ups (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// listed adds the object to the cluster and the informers' stores without calling a handler.
func (w *harness) listed(object runtime.Object) runtime.Object {
	object = w.cluster.Put(object)
	w.list(object)
	return object
}

// gapped is an informer whose handler the test calls.
type gapped struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
}

func (i *gapped) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = handler
	return i.SharedIndexInformer.AddEventHandler(handler)
}

// TestADeletionThatTheWatchMissed checks that a deletion that the watch missed is handled. The informer reports the
// last known state.
func TestADeletionThatTheWatchMissed(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(2, 2)
		informer := &gapped{SharedIndexInformer: w.informersOf(pod(0).Obj())[0]}
		w.cache.handlers.feed(informer, w.cache.changes.podAdded, w.cache.changes.podUpdated, w.cache.changes.podDeleted)
		informer.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/p0", Obj: w.latest["*v1.Pod ns/p0"]})
		if got := w.cache.changes.pods.count(gang); got != 1 {
			t.Errorf("the gang counts %d pods, want the remaining one of two", got)
		}
	})
}
