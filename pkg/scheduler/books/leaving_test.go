// SPDX-License-Identifier: Apache-2.0

package books

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const year = 365 * 24 * time.Hour

// deletedUntil returns a pod that runs on node n and whose grace period ends at that time.
func deletedUntil(name string, due time.Time) *v1.Pod {
	pod := schedtest.MakePod().Name(name).Group("g").Node("n").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "1"}).Obj()
	at := metav1.NewTime(due)
	pod.DeletionTimestamp = &at
	return pod
}

// TestADeletedPodLeavesWhenItIsDue checks that the resources of a deleted pod count as releasing only around the end of
// its grace period, and for a victim only for some minutes after the eviction. The pod never counts in its gang. It
// counts against its queue, unless it is leaving, had run for at least ten minutes and is no victim.
func TestADeletedPodLeavesWhenItIsDue(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	tests := map[string]struct {
		grace   time.Duration // 0 means not deleted
		evicted bool
		// byFormer is how long before, in minutes, a former leader has evicted the pod; 0 if none has.
		byFormer int
		// condition changes the condition by which a former leader's victim is known.
		condition func(*v1.PodCondition)
		// from and to are the minutes, of the first 30, between which the pod is leaving.
		from, to int
		// ran is how long the pod ran before its deletion.
		ran time.Duration
		// freeFrom and freeTo are the minutes between which the pod does not count against its queue.
		freeFrom, freeTo int
	}{
		"at once":                    {grace: time.Second, from: 0, to: 1, freeFrom: -1, freeTo: -1},
		"due in ten minutes":         {grace: 10 * time.Minute, from: 8, to: 10, freeFrom: -1, freeTo: -1},
		"due in a year":              {grace: year, from: -1, to: -1, freeFrom: -1, freeTo: -1},
		"due in a year after a year": {grace: year, ran: year, from: -1, to: -1, freeFrom: -1, freeTo: -1},
		"after nine minutes":         {grace: time.Second, ran: 9 * time.Minute, from: 0, to: 1, freeFrom: -1, freeTo: -1},
		"after ten minutes":          {grace: 10 * time.Minute, ran: 10 * time.Minute, from: 8, to: 10, freeFrom: 8, freeTo: 10},
		"a victim":                   {evicted: true, from: 0, to: 10, freeFrom: -1, freeTo: -1},
		"a victim due in a year":     {grace: year, evicted: true, from: 0, to: 10, freeFrom: -1, freeTo: -1},
		"a victim that ran for long": {grace: 10 * time.Minute, evicted: true, ran: year, from: 0, to: 10, freeFrom: -1, freeTo: -1},
		"a former leader's victim":   {grace: year, byFormer: 1, from: 0, to: 9, freeFrom: -1, freeTo: -1},
		"a victim of both leaders":   {grace: year, byFormer: 5, evicted: true, from: 0, to: 10, freeFrom: -1, freeTo: -1},
		"a pod that was drained": {grace: year, byFormer: 1, from: -1, to: -1, freeFrom: -1, freeTo: -1, condition: func(c *v1.PodCondition) {
			c.Type = v1.DisruptionTarget
		}},
		"a pod that is no target any more": {grace: year, byFormer: 1, from: -1, to: -1, freeFrom: -1, freeTo: -1, condition: func(c *v1.PodCondition) {
			c.Status = v1.ConditionFalse
		}},
		"a former leader's old victim":    {grace: year, byFormer: 20, from: -1, to: -1, freeFrom: -1, freeTo: -1},
		"a victim that is due afterwards": {grace: 12 * time.Minute, evicted: true, from: 0, to: 12, freeFrom: -1, freeTo: -1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			now := begin
			b := New(Config{DefaultQueue: schedtest.Queue, Now: func() time.Time { return now }})
			b.Nodes.Show(schedtest.MakeNode().Name("n").Obj())
			pod := deletedUntil("p", begin.Add(tt.grace))
			if tt.grace == 0 {
				pod.DeletionTimestamp = nil
			}
			seconds, started := int64(tt.grace/time.Second), metav1.NewTime(begin.Add(-tt.ran))
			pod.DeletionGracePeriodSeconds, pod.Status.StartTime = &seconds, &started
			if tt.byFormer > 0 {
				pod.Status.Conditions = []v1.PodCondition{{
					Type: conditions.Evicted, Status: v1.ConditionTrue,
					LastTransitionTime: metav1.NewTime(begin.Add(-time.Duration(tt.byFormer) * time.Minute)),
				}}
				if tt.condition != nil {
					tt.condition(&pod.Status.Conditions[0])
				}
			}
			b.Pods.Show(pod)
			key := api.PodKey(pod)
			if tt.evicted {
				if _, _, err := b.Pods.Evict(b.Pods.Task(key, pod.UID)); err != nil {
					t.Fatal(err)
				}
				b.Pods.Show(pod)
			}
			for minute := range 30 {
				now = begin.Add(time.Duration(minute) * time.Minute)
				full := b.Full(api.NewHyperNodesInfo(nil), true)
				node := full.Nodes["n"]
				leaves := minute >= tt.from && minute <= tt.to
				want := map[bool]string{true: "Releasing, 1000 of 1000 released", false: "Unknown, 0 of 1000 released"}[leaves]
				want += map[bool]string{true: ", counts [Releasing]", false: ", counts []"}[minute < tt.freeFrom || minute > tt.freeTo]
				got := fmt.Sprintf("%s, %v of %v released, counts %v", node.Tasks[key].Status, node.Releasing.MilliCPU, node.Used.MilliCPU, statuses(b))
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("minute %d (-want +got):\n%s", minute, diff)
				}
				if got := b.Pods.Task(key, pod.UID).Status; got != api.Releasing {
					t.Errorf("minute %d: the task is %s in its job, want Releasing", minute, got)
				}
			}
			b.Pods.Hide(pod)
			if len(b.Pods.deleted)+len(b.Pods.changes)+len(b.Nodes.Get("n").Tasks) > 0 {
				t.Errorf("remains of a pod that ended: %v, %v, %v", b.Pods.deleted, b.Pods.changes, b.Nodes.Get("n").Tasks)
			}
		})
	}
}

func statuses(b *Books) (of []api.TaskStatus) {
	for task := range b.Pods.Deleted() {
		of = append(of, task.Status)
	}
	return of
}

// TestChangesByTimeAreInOrder checks that changes by time are in order. Pods leave in the order in which their grace
// periods end, in whatever order they were shown, and each has one entry however often it is shown. A session's node
// is copied again when one of its pods begins to leave.
func TestChangesByTimeAreInOrder(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	now := begin
	b := New(Config{DefaultQueue: schedtest.Queue, Now: func() time.Time { return now }})
	b.Nodes.Show(schedtest.MakeNode().Name("n").Obj())
	order := []int{4, 0, 3, 1, 2}
	for range 2 {
		for _, i := range order {
			b.Pods.Show(deletedUntil(fmt.Sprint("p", i), begin.Add(time.Duration(10+10*i)*time.Minute)))
		}
	}
	b.Pods.Hide(deletedUntil("p1", begin))
	if len(b.Pods.changes) != 4 {
		t.Fatalf("%d entries of 4 pods", len(b.Pods.changes))
	}
	var left []int
	for minute := range 60 {
		now = begin.Add(time.Duration(minute) * time.Minute)
		b.Lock()
		given := b.Snapshot(api.NewHyperNodesInfo(nil))
		b.Unlock()
		for i := range 5 {
			if task := given.Nodes["n"].Tasks[api.TaskID(fmt.Sprint(schedtest.Namespace, "/p", i))]; task != nil && task.Status == api.Releasing && !slices.Contains(left, i) {
				left = append(left, i)
				if want := 8 + 10*i; minute != want {
					t.Errorf("p%d leaves in minute %d, want %d", i, minute, want)
				}
			}
		}
	}
	if diff := cmp.Diff([]int{0, 2, 3, 4}, left); diff != "" {
		t.Errorf("pods that left (-want +got):\n%s", diff)
	}
}

// TestPodsThatAreDueTogetherLeaveTogether checks that pods that are due at the same time leave at the same time, such
// as the pods of a deleted gang.
func TestPodsThatAreDueTogetherLeaveTogether(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	b := New(Config{DefaultQueue: schedtest.Queue, Now: func() time.Time { return now }})
	b.Nodes.Show(schedtest.MakeNode().Name("n").Obj())
	for i := range 3 {
		b.Pods.Show(deletedUntil(fmt.Sprint("p", i), now.Add(time.Hour)))
	}
	for _, want := range []float64{0, 3000} {
		if got := b.Full(api.NewHyperNodesInfo(nil), true).Nodes["n"].Releasing.MilliCPU; got != want {
			t.Errorf("%v milli-cpu are being released, want %v", got, want)
		}
		now = now.Add(58 * time.Minute)
	}
}

// TestADeletedPodWithoutANodeCountsNowhere checks that a deleted pod without a node counts nowhere. A finalizer keeps
// it, and it uses no resources.
func TestADeletedPodWithoutANodeCountsNowhere(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	b := New(Config{DefaultQueue: schedtest.Queue, Now: func() time.Time { return now }})
	pod := deletedUntil("p", now)
	pod.Spec.NodeName, pod.Status.Phase = "", v1.PodPending
	if b.Pods.Show(pod); len(statuses(b))+len(b.Pods.changes) > 0 {
		t.Errorf("%v count, with %d changes to come, want none", statuses(b), len(b.Pods.changes))
	}
}
