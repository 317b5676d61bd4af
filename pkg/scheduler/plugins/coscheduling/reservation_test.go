// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const (
	tick = 10 * time.Second
	// drains is how many sessions the longest pod of the stream runs, and a few more to report and place the gang.
	drains = 14
)

// reserving is the configuration with these arguments beside those that let half of the cluster be reserved after 5 minutes.
func reserving(more string) string {
	return strings.Replace(sessionsConf, "ARGUMENTS", "starvationAfter: 5m, reservedPercent: 50"+more, 1)
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

func fourNodes(queues ...*v1beta1.Queue) sessiontest.ClusterSpec {
	w := sessiontest.ClusterSpec{Queues: queues}
	for i := range 4 {
		w.Nodes = append(w.Nodes, holds("4").Name(fmt.Sprintf("n%d", i)).Obj())
	}
	return w
}

// TestStarvation: what comes without end starves a gang for ever, be it gangs or single pods; and once it has waited for long it is
// placed as soon as the pods have ended that were there.
func TestStarvation(t *testing.T) {
	for _, size := range []int{1, 2} {
		t.Run(fmt.Sprintf("by gangs of %d", size), func(t *testing.T) {
			in(t, fourNodes(), limits, func(t *testing.T, w *world) {
				s := w.stream(size, schedtest.Queue)
				s.submit("big", schedtest.Queue, 2)
				if n := s.flowUntil("big", 200); n >= 0 || w.condition("big", Reserved).Type != "" {
					t.Errorf("by default it is placed after %d sessions, and its condition is %q: want no reservation", n, w.condition("big", Reserved).Message)
				}
			})
			in(t, fourNodes(), reserving(""), func(t *testing.T, w *world) {
				s := w.stream(size, schedtest.Queue)
				s.submit("big", schedtest.Queue, 2)
				if n := s.flowUntil("big", 33+drains); n < 30 {
					t.Fatalf("with a reservation after 30 sessions it runs after %d, want it to within %d more; %v", n, drains, w.condition("big", Reserved))
				}
				s.flow()
				if got := w.condition("big", Reserved); got.Type != "" || len(w.plugin.reservations.active) > 0 {
					t.Errorf("it runs, and its condition is %s", got.Message)
				}
				before := len(w.bound)
				for range 10 {
					s.flow()
				}
				if len(w.bound) <= before {
					t.Error("the stream has come to its end with the reservation")
				}
			})
		})
	}
}

// reserved returns the nodes that are reserved, sorted.
func (w *world) reserved() []string {
	nodes := []string{}
	for _, r := range w.plugin.reservations.active {
		nodes = slices.AppendSeq(nodes, maps.Keys(r.nodes))
	}
	slices.Sort(nodes)
	return nodes
}
