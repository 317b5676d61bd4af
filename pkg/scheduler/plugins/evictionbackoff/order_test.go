// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcpreempt "volcano.sh/volcano/pkg/scheduler/actions/preempt"
	vcreclaim "volcano.sh/volcano/pkg/scheduler/actions/reclaim"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// helper is a plugin that a test defines.
type helper sessiontest.Plugin

func (h helper) spec() framework.PluginSpec {
	return framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		h.Called = "helper"
		return (*sessiontest.Plugin)(&h), nil
	})}
}

// TestEachMemberTakesTheLeast checks the choice of victims for the first member and for further members.
func TestEachMemberTakesTheLeast(t *testing.T) {
	w := evicting(map[string]string{"n1": "9", "n2": "9"}, []runs{
		{"n1", "a", 30, "4"}, {"n1", "b", 20, "4"}, {"n1", "c", 10, "1"}, {"n2", "d", 30, "4"}, {"n2", "e", 20, "4"}, {"n2", "f", 10, "1"},
	}, 100, []wants{{"n1", "4"}, {"n2", "4"}})
	gone, _ := evicted(t, w, victimTiers)
	if diff := cmp.Diff(map[string][]int32{"n1": {20}, "n2": {20}}, gone); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
}

// TestPodsThatPreemptDoesNotTakeCostNothing checks that a node is not preferred because of a large pod of low priority
// that preempt may not evict.
func TestPodsThatPreemptDoesNotTakeCostNothing(t *testing.T) {
	for name, change := range map[string]func(*sessiontest.ClusterSpec){
		"a pod of another queue": func(w *sessiontest.ClusterSpec) {
			w.Queues = append(w.Queues, schedtest.MakeQueue().Name("other").Obj())
			i := slices.IndexFunc(w.PodGroups, func(pg *v1beta1.PodGroup) bool { return pg.Name == "large" })
			// Upstream handles only one queue.
			w.PodGroups[i].Spec.Queue, w.PodGroups[i].Status.Phase = "other", v1beta1.PodGroupPending
		},
		"a pod that is not preemptable": func(w *sessiontest.ClusterSpec) { w.Pods[2].Annotations[v1beta1.PodPreemptable] = "false" },
	} {
		t.Run(name, func(t *testing.T) {
			w := evicting(map[string]string{"n1": "4", "n2": "2"},
				[]runs{{"n1", "a", 10, "1"}, {"n1", "b", 10, "1"}, {"n1", "large", 5, "2"}, {"n2", "c", 20, "2"}}, 100, []wants{{"", "2"}})
			change(&w)
			gone, _ := evicted(t, w, victimTiers)
			if diff := cmp.Diff(map[string][]int32{"n2": {20}}, gone); diff != "" {
				t.Errorf("evicted (-want +got):\n%s", diff)
			}
		})
	}
}

// TestReclaimTakesTheLeastForAQueueThatIsFull checks that reclaim evicts only as many pods as the node needs, even if
// the preemptor's queue is full, because upstream's reclaim does not check whether the queue admits the task.
func TestReclaimTakesTheLeastForAQueueThatIsFull(t *testing.T) {
	w := evicting(map[string]string{"n1": "9"}, []runs{{"n1", "a", 30, "4"}, {"n1", "b", 20, "4"}, {"n1", "c", 10, "1"}}, 100, []wants{{"", "4"}})
	w.Queues = append(w.Queues, schedtest.MakeQueue().Name("wants").Obj())
	for _, pg := range w.PodGroups {
		if pg.Name == "gang" {
			pg.Spec.Queue = "wants"
		}
	}
	cluster := sessiontest.New(w)
	defer cluster.Close()
	registry := framework.NewRegistry()
	registry.RegisterPlugin(Spec())
	registry.RegisterPlugin(helper{Open: func(ssn *framework.Session) {
		ssn.AddAllocatableFn("helper", func(queue *api.QueueInfo, _ *api.TaskInfo) bool { return queue.Name != "wants" })
	}}.spec())
	ssn := cluster.Open(registry, strings.Replace(victimTiers, "- name: nodeorder", "- name: nodeorder\n  - name: helper", 1))
	defer ssn.Close()
	ssn.Run(vcreclaim.New())
	if diff := cmp.Diff([]string{schedtest.Namespace + "/b-1"}, ssn.Evicts()); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
}

// TestAWithdrawnGangKeepsItsClaim: evictions for a part of a group were withdrawn, but a pod that was evicted for the
// gang before is still terminating. Another gang of the group, which fits idle resources, has no claim.
func TestAWithdrawnGangKeepsItsClaim(t *testing.T) {
	running := []runs{{"n1", "low", 10, "1"}, {"n1", "low", 10, "1"}, {"n2", "high", 200, "1"}}
	w := evicting(map[string]string{"n1": "2", "n2": "1", "n3": "1"}, running, 100, []wants{{"n1", "1"}, {"n1", "1"}})
	for gang, node := range map[string]string{"y": "n2", "fits": "n3"} {
		w.Pods = append(w.Pods, schedtest.MakePod().Name(gang+"-0").Group(gang).Priority(100).Req(schedtest.Resources{"cpu": "1"}).NodeSelector("name", node).Obj())
		w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name(gang).MinMember(1).PriorityClass("p100").Obj())
	}
	s := newRepeatedEvictions(t, w, strings.Replace(victimTiers, "- name: nodeorder", "- name: nodeorder\n  - name: helper", 1))
	gangGroup := &binding.GangGroup{ID: "both", Gangs: []binding.GangTerms{{Gang: "ns/gang"}, {Gang: "ns/y"}, {Gang: "ns/fits"}}}
	s.registry.RegisterPlugin(helper{Part: sessiontest.GangGroupFn(func(job *api.JobInfo) *binding.GangGroup {
		if job.Name == "gang" || job.Name == "y" || job.Name == "fits" {
			return gangGroup
		}
		return nil
	})}.spec())
	ssn := s.cluster.Open(s.registry, s.conf)
	before := newClaim()
	before.victims["leaves"] = "ns/leaves"
	s.plugin.claims["ns/gang"] = before
	ssn.Run(vcpreempt.New())
	ssn.Close()
	got := s.plugin.claims["ns/gang"]
	if len(ssn.Evicts()) > 0 || got == nil || len(got.nominees) == 0 {
		t.Fatalf("evicted %v with claim %v, want no eviction for a part of the group, and the former claim", ssn.Evicts(), got)
	}
	if diff := cmp.Diff(map[api.TaskID]bool{"ns-gang-0": true, "ns-gang-1": true}, idsOf(got.nominees)); diff != "" {
		t.Errorf("nominees of the claim (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[api.TaskID]api.JobID{"leaves": "ns/leaves"}, got.victims); diff != "" {
		t.Errorf("victims of the claim (-want +got):\n%s", diff)
	}
	if len(s.plugin.claims) != 1 {
		t.Errorf("the claims are %v, want only the claim of the gang for which pods were evicted", s.plugin.claims)
	}
}

// TestNodesOnWhichNothingHelpsComeLast: upstream tries nodes in the order of their scores. Nodes come last if all their
// pods have at least the gang's priority, or if only terminating pods have a lower one.
func TestNodesOnWhichNothingHelpsComeLast(t *testing.T) {
	w := evicting(map[string]string{"n1": "2", "n2": "2", "n3": "2", "n4": "2"}, []runs{
		{"n1", "high", 200, "2"}, {"n2", "low", 10, "1"}, {"n2", "low", 10, "1"}, {"n3", "equal", 100, "2"}, {"n4", "high", 200, "1"}, {"n4", "low", 10, "1"},
	}, 100, []wants{{"", "2"}})
	w.Pods[5].DeletionTimestamp = &schedtest.Created
	cluster := sessiontest.New(w)
	defer cluster.Close()
	registry := framework.NewRegistry()
	registry.RegisterPlugin(Spec())
	ssn := cluster.Open(registry, victimTiers)
	defer ssn.Close()
	ssn.Action = preempt
	for _, preemptor := range ssn.Jobs["ns/gang"].Tasks {
		scores, err := (&victims{ssn: ssn.Session}).order(preemptor, ssn.NodeList)
		if diff := cmp.Diff(map[string]float64{"n1": -perRank, "n2": 0, "n3": -perRank, "n4": -perRank}, scores); err != nil || diff != "" {
			t.Errorf("scores (-want +got), %v:\n%s", err, diff)
		}
	}
}
