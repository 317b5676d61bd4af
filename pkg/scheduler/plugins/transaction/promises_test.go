// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"maps"
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

// promisingWorld has the gangs of a namespace, which ask for 8 cpu each, and nodes of 8 cpu each.
type promisingWorld struct {
	start time.Time
	nodes map[string]*api.NodeInfo
	jobs  map[api.JobID]*api.JobInfo
	p     promises
	// asks are the cpus in minResources of each gang.
	asks string
}

// newPromisingWorld is a world with one node, which is busy unless the test frees it.
func newPromisingWorld() *promisingWorld {
	w := &promisingWorld{start: time.Now(), nodes: map[string]*api.NodeInfo{}, jobs: map[api.JobID]*api.JobInfo{}, p: newPromises(), asks: "8"}
	w.addNode(schedtest.MakeNode().Name("n"))
	return w
}

func (w *promisingWorld) addNode(b *schedtest.NodeBuilder) {
	node := api.NewNodeInfo(b.Obj())
	w.nodes[node.Name] = node
	w.setIdle(0)
}

// setIdle makes so many cpus of each node idle.
func (w *promisingWorld) setIdle(cpus float64) {
	for _, node := range w.nodes {
		node.Idle = &api.Resource{MilliCPU: 1000 * cpus, Memory: node.Allocatable.Memory}
	}
}

// admitted makes the gang's PodGroup and admits it.
func (w *promisingWorld) admitted(name string, after time.Duration) {
	job := api.NewJobInfo(api.JobID(name))
	job.SetPodGroup(&api.PodGroup{PodGroup: scheduling.PodGroup{Spec: scheduling.PodGroupSpec{Queue: "q"}}})
	job.Namespace = "ns"
	w.jobs[job.UID] = job
	job.PodGroup.Spec.MinResources = &v1.ResourceList{v1.ResourceCPU: resource.MustParse(w.asks)}
	w.p.recordAdmitted(w.asSession(), job, w.start.Add(after))
	job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
}

func (w *promisingWorld) asSession() *framework.Session {
	total := api.EmptyResource()
	for _, node := range w.nodes {
		total.Add(node.Allocatable)
	}
	return &framework.Session{Session: &vcframework.Session{Jobs: w.jobs, Nodes: w.nodes, TotalResource: total}}
}

func (w *promisingWorld) addPods(name string, n int, cpu string, changes ...func(*schedtest.PodBuilder)) {
	job := w.jobs[api.JobID(name)]
	for range n {
		pod := schedtest.MakePod().Name(fmt.Sprint(name, len(job.Tasks))).Req(schedtest.Resources{"cpu": cpu})
		for _, change := range changes {
			change(pod)
		}
		job.AddTaskInfo(api.NewTaskInfo(pod.Obj()))
	}
}

// removePods deletes all pods of the gang.
func (w *promisingWorld) removePods(name string) {
	job := w.jobs[api.JobID(name)]
	for _, task := range maps.Clone(job.Tasks) {
		if err := job.DeleteTaskInfo(task); err != nil {
			panic(err)
		}
	}
}

// session opens a session.
func (w *promisingWorld) session(after time.Duration) {
	for _, job := range w.jobs {
		job.PodGroup.Spec.MinResources = &v1.ResourceList{v1.ResourceCPU: resource.MustParse(w.asks)}
	}
	w.p.limit(w.asSession(), w.start.Add(after))
}

// kept opens a session, and returns the cpus that upstream's plugins reserve for the gang in it.
func (w *promisingWorld) kept(name string, after time.Duration) float64 {
	w.session(after)
	job := w.jobs[api.JobID(name)]
	return job.DeductSchGatedResources(job.GetMinResources()).MilliCPU / 1000
}

// remembered is the number of promises and namespaces in memory.
func (w *promisingWorld) remembered() int { return len(w.p.admitted) + len(w.p.lapsed) }

// TestAPromiseWithoutPodsEnds: the gang of a Volcano Job is admitted before its pods exist, so that resources are reserved for it meanwhile. A tenant
// that never creates the pods, deletes them or makes new PodGroups keeps resources reserved once an hour.
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
	got = append(got, w.kept("again", 2*promiseFor+time.Second))
	delete(w.jobs, "again")

	w.session(2 * time.Hour)
	w.admitted("later", 2*time.Hour)
	got = append(got, w.kept("later", 2*time.Hour))
	w.addPods("later", 2, "4")
	got = append(got, w.kept("later", 2*time.Hour+time.Minute))
	if diff := cmp.Diff([]float64{8, 8, 0, 0, 8, 8, 8}, got); diff != "" {
		t.Errorf("reserved cpus (-want +got):\n%s", diff)
	}
	delete(w.jobs, "later")
	if w.session(2*time.Hour + 2*time.Minute); w.remembered() != 0 {
		t.Errorf("remembered: %+v", w.p)
	}
}

// TestDeletedGangsHadPromises for as long as they existed: a user who deletes a gang before its pods exist loses nothing, a tenant that makes one after
// another has resources reserved for no longer than with one.
func TestDeletedGangsHadPromises(t *testing.T) {
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
				t.Errorf("%d gangs of an hour had resources reserved for %s each, want %d", keeps, each, want)
			}
		})
	}
}

// TestAGangThatIsAdmittedAgainHasNoNewPromise: a tenant may write the phase of its PodGroup, or make it again with the same name, as often as it likes.
func TestAGangThatIsAdmittedAgainHasNoNewPromise(t *testing.T) {
	for name, meanwhile := range map[string]func(w *promisingWorld, now time.Duration){
		"at once": func(*promisingWorld, time.Duration) {},
		"after a session in which it is pending": func(w *promisingWorld, now time.Duration) {
			w.jobs["g"].PodGroup.Status.Phase = scheduling.PodGroupPending
			w.session(now)
		},
		"after a session in which it is in another queue": func(w *promisingWorld, now time.Duration) {
			w.jobs["g"].Queue = "other"
			w.session(now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPromisingWorld()
			w.admitted("g", 0)
			for after := time.Duration(0); after < promiseFor; after += promiseFor / 4 {
				meanwhile(w, after)
				w.admitted("g", after)
				w.session(after)
			}
			meanwhile(w, promiseFor)
			w.admitted("g", promiseFor)
			if got := w.kept("g", promiseFor); got != 0 {
				t.Errorf("%v cpus are reserved", got)
			}
		})
	}
}

// TestAnAmountThatWasGivenUpIsNotPromised: otherwise a tenant has one gang after the other admitted to the same resources.
func TestAnAmountThatWasGivenUpIsNotPromised(t *testing.T) {
	gate := func(pod *schedtest.PodBuilder) { pod.Gate("example.com/g") }
	tests := map[string]struct {
		do   func(w *promisingWorld)
		want []float64
	}{
		"minResources are lowered and raised": {func(w *promisingWorld) { w.asks = "2" }, []float64{8, 2, 2}},
		"minResources are lowered to nothing": {func(w *promisingWorld) { w.asks = "0" }, []float64{8, 0, 0}},
		"pods are gated for a while":          {func(w *promisingWorld) { w.addPods("g", 1, "6", gate) }, []float64{8, 2, 2}},
		"the queue is another for a while":    {func(w *promisingWorld) { w.jobs["g"].Queue = "other" }, []float64{8, 0, 0}},
		"the phase is pending for a while":    {func(w *promisingWorld) { w.jobs["g"].PodGroup.Status.Phase = scheduling.PodGroupPending }, []float64{8, 8, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newPromisingWorld()
			w.admitted("g", 0)
			got := []float64{w.kept("g", time.Second)}
			tt.do(w)
			got = append(got, w.kept("g", 2*time.Second)) // a pending gang asks for its minResources, and reserves nothing
			w.removePods("g")
			w.asks, w.jobs["g"].Queue, w.jobs["g"].PodGroup.Status.Phase = "8", "q", scheduling.PodGroupInqueue
			if diff := cmp.Diff(tt.want, append(got, w.kept("g", 3*time.Second))); diff != "" {
				t.Errorf("reserved cpus before, meanwhile and after (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAGatedGangIsPromisedItsOtherPods: upstream counts no pods with scheduling gates, and admits others to their resources.
func TestAGatedGangIsPromisedItsOtherPods(t *testing.T) {
	w := newPromisingWorld()
	w.admitted("g", 0)
	w.addPods("g", 1, "6", func(pod *schedtest.PodBuilder) { pod.Gate("example.com/g") })
	got := []float64{w.kept("g", time.Second)}
	w.addPods("g", 1, "2")
	got = append(got, w.kept("g", promiseFor), w.kept("g", time.Hour))
	if diff := cmp.Diff([]float64{2, 2, 2}, got); diff != "" {
		t.Errorf("reserved cpus (-want +got):\n%s", diff)
	}
}

// TestAPromiseIsFulfilledByHeldResources of members that are bound: a bind may fail, and then the gang needs the resources again.
func TestAPromiseIsFulfilledByHeldResources(t *testing.T) {
	for status, want := range map[api.TaskStatus]float64{api.Binding: 8, api.Bound: 0, api.Running: 0} {
		t.Run(status.String(), func(t *testing.T) {
			w := newPromisingWorld()
			w.admitted("g", 0)
			w.addPods("g", 1, "8")
			set := func(status api.TaskStatus) {
				for _, task := range w.jobs["g"].Tasks {
					if err := w.jobs["g"].UpdateTaskStatus(task, status); err != nil {
						t.Fatal(err)
					}
				}
			}
			set(status)
			w.session(promiseFor)
			w.session(3 * promiseFor)
			set(api.Pending)
			if got := w.kept("g", 3*promiseFor+time.Second); got != want || len(w.p.lapsed) != 0 {
				t.Errorf("%v cpus are reserved when the member waits again, want %v; lapsed: %v", got, want, w.p.lapsed)
			}
		})
	}
}

// TestAHeldAmountIsNoPromise: a gang that this process did not admit counts with the resources that it holds. The cache limits these to what the node has.
func TestAHeldAmountIsNoPromise(t *testing.T) {
	w := newPromisingWorld()
	w.admitted("g", 0)
	delete(w.p.admitted, "g") // the tenant wrote the phase
	held := api.NewTaskInfo(schedtest.MakePod().Name("ga").Req(schedtest.Resources{"cpu": "8"}).Node("n").Obj())
	held.Resreq = api.NewResource(v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")})
	w.jobs["g"].AddTaskInfo(held)
	w.addPods("g", 1, "6")
	if got := w.kept("g", time.Hour); got != 2 {
		t.Errorf("%v cpus are reserved for a gang whose pod holds 2", got)
	}
}
