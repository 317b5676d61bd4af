// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const (
	tick = 10 * time.Second
	// drains is how many sessions the longest pod of the stream runs, and a few to be told and placed.
	drains = 14
)

func starvingAfter(after string) string {
	return strings.Replace(sessionsConf, "ARGUMENTS", "starvationAfter: "+after, 1)
}

// stream is of small gangs that come without end: some wait always.
type stream struct {
	*world
	queues  []string
	members int
	pod     func(i int) *schedtest.PodBuilder
	made    int
	ends    map[string]time.Time
}

func (w *world) stream(members int, queues ...string) *stream {
	return &stream{world: w, queues: queues, members: members, ends: map[string]time.Time{}, pod: func(int) *schedtest.PodBuilder { return small() }}
}

// flow runs a session after all that ended by then is gone and others have come.
func (s *stream) flow() {
	s.t.Helper()
	time.Sleep(tick)
	for name, end := range s.ends {
		if s.pods[name] == nil || !time.Now().Before(end) {
			delete(s.ends, name)
			if s.pods[name] != nil {
				s.remove(name)
			}
		}
	}
	waiting := map[string]int{}
	for _, job := range s.cluster.Cache().Jobs {
		if strings.HasPrefix(job.Name, "small-") && waitsWhole(job) {
			waiting[string(job.Queue)]++
		}
	}
	for _, queue := range s.queues {
		for range 6 - waiting[queue] {
			s.made++
			name := fmt.Sprintf("small-%d", s.made)
			group := schedtest.MakePodGroup().Name(name).Queue(queue).MinMember(int32(s.members)).Obj()
			group.CreationTimestamp = metav1.Now()
			s.cluster.Cache().AddPodGroupV1beta1(group)
			s.add(members(s.pod(s.made), name, s.members)...)
		}
	}
	s.session()
	for name, session := range s.bound {
		if session == s.sessions && strings.HasPrefix(name, "small-") {
			s.ends[name] = time.Now().Add(time.Duration(5+len(s.ends)%5) * tick)
			if deadline := s.pods[name].Spec.ActiveDeadlineSeconds; deadline != nil {
				s.ends[name] = time.Now().Add(time.Duration(*deadline) * time.Second)
			}
		}
	}
}

// flowUntil returns after how many sessions the gang runs; -1 if it does not.
func (s *stream) flowUntil(gang string, most int) int {
	s.t.Helper()
	for i := range most {
		if s.flow(); s.runs(gang) {
			return i + 1
		}
	}
	return -1
}

// submit has a gang wait of members that take a whole node each, when the cluster is full of the stream.
func (s *stream) submit(name, queue string, n int, change ...func(*schedtest.PodGroupBuilder)) {
	for range 10 {
		s.flow()
	}
	group := schedtest.MakePodGroup().Name(name).Queue(queue).MinMember(int32(n))
	for _, c := range change {
		c(group)
	}
	made := group.Obj()
	made.CreationTimestamp = metav1.Now()
	s.cluster.Cache().AddPodGroupV1beta1(made)
	s.add(members(schedtest.MakePod().Req(cores("4")), name, n)...)
}

func fourNodes(queues ...*v1beta1.Queue) sessiontest.World {
	w := sessiontest.World{Queues: queues}
	for i := range 4 {
		w.Nodes = append(w.Nodes, holds("4").Name(fmt.Sprintf("n%d", i)).Obj())
	}
	return w
}

// TestStarvation: what comes without end starves a gang for ever, be it gangs or single pods; and once it has waited for long it is
// placed as soon as those have ended that were there.
func TestStarvation(t *testing.T) {
	for _, size := range []int{1, 2} {
		t.Run(fmt.Sprintf("by gangs of %d", size), func(t *testing.T) {
			in(t, fourNodes(), starvingAfter("0s"), func(t *testing.T, w *world) {
				s := w.stream(size, schedtest.Queue)
				s.submit("big", schedtest.Queue, 2)
				if n := s.flowUntil("big", 200); n >= 0 {
					t.Errorf("without a guard it is placed after %d sessions: it does not starve", n)
				}
			})
			in(t, fourNodes(), starvingAfter("5m"), func(t *testing.T, w *world) {
				s := w.stream(size, schedtest.Queue)
				s.submit("big", schedtest.Queue, 2)
				if n := s.flowUntil("big", 30+drains); n < 30 {
					t.Fatalf("with a guard after 30 sessions it runs after %d, want it to within %d more; %v", n, drains, w.condition("big", Guarded))
				}
				s.flow()
				if got := w.condition("big", Guarded); got.Type != "" {
					t.Errorf("it runs, and its condition is %s", got.Message)
				}
				before := len(w.bound)
				for range 10 {
					s.flow()
				}
				if len(w.bound) <= before {
					t.Error("the stream has come to its end with the guard")
				}
			})
		})
	}
}

// guardedAt has sessions go by until nodes are kept for the gang.
func (s *stream) guardedAt(gang string) {
	s.t.Helper()
	for range 40 {
		if s.flow(); s.condition(gang, Guarded).Reason == nodesKept {
			return
		}
	}
	s.t.Fatalf("no nodes are kept for %s: %v", gang, s.job(gang).PodGroup.Status.Conditions)
}

func (s *stream) kept() map[string]bool {
	nodes := map[string]bool{}
	for _, name := range []string{"n0", "n1", "n2", "n3"} {
		for _, c := range s.cluster.Cache().Jobs {
			for _, condition := range c.PodGroup.Status.Conditions {
				if condition.Type == Guarded && condition.Reason == nodesKept && strings.Contains(condition.Message, name) {
					nodes[name] = true
				}
			}
		}
	}
	return nodes
}

// TestGuests: kept nodes are filled meanwhile with what is gone in time by its own word, or can be sent away.
func TestGuests(t *testing.T) {
	deadline := func(seconds int64) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.ActiveDeadlineSeconds = &seconds } }
	preemptable := func(p *v1.Pod) { p.Annotations[v1beta1.PodPreemptable] = "true" }
	noGrace := func(p *v1.Pod) { none := int64(0); p.Spec.TerminationGracePeriodSeconds = &none }
	tests := map[string]struct {
		// horizon is for how long those are still there, by their own word, who are on the nodes; 0 if they do not say.
		horizon int64
		guest   []func(*v1.Pod)
		want    bool
	}{
		"who ends before the last there":       {horizon: 600, guest: []func(*v1.Pod){deadline(100)}, want: true},
		"who ends in time but for its grace":   {horizon: 600, guest: []func(*v1.Pod){deadline(530)}},
		"who ends in time without grace":       {horizon: 600, guest: []func(*v1.Pod){deadline(530), noGrace}, want: true},
		"who ends after the last there":        {horizon: 600, guest: []func(*v1.Pod){deadline(700)}},
		"who does not say":                     {horizon: 600},
		"nobody there says when it ends":       {guest: []func(*v1.Pod){deadline(1)}},
		"a deadline that is no number of time": {horizon: 600, guest: []func(*v1.Pod){deadline(1 << 62)}},
		"who can be sent away":                 {guest: []func(*v1.Pod){preemptable}, want: true},
		"of a higher priority":                 {guest: []func(*v1.Pod){preemptable, func(p *v1.Pod) { high := int32(100); p.Spec.Priority = &high }}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := sessiontest.World{Nodes: []*v1.Node{holds("4").Name("n0").Obj()}}
			// Without a plugin that bounds queues: what can be sent away counts in its queue wherever it is.
			conf := strings.Replace(starvingAfter("5m"), "  - name: proportion\n", "", 1)
			in(t, cluster, conf, func(t *testing.T, w *world) {
				now := metav1.Now()
				old := small().Name("old-0").Group("old").Node("n0").Phase(v1.PodRunning).Obj()
				old.Status.StartTime = &now
				if tt.horizon > 0 {
					deadline(tt.horizon + 310)(old)
				}
				w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj())
				w.add(old)
				s := w.stream(1)
				big := schedtest.MakePodGroup().Name("big").Obj()
				big.CreationTimestamp = now
				w.cluster.Cache().AddPodGroupV1beta1(big)
				w.add(members(schedtest.MakePod().Req(cores("4")), "big", 1)...)
				w.session()
				s.guardedAt("big")
				guest := small().Name("guest-0").Group("guest").Obj()
				for _, change := range tt.guest {
					change(guest)
				}
				w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("guest").Obj())
				w.add(guest)
				w.session()
				if got := w.runs("guest"); got != tt.want {
					t.Fatalf("the guest runs: %t, want %t", got, tt.want)
				}
				w.remove("old-0")
				for range 3 {
					s.flow()
				}
				leaves := tt.want && guest.Annotations[v1beta1.PodPreemptable] != ""
				if _, evicted := w.evicted["guest-0"]; evicted != leaves {
					t.Errorf("the guest was evicted: %t, want %t", evicted, leaves)
				}
				if leaves && !w.runs("big") {
					t.Error("the guest was sent away and the gang does not run")
				}
			})
		})
	}
}

// TestOneGuardPerQueue: the gang of the highest priority, and then the one that waits longest, is guarded; other queues have their own,
// on other nodes.
func TestOneGuardPerQueue(t *testing.T) {
	queue := func(name string) *v1beta1.Queue { return schedtest.MakeQueue().Name(name).Obj() }
	in(t, fourNodes(queue("a"), queue("b")), starvingAfter("5m"), func(t *testing.T, w *world) {
		s := w.stream(1, "a", "b")
		s.submit("first", "a", 2)
		s.submit("second", "a", 2)
		s.submit("other", "b", 2)
		s.guardedAt("first")
		if got := w.condition("second", Guarded); got.Type != "" {
			t.Errorf("two gangs of a queue are guarded: %s", got.Message)
		}
		for _, gang := range []string{"first", "second", "other"} {
			if s.flowUntil(gang, 80) < 0 && !w.runs(gang) {
				t.Fatalf("gang %s starves: %v", gang, w.job(gang).PodGroup.Status.Conditions)
			}
			for i := range 2 {
				if name := fmt.Sprintf("%s-%d", gang, i); w.pods[name] != nil {
					w.remove(name) // it ends
				}
			}
		}
	})
}

// TestAKeptNodeIsLost: another is kept in its place.
func TestAKeptNodeIsLost(t *testing.T) {
	in(t, fourNodes(), starvingAfter("5m"), func(t *testing.T, w *world) {
		s := w.stream(2, schedtest.Queue)
		s.submit("big", schedtest.Queue, 2)
		s.guardedAt("big")
		lost := ""
		for name := range s.kept() {
			lost = name
		}
		node := w.cluster.Cache().Nodes[lost].Node.DeepCopy()
		node.Spec.Unschedulable = true
		if err := w.cluster.Cache().AddOrUpdateNode(node); err != nil {
			t.Fatal(err)
		}
		s.flow()
		if kept := s.kept(); kept[lost] || len(kept) != 2 {
			t.Fatalf("kept are %v, want two without %s", kept, lost)
		}
		if n := s.flowUntil("big", drains); n < 0 {
			t.Error("the gang starves")
		}
	})
}

// TestTheGuardOfTheNextLeader: it keeps nodes from its first session on.
func TestTheGuardOfTheNextLeader(t *testing.T) {
	in(t, fourNodes(), starvingAfter("5m"), func(t *testing.T, w *world) {
		s := w.stream(1, schedtest.Queue)
		s.submit("big", schedtest.Queue, 2)
		s.guardedAt("big")
		since := w.condition("big", Guarded).LastTransitionTime
		for range 3 * drains {
			w.lead()
			s.flow()
			if got := w.condition("big", Guarded); got.Type != "" && !got.LastTransitionTime.Equal(&since) {
				t.Fatalf("nodes are kept since %v, want %v", got.LastTransitionTime, since)
			}
			if w.runs("big") {
				return
			}
		}
		t.Error("the gang starves where each session is of another leader")
	})
}

// TestNoGuard: no nodes are kept for what they are of no use to.
func TestNoGuard(t *testing.T) {
	tests := map[string]struct {
		queue *v1beta1.Queue
		n     int
		want  string
	}{
		"more than the nodes could ever hold":     {n: 5, want: noNodesToKeep},
		"more than the queue's capability":        {n: 2, queue: schedtest.MakeQueue().Name("q").Capability(cores("7")).Obj()},
		"the queue is as large as the gang":       {n: 2, queue: schedtest.MakeQueue().Name("q").Capability(cores("8")).Obj(), want: nodesKept},
		"the queue is full of others of the same": {n: 2, queue: schedtest.MakeQueue().Name("q").Capability(cores("10")).Obj(), want: nodesKept},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster, queue := fourNodes(), schedtest.Queue
			if tt.queue != nil {
				cluster, queue = fourNodes(tt.queue), tt.queue.Name
			}
			in(t, cluster, starvingAfter("5m"), func(t *testing.T, w *world) {
				s := w.stream(1, queue)
				s.submit("big", queue, tt.n)
				for range 32 {
					s.flow()
				}
				if got := w.condition("big", Guarded).Reason; got != tt.want {
					t.Fatalf("the condition is %q, want %q", got, tt.want)
				}
				if tt.want == nodesKept && s.flowUntil("big", 2*drains) < 0 {
					t.Error("the gang starves in its queue")
				}
			})
		})
	}
}

// TestAGuardInVain: nodes that are empty and of no use are given up, and not kept again at once.
func TestAGuardInVain(t *testing.T) {
	in(t, fourNodes(), starvingAfter("5m"), func(t *testing.T, w *world) {
		s := w.stream(1, schedtest.Queue)
		s.submit("big", schedtest.Queue, 2)
		for name := range w.pods {
			if strings.HasPrefix(name, "big-") {
				w.update(name, func(pod *v1.Pod) {
					pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, Protocol: v1.ProtocolTCP}}
				})
			}
		}
		for i := range 4 { // a pod that stays has the port
			blocker := schedtest.MakePod().Name(fmt.Sprintf("blocker-%d", i)).Scheduler("other").Node(fmt.Sprintf("n%d", i)).Phase(v1.PodRunning).Obj()
			blocker.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, Protocol: v1.ProtocolTCP}}
			w.add(blocker)
		}
		s.guardedAt("big")
		for i := 0; i < drains+31 && w.condition("big", Guarded).Reason != guardInVain; i++ {
			s.flow()
		}
		if got := w.condition("big", Guarded).Reason; got != guardInVain {
			t.Fatalf("the condition is %q, want %q", got, guardInVain)
		}
		for range 20 {
			s.flow()
		}
		if got := w.condition("big", Guarded).Reason; got != guardInVain {
			t.Errorf("nodes are kept again after a moment: %q", got)
		}
	})
}

// TestAGuardedGangIsNotSentBack: it keeps what was drained for it.
func TestAGuardedGangIsNotSentBack(t *testing.T) {
	in(t, fourNodes(), starvingAfter("1m"), func(t *testing.T, w *world) {
		s := w.stream(2, schedtest.Queue)
		s.submit("big", schedtest.Queue, 2, func(b *schedtest.PodGroupBuilder) { b.Annotation(gangs.WaitingTimeAnnotation, "70s") })
		if n := s.flowUntil("big", 6+drains); n < 0 {
			t.Errorf("it starves: %v", w.job("big").PodGroup.Status.Conditions)
		}
		if w.phase("big") == scheduling.PodGroupPending {
			t.Error("it was sent back")
		}
	})
}

// TestAGuardOutlastsThoseThatLeave: a member that has its node in the session waits for the one whose node is being left, and both for their guard.
func TestAGuardOutlastsThoseThatLeave(t *testing.T) {
	w := sessiontest.World{PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("big").MinMember(2).Obj(), schedtest.MakePodGroup().Name("others").MinMember(1).Obj()}}
	for _, node := range []string{"n0", "n1"} {
		w.Nodes = append(w.Nodes, holds("4").Name(node).Obj())
		w.Pods = append(w.Pods, schedtest.MakePod().Name("on-"+node).Group("others").Req(cores("4")).Node(node).Phase(v1.PodRunning).Obj())
	}
	w.Pods = append(w.Pods, members(schedtest.MakePod().Req(cores("4")), "big", 2)...)
	in(t, w, starvingAfter("5m"), func(t *testing.T, w *world) {
		o := w.observe()
		w.pass(10*time.Minute, time.Minute)
		kept := func(when string) {
			t.Helper()
			if got := w.condition("big", Guarded); got.Reason != nodesKept || o.guards != 1 || len(o.ended) > 0 {
				t.Fatalf("%s: %d guards, %v have ended, and the condition is %q", when, o.guards, o.ended, got.Message)
			}
		}
		kept("before")
		w.remove("on-n0")
		now := metav1.Now()
		w.update("on-n1", func(p *v1.Pod) { p.DeletionTimestamp = &now })
		w.pass(3*time.Second, time.Second)
		kept("with one node free and the other being left")
		w.remove("on-n1")
		w.pass(2*time.Second, time.Second)
		if !w.runs("big") || o.guards != 0 || o.ended[framework.GuardPlaced] != 1 {
			t.Errorf("it runs: %t, there are %d guards, and %v have ended", w.runs("big"), o.guards, o.ended)
		}
	})
}
