// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// arrives adds a gang of n members with this cpu each, which is created now.
func (w *simulation) arrives(name, queue string, n int, cpu string, change ...func(*v1.Pod)) {
	group := schedtest.MakePodGroup().Name(name).Queue(queue).MinMember(int32(n)).Obj()
	group.CreationTimestamp = metav1.Now()
	w.cluster.Cache().AddPodGroupV1beta1(group)
	pods := members(schedtest.MakePod().Req(cores(cpu)), name, n)
	for _, pod := range pods {
		for _, c := range change {
			c(pod)
		}
	}
	w.add(pods...)
}

// stays adds a pod that never ends to the node, in its own gang.
func (w *simulation) stays(name, queue, node, cpu string) {
	w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name(name).Queue(queue).Phase(v1beta1.PodGroupRunning).Obj())
	w.add(schedtest.MakePod().Name(name).Group(name).Node(node).Phase(v1.PodRunning).Req(cores(cpu)).Obj())
}

// change replaces the PodGroup by this one, with a new resource version.
func (w *simulation) change(group *v1beta1.PodGroup) {
	before := group.DeepCopy()
	group.ResourceVersion = "changed"
	w.cluster.Cache().UpdatePodGroupV1beta1(before, group)
}

func nodes(n int, cpu string) sessiontest.ClusterSpec {
	w := sessiontest.ClusterSpec{}
	for i := range n {
		w.Nodes = append(w.Nodes, holds(cpu).Name(fmt.Sprintf("n%d", i)).Obj())
	}
	return w
}

func after5m(percent int) string {
	return strings.Replace(sessionsConf, "ARGUMENTS", fmt.Sprintf("starvationAfter: 5m, reservedPercent: %d", percent), 1)
}

// TestATenantReservesAShareAtMost: pods that never end run on all nodes. A gang as large as the cluster gets no
// reservation, and a smaller gang at most reservedPercent of the cluster. The pods of other gangs are still placed.
func TestATenantReservesAShareAtMost(t *testing.T) {
	for _, c := range []struct{ size, want int }{{12, 0}, {2, 0}, {1, 1}} {
		t.Run(fmt.Sprint(c.size), func(t *testing.T) {
			in(t, nodes(12, "32"), after5m(10), func(t *testing.T, w *simulation) {
				for i := range 12 {
					w.stays(fmt.Sprintf("stays-%d", i), schedtest.Queue, fmt.Sprintf("n%d", i), "1")
				}
				w.arrives("big", schedtest.Queue, c.size, "32")
				most := 0
				for i := range 60 {
					name := fmt.Sprintf("other-%d", i)
					w.arrives(name, schedtest.Queue, 11, "31")
					time.Sleep(time.Minute)
					w.session()
					most = max(most, len(w.reserved()))
					if !w.runs(name) {
						t.Fatalf("after %d min a gang that needs 11 nodes does not run: %s", i, w.condition(name, "Unschedulable").Message)
					}
					for j := range 11 {
						w.remove(members(small(), name, 11)[j].Name)
					}
				}
				if most != c.want {
					t.Errorf("up to %d of 12 nodes were reserved, want %d: %s", most, c.want, w.condition("big", Reserved).Message)
				}
			})
		})
	}
}

// TestForgedConditionsReserveNothing: a tenant may write any status of its PodGroup. Nodes are reserved only after this
// process has seen the gang wait for starvationAfter.
func TestForgedConditionsReserveNothing(t *testing.T) {
	long := metav1.NewTime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	group := schedtest.MakePodGroup().Name("big").MinMember(2).Obj()
	group.CreationTimestamp = long
	for kind, reason := range map[scheduling.PodGroupConditionType]string{Reserved: nodesReserved, "StarvationGuard": "NodesKept", TimeLimit: gangAdmitted} {
		group.Status.Conditions = append(group.Status.Conditions, v1beta1.PodGroupCondition{
			Type: v1beta1.PodGroupConditionType(kind), Status: v1.ConditionTrue, Reason: reason, LastTransitionTime: long, Message: "n0, n1",
		})
	}
	w := nodes(4, "4")
	w.PodGroups = []*v1beta1.PodGroup{group}
	w.Pods = members(schedtest.MakePod().Req(cores("5")), "big", 2)
	in(t, w, after5m(50), func(t *testing.T, w *simulation) {
		for i := range 5 {
			name := fmt.Sprintf("critical-%d", i)
			w.arrives(name, schedtest.Queue, 4, "4")
			w.session()
			if !w.runs(name) || len(w.reserved()) > 0 {
				t.Fatalf("session %d: the reserved nodes are %v, and a gang as large as the cluster runs: %t", i, w.reserved(), w.runs(name))
			}
			if c := w.condition("big", Reserved); c.Type != "" {
				t.Errorf("the forged condition was not removed: %s", c.Message)
			}
			for j := range 4 {
				w.remove(fmt.Sprintf("%s-%d", name, j))
			}
			time.Sleep(time.Minute)
		}
	})
}

// TestGangsThatFitNowhereReserveNothing: a trial on drained nodes, with the filters of all plugins, precedes each
// reservation.
func TestGangsThatFitNowhereReserveNothing(t *testing.T) {
	port := func(pod *v1.Pod) {
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, Protocol: v1.ProtocolTCP}}
	}
	for name, change := range map[string]func(*v1.Pod){
		"a port that a pod of another scheduler has": port,
		"a label of no node":                         func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"there": "is none"} },
		"more than a node has":                       func(pod *v1.Pod) { pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *cpus("5") },
		"apart, and more members than nodes": func(pod *v1.Pod) {
			pod.Labels = map[string]string{"a": "b"}
			pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels}, TopologyKey: "zone",
			}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			given := nodes(4, "4")
			for _, node := range given.Nodes {
				node.Labels = map[string]string{"zone": "z", v1.LabelHostname: node.Name}
			}
			in(t, given, after5m(100), func(t *testing.T, w *simulation) {
				for i := range 4 {
					blocker := schedtest.MakePod().Name(fmt.Sprintf("blocker-%d", i)).Scheduler("other").Node(fmt.Sprintf("n%d", i)).Phase(v1.PodRunning).Obj()
					port(blocker)
					w.add(blocker)
					w.stays(fmt.Sprintf("stays-%d", i), schedtest.Queue, fmt.Sprintf("n%d", i), "1")
				}
				for i := range 8 {
					w.arrives(fmt.Sprintf("never-%d", i), schedtest.Queue, 2, "2", change)
				}
				for range 90 {
					time.Sleep(20 * time.Second)
					w.session()
					if len(w.reserved()) > 0 {
						t.Fatalf("the reserved nodes are %v: %s", w.reserved(), w.condition("never-0", Reserved).Message)
					}
				}
				reported := 0
				for i := range 8 {
					if w.condition(fmt.Sprintf("never-%d", i), Reserved).Reason == noNodesToReserve {
						reported++
					}
				}
				if reported != 8 {
					t.Errorf("%d gangs report that no nodes can be reserved for them, want 8", reported)
				}
				for name := range w.pods { // the trials must have been reverted
					w.remove(name)
				}
				w.arrives("after", schedtest.Queue, 4, "4")
				if w.session(); !w.runs("after") {
					t.Errorf("a gang that needs empty nodes does not run: %s", w.condition("after", "Unschedulable").Message)
				}
			})
		})
	}
}

// TestReservationsAreBounded: a small pod stays on each node, so that the reservation ends. Its queue and namespace
// then get no reservation for one hour, and for two hours after the next one.
func TestReservationsAreBounded(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		o := w.observe()
		for i := range 4 {
			w.stays(fmt.Sprintf("stays-%d", i), schedtest.Queue, fmt.Sprintf("n%d", i), "10m")
		}
		w.arrives("big", schedtest.Queue, 2, "4")
		w.arrives("next", schedtest.Queue, 2, "4")
		var begins, ends []time.Duration
		var whose []string
		began, was := time.Now(), false
		for range 6 * 60 {
			time.Sleep(time.Minute)
			w.session()
			is := len(w.reserved()) > 0
			if is && !was {
				begins = append(begins, time.Since(began))
				whose = append(whose, w.reservedGangs()[schedtest.Queue])
			}
			if was && !is {
				ends = append(ends, time.Since(began))
			}
			was = is
		}
		if len(begins) != 3 || len(ends) != 3 || o.ended[gangs.ReservationExpired] != 3 {
			t.Fatalf("reservations began after %v and ended after %v, and the observed ends are %v, want 3", begins, ends, o.ended)
		}
		if got := strings.Join(whose, " "); got != "big next big" {
			t.Errorf("nodes were reserved for %s, want other gangs before a gang whose reservation has ended", got)
		}
		for i, end := range ends {
			if life := end - begins[i]; life > 31*time.Minute || life < 29*time.Minute {
				t.Errorf("reservation %d lasted %s, want about 30 minutes", i, life)
			}
			if i < 2 {
				if pause, want := begins[i+1]-end, time.Hour<<i; pause < want || pause > want+5*time.Minute {
					t.Errorf("the pause after reservation %d took %s, want about %s", i, pause, want)
				}
			}
		}
		if got := w.condition("big", Reserved); got.Reason != reservationEnded || !strings.Contains(got.Message, "did not terminate within 30m0s") {
			t.Errorf("the condition is %s: %s, want that pods did not terminate", got.Reason, got.Message)
		}
	})
}

// TestUnusedDrainedNodesAreReleased checks that drained nodes are released after a while if the gang is still not
// placed.
func TestUnusedDrainedNodesAreReleased(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		w.untilReserved("big")
		w.remove("full-0")
		w.remove("full-1")
		w.add(schedtest.MakePod().Name("other").Scheduler("other").Node("n0").Phase(v1.PodRunning).Req(cores("4")).Obj())
		w.pass(6*time.Minute, time.Minute)
		if got := w.condition("big", Reserved); len(w.reserved()) > 0 || got.Reason != reservationEnded || !strings.Contains(got.Message, "idle for 5m0s") {
			t.Errorf("the reserved nodes are %v, and the condition is %s: %s", w.reserved(), got.Reason, got.Message)
		}
	})
}

// full adds a pod to each of four nodes that uses the whole node.
func (w *simulation) full() {
	for i := range 4 {
		w.stays(fmt.Sprintf("full-%d", i), schedtest.Queue, fmt.Sprintf("n%d", i), "4")
	}
}

// untilReserved runs sessions until nodes are reserved for the gang.
func (w *simulation) untilReserved(gang string) {
	w.t.Helper()
	for range 12 {
		time.Sleep(time.Minute)
		if w.session(); w.condition(gang, Reserved).Reason == nodesReserved {
			return
		}
	}
	w.t.Fatalf("no nodes are reserved for %s: %v", gang, w.job(gang).PodGroup.Status.Conditions)
}

// TestReservationsEndWithTheirGangs checks that a reservation ends if a required member or the PodGroup is deleted, or
// if the gang moves to another queue.
func TestReservationsEndWithTheirGangs(t *testing.T) {
	tests := map[string]func(w *simulation){
		"a member is deleted": func(w *simulation) { w.remove("big-0") },
		"all members are deleted": func(w *simulation) {
			w.remove("big-0")
			w.remove("big-1")
		},
		"it is another of the name": func(w *simulation) {
			group := schedtest.MakePodGroup().Name("big").MinMember(2).Obj()
			w.cluster.Cache().DeletePodGroupV1beta1(group)
			group.UID = "another"
			w.cluster.Cache().AddPodGroupV1beta1(group)
		},
		"it asks for a queue that does not exist": func(w *simulation) {
			w.change(schedtest.MakePodGroup().Name("big").MinMember(2).Queue("other").Obj())
		},
		"it asks for another queue": func(w *simulation) {
			w.change(schedtest.MakePodGroup().Name("big").MinMember(2).Queue("spare").Obj())
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			given := nodes(4, "4")
			given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("spare").Obj()}
			in(t, given, after5m(50), func(t *testing.T, w *simulation) {
				o := w.observe()
				w.full()
				w.arrives("big", schedtest.Queue, 2, "4")
				w.untilReserved("big")
				change(w)
				w.pass(2*time.Minute, time.Minute)
				if c := w.condition("big", Reserved); strings.HasSuffix(c.Message, ": ") {
					t.Errorf("the condition gives no reason: %s", c.Message)
				}
				if len(w.reserved()) > 0 || o.ended[gangs.ReservationGone] != 1 || o.reserved != 0 {
					t.Errorf("the reserved nodes are %v, and the ended reservations are %v", w.reserved(), o.ended)
				}
				if p := w.plugin.reservations.pauses["queue/"+schedtest.Queue]; p == nil {
					t.Error("the queue has no pause")
				}
			})
		})
	}
}

// TestReservationsOutliveAShortAbsence checks that a reservation, and the wait of another gang for one, go on if
// sessions leave the gangs out for less than a minute.
func TestReservationsOutliveAShortAbsence(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("big", schedtest.Queue, 2, "4")
		w.untilReserved("big")
		w.arrives("next", schedtest.Queue, 2, "4")
		w.session()
		nodes, since := w.reserved(), w.plugin.reservations.waiting[w.job("next").UID].since
		hidden := map[string]*v1beta1.PodGroup{}
		for _, name := range []string{"big", "next"} {
			hidden[name] = schedtest.MakePodGroup().Name(name).MinMember(2).Obj()
			w.cluster.Cache().DeletePodGroupV1beta1(hidden[name])
		}
		w.pass(50*time.Second, 10*time.Second)
		for _, group := range hidden {
			w.cluster.Cache().AddPodGroupV1beta1(group)
		}
		w.session()
		if diff := cmp.Diff(nodes, w.reserved()); diff != "" {
			t.Errorf("reserved nodes after the absence (-before +after):\n%s", diff)
		}
		if got := w.plugin.reservations.waiting[w.job("next").UID]; got == nil || !got.since.Equal(since) {
			t.Errorf("the other gang waits since %v, want %v", got, since)
		}
		for _, group := range hidden {
			w.cluster.Cache().DeletePodGroupV1beta1(group)
		}
		w.pass(2*time.Minute, 10*time.Second)
		if left := w.plugin.reservations; len(left.active) > 0 || len(left.waiting) > 0 {
			t.Errorf("%d reservations and %d waiting gangs are left of deleted gangs", len(left.active), len(left.waiting))
		}
	})
}

// TestReservedNodesAreOpen checks that reserved nodes accept pods of a higher priority and pods of DaemonSets, and no
// other pods. The accepted pods may also use resources of the queue that are kept for the gang.
func TestReservedNodesAreOpen(t *testing.T) {
	high, low := int32(1000000), int32(-5)
	tests := map[string]struct {
		change func(*v1.Pod)
		want   bool
	}{
		"an equal priority":                     {func(*v1.Pod) {}, false},
		"a lower priority":                      {func(pod *v1.Pod) { pod.Spec.Priority = &low }, false},
		"a higher priority":                     {func(pod *v1.Pod) { pod.Spec.Priority = &high }, true},
		"a task's priority of the tenant's own": {func(pod *v1.Pod) { pod.Annotations["volcano.sh/task-priority"] = "1000" }, false},
		"a DaemonSet's pod": {func(pod *v1.Pod) {
			yes := true
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", UID: "d", Controller: &yes}}
		}, true},
		"a ReplicaSet's pod": {func(pod *v1.Pod) {
			yes := true
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", UID: "r", Controller: &yes}}
		}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
				w.full()
				w.arrives("big", schedtest.Queue, 2, "4")
				w.untilReserved("big")
				w.remove("full-0") // a pod on one of the two reserved nodes
				w.arrives("new", schedtest.Queue, 1, "1", tt.change)
				if w.session(); w.runs("new") != tt.want {
					t.Errorf("the gang runs: %t, want %t: %s", w.runs("new"), tt.want, w.condition("new", "Unschedulable").Message)
				}
			})
		})
	}
}

// TestOtherNamespacesDoNotSeeForWhichGangNodesAreReserved checks that messages of other gangs state that nodes are
// reserved, but not for which gang.
func TestOtherNamespacesDoNotSeeForWhichGangNodesAreReserved(t *testing.T) {
	conf := strings.Replace(after5m(50), "  - name: proportion\n", "", 1)
	in(t, nodes(4, "4"), conf, func(t *testing.T, w *simulation) {
		w.full()
		w.arrives("secretname", schedtest.Queue, 2, "4")
		w.untilReserved("secretname")
		w.remove("full-0")
		w.arrives("new", schedtest.Queue, 1, "1")
		w.session()
		got := w.condition("new", "Unschedulable").Message
		if w.runs("new") || !strings.Contains(got, "reserved for a starving gang") || strings.Contains(got, "secretname") {
			t.Errorf("the message of another gang is %q, want that nodes are reserved, but not for which gang", got)
		}
	})
}

// TestQueuesThatNeverAdmitReserveNothing checks that a gang which exceeds the share or capability of its queue, or of a
// parent queue, gets no reservation. A reservation ends when the queue becomes too small.
func TestQueuesThatNeverAdmitReserveNothing(t *testing.T) {
	queue := func(name string, change ...func(*v1beta1.QueueSpec)) *v1beta1.Queue {
		made := schedtest.MakeQueue().Name(name).Weight(100).Obj()
		for _, c := range change {
			c(&made.Spec)
		}
		return made
	}
	parent := func(name string) func(*v1beta1.QueueSpec) {
		return func(spec *v1beta1.QueueSpec) { spec.Parent = name }
	}
	capability := func(n string) func(*v1beta1.QueueSpec) {
		return func(spec *v1beta1.QueueSpec) { spec.Capability = v1.ResourceList{v1.ResourceCPU: *cpus(n)} }
	}
	deserved := func(n string) func(*v1beta1.QueueSpec) {
		return func(spec *v1beta1.QueueSpec) { spec.Deserved = v1.ResourceList{v1.ResourceCPU: *cpus(n)} }
	}
	weight := func(spec *v1beta1.QueueSpec) { spec.Weight = 300 }
	hierarchy := strings.Replace(strings.Replace(after5m(50), "name: proportion", "name: capacity\n    enableHierarchy: true", 1), "  - name: priority\n", "", 1)
	tests := map[string]struct {
		conf   string
		queues []*v1beta1.Queue
		want   bool
	}{
		"room for it": {after5m(50), []*v1beta1.Queue{queue("q")}, true},
		"what upstream writes into the root queue is no share": {
			after5m(50), []*v1beta1.Queue{queue("root", deserved("0")), queue("q", parent("root"))}, true,
		},
		"its share by weight": {after5m(50), []*v1beta1.Queue{queue("other", weight), queue("q")}, false},
		"its capability":      {after5m(50), []*v1beta1.Queue{queue("q", capability("7"))}, false},
		"its parent's capability": {hierarchy, []*v1beta1.Queue{
			queue("root"), queue("p", capability("7"), parent("root")), queue("q", parent("p")),
		}, false},
		"its deserved resources":        {hierarchy, []*v1beta1.Queue{queue("root"), queue("q", parent("root"), deserved("7"))}, false},
		"within its deserved resources": {hierarchy, []*v1beta1.Queue{queue("root"), queue("q", parent("root"), deserved("8"))}, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			given := nodes(4, "4")
			given.Queues = tt.queues
			in(t, given, tt.conf, func(t *testing.T, w *simulation) {
				w.full()
				w.arrives("big", "q", 2, "4")
				w.pass(10*time.Minute, time.Minute)
				got := w.condition("big", Reserved)
				if got.Reason == reservationEnded {
					t.Errorf("nodes were reserved for a moment: %s", got.Message)
				}
				if (len(w.reserved()) > 0) != tt.want {
					t.Errorf("the reserved nodes are %v, want some: %t; %s; %s", w.reserved(), tt.want, got.Message, w.condition("big", "Unschedulable").Message)
				}
				if !tt.want {
					return
				}
				shrunk := tt.queues[len(tt.queues)-1].DeepCopy()
				shrunk.Spec.Capability = v1.ResourceList{v1.ResourceCPU: *cpus("7")}
				shrunk.Spec.Deserved, shrunk.ResourceVersion = nil, "changed"
				w.cluster.Cache().UpdateQueueV1beta1(tt.queues[len(tt.queues)-1], shrunk)
				w.pass(2*time.Minute, time.Minute)
				if got := w.condition("big", Reserved); len(w.reserved()) > 0 || !strings.Contains(got.Message, "queue q has no room for the gang's minimum, even if the reserved nodes were drained") {
					t.Errorf("after the queue became too small the reserved nodes are %v, want none: %s", w.reserved(), got.Message)
				}
			})
		})
	}
}

// TestAReservationBeyondTheShareOfItsQueueEnds: a new queue with more weight reduces the share of the reservation's
// queue while the nodes drain. If the reserved nodes exceed that share, the reservation ends, although the new queue
// has no requests.
func TestAReservationBeyondTheShareOfItsQueueEnds(t *testing.T) {
	for weight, want := range map[int32]int{90: 2, 110: 0} {
		t.Run(fmt.Sprint(weight), func(t *testing.T) {
			given := nodes(4, "4")
			given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("q").Weight(100).Obj()}
			in(t, given, after5m(50), func(t *testing.T, w *simulation) {
				o := w.observe()
				w.full()
				w.arrives("big", "q", 2, "4")
				w.untilReserved("big")
				w.cluster.Cache().AddQueueV1beta1(schedtest.MakeQueue().Name("other").Weight(weight).Obj())
				w.pass(2*time.Minute, time.Minute)
				if ended := o.ended[gangs.ReservationRefused]; len(w.reserved()) != want || ended != map[int]int{0: 1}[want] {
					t.Errorf("the reserved nodes are %v, want %d nodes; %d reservations ended because the queue cannot hold the gang: %s", w.reserved(), want, ended, w.condition("big", Reserved).Message)
				}
			})
		})
	}
}
