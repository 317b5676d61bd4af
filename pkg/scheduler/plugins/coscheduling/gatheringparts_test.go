// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/coscheduling/topologyplan"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// networkWith returns a network with the nodes of tree and these gangs with gather rules.
func networkWith(asking map[api.JobID]*gathered) *network {
	layers, err := layersOf(spines)
	if err != nil {
		panic(err)
	}
	n := &network{
		ssn:    &framework.Session{Session: &vcframework.Session{Jobs: map[api.JobID]*api.JobInfo{}}},
		layers: layers, domains: map[string][]string{}, asking: asking, affinityCounts: map[string]map[string]int{},
	}
	for _, node := range tree() {
		n.domains[node.Name] = domainsOf(layers, node)
		n.ssn.NodeList = append(n.ssn.NodeList, api.NewNodeInfo(node))
	}
	for uid := range asking {
		n.ssn.Jobs[uid] = api.NewJobInfo(uid)
		n.ssn.Jobs[uid].Namespace = "ns"
	}
	return n
}

// memberOn returns a member of the gang on the node. The selector is in an annotation of its pod.
func memberOn(uid api.JobID, index int, status api.TaskStatus, node, selector string) *api.TaskInfo {
	pod := schedtest.MakePod().Name(fmt.Sprintf("p-%d", index)).Obj()
	if selector != "" {
		pod.Annotations = map[string]string{gangs.TopologySelectorAnnotation: selector}
	}
	task := api.NewTaskInfo(pod)
	task.Job, task.Status, task.NodeName = uid, status, node
	return task
}

// TestHomesOfGangs checks that the required domain of a gang is the domain with the largest number of its members on
// nodes. Among domains with equal numbers, it is the first by path. It changes when members are placed or removed.
func TestHomesOfGangs(t *testing.T) {
	type on struct {
		node   string
		status api.TaskStatus
	}
	for name, tt := range map[string]struct {
		must    int
		members []on
		want    string
		domains []string
	}{
		"no members":        {2, nil, "", []string{"Block s1/b1: a1 a2", "Block s1/b2: b1x b2x", "Block s2/b3: c1 c2"}},
		"one":               {2, []on{{"b1x", api.Running}}, "s1/b2", []string{"Block s1/b2: b1x b2x"}},
		"most":              {2, []on{{"a1", api.Running}, {"c1", api.Bound}, {"c2", api.Binding}}, "s2/b3", []string{"Block s2/b3: c1 c2"}},
		"as many":           {2, []on{{"c1", api.Allocated}, {"b1x", api.Pipelined}}, "s1/b2", []string{"Block s1/b2: b1x b2x"}},
		"others hold none":  {2, []on{{"a1", api.Running}, {"c1", api.Releasing}, {"c2", api.Succeeded}, {"c1", api.Pending}}, "s1/b1", []string{"Block s1/b1: a1 a2"}},
		"on unknown nodes":  {2, []on{{"x1", api.Running}, {"x2", api.Running}, {"a1", api.Running}}, "s1/b1", []string{"Block s1/b1: a1 a2"}},
		"of spines":         {1, []on{{"a1", api.Running}, {"b1x", api.Running}, {"c1", api.Running}}, "s1", []string{"Spine s1: a1 a2 b1x b2x"}},
		"of nodes":          {3, []on{{"a1", api.Running}, {"c2", api.Running}, {"c2", api.Running}}, "s2/b3/c2", []string{"NodeTopologyLayer s2/b3/c2: c2"}},
		"nowhere it must":   {0, []on{{"a1", api.Running}}, "", nil},
		"as many, by spine": {2, []on{{"c1", api.Running}, {"a1", api.Running}}, "s1/b1", []string{"Block s1/b1: a1 a2"}},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 { // members have no order
				rules := []topologyplan.Layer{{Name: clusterLayer}, {Name: "Spine"}, {Name: "Block"}, {Name: nodeLayer}}
				a := &gathered{must: tt.must, rules: rules}
				n := networkWith(map[api.JobID]*gathered{"ns/g": a})
				job := n.ssn.Jobs["ns/g"]
				for i, m := range tt.members {
					job.AddTaskInfo(memberOn(job.UID, i, m.status, m.node, ""))
				}
				if got := n.requiredDomain(job, a); got != tt.want {
					t.Fatalf("the required domain is %q, want %q", got, tt.want)
				}
				var domains []string
				for _, d := range n.domainsFor(job) {
					domains = append(domains, d.name+": "+strings.Join(d.nodes, " "))
				}
				if diff := cmp.Diff(tt.domains, domains); diff != "" {
					t.Fatalf("domains that the gang may use (-want +got):\n%s", diff)
				}
				task := memberOn(job.UID, 9, api.Pending, "", "")
				for _, node := range n.ssn.NodeList {
					in := tt.want == "" || domainOf(n.domains[node.Name], node.Name, tt.must) == tt.want
					if err := n.predicate(task, node); (err == nil) != in {
						t.Errorf("node %s: %v, want it rejected: %t", node.Name, err, !in)
					}
				}
				if tt.must == 0 {
					return
				}
				for i := range 5 {
					job.AddTaskInfo(memberOn(job.UID, 10+i, api.Running, "c1", ""))
				}
				if key := n.jobKey(job); key != "ns/g "+tt.want || n.requiredDomain(job, a) != tt.want {
					t.Errorf("before the network learns of the new members, the key is %q and the required domain %q", key, n.requiredDomain(job, a))
				}
				n.changed(task, +1)
				if got, want := n.requiredDomain(job, a), domainOf([]string{"s2", "b3"}, "c1", tt.must); got != want {
					t.Errorf("after members were placed the required domain is %q, want %q", got, want)
				}
			}
		})
	}
}

// TestCompany checks the affinity counts of a gang: for each node, the pods in the gang's namespace that have the
// gang's selector. The selector is that of the gang's first pod that has one. Pods that the session placed count.
func TestCompany(t *testing.T) {
	n := networkWith(map[api.JobID]*gathered{"ns/g": {}, "ns/alone": {}})
	running := func(index int, node, selector, namespace string) *api.TaskInfo {
		task := memberOn("ns/runs", index, api.Running, node, selector)
		task.Namespace = namespace
		for _, info := range n.ssn.NodeList {
			if info.Name == node {
				info.Tasks[api.TaskID(fmt.Sprint(node, index))] = task
			}
		}
		return task
	}
	for i, selector := range []string{"", "b", "a"} {
		n.ssn.Jobs["ns/g"].AddTaskInfo(memberOn("ns/g", i, api.Pending, "", selector))
	}
	if got := selectorOf(n.ssn.Jobs["ns/g"]); got != "ns/b" {
		t.Fatalf("the gang's selector is %q, want that of the first pod that has one", got)
	}
	running(1, "a1", "b", "ns")
	running(2, "a1", "b", "ns")
	running(3, "a1", "a", "ns")
	running(4, "c1", "b", "ns")
	running(5, "c1", "b", "other")
	running(6, "c1", "", "ns")
	running(7, "c2", "ns/b", "")
	wants := func(want map[string]int) {
		t.Helper()
		if diff := cmp.Diff(want, n.affinityCountsOf(n.ssn.Jobs["ns/g"])); diff != "" {
			t.Errorf("affinity counts (-want +got):\n%s", diff)
		}
	}
	wants(map[string]int{"a1": 2, "c1": 1})
	n.changed(memberOn("ns/x", 8, api.Allocated, "c1", "b"), +1)
	n.changed(memberOn("ns/x", 8, api.Allocated, "c1", "a"), +1)
	n.changed(memberOn("ns/x", 9, api.Allocated, "a2", "b"), +1)
	wants(map[string]int{"a1": 2, "c1": 2, "a2": 1})
	n.changed(memberOn("ns/x", 8, api.Allocated, "c1", "b"), -1)
	wants(map[string]int{"a1": 2, "c1": 1, "a2": 1})
	if affinityCounts := n.affinityCountsOf(n.ssn.Jobs["ns/alone"]); affinityCounts != nil || len(n.affinityCounts) != 1 {
		t.Errorf("a gang without a selector has the affinity counts %v, and all counts are %v", affinityCounts, n.affinityCounts)
	}
}

// TestNodesHaveDomainsAndSlots checks that the planner knows the domains, slots, members and affinity counts of each
// node.
func TestNodesHaveDomainsAndSlots(t *testing.T) {
	rules := []topologyplan.Layer{{Name: clusterLayer}, {Name: "Spine"}, {Name: "Block", Must: true}, {Name: nodeLayer}}
	n := networkWith(map[api.JobID]*gathered{"ns/g": {rules: rules, must: 2}})
	job := n.ssn.Jobs["ns/g"]
	for i, status := range []api.TaskStatus{api.Running, api.Bound} {
		job.AddTaskInfo(memberOn(job.UID, i, status, "c1", ""))
	}
	for i, status := range []api.TaskStatus{api.Releasing, api.Pending, api.Failed} {
		job.AddTaskInfo(memberOn(job.UID, 2+i, status, "a1", "s"))
	}
	n.affinityCounts["ns/s"] = map[string]int{"c2": 1}
	for _, tt := range []struct {
		slots map[string]int
		now   int
		want  []string
	}{
		{map[string]int{"a1": 9, "c1": 2, "c2": 2}, 1, []string{"c1 1", "c2 1", "c1 1"}},
		{map[string]int{"a1": 9, "c1": 1, "c2": 1}, 2, []string{"c1 1, c2 1"}},
		{map[string]int{"a1": 9, "c1": 1}, 2, nil},
	} {
		given, err := n.topologyPlanner(job)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for plan := range given.On(tt.slots, 9).Plans(tt.now, tt.now) {
			var shares []string
			for _, share := range plan {
				shares = append(shares, fmt.Sprint(share.Node, " ", share.Members))
			}
			got = append(got, strings.Join(shares, ", "))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("plans for %d members on %v (-want +got):\n%s", tt.now, tt.slots, diff)
		}
		for range given.On(tt.slots, 9).Plans(tt.now, tt.now) {
			break // further plans are not computed
		}
	}
	if none, err := n.topologyPlanner(api.NewJobInfo("ns/other")); none != nil || err != nil {
		t.Errorf("a gang without gather rules has planner %v and error %v", none, err)
	}
	n.asking["ns/g"].err = errors.New("why")
	if none, err := n.topologyPlanner(job); none != nil || err == nil {
		t.Errorf("a gang with an invalid topology has planner %v and error %v", none, err)
	}
}
