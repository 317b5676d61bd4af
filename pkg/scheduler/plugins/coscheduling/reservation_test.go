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
	// drains is the largest number of sessions that a pod of the stream runs, plus some sessions to report and to place
	// the gang.
	drains = 14
)

// reserving returns a configuration that reserves up to half of the cluster for gangs that wait longer than 5 minutes,
// with additional arguments.
func reserving(more string) string {
	return strings.Replace(sessionsConf, "ARGUMENTS", "starvationAfter: 5m, reservedPercent: 50"+more, 1)
}

// stream creates small gangs without end, so that some of them always wait.
type stream struct {
	*simulation
	queues  []string
	members int
	pod     func(i int) *schedtest.PodBuilder
	made    int
	ends    map[string]time.Time
}

func (w *simulation) stream(members int, queues ...string) *stream {
	return &stream{simulation: w, queues: queues, members: members, ends: map[string]time.Time{}, pod: func(int) *schedtest.PodBuilder { return small() }}
}

// flow removes the pods that have ended, creates new gangs, and runs a session.
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

// flowUntil returns the number of sessions until the gang runs, or -1 if it does not run.
func (s *stream) flowUntil(gang string, most int) int {
	s.t.Helper()
	for i := range most {
		if s.flow(); s.runs(gang) {
			return i + 1
		}
	}
	return -1
}

// submit creates a gang whose members take a whole node each, when the cluster is full of the stream's pods.
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

// TestStarvation: a stream of small gangs or single pods can starve a large gang forever. With reservations, the large
// gang is placed as soon as the pods on the reserved nodes have ended.
func TestStarvation(t *testing.T) {
	for _, size := range []int{1, 2} {
		t.Run(fmt.Sprintf("by gangs of %d", size), func(t *testing.T) {
			in(t, fourNodes(), limits, func(t *testing.T, w *simulation) {
				s := w.stream(size, schedtest.Queue)
				s.submit("big", schedtest.Queue, 2)
				if n := s.flowUntil("big", 200); n >= 0 || w.condition("big", Reserved).Type != "" {
					t.Errorf("by default the gang is placed after %d sessions, and its condition is %q; want no reservation", n, w.condition("big", Reserved).Message)
				}
			})
			in(t, fourNodes(), reserving(""), func(t *testing.T, w *simulation) {
				s := w.stream(size, schedtest.Queue)
				s.submit("big", schedtest.Queue, 2)
				if n := s.flowUntil("big", 33+drains); n < 30 {
					t.Fatalf("with a reservation after 30 sessions the gang runs after %d, want at most %d more; %v", n, drains, w.condition("big", Reserved))
				}
				s.flow()
				if got := w.condition("big", Reserved); got.Type != "" || len(w.plugin.reservations.active) > 0 {
					t.Errorf("the gang runs, but has the condition %s", got.Message)
				}
				before := len(w.bound)
				for range 10 {
					s.flow()
				}
				if len(w.bound) <= before {
					t.Error("after the reservation no pods of the stream are placed")
				}
			})
		})
	}
}

// reserved returns the nodes that are reserved, sorted.
func (w *simulation) reserved() []string {
	nodes := []string{}
	for _, r := range w.plugin.reservations.active {
		nodes = slices.AppendSeq(nodes, maps.Keys(r.nodes))
	}
	slices.Sort(nodes)
	return nodes
}
