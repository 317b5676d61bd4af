// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// lingering is a stream whose gangs are deleted together with their PodGroups. Their pods terminate until the next
// session. Until then their queue is charged for them through jobs in their place (framework.DeletedJob).
type lingering struct {
	*stream
	jobs []*api.JobInfo
}

// flow removes the pods that were being deleted, and deletes gangs that are about to end.
func (l *lingering) flow() {
	l.gone()
	for name, end := range l.ends {
		if l.pods[name] != nil && !time.Now().Add(2*tick).Before(end) {
			delete(l.ends, name)
			l.linger(name)
		}
	}
	l.stream.flow()
}

// gone removes the pods that were being deleted.
func (l *lingering) gone() {
	for _, job := range l.jobs {
		l.swap(framework.DeletedJob(job.UID), job)
		l.remove(job.Name + "-0")
	}
	l.jobs = nil
}

func (l *lingering) linger(name string) {
	now := metav1.Now()
	l.update(name, func(pod *v1.Pod) { pod.DeletionTimestamp = &now })
	job := l.job(name[:len(name)-len("-0")])
	standIn := api.NewJobInfo(framework.DeletedJob(job.UID))
	for _, task := range job.Tasks {
		own := task.Clone()
		own.Job, own.Status = standIn.UID, api.Bound
		standIn.AddTaskInfo(own)
	}
	standIn.SetPodGroup(&api.PodGroup{Version: job.PodGroup.Version, PodGroup: *job.PodGroup.PodGroup.DeepCopy()})
	l.swap(job.UID, standIn)
	l.jobs = append(l.jobs, job)
}

// swap replaces the job with this ID in the cache.
func (l *lingering) swap(id api.JobID, job *api.JobInfo) {
	cache := l.cluster.Cache()
	cache.Mutex.Lock()
	defer cache.Mutex.Unlock()
	delete(cache.Jobs, id)
	cache.Jobs[job.UID] = job
}

// TestPodsThatAreBeingDeletedDoNotEndAReservation: a queue is charged for terminating pods on the reserved nodes. This
// neither prevents a reservation nor ends it, because the pods have terminated when the gang is placed.
func TestPodsThatAreBeingDeletedDoNotEndAReservation(t *testing.T) {
	in(t, fourNodes(), strings.Replace(reserving(""), "reservedPercent: 50", "reservedPercent: 100", 1), func(t *testing.T, w *simulation) {
		l := &lingering{stream: w.stream(1, schedtest.Queue)}
		l.submit("big", schedtest.Queue, 4)
		charged := 0
		for range 33 + drains {
			if l.flow(); len(l.jobs) > 0 && len(w.reserved()) > 0 {
				charged++
			}
			if l.runs("big") {
				break
			}
		}
		if !l.runs("big") || charged == 0 {
			t.Errorf("the gang runs: %v, after %d sessions with a reservation and terminating pods; %v", l.runs("big"), charged, w.condition("big", Reserved))
		}
	})
}

// TestPodsThatAreBeingDeletedOnOtherNodesFreeNothing: gang big may use n0 and n1. On n0 a pod terminates, but an
// outsider pod leaves too little room for the gang. If the queue can hold the gang only after that pod has terminated,
// n1 is not reserved.
func TestPodsThatAreBeingDeletedOnOtherNodesFreeNothing(t *testing.T) {
	for name, want := range map[string]string{"it takes both": "n1", "it takes one of both": ""} {
		t.Run(name, func(t *testing.T) {
			given := nodes(3, "5")
			given.Nodes[0].Labels, given.Nodes[1].Labels = map[string]string{"for": "big"}, map[string]string{"for": "big"}
			given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("q").Capability(cores(map[string]string{"n1": "12", "": "11"}[want])).Weight(100).Obj()}
			in(t, given, after5m(100), func(t *testing.T, w *simulation) {
				l := &lingering{stream: w.stream(0)}
				w.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("leaves").Queue("q").Phase(v1beta1.PodGroupRunning).Obj())
				w.add(schedtest.MakePod().Name("leaves-0").Group("leaves").Node("n0").Phase(v1.PodRunning).Req(cores("3")).Obj())
				w.add(schedtest.MakePod().Name("outsider").Scheduler("other").Node("n0").Phase(v1.PodRunning).Req(cores("2")).Obj())
				w.stays("other", schedtest.Queue, "n1", "5")
				w.stays("own", "q", "n2", "5")
				l.linger("leaves-0")
				w.arrives("big", "q", 1, "4", func(pod *v1.Pod) { pod.Spec.NodeSelector = map[string]string{"for": "big"} })
				for range 10 {
					time.Sleep(time.Minute)
					w.session()
				}
				if got, c := strings.Join(w.reserved(), " "), w.condition("big", Reserved); got != want || c.Reason == reservationEnded {
					t.Errorf("the reserved nodes are %q, want %q: %s: %s", got, want, c.Reason, c.Message)
				}
			})
		})
	}
}
