// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// kindsSnapshot returns a snapshot with nodes with devices, a queue with resources that no node has, and a gang that
// names the given number of unknown resources.
func kindsSnapshot(named int) *api.ClusterInfo {
	snapshot := &api.ClusterInfo{Jobs: map[api.JobID]*api.JobInfo{}, Nodes: map[string]*api.NodeInfo{}, Queues: map[api.QueueID]*api.QueueInfo{}}
	snapshot.Nodes["n"] = api.NewNodeInfo(schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "8", "nvidia.com/gpu": "8"}).Obj())
	broken := schedtest.MakeNode().Name("broken").Capacity(schedtest.Resources{"cpu": "8", "example.com/broken": "8"}).Obj()
	delete(broken.Status.Allocatable, "example.com/broken")
	ours := schedtest.MakeNode().Name("ours").Capacity(schedtest.Resources{"cpu": "8", "example.com/ours": "8"}).Obj()
	delete(ours.Status.Capacity, "example.com/ours")
	snapshot.Nodes["broken"], snapshot.Nodes["ours"] = api.NewNodeInfo(broken), api.NewNodeInfo(ours)
	queue := &scheduling.Queue{}
	queue.Spec.Capability = v1.ResourceList{"example.com/to-come": resource.MustParse("8")}
	queue.Spec.Deserved = v1.ResourceList{"example.com/deserved": resource.MustParse("8")}
	queue.Spec.Guarantee.Resource = v1.ResourceList{"example.com/guaranteed": resource.MustParse("8")}
	snapshot.Queues["q"] = api.NewQueueInfo(queue)
	var names []string
	for i := range named {
		names = append(names, fmt.Sprintf("example.com/k-%03d", i))
	}
	askFor(snapshot, "old", time.Unix(1, 0), names...)
	return snapshot
}

// askFor adds a gang whose PodGroup requests one of each resource, and whose pod requests one of the last.
func askFor(snapshot *api.ClusterInfo, name string, created time.Time, kinds ...string) *api.JobInfo {
	list := v1.ResourceList{}
	for _, kind := range kinds {
		list[v1.ResourceName(kind)] = resource.MustParse("1")
	}
	pg := &api.PodGroup{}
	pg.Name, pg.Namespace, pg.CreationTimestamp = name, "ns", metav1.NewTime(created)
	pg.Spec.MinResources = &list
	job := api.NewJobInfo(api.JobID(name), api.NewTaskInfo(schedtest.MakePod().Name(name).Req(schedtest.Resources{"cpu": "1", kinds[len(kinds)-1]: "1"}).Obj()))
	job.SetPodGroup(pg)
	snapshot.Jobs[job.UID] = job
	return job
}

// TestUnknownResourcesAreLimitedInTotal checks that unknown resources are limited in total. Requests for resources
// that exist, or may exist later, quarantine no gang. Beyond the limit, the youngest gangs are reported.
func TestUnknownResourcesAreLimitedInTotal(t *testing.T) {
	tests := map[string]struct {
		named int
		asks  []string
		want  []api.JobID
	}{
		"up to the bound":                             {named: mostUnknown - 1, asks: []string{"example.com/other"}},
		"one beyond":                                  {named: mostUnknown, asks: []string{"example.com/other"}, want: []api.JobID{"young"}},
		"beyond, what others ask for too":             {named: mostUnknown, asks: []string{"example.com/k-007"}},
		"beyond, what a node has":                     {named: mostUnknown, asks: []string{"nvidia.com/gpu"}},
		"beyond, what a queue may have":               {named: mostUnknown, asks: []string{"example.com/to-come"}},
		"beyond, what each node has":                  {named: mostUnknown, asks: []string{"cpu", "memory", "pods"}},
		"beyond, what nodes have in part":             {named: mostUnknown, asks: []string{"example.com/broken", "example.com/ours"}},
		"beyond, what a queue deserves":               {named: mostUnknown, asks: []string{"example.com/deserved"}},
		"beyond, what a queue is guaranteed":          {named: mostUnknown, asks: []string{"example.com/guaranteed"}},
		"beyond, what a node has and what it has not": {named: mostUnknown, asks: []string{"example.com/other", "nvidia.com/gpu"}, want: []api.JobID{"young"}},
		"the old one alone asks for more":             {named: mostUnknown + 1, asks: []string{"example.com/other"}, want: []api.JobID{"old"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			snapshot := kindsSnapshot(tt.named)
			askFor(snapshot, "young", time.Unix(2, 0), tt.asks...)
			beyond := beyondKinds(snapshot, nil)
			if diff := cmp.Diff(tt.want, slices.Collect(maps.Keys(beyond))); diff != "" {
				t.Errorf("gangs beyond (-want +got):\n%s", diff)
			}
			for _, message := range beyond {
				if !strings.HasPrefix(message, `requests resource "example.com/`) || !strings.Contains(message, "limit of 100 unknown resource names") {
					t.Errorf("the message is %q", message)
				}
			}
		})
	}
}

// TestUnknownResourcesOfPodsAreLimited checks that unknown resources that only a pod requests count, too.
func TestUnknownResourcesOfPodsAreLimited(t *testing.T) {
	snapshot := kindsSnapshot(mostUnknown)
	young := askFor(snapshot, "young", time.Unix(2, 0), "example.com/k-007", "example.com/other")
	young.PodGroup.Spec.MinResources = nil
	if diff := cmp.Diff([]api.JobID{"young"}, slices.Collect(maps.Keys(beyondKinds(snapshot, nil)))); diff != "" {
		t.Errorf("gangs beyond the limit (-want +got):\n%s", diff)
	}
}

// TestOrdinaryGangsTakeNoTurn checks that a gang without unknown resources does not use up a turn of its namespace.
func TestOrdinaryGangsTakeNoTurn(t *testing.T) {
	snapshot := kindsSnapshot(1)
	delete(snapshot.Jobs, "old")
	for i, gang := range []struct {
		namespace, name string
		unknown         int
	}{{"a", "ordinary", 0}, {"a", "asks", 41}, {"b", "first", 60}, {"b", "second", 40}} {
		kinds := []string{"nvidia.com/gpu"}
		for k := range gang.unknown {
			kinds = append(kinds, fmt.Sprintf("example.com/%s-%d", gang.name, k))
		}
		askFor(snapshot, gang.name, time.Unix(int64(i), 0), kinds...).Namespace = gang.namespace
	}
	if diff := cmp.Diff([]api.JobID{"first"}, slices.Collect(maps.Keys(beyondKinds(snapshot, nil)))); diff != "" {
		t.Errorf("gangs beyond the limit (-want +got):\n%s", diff)
	}
}

// TestQuarantinedGangHoldsOnlyKnownResources checks a gang that is quarantined because it names too many unknown
// resources. The known resources that it holds still count in its queue's sums. Unknown resources do not count.
func TestQuarantinedGangHoldsOnlyKnownResources(t *testing.T) {
	snapshot := kindsSnapshot(mostUnknown)
	job := askFor(snapshot, "young", time.Unix(2, 0), "example.com/other")
	runs := api.NewTaskInfo(schedtest.MakePod().Name("runs").Req(schedtest.Resources{"cpu": "2", "nvidia.com/gpu": "4", "example.com/mine": "1"}).Node("n").Phase(v1.PodRunning).Obj())
	job.AddTaskInfo(runs)
	shared := runs.Resreq
	a := New()
	a.wrong = checkObjects(snapshot, nil)
	a.wrong["ns/left-out"] = Verdict{Reason: ObjectTooLarge}

	a.CapMinResources(snapshot)

	if snapshot.Jobs["young"] != job || a.wrong["young"].Reason != ObjectTooLarge {
		t.Fatalf("it is not quarantined, or left out: %v", a.wrong)
	}
	if shared.ScalarResources["example.com/mine"] != 1000 {
		t.Error("the request of the running pod has changed in the cache, too")
	}
	for what, names := range map[string]*api.Resource{"what it holds": job.Allocated, "its minResources": job.GetMinResources(), "all it asks for": job.TotalRequest} {
		if what == "what it holds" && names.MilliCPU != 2000 || names.MilliCPU < 2000 || names.ScalarResources["nvidia.com/gpu"] != 4000 {
			t.Errorf("%s is %s, and it holds 2 cpu and 4 nvidia.com/gpu", what, names)
		}
		for kind := range names.ScalarResources {
			if strings.HasPrefix(string(kind), "example.com/") {
				t.Errorf("%s has %s, which there is not", what, kind)
			}
		}
	}
}

// TestOnlyGangsThatAreTooLargeCountByWhatTheyHold checks that CapMinResources sets minResources to the held resources
// only for gangs that are too large, not for gangs with invalid amounts.
func TestOnlyGangsThatAreTooLargeCountByWhatTheyHold(t *testing.T) {
	for reason, want := range map[string]string{InvalidResources: "1", ObjectTooLarge: "0"} {
		snapshot := kindsSnapshot(1)
		a := New()
		a.wrong["old"] = Verdict{Reason: reason}
		a.CapMinResources(snapshot)
		list := *snapshot.Jobs["old"].PodGroup.Spec.MinResources
		if got := list["example.com/k-000"]; got.String() != want {
			t.Errorf("a gang with %s, which holds nothing, asks for %s of the kind that it names, want %s", reason, got.String(), want)
		}
	}
}

// TestTheYoungestGangsAreBeyondAllKinds checks that the youngest gangs exceed the limit of unknown resources. Among
// equally old gangs, the last one by name does. Gangs that are too large do not count.
func TestTheYoungestGangsAreBeyondAllKinds(t *testing.T) {
	for range 5 { // The order of gangs is random.
		snapshot := kindsSnapshot(1)
		for i, age := range []int64{4, 2, 3, 2, 2, 5} {
			var names []string
			for k := range 40 {
				names = append(names, fmt.Sprintf("example.com/gang-%d-kind-%02d", i, k))
			}
			askFor(snapshot, fmt.Sprintf("g%d", i), time.Unix(age, 0), names...)
		}
		beyond := slices.Sorted(maps.Keys(beyondKinds(snapshot, map[api.JobID]Verdict{"g1": {Reason: ObjectTooLarge}, "g3": {Reason: InvalidResources}})))
		if diff := cmp.Diff([]api.JobID{"g0", "g2", "g5"}, beyond); diff != "" {
			t.Errorf("gangs beyond (-want +got):\n%s", diff)
		}
	}
}

// TestANamespaceLeavesKindsToOthers checks that the gangs of one namespace cannot use up the limit of unknown resources
// for other namespaces: neither one old gang that names as many as the limit allows, nor many gangs together.
func TestANamespaceLeavesKindsToOthers(t *testing.T) {
	asking := func(namespace, name string, age, from, to int) *api.JobInfo {
		amounts := v1.ResourceList{}
		for i := from; i < to; i++ {
			amounts[v1.ResourceName(fmt.Sprintf("%s.example/%d", namespace, i))] = resource.MustParse("1")
		}
		group := &api.PodGroup{}
		group.Namespace, group.Name, group.CreationTimestamp = namespace, name, metav1.NewTime(schedtest.Created.Add(-time.Duration(age)*time.Hour))
		group.Spec.MinResources = &amounts
		job := api.NewJobInfo(api.JobID(namespace + "/" + name))
		job.SetPodGroup(group)
		return job
	}
	tests := map[string]struct{ greedy []*api.JobInfo }{
		"one gang":    {greedy: []*api.JobInfo{asking("greedy", "a", 9, 0, mostUnknown)}},
		"a gang each": {},
	}
	for i := range mostUnknown {
		each := tests["a gang each"]
		each.greedy = append(each.greedy, asking("greedy", fmt.Sprint("a", i), 9, i, i+1))
		tests["a gang each"] = each
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			snapshot := &api.ClusterInfo{Jobs: map[api.JobID]*api.JobInfo{}}
			for _, job := range append(tt.greedy, asking("modest", "gpus", 1, 0, 1)) {
				snapshot.Jobs[job.UID] = job
			}
			beyond := beyondKinds(snapshot, nil)
			if why := beyond["modest/gpus"]; why != "" || len(beyond) == 0 {
				t.Errorf("%d gangs are left out, and the only one of its namespace: %q", len(beyond), why)
			}
		})
	}
}
