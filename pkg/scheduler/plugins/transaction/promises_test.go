// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// promisingWorld is a namespace's gangs, each of which asks for 8 cpus, in a cluster of one node.
type promisingWorld struct {
	start time.Time
	node  *api.NodeInfo
	jobs  map[api.JobID]*api.JobInfo
	p     promises
}

func newPromisingWorld() *promisingWorld {
	return &promisingWorld{
		start: time.Now(), node: api.NewNodeInfo(schedtest.MakeNode().Name("n").Obj()), jobs: map[api.JobID]*api.JobInfo{},
		p: newPromises(),
	}
}

// admitted makes the gang's PodGroup and lets it in.
func (w *promisingWorld) admitted(name string, after time.Duration) {
	job := api.NewJobInfo(api.JobID(name))
	job.SetPodGroup(&api.PodGroup{PodGroup: scheduling.PodGroup{Spec: scheduling.PodGroupSpec{Queue: "q"}}})
	job.Namespace = "ns"
	w.jobs[job.UID] = job
	job.PodGroup.Spec.MinResources = &v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")}
	w.p.recordAdmitted(job, w.start.Add(after))
	job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
}

func (w *promisingWorld) addPods(name string, n int, cpu string) {
	for i := range n {
		pod := schedtest.MakePod().Name(name + string(rune('a'+i))).Req(schedtest.Resources{"cpu": cpu}).Obj()
		w.jobs[api.JobID(name)].AddTaskInfo(api.NewTaskInfo(pod))
	}
}

// session opens a session.
func (w *promisingWorld) session(after time.Duration) {
	ssn := &framework.Session{Session: &vcframework.Session{
		Jobs: w.jobs, Nodes: map[string]*api.NodeInfo{"n": w.node}, TotalResource: w.node.Allocatable.Clone(),
	}}
	for _, job := range w.jobs {
		job.PodGroup.Spec.MinResources = &v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")}
	}
	w.p.forgetPromises(ssn, w.start.Add(after))
}

// kept is the cpu that a session keeps for the gang.
func (w *promisingWorld) kept(name string, after time.Duration) float64 {
	w.session(after)
	return w.jobs[api.JobID(name)].GetMinResources().MilliCPU
}

// TestAPromiseWithoutPodsEnds: a Volcano Job's gang is let in before its pods exist, so that room is kept for it meanwhile. A tenant that lets
// them never come, deletes them or makes new PodGroups keeps room once an hour.
func TestAPromiseWithoutPodsEnds(t *testing.T) {
	w := newPromisingWorld()
	var got []float64
	w.admitted("slow", 0)
	got = append(got, w.kept("slow", promiseFor/2))
	w.addPods("slow", 1, "4")
	got = append(got, w.kept("slow", promiseFor-1), w.kept("slow", promiseFor))
	w.admitted("again", 2*promiseFor)
	got = append(got, w.kept("again", 2*promiseFor))
	w.addPods("again", 2, "4")
	got = append(got, w.kept("again", 3*promiseFor))

	w.session(2 * time.Hour)
	w.admitted("later", 2*time.Hour)
	got = append(got, w.kept("later", 2*time.Hour))
	w.addPods("later", 2, "4")
	got = append(got, w.kept("later", 2*time.Hour+time.Minute))
	if diff := cmp.Diff([]float64{8000, 8000, 4000, 0, 8000, 8000, 8000}, got); diff != "" {
		t.Errorf("cpu kept (-want +got):\n%s", diff)
	}
	if len(w.p.admitted)+len(w.p.lapsed) != 0 {
		t.Errorf("%d promises and %d namespaces are remembered", len(w.p.admitted), len(w.p.lapsed))
	}
}

// TestDeletedGangsKeptRoom for as long as they existed: a user who deletes a gang before its pods exist loses nothing, a tenant that makes one after
// another keeps room for no longer than with one.
func TestDeletedGangsKeptRoom(t *testing.T) {
	for each, want := range map[time.Duration]int{time.Second: 100, promiseFor / 2: 2, promiseFor - 1: 2} {
		t.Run(each.String(), func(t *testing.T) {
			w := newPromisingWorld()
			now, keeps := time.Duration(0), 0
			for i := 0; i < 100 && now < noPromisesFor; i++ {
				name := "g" + strconv.Itoa(i)
				w.admitted(name, now)
				if now += each; w.kept(name, now-1) > 0 {
					keeps++
				}
				delete(w.jobs, api.JobID(name))
				w.session(now)
			}
			if keeps != want {
				t.Errorf("%d gangs of an hour kept room for %s each, want %d", keeps, each, want)
			}
		})
	}
}

// TestAGangThatIsSentBackHasNoNewPromise: a tenant may write the phase of its PodGroup, or make it again with the same name, as often as it likes.
func TestAGangThatIsSentBackHasNoNewPromise(t *testing.T) {
	w := newPromisingWorld()
	for after := time.Duration(0); after < promiseFor; after += promiseFor / 4 {
		w.admitted("g", after)
		w.session(after)
	}
	if got := w.kept("g", promiseFor); got != 0 {
		t.Errorf("%v cpu are kept", got)
	}
}

// TestPodsLargerThanAnyNodeKeepAPromise: an autoscaler makes nodes for them. They keep no room that no node has.
func TestPodsLargerThanAnyNodeKeepAPromise(t *testing.T) {
	w := newPromisingWorld()
	w.admitted("large", 0)
	w.addPods("large", 1, "80")
	if got := w.kept("large", time.Second); got != 0 {
		t.Errorf("%v cpu are kept", got)
	}
	w.session(promiseFor)
	w.admitted("next", promiseFor)
	if got := w.kept("next", promiseFor); got != 8000 {
		t.Errorf("%v cpu are kept for another gang of the namespace", got)
	}
}

// TestAPodThatCannotRunEndsNoPromiseForFree: a tenant makes one gang after the other, each with a pod that fits no node just before the promise lapses.
// Room is kept for these gangs for no longer in all than for one gang without pods.
func TestAPodThatCannotRunEndsNoPromiseForFree(t *testing.T) {
	w := newPromisingWorld()
	var now, kept time.Duration
	for round := range 30 {
		name := fmt.Sprint("g", round)
		w.admitted(name, now)
		if now += promiseFor - time.Second; w.kept(name, now) > 0 {
			kept += promiseFor - time.Second
		}
		w.addPods(name, 1, "1000000")
		if got := w.kept(name, now); got != 0 {
			t.Errorf("%v of cpu is kept for a gang whose only pod fits no node", got)
		}
		delete(w.jobs, api.JobID(name))
		now += time.Second
		w.session(now)
	}
	if most := 2 * promiseFor; kept > most {
		t.Errorf("room is kept for %v of %v, want at most %v", kept, now, most)
	}
}

// TestAPodBacksNoMoreThanItHolds: the cache limits the pods on a node to what the node has. A pod of any request may name a node when it is created.
func TestAPodBacksNoMoreThanItHolds(t *testing.T) {
	w := newPromisingWorld()
	w.admitted("g", 0)
	delete(w.p.admitted, "g") // the tenant wrote the phase
	held := api.NewTaskInfo(schedtest.MakePod().Name("ga").Req(schedtest.Resources{"cpu": "8"}).Node("n").Obj())
	held.Resreq = api.NewResource(v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")})
	w.jobs["g"].AddTaskInfo(held)
	if got := w.kept("g", time.Hour); got != 2000 {
		t.Errorf("%v of cpu is kept for a gang whose pod holds 2000", got)
	}
}
