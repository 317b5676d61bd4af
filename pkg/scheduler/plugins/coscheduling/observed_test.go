// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// observed is what metrics are told.
type observed struct {
	waited   map[string]time.Duration
	timeOuts int
	guards   int
	ended    map[framework.GuardEnd]int
}

func (o *observed) GangWaited(reason framework.WaitReason, end framework.WaitEnd, waited time.Duration) {
	o.waited[fmt.Sprintf("%s %s", reason, end)] += waited.Round(time.Second)
}
func (o *observed) GangTimedOut()                     { o.timeOuts++ }
func (o *observed) GuardEnded(end framework.GuardEnd) { o.ended[end]++ }
func (o *observed) Guards(now int)                    { o.guards = now }

// observe has the sessions that follow observed, as those of a process that begins to lead.
func (w *world) observe() *observed {
	o := &observed{waited: map[string]time.Duration{}, ended: map[framework.GuardEnd]int{}}
	w.lead()
	w.registry.Observe(o)
	return o
}

// reload puts another configuration in force.
func (w *world) reload(conf string) {
	w.scheduler.Close()
	w.scheduler = w.cluster.Scheduler(w.registry, conf)
}

// TestWaitingTimeIsObserved: by what the gang waited for, when it is sent back and when it is bound; each time once.
func TestWaitingTimeIsObserved(t *testing.T) {
	in(t, narrow(nil), limits, func(t *testing.T, w *world) {
		o := w.observe()
		group := waits("a").Obj()
		group.CreationTimestamp = metav1.Now()
		w.cluster.Cache().AddPodGroupV1beta1(group)
		w.add(members(small(), "a", 3)...)
		w.pass(70*time.Second, 10*time.Second) // the first session comes after 10 s
		if diff := cmp.Diff(map[string]time.Duration{"unseen sent_back": 10 * time.Second, "incomplete sent_back": 60 * time.Second}, o.waited); diff != "" || o.timeOuts != 1 {
			t.Fatalf("when it is sent back, %d time-outs were told, and it waited (-want +got):\n%s", o.timeOuts, diff)
		}
		clear(o.waited)
		w.pass(10*time.Second, 10*time.Second) // its backoff is from 8 s to 12 s
		w.pass(10*time.Second, 10*time.Second)
		w.add(small().Name("a-4").Group("a").Obj())
		w.pass(20*time.Second, 10*time.Second)
		if !w.runs("a") {
			t.Fatalf("it does not run: %v", w.job("a").PodGroup.Status.Conditions)
		}
		if o.waited["backoff bound"] < 10*time.Second || o.waited["backoff bound"] > 20*time.Second || o.waited["incomplete bound"] < 5*time.Second || o.timeOuts != 1 {
			t.Errorf("when it is bound, %d time-outs were told, and it waited %v, want its backoff and for members", o.timeOuts, o.waited)
		}
		clear(o.waited)
		w.pass(30*time.Second, 10*time.Second)
		if len(o.waited) > 0 {
			t.Errorf("a gang that runs is observed again: %v", o.waited)
		}
	})
}

// TestWaitingTimeOfTheNextLeader: what was before it is not lost, nor is what was told before observed again.
func TestWaitingTimeOfTheNextLeader(t *testing.T) {
	in(t, narrow(nil), limits, func(t *testing.T, w *world) {
		group := waits("a").Obj()
		group.CreationTimestamp = metav1.Now()
		w.cluster.Cache().AddPodGroupV1beta1(group)
		w.add(members(small(), "a", 3)...)
		w.pass(30*time.Second, 10*time.Second)
		o := w.observe()
		w.pass(10*time.Second, 10*time.Second)
		w.reload(limits)
		w.add(small().Name("a-4").Group("a").Obj())
		w.pass(20*time.Second, 10*time.Second)
		want := map[string]time.Duration{"unseen bound": 40 * time.Second, "incomplete bound": 10 * time.Second, "binding bound": 10 * time.Second}
		got := map[string]time.Duration{}
		var sum time.Duration
		for key, d := range o.waited {
			got[key], sum = d, sum+d
		}
		if got["unseen bound"] != want["unseen bound"] || sum < 50*time.Second || sum > 60*time.Second {
			t.Errorf("it waited %v, want 40s unseen by the next leader, and 50 to 60 s in all", got)
		}
	})
}

// TestAGangThatIsDeletedIsNotObserved, nor is it when another of its name is bound.
func TestAGangThatIsDeletedIsNotObserved(t *testing.T) {
	in(t, narrow(nil), limits, func(t *testing.T, w *world) {
		o := w.observe()
		for i, n := range []int{3, 4} {
			group := waits("a").Obj()
			group.UID = types.UID(fmt.Sprintf("uid-%d", i))
			group.CreationTimestamp = metav1.Now()
			w.cluster.Cache().AddPodGroupV1beta1(group)
			w.add(members(small(), "a", n)...)
			w.session()
			if n == 3 {
				w.pass(30*time.Second, 10*time.Second)
				for _, pod := range members(small(), "a", n) {
					w.remove(pod.Name)
				}
				w.cluster.Cache().DeletePodGroupV1beta1(group)
			}
		}
		w.pass(10*time.Second, 10*time.Second)
		for key, d := range o.waited {
			if d > 10*time.Second {
				t.Errorf("the second gang of the name is observed with the first one's time: %s %v", key, d)
			}
		}
		if !w.runs("a") || len(o.waited) == 0 {
			t.Errorf("the second gang of the name is not observed: %v", o.waited)
		}
	})
}

// TestGuardsAreObserved: how many there are, also after a reload and with another leader, and how each ended.
func TestGuardsAreObserved(t *testing.T) {
	tests := map[string]struct {
		// ends has the guard end.
		ends func(t *testing.T, s *stream)
		want framework.GuardEnd
	}{
		"its gang is placed": {func(t *testing.T, s *stream) {
			if s.flowUntil("big", drains) < 0 {
				t.Fatal("it starves")
			}
		}, framework.GuardPlaced},
		"its gang is deleted": {func(_ *testing.T, s *stream) {
			s.remove("big-0")
			s.remove("big-1")
		}, framework.GuardGone},
		"its nodes are lost": {func(t *testing.T, s *stream) {
			for _, name := range []string{"n0", "n1", "n2", "n3"} {
				node := s.cluster.Cache().Nodes[name].Node.DeepCopy()
				node.Spec.Unschedulable = true
				if err := s.cluster.Cache().AddOrUpdateNode(node); err != nil {
					t.Fatal(err)
				}
			}
		}, framework.GuardLost},
		"another configuration keeps none": {func(_ *testing.T, s *stream) { s.reload(starvingAfter("0s")) }, framework.GuardOff},
		"it is in vain": {func(_ *testing.T, s *stream) {
			for i := range 4 {
				blocker := schedtest.MakePod().Name(fmt.Sprintf("blocker-%d", i)).Scheduler("other").Node(fmt.Sprintf("n%d", i)).Phase(v1.PodRunning).Obj()
				blocker.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, Protocol: v1.ProtocolTCP}}
				s.add(blocker)
			}
			for range drains + 31 {
				s.flow()
			}
		}, framework.GuardVain},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in(t, fourNodes(), starvingAfter("5m"), func(t *testing.T, w *world) {
				w.observe()
				s := w.stream(1, schedtest.Queue)
				s.submit("big", schedtest.Queue, 2)
				for _, name := range []string{"big-0", "big-1"} {
					w.update(name, func(pod *v1.Pod) {
						pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, Protocol: v1.ProtocolTCP}}
					})
				}
				s.guardedAt("big")
				o := w.observe() // another leader
				s.flow()
				w.reload(starvingAfter("5m"))
				if o.guards != 0 {
					t.Errorf("%d guards are told of a configuration that is not in force any more", o.guards)
				}
				s.flow()
				if o.guards != 1 || len(o.ended) > 0 {
					t.Fatalf("there are %d guards, and those that ended are %v, want 1 and none", o.guards, o.ended)
				}
				tt.ends(t, s)
				s.flow()
				s.flow()
				if diff := cmp.Diff(map[framework.GuardEnd]int{tt.want: 1}, o.ended); diff != "" || o.guards != 0 {
					t.Errorf("%d guards are left, and ended are (-want +got):\n%s", o.guards, diff)
				}
			})
		})
	}
}
