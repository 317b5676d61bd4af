// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// lossCluster is a cluster in which gang g loses members.
type lossCluster struct {
	*fakeCache
	pods    map[string]*v1.Pod
	uid     types.UID
	minimum int32
	version int
}

func newLossCluster(t *testing.T, minimum int32) *lossCluster {
	w := &lossCluster{fakeCache: newCache(t), pods: map[string]*v1.Pod{}, uid: "first"}
	w.needs(minimum)
	w.session = sessions(t, w.fakeCache, 0)
	return w
}

// needs writes the PodGroup with this minMember.
func (w *lossCluster) needs(minimum int32) {
	w.version++
	w.minimum = minimum
	pg := schedtest.MakePodGroup().Name("g").Queue("a").MinMember(minimum).Obj()
	pg.UID, pg.ResourceVersion = w.uid, fmt.Sprint(w.version)
	w.AddPodGroupV1beta1(pg)
}

// newPodGroup deletes and recreates the PodGroup. If session is true, a session runs in between.
func (w *lossCluster) newPodGroup(session bool) {
	w.DeletePodGroupV1beta1(schedtest.MakePodGroup().Name("g").Obj())
	if session {
		w.session(nil)
	}
	w.uid += "+"
	w.needs(w.minimum)
}

func ofCPU(amount string) schedtest.Resources { return schedtest.Resources{"cpu": amount} }

func loser(n string, request schedtest.Resources) *schedtest.PodBuilder {
	return schedtest.MakePod().Name("g-" + n).Group("g").Req(request)
}

// runs adds a member that the scheduler bound one minute after the gang's pods were created.
func (w *lossCluster) runs(n string, request schedtest.Resources) {
	pod := loser(n, request).Node("n").Phase(v1.PodRunning).Annotation(binding.MinimumAnnotation, "2").Obj()
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(schedtest.Created.Add(time.Minute))}}
	w.add(pod)
}

func (w *lossCluster) add(pod *v1.Pod) {
	w.pods[pod.Name] = pod
	w.AddPod(pod)
}

func (w *lossCluster) waits(n string, request schedtest.Resources) { w.add(loser(n, request).Obj()) }

func (w *lossCluster) change(n string, change func(pod *v1.Pod)) {
	pod := w.pods["g-"+n].DeepCopy()
	change(pod)
	w.UpdatePod(w.pods["g-"+n], pod)
	w.pods["g-"+n] = pod
}

func (w *lossCluster) remove(n string) { w.DeletePod(w.pods["g-"+n]) }

// loses deletes a member and creates its replacement.
func (w *lossCluster) loses(n string, replacement *schedtest.PodBuilder) {
	w.session(nil)
	w.remove(n)
	w.add(replacement.Obj())
}

func (w *lossCluster) evict(n string) {
	w.session(func(ssn *framework.Session) {
		ssn.Action = "preempt"
		if err := ssn.Evict(ssn.Jobs["ns/g"].Tasks[api.TaskID("ns-g-"+n)], "another gang needs the room"); err != nil {
			w.t.Error(err)
		}
	})
}

func (w *lossCluster) first() (first bool) {
	w.session(func(ssn *framework.Session) { first = ssn.Placements.IsPlacedFirst(ssn.Jobs["ns/g"]) })
	return first
}

// TestLossesAreReplacedFirst checks that a gang is placed first only if its pending members request no more than the
// gang has lost. Changes to its PodGroup and pods make no difference.
func TestLossesAreReplacedFirst(t *testing.T) {
	gpus := schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "1"}
	for name, tt := range map[string]struct {
		minimum int32
		do      func(w *lossCluster)
		want    bool
	}{
		"as much":            {2, func(w *lossCluster) { w.loses("1", loser("2", ofCPU("1"))) }, true},
		"less":               {2, func(w *lossCluster) { w.loses("1", loser("2", ofCPU("10m"))) }, true},
		"more cpu":           {2, func(w *lossCluster) { w.loses("1", loser("2", ofCPU("7"))) }, false},
		"a device as well":   {2, func(w *lossCluster) { w.loses("1", loser("2", gpus)) }, false},
		"a device as before": {2, func(w *lossCluster) { w.remove("1"); w.runs("1", gpus); w.loses("1", loser("2", gpus)) }, true},
		"a device of another form": {2, func(w *lossCluster) {
			w.remove("1")
			w.runs("1", gpus)
			w.loses("1", loser("2", schedtest.Resources{"koordinator.sh/gpu": "100"}))
		}, false},
		"a device that requests leave out": {2, func(w *lossCluster) {
			ignored := api.IgnoredDevicesList.List()
			api.IgnoredDevicesList.Append("example.com/part")
			w.t.Cleanup(func() { api.IgnoredDevicesList.Set(ignored) })
			w.loses("1", loser("2", nil).Limit(schedtest.Resources{"cpu": "1", "example.com/part": "1"}))
		}, false},
		"a resource claim": {2, func(w *lossCluster) { w.loses("1", loser("2", ofCPU("1")).MadeClaim("gpus")) }, false},
		"a hint about devices": {2, func(w *lossCluster) {
			w.loses("1", loser("2", ofCPU("1")).Annotation(v1alpha1.DeviceAllocateHintAnnotation, "{}"))
		}, false},
		"one of two is larger": {2, func(w *lossCluster) { w.waits("3", ofCPU("7")); w.loses("1", loser("2", ofCPU("1"))) }, false},
		"more than are needed": {2, func(w *lossCluster) { w.waits("3", ofCPU("1")); w.loses("1", loser("2", ofCPU("1"))) }, true},
		"a larger one has a scheduling gate": {2, func(w *lossCluster) {
			w.add(loser("3", ofCPU("7")).Gate("later").Obj())
			w.loses("1", loser("2", ofCPU("1")))
		}, true},
		"as much together": {2, func(w *lossCluster) {
			w.session(nil)
			w.remove("0")
			w.loses("1", loser("2", ofCPU("1500m")))
			w.waits("3", ofCPU("500m"))
			w.runs("4", ofCPU("10m")) // another member is bound
			w.needs(3)
			w.change("4", func(pod *v1.Pod) { pod.Annotations[binding.MinimumAnnotation] = "3" })
		}, true},
		"its owner deletes all but one, and needs fewer": {3, func(w *lossCluster) {
			w.runs("2", ofCPU("1"))
			w.session(nil)
			w.remove("0")
			w.remove("1")
			w.needs(2)
			w.waits("3", ofCPU("3"))
		}, false},
		"evicted": {2, func(w *lossCluster) { w.evict("1"); w.remove("1"); w.session(nil); w.waits("2", ofCPU("1")) }, false},
		"evicted, and for a session the gang needs only one": {2, func(w *lossCluster) {
			w.evict("1")
			w.remove("1")
			w.waits("2", ofCPU("1"))
			w.session(nil)
			w.needs(1)
			w.session(nil)
			w.needs(2)
		}, false},
		"evicted, with a spare pod and a new PodGroup":                    {2, func(w *lossCluster) { w.takenWithSpare(false) }, false},
		"evicted, with a spare pod, a new PodGroup and a session without": {2, func(w *lossCluster) { w.takenWithSpare(true) }, false},
		"a loss, and a new PodGroup":                                      {2, func(w *lossCluster) { w.loses("1", loser("2", ofCPU("1"))); w.newPodGroup(false) }, true},
		"a loss, and a new PodGroup after a session without":              {2, func(w *lossCluster) { w.loses("1", loser("2", ofCPU("1"))); w.newPodGroup(true) }, true},
		"a member is deleted, and another one is then evicted": {3, func(w *lossCluster) {
			w.runs("2", ofCPU("1"))
			w.change("2", func(pod *v1.Pod) { pod.Annotations[binding.MinimumAnnotation] = "3" })
			w.loses("1", loser("3", ofCPU("1")))
			w.evict("0")
			w.remove("0")
			w.waits("4", ofCPU("1"))
		}, false},
		"a member that is being deleted holds its node": {2, func(w *lossCluster) {
			w.session(nil)
			w.change("1", func(pod *v1.Pod) { pod.DeletionTimestamp = &schedtest.Created })
			w.waits("2", ofCPU("1"))
		}, false},
		"a member that is being deleted, on a node that is not ready": {2, func(w *lossCluster) {
			w.session(nil)
			w.change("1", func(pod *v1.Pod) { pod.DeletionTimestamp = &schedtest.Created })
			node := schedtest.MakeNode().Name("n").Obj()
			node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionUnknown}}
			if err := w.AddOrUpdateNode(node); err != nil {
				w.t.Fatal(err)
			}
			w.waits("2", ofCPU("1"))
		}, true},
		"a member that now is of another gang": {2, func(w *lossCluster) {
			w.session(nil)
			w.change("1", func(pod *v1.Pod) { pod.Annotations["scheduling.k8s.io/group-name"] = "whole" })
			w.waits("2", ofCPU("1"))
		}, false},
		"a pod that was created with its node": {2, func(w *lossCluster) {
			w.add(loser("2", ofCPU("7")).Node("n").Obj())
			w.session(nil)
			w.remove("2")
			w.remove("1")
			w.waits("3", ofCPU("7"))
		}, false},
		"a pod that was resized to more than its kubelet grants": {2, func(w *lossCluster) {
			w.change("1", func(pod *v1.Pod) {
				pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Resources: &v1.ResourceRequirements{Requests: pod.Spec.Containers[0].Resources.Requests}}}
				pod.Spec.Containers[0].Resources.Requests = loser("", ofCPU("7")).Obj().Spec.Containers[0].Resources.Requests
			})
			w.loses("1", loser("2", ofCPU("7")))
		}, false},
		"a gang that had not been seen whole": {2, func(w *lossCluster) {
			w.remove("0")
			w.remove("1")
			w.session(nil)
			w.runs("3", ofCPU("1"))
			w.waits("4", ofCPU("1"))
		}, false},
		"a larger member was placed in its order, and is lost": {2, func(w *lossCluster) {
			w.loses("1", loser("2", ofCPU("7")))
			w.session(nil)
			w.remove("2")
			w.runs("2", ofCPU("7"))
			w.loses("2", loser("3", ofCPU("7")))
		}, true},
		"the API server rejected its Binding": {2, func(w *lossCluster) { w.rejected("1") }, true},
		"the API server rejected its Binding, and its owner made it larger": {2, func(w *lossCluster) {
			w.rejected("1")
			w.remove("1")
			w.waits("2", ofCPU("7"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLossCluster(t, tt.minimum)
			w.runs("0", ofCPU("1"))
			w.runs("1", ofCPU("1"))
			tt.do(w)
			for range 2 { // the result does not change in the next session
				if got := w.first(); got != tt.want {
					t.Errorf("the gang is placed first: %t, want %t", got, tt.want)
				}
			}
		})
	}
}

// takenWithSpare evicts a member of the gang, which has one pod above its minimum. The owner then recreates the
// PodGroup.
func (w *lossCluster) takenWithSpare(session bool) {
	w.waits("2", ofCPU("1")) // created with the others, before they were bound
	w.evict("1")
	w.remove("1")
	w.session(nil)
	w.newPodGroup(session)
}

// rejected places both members in a session, and then only the other member is bound.
func (w *lossCluster) rejected(n string) {
	w.session(nil) // so that the next session is not the leader's first
	for _, pod := range []string{"0", "1"} {
		w.remove(pod)
		w.waits(pod, ofCPU("1"))
	}
	w.session(func(ssn *framework.Session) {
		job := ssn.Jobs["ns/g"]
		for _, task := range job.Tasks {
			if err := job.UpdateTaskStatus(task, api.Allocated); err != nil {
				w.t.Fatal(err)
			}
		}
	})
	other := map[string]string{"0": "1", "1": "0"}[n]
	w.remove(other)
	w.runs(other, ofCPU("1"))
}
