// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// moving adds three queues of 4 CPUs, two empty nodes, and gang before, whose PodGroup names the queue named. Four of
// its pods of 1 CPU run. boundIn is their QueueAnnotation.
func moving(w *harness, named, boundIn string) (group *v1beta1.PodGroup) {
	for _, queue := range []string{"q", "other", schedtest.Queue} {
		w.add(schedtest.MakeQueue().Name(queue).Capability(schedtest.Resources{"cpu": "4"}).Obj())
	}
	group = groupIn(named)
	w.add(nodeOf8(0).Obj(), nodeOf8(1).Obj(), group)
	for i := range 4 {
		w.add(movedMember("before", i, boundIn).Obj())
	}
	return group
}

func groupIn(queue string) *v1beta1.PodGroup {
	return schedtest.MakePodGroup().Name("before").Queue(queue).MinMember(4).Obj()
}

func movedMember(gang string, i int, boundIn string) *schedtest.PodBuilder {
	pod := schedtest.MakePod().Name(fmt.Sprintf("before-%d", i)).Group(gang).Req(schedtest.Resources{"cpu": "1"}).Node("n00").Phase(v1.PodRunning)
	if boundIn != "" {
		pod.Annotation(binding.QueueAnnotation, boundIn)
	}
	return pod
}

// TestRunningPodsStayInTheirQueue checks that running pods stay in their queue. A queue of 4 CPUs is full, and its
// tenant makes the pods in it name another queue.
func TestRunningPodsStayInTheirQueue(t *testing.T) {
	tests := map[string]struct {
		// named is the queue in the PodGroup when the scheduler first sees it, and boundIn the annotation of its
		// pods.
		named, boundIn string
		move           func(w *harness, group *v1beta1.PodGroup)
		// free is the queue with room for a pod of 1 CPU, and full the queue without room.
		free, full string
	}{
		"nothing moves": {named: "q", full: "q", free: "other"},
		"its PodGroup names another queue": {
			named: "q", full: "q", free: "other",
			move: func(w *harness, _ *v1beta1.PodGroup) { w.add(groupIn("other")) },
		},
		"its PodGroup names a queue that does not exist": {
			named: "q", full: "q", free: "other",
			move: func(w *harness, _ *v1beta1.PodGroup) { w.add(groupIn("nosuch")) },
		},
		"its PodGroup is created again in another queue": {
			named: "q", full: "q", free: "other",
			move: func(w *harness, group *v1beta1.PodGroup) { w.remove(group); w.add(groupIn("other")) },
		},
		"its pods name the gang of another queue": {
			named: "q", full: "q", free: "other",
			move: func(w *harness, _ *v1beta1.PodGroup) {
				w.add(schedtest.MakePodGroup().Name("elsewhere").Queue("other").MinMember(1).Obj())
				for i := range 4 {
					w.add(movedMember("elsewhere", i, "").Obj())
				}
			},
		},
		"its pods are deleted with a year of grace, and its PodGroup names another queue": {
			named: "q", full: "q", free: "other",
			move: func(w *harness, _ *v1beta1.PodGroup) {
				for i := range 4 {
					pod, year := movedMember("before", i, "").Obj(), metav1.NewTime(time.Now().Add(365*24*time.Hour))
					pod.DeletionTimestamp = &year
					w.add(pod)
				}
				w.add(groupIn("other"))
			},
		},
		"its pods say that they were bound in another queue": {
			named: "q", boundIn: "q", full: "q", free: "other",
			move: func(w *harness, _ *v1beta1.PodGroup) {
				for i := range 4 {
					w.add(movedMember("before", i, "other").Obj())
				}
			},
		},
		"the PodGroup moved before the scheduler started":                    {named: "other", boundIn: "q", full: "q", free: "other"},
		"the PodGroup moved before the start to a queue that does not exist": {named: "nosuch", boundIn: "q", full: "q", free: "other"},
		"the PodGroup moved before the start, and the queue was deleted":     {named: "other", boundIn: "gone", full: "other", free: "q"},
		"the pods ended, and the PodGroup moved": {
			named: "q", full: "", free: "q",
			move: func(w *harness, _ *v1beta1.PodGroup) {
				for i := range 4 {
					w.add(movedMember("before", i, "").Phase(v1.PodSucceeded).Obj())
				}
				w.add(groupIn("other"))
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				group := moving(w, tt.named, tt.boundIn)
				if tt.move != nil {
					tt.move(w, group)
				}
				for _, queue := range []string{tt.free, tt.full} {
					if queue != "" {
						w.add(schedtest.MakePodGroup().Name("in-"+queue).Queue(queue).MinMember(1).Obj(),
							schedtest.MakePod().Name("in-"+queue).Group("in-"+queue).Req(schedtest.Resources{"cpu": "1"}).Obj())
					}
				}
				s := newSessions(w, explainConf("capacity"))
				s.cycle()
				s.cycle()
				if tt.full != "" && w.cluster.Pod("in-"+tt.full).Spec.NodeName != "" {
					t.Errorf("a pod is bound in queue %s, which is full", tt.full)
				}
				if w.cluster.Pod("in-"+tt.free).Spec.NodeName == "" {
					t.Errorf("no pod is bound in queue %s, which has room", tt.free)
				}
			})
		})
	}
}

// TestAMovedGangGrows checks that a moved gang grows in the queue of its running pods. It moves to the other queue
// once none of them holds a node.
func TestAMovedGangGrows(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		moving(w, "q", "")
		w.add(schedtest.MakeQueue().Name("q").Capability(schedtest.Resources{"cpu": "5"}).Obj(), groupIn("other"))
		s := newSessions(w, explainConf("capacity"))
		s.cycle()
		boundIn := func(i int) string {
			name := fmt.Sprintf("before-%d", i)
			w.add(schedtest.MakePod().Name(name).Group("before").Req(schedtest.Resources{"cpu": "1"}).Obj())
			s.cycle()
			s.cycle()
			pod := w.cluster.Pod(name)
			return fmt.Sprint(pod.Spec.NodeName != "", " ", pod.Annotations[binding.QueueAnnotation])
		}
		got := []string{boundIn(4), boundIn(5)}
		for i := range 4 {
			w.add(movedMember("before", i, "").Phase(v1.PodSucceeded).Obj())
		}
		w.add(schedtest.MakePod().Name("before-4").Group("before").Node("n00").Phase(v1.PodSucceeded).Obj())
		s.cycle()
		s.cycle()
		pod := w.cluster.Pod("before-5")
		got = append(got, fmt.Sprint(pod.Spec.NodeName != "", " ", pod.Annotations[binding.QueueAnnotation]))
		if diff := cmp.Diff([]string{"true q", "false ", "true other"}, got); diff != "" {
			t.Errorf("bound, and in which queue, with room for one in the former queue, with none, and after the gang's other pods have ended (-want +got):\n%s", diff)
		}
	})
}

// TestAGangOfAQueueThatDoesNotExistIsAVictim checks that a gang of a queue that does not exist can be a victim:
// sessions see its running pods.
func TestAGangOfAQueueThatDoesNotExistIsAVictim(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		moving(w, "q", "")
		w.add(groupIn("nosuch"))
		job := w.cache.Snapshot().Jobs[schedtest.Namespace+"/before"]
		if job == nil || job.Queue != "q" || len(job.Tasks) != 4 {
			t.Errorf("sessions see the gang as %v, want 4 pods in queue q", job)
		}
	})
}
