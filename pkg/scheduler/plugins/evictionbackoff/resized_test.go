// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	evictions "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestANomineeThatGrewWaitsItsTurn: a gang of priority 10 evicts a pod of 1 cpu from its own queue. Then the member for
// which the pod was evicted changes, for example to a larger size or to all devices of a node. Another pod ends and
// frees 7 cpus, for which a gang of priority 1000 waits. The larger member is not placed first.
func TestANomineeThatGrewWaitsItsTurn(t *testing.T) {
	tests := map[string]struct {
		change func(nominee *v1.Pod)
		first  bool
	}{
		"unchanged":         {func(*v1.Pod) {}, true},
		"smaller":           {func(pod *v1.Pod) { request(pod, "cpu", "500m") }, true},
		"larger":            {func(pod *v1.Pod) { request(pod, "cpu", "7") }, false},
		"of more resources": {func(pod *v1.Pod) { request(pod, "memory", "1Gi") }, false},
		"with another hint": {func(pod *v1.Pod) {
			pod.Annotations[v1alpha1.DeviceAllocateHintAnnotation] = `{"rdma":{"allocateStrategy":"ApplyForAll"}}`
		}, false},
		"with another annotation": {func(pod *v1.Pod) { pod.Annotations["note"] = "changed" }, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster, scheduler, nominee, big := withNominee(t)
			changed := nominee.DeepCopy()
			changed.Annotations = maps.Clone(nominee.Annotations)
			tt.change(changed)
			cluster.Cache().UpdatePod(nominee, changed)
			cluster.Cache().DeletePod(big)
			cluster.AddPod(schedtest.MakePod().Name("high-0").Group("high").Priority(1000).Req(schedtest.Resources{"cpu": "7"}).Obj())
			ssn := scheduler.Open()
			defer ssn.Close()
			if got := ssn.Placements.IsPlacedFirst(ssn.Jobs["ns/gang"]); got != tt.first {
				t.Errorf("the gang is placed first: %t, want %t", got, tt.first)
			}
			placing, _ := vcframework.GetAction("allocate")
			ssn.Run(placing)
			if binds := ssn.Binds(); !tt.first && binds["ns/high-0"] != "n1" {
				t.Errorf("binds %v, want high-0: 1 cpu was evicted for gang-0, which asks for more now", binds)
			}
		})
	}
}

func request(pod *v1.Pod, name v1.ResourceName, amount string) {
	requests := pod.Spec.Containers[0].Resources.Requests.DeepCopy()
	requests[name] = resource.MustParse(amount)
	pod.Spec.Containers[0].Resources.Requests = requests
}

// withNominee returns a cluster whose node of 9 cpus runs pod big of 7 cpus and two pods of 1 cpu. A gang has just
// evicted one of the two small pods, which is terminating, for its member of 1 cpu, the nominee.
func withNominee(t *testing.T) (cluster *sessiontest.Cluster, scheduler *sessiontest.Scheduler, nominee, big *v1.Pod) {
	t.Helper()
	var w sessiontest.ClusterSpec
	w.Nodes = []*v1.Node{schedtest.MakeNode().Name("n1").Capacity(schedtest.Resources{"cpu": "9", "memory": "8Gi", "pods": "20"}).Obj()}
	w.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("another").Obj()}
	w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass("p1", 1), schedtest.PriorityClass("p10", 10), schedtest.PriorityClass("p1000", 1000))
	w.PodGroups = append(w.PodGroups,
		schedtest.MakePodGroup().Name("old").MinMember(1).PriorityClass("p1").Phase(v1beta1.PodGroupInqueue).Obj(),
		schedtest.MakePodGroup().Name("gang").MinMember(1).PriorityClass("p10").Phase(v1beta1.PodGroupInqueue).Obj(),
		schedtest.MakePodGroup().Name("high").MinMember(1).Queue("another").PriorityClass("p1000").Phase(v1beta1.PodGroupInqueue).Obj())
	old := func(name string) *v1.Pod {
		return schedtest.MakePod().Name(name).Group("old").Priority(1).Label(v1beta1.PodPreemptable, "true").Req(schedtest.Resources{"cpu": "1"}).Node("n1").Phase(v1.PodRunning).Obj()
	}
	victims := []*v1.Pod{old("old-0"), old("old-1")}
	big = schedtest.MakePod().Name("big").Scheduler("other").Node("n1").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "7"}).Obj()
	nominee = schedtest.MakePod().Name("gang-0").Group("gang").Priority(10).Req(schedtest.Resources{"cpu": "1"}).Obj()
	w.Pods = append(w.Pods, victims[0], victims[1], big, nominee)
	cluster = sessiontest.New(w)
	t.Cleanup(cluster.Close)
	registry := framework.NewRegistry()
	registry.RegisterPlugin(Spec())
	actions := registered(registry, allocate.New(), evictions.New(nil))
	scheduler = cluster.Scheduler(registry, "actions: allocate, preempt\ntiers:\n- plugins:\n  - name: evictionbackoff\n"+
		"- plugins:\n  - name: priority\n  - name: gang\n  - name: conformance\n- plugins:\n  - name: predicates\n")
	t.Cleanup(scheduler.Close)
	ssn := scheduler.Open()
	ssn.Run(actions...)
	evicts := ssn.Evicts()
	ssn.Close()
	if len(evicts) != 1 {
		t.Fatalf("evicted %v, want one pod", evicts)
	}
	for _, pod := range victims {
		if "ns/"+pod.Name == evicts[0] {
			leaving := pod.DeepCopy()
			leaving.DeletionTimestamp = &schedtest.Created
			cluster.Cache().UpdatePod(pod, leaving)
		}
	}
	return cluster, scheduler, nominee, big
}

func idsOf(nominees map[api.TaskID]nominee) map[api.TaskID]bool {
	ids := map[api.TaskID]bool{}
	for uid := range nominees {
		ids[uid] = true
	}
	return ids
}

// TestPromisedNominees checks that promised returns the pending nominees of the gang and its group that request no more
// than when pods were evicted for them.
func TestPromisedNominees(t *testing.T) {
	gang, partner := jobOf("ns", "gang", api.Pending, api.Running, api.Pending), jobOf("ns", "partner", api.Pending, api.Pending)
	c := newClaim()
	for _, job := range []*api.JobInfo{gang, partner, jobOf("ns", "deleted", api.Pending)} {
		for uid, task := range job.Tasks {
			c.nominees[uid] = nomineeOf(task)
		}
	}
	gang.Tasks["gang0"].InitResreq.MilliCPU++
	partner.Tasks["partner1"].InitResreq.Memory++
	ssn := bare("")
	ssn.Jobs[gang.UID], ssn.Jobs[partner.UID] = gang, partner
	if diff := cmp.Diff(map[api.TaskID]bool{"gang2": true, "partner0": true}, c.promised(ssn)); diff != "" {
		t.Errorf("promised (-want +got):\n%s", diff)
	}
}
