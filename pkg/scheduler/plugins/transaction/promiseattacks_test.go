// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// hold has a pod of the given gang hold a tenth of a cpu on node n. The gang has no job if its name is empty.
func (w *promisingWorld) hold(gang, namespace string, change func(*v1.Pod)) {
	pod := schedtest.MakePod().Name("holds").Req(schedtest.Resources{"cpu": "100m"}).Node("n").Phase(v1.PodRunning).Obj()
	change(pod)
	task := api.NewTaskInfo(pod)
	if task.Job = api.JobID(gang); gang != "" {
		job := api.NewJobInfo(task.Job)
		job.SetPodGroup(&api.PodGroup{})
		job.Namespace = namespace
		job.AddTaskInfo(task)
		w.jobs[job.UID] = job
	}
	if err := w.nodes["n"].AddTask(task); err != nil {
		panic(err)
	}
}

// TestAPromiseOfTheWholeCluster: a tenant asks for all that the cluster has. On a busy cluster the gang may wait for it, but not for
// what will never be free: pods of DaemonSets and of other schedulers, and pods of its own namespace.
func TestAPromiseOfTheWholeCluster(t *testing.T) {
	none := func(*v1.Pod) {}
	tests := map[string]struct {
		gang, namespace string
		change          func(*v1.Pod)
		want            float64
	}{
		"beside a gang of another namespace": {"other", "others", none, 8},
		"beside a gang of its own namespace": {"other", "ns", none, 0},
		"beside a pod of another scheduler":  {"", "", none, 0},
		"beside a pod of a DaemonSet": {"other", "others", func(pod *v1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: new(true)}}
		}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newPromisingWorld()
			w.hold(tt.gang, tt.namespace, tt.change)
			w.setIdle(7.9)
			w.admitted("g", 0)
			w.addPods("g", 1, "8")
			var kept float64
			for after := time.Duration(0); after < 2*promiseFor+time.Minute; after += 20 * time.Second {
				kept = w.kept("g", after)
			}
			if kept != tt.want {
				t.Errorf("%g cpus are reserved after %s, want %g", kept, 2*promiseFor+time.Minute, tt.want)
			}
		})
	}
}

// TestChecksAreNotStarved: a new gang each second, whose one pod is expensive to check, must not keep the promise of an older gang from
// its end.
func TestChecksAreNotStarved(t *testing.T) {
	w := newPromisingWorld()
	for i := range 1000 {
		w.addNode(schedtest.MakeNode().Name(fmt.Sprint("m", i)))
	}
	w.admitted("g", 0)
	w.addPods("g", 1, "8", func(pod *schedtest.PodBuilder) { pod.NodeSelector("is", "missing") })
	got := []float64{w.kept("g", time.Second)}
	for second := 2; second <= 300; second++ {
		name := fmt.Sprint("x", second)
		w.admitted(name, time.Duration(second)*time.Second)
		w.jobs[api.JobID(name)].Namespace, w.p.admitted[api.JobID(name)].namespace = "others", "others"
		w.addPods(name, 1, "8", func(pod *schedtest.PodBuilder) { pod.NodeSelector("is", "missing") })
		for _, task := range w.jobs[api.JobID(name)].Tasks {
			task.Pod.Spec.Tolerations = tolerations(1000)
		}
		kept := w.kept("g", time.Duration(second)*time.Second)
		if second%100 == 0 {
			got = append(got, kept)
		}
		delete(w.jobs, api.JobID(fmt.Sprint("x", second-1)))
	}
	if diff := cmp.Diff([]float64{8, 8, 0, 0}, got); diff != "" {
		t.Errorf("reserved cpus (-want +got):\n%s", diff)
	}
}

func tolerations(n int) (list []v1.Toleration) {
	for i := range n {
		list = append(list, v1.Toleration{Key: fmt.Sprint("key", i), Operator: v1.TolerationOpExists})
	}
	return list
}

// TestTheCostOfPodsIsCounted: a session reads no more of the pods' requirements than maxLooks allows, and a look at a node costs as
// much as the values that are compared.
func TestTheCostOfPodsIsCounted(t *testing.T) {
	w := newPromisingWorld()
	w.admitted("g", 0)
	w.addPods("g", 100, "1")
	for _, task := range w.jobs["g"].Tasks {
		task.Pod.Spec.Tolerations = tolerations(1000)
	}
	looks := 0
	if kinds := kindsOf(w.jobs["g"], &looks); kinds != nil || looks > maxLooks+keyCost*1000+1 {
		t.Errorf("%d kinds were found with %d looks", len(kinds), looks)
	}
	values := v1.NodeSelectorRequirement{Key: "is", Operator: v1.NodeSelectorOpIn}
	for i := range 1000 {
		values.Values = append(values.Values, fmt.Sprint(i))
	}
	pod := schedtest.MakePod().Name("p").NodeSelector("a", "b").Affinity(v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{values}, MatchFields: []v1.NodeSelectorRequirement{values}}},
	}}}).Obj()
	pod.Spec.Tolerations = tolerations(7)
	if got := newKind(api.NewTaskInfo(pod)).cost; got != 1+2010/rulesPerLook {
		t.Errorf("a look costs %d", got)
	}
}

// TestAGangOfManyPodsKeepsItsPromise: its pods are many, but like each other.
func TestAGangOfManyPodsKeepsItsPromise(t *testing.T) {
	w := newPromisingWorld()
	for i := range 100 {
		w.addNode(schedtest.MakeNode().Name(fmt.Sprint("m", i)).Capacity(schedtest.Resources{"cpu": "100", "memory": "160Gi", "pods": "1100"}))
	}
	w.asks = "6000"
	w.admitted("g", 0)
	w.addPods("g", 6000, "1")
	w.session(time.Second)
	if kept := w.kept("g", 3*promiseFor); kept != 6000 {
		t.Errorf("%g cpus are reserved", kept)
	}
}

// TestShortJobsBreakNoNamespace: one of two members ends before the other is bound, so that the gang never holds all that it was
// promised in a session without a bind.
func TestShortJobsBreakNoNamespace(t *testing.T) {
	w := newPromisingWorld()
	w.setIdle(8)
	for i := range 30 {
		name, at := fmt.Sprint("g", i), time.Duration(i)*10*time.Second
		w.admitted(name, at)
		w.addPods(name, 2, "4")
		w.session(at + time.Second)
		for n, status := range []api.TaskStatus{api.Binding, api.Succeeded} {
			first := true
			for _, task := range w.jobs[api.JobID(name)].Tasks {
				if n == 0 || first {
					if err := w.jobs[api.JobID(name)].UpdateTaskStatus(task, status); err != nil {
						t.Fatal(err)
					}
				}
				first = false
			}
			w.session(at + time.Duration(n+2)*time.Second)
		}
		delete(w.jobs, api.JobID(name))
		w.session(at + 9*time.Second)
	}
	if w.p.broken("ns") {
		t.Errorf("the namespace gets no more promises: %v", w.p.lapsed)
	}
}

// TestAPauseOfTheSchedulerEndsNoPromise: no session could place the gang meanwhile.
func TestAPauseOfTheSchedulerEndsNoPromise(t *testing.T) {
	w := newPromisingWorld()
	w.setIdle(8)
	w.admitted("g", 0)
	w.addPods("g", 2, "4")
	got := []float64{w.kept("g", time.Second), w.kept("g", 2*time.Second), w.kept("g", time.Hour), w.kept("g", time.Hour+time.Second)}
	if diff := cmp.Diff([]float64{8, 8, 8, 8}, got); diff != "" {
		t.Errorf("reserved cpus (-want +got):\n%s", diff)
	}
}

// TestAPromiseFollowsTheAdmission: a gang that is sent back, moved and admitted again has a promise in its new queue, of the new amount.
func TestAPromiseFollowsTheAdmission(t *testing.T) {
	w := newPromisingWorld()
	w.admitted("g", 0)
	job := w.jobs["g"]
	job.Queue, w.asks = "other", "4"
	job.PodGroup.Spec.MinResources = &v1.ResourceList{v1.ResourceCPU: resource.MustParse(w.asks)}
	w.p.recordAdmitted(w.asSession(), job, w.start.Add(time.Second))
	if w.asks = "8"; w.kept("g", 2*time.Second) != 4 {
		t.Errorf("%g cpus are reserved, want 4", job.GetMinResources().MilliCPU/1000)
	}
}
