// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// allocate runs this project's action allocate on the session.
func (f *fixture) allocate(t *testing.T, opts ...allocate.Option) {
	t.Helper()
	f.registry.RegisterAction(allocate.New(opts...))
	action, ok := vcframework.GetAction("allocate")
	if !ok {
		t.Fatal("action allocate does not exist after its registration")
	}
	f.session.Run(action)
}

// bindings lists the nodes of the gang's bound pods by index: "0:a1 1:a2".
func (f *fixture) bindings(group string) string {
	var parts []string
	for pod, node := range f.session.Binds() {
		if index, ok := strings.CutPrefix(pod, "ns/"+group+"-"); ok {
			parts = append(parts, index+":"+node)
		}
	}
	return strings.Join(sorted(parts), " ")
}

// used returns a pod that uses this cpu of the node and never ends.
func used(node, cpu string) *v1.Pod { return big("used/"+node, node, cpu) }

// sized returns pending pods of the gang that request this cpu.
func sized(cpu string, names ...string) []*v1.Pod {
	pods := members(names...)
	for _, pod := range pods {
		pod.Spec.Containers[0].Resources = big("x/0", "", cpu).Spec.Containers[0].Resources
	}
	return pods
}

// TestAllocate runs this project's allocate with the plugin. Nodes have 4 cpu.
func TestAllocate(t *testing.T) {
	three := nodes("a1 ib-a", "a2 ib-a", "a3 ib-a", "b1 ib-b", "b2 ib-b", "x1", "x2", "x3")
	leaves := nodes("a1 ib-a s1 l1", "a2 ib-a s1 l2", "a3 ib-a s2 l3", "a4 ib-a s2 l3", "b1 ib-b s3 l4")
	tests := map[string]struct {
		nodes     []*v1.Node
		gang      []string // annotations of the plugin
		minMember int32
		pods      []*v1.Pod
		arguments []string
		want      string
		says      string
	}{
		"one cluster, the tightest that holds it": {
			nodes: three, gang: []string{"mode=required"}, minMember: 2, pods: sized("4", "g/0", "g/1"), want: "0:b1 1:b2",
		},
		"the emptiest": {
			nodes: three, gang: []string{"mode=required"}, minMember: 2, pods: sized("4", "g/0", "g/1"),
			arguments: []string{"strategy: emptiest"}, want: "0:a1 1:a2",
		},
		"the tightest for members of unlike sizes": {
			nodes: three, gang: []string{"mode=required"}, minMember: 5, pods: append(sized("4", "g/0"), sized("1", "g/1", "g/2", "g/3", "g/4")...),
			want: "0:b1 1:b2 2:b2 3:b2 4:b2",
		},
		"the emptiest for members of unlike sizes": {
			nodes: nodes("b1 ib-b", "b2 ib-b", "b3 ib-b", "a1 ib-a", "a2 ib-a"), gang: []string{"mode=required"}, minMember: 5,
			pods: append(sized("4", "g/0"), sized("1", "g/1", "g/2", "g/3", "g/4")...), arguments: []string{"strategy: emptiest"},
			want: "0:b1 1:b2 2:b3 3:b2 4:b3",
		},
		"the tightest for the minimum of a gang that is larger than any": {
			nodes: three, gang: []string{"mode=required"}, minMember: 2, pods: sized("4", "g/0", "g/1", "g/2", "g/3", "g/4"), want: "0:b1 1:b2",
			says: "the minimum is placed, 3 further members wait: ib-b: 2 nodes filled by its members (cpu); ib-a: the gang's pods are in ib-b",
		},
		"a cluster that is large enough but fragmented": {
			nodes: three, gang: []string{"mode=required"}, minMember: 2,
			pods: append(sized("3", "g/0", "g/1"), used("a1", "2"), used("a2", "2"), used("a3", "2")), want: "0:b1 1:b2",
		},
		"all clusters are fragmented": {
			nodes: three, gang: []string{"mode=required"}, minMember: 2,
			pods: append(sized("3", "g/0", "g/1"), used("a1", "2"), used("a2", "2"), used("a3", "2"), used("b2", "2")),
			says: "no node group holds the 2 members needed: ib-b 1/2: 1 node short of cpu, 1 filled by its members (cpu); ib-a 0/2: 3 nodes short of cpu (at most 2 free on a node, 6 in all)",
		},
		"fewer nodes in every cluster than the gang needs": {
			nodes: three, gang: []string{"mode=required"}, minMember: 4, pods: sized("4", "g/0", "g/1", "g/2", "g/3"),
			says: "no node group holds the 4 members needed: ib-a 3/4: 3 nodes filled by its members (cpu); ib-b 2/4: 2 nodes filled by its members (cpu)",
		},
		"nodes without a label are no cluster, however empty": {
			nodes: nodes("x1", "x2", "a1 ib-a"), gang: []string{"mode=required"}, minMember: 2, pods: sized("4", "g/0", "g/1"),
			says: "no node group holds the 2 members needed: ib-a 1/2: 1 node filled by its members (cpu)",
		},
		"a later member goes where the gang is": {
			nodes: three, gang: []string{"mode=required"}, minMember: 1, pods: append(members("g/0@a1"), sized("4", "g/1")...), want: "1:a2",
		},
		"a later member waits for room where the gang is, and says so": {
			nodes: three, gang: []string{"mode=required"}, minMember: 2, pods: append(members("g/0@b1"), append(sized("4", "g/1"), used("b2", "1"))...),
			says: "no node group holds the 1 member needed: ib-b 0/1: 1 node short of cpu, 1 filled by its members (cpu); ib-a: the gang's pods are in ib-b",
		},
		"the clusters it may use": {
			nodes: three, gang: []string{"clusters=ib-a"}, minMember: 2, pods: sized("4", "g/0", "g/1"), want: "0:a1 1:a2",
		},
		"a preferred gang that fits nowhere whole takes the fewest clusters, and nodes in none last": {
			nodes: three, gang: []string{"mode=preferred"}, minMember: 4, pods: sized("4", "g/0", "g/1", "g/2", "g/3"), want: "0:a1 1:a2 2:a3 3:b1",
		},
		"later members of a preferred gang do not leave the clusters it lists either": {
			nodes: nodes("a1 ib-a", "a2 ib-a", "b1 ib-b", "b2 ib-b", "b3 ib-b", "x"), gang: []string{"mode=preferred", "clusters=ib-a"}, minMember: 2,
			pods: sized("4", "g/0", "g/1", "g/2", "g/3"), want: "0:a1 1:a2",
			says: "the minimum is placed, 2 further members wait: ib-a: 2 nodes filled by its members (cpu); ib-b: " + notListed,
		},
		"a preferred gang does not leave the clusters it lists": {
			nodes: three, gang: []string{"clusters=ib-b"}, minMember: 3, pods: sized("4", "g/0", "g/1", "g/2"),
			arguments: []string{"defaultMode: preferred"},
			says:      "ib-b 2/3: 2 nodes filled by its members (cpu); ib-a: " + notListed,
		},
		"a preferred gang that lists a cluster although none exists": {
			nodes: nodes("x"), gang: []string{"mode=preferred", "clusters=ib-b"}, minMember: 1, pods: members("g/0"),
			says: "plugin ibcluster: required node group not found: no node has the labels ibcluster",
		},
		"a preferred gang that fits somewhere": {
			nodes: three, gang: []string{"mode=preferred"}, minMember: 3, pods: sized("4", "g/0", "g/1", "g/2"), want: "0:a1 1:a2 2:a3",
		},
		"by default, for what it asks for": {
			nodes: three, minMember: 2, arguments: []string{"triggerResources: [rdma/hca]"},
			pods: []*v1.Pod{
				member("g/0", "").Req(map[string]string{"cpu": "4", "rdma/hca": "1"}).Obj(),
				member("g/1", "").Req(map[string]string{"cpu": "4", "rdma/hca": "1"}).Obj(),
			},
			want: "0:b1 1:b2",
		},
		"the same leaf, if one holds it": {
			nodes: leaves, gang: []string{"clusters=ib-a"}, minMember: 2, pods: sized("4", "g/0", "g/1"), want: "0:a3 1:a4",
		},
		"else the same spine": {
			nodes: leaves, gang: []string{"clusters=ib-a"}, minMember: 2, pods: append(sized("4", "g/0", "g/1"), used("a4", "1")), want: "0:a1 1:a2",
		},
		"a member beyond the minimum that the leaf has no room for goes to the next, in the same session": {
			nodes: leaves[:2], gang: []string{"mode=required"}, minMember: 2, pods: append(sized("4", "g/0"), sized("2", "g/1", "g/2")...),
			want: "0:a2 1:a1 2:a1",
		},
		"a leaf is required and none is large enough": {
			nodes: leaves, gang: []string{"level=leaf"}, minMember: 3, pods: sized("4", "g/0", "g/1", "g/2"),
			says: "no node group holds the 3 members needed: ib-a/s2/l3 2/3: 2 nodes filled by its members (cpu); ib-a/s1/l1 1/3: 1 node filled by its members (cpu); " +
				"ib-a/s1/l2 1/3: 1 node filled by its members (cpu); ib-b/s3/l4 1/3: 1 node filled by its members (cpu)",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.ClusterSpec{
				Nodes: tt.nodes, Pods: tt.pods, PodGroups: []*v1beta1.PodGroup{gang("g", tt.minMember, tt.gang...).Obj(), gang("used", 0).Obj()},
			}, tt.arguments...)
			f.allocate(t)
			if diff := cmp.Diff(tt.want, f.bindings("g")); diff != "" {
				t.Errorf("bindings (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.says, f.job("g").JobFitErrors); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNeighboursShareALeaf checks that the members on each leaf have consecutive ranks, whatever the order in which the
// pods are created.
func TestNeighboursShareALeaf(t *testing.T) {
	leafOf := map[string]string{"a1": "l1", "a2": "l2", "a3": "l3", "a4": "l3"}
	f := open(t, sessiontest.ClusterSpec{
		Nodes:     nodes("a1 ib-a s1 l1", "a2 ib-a s1 l2", "a3 ib-a s2 l3", "a4 ib-a s2 l3", "b1 ib-b s3 l4"),
		PodGroups: []*v1beta1.PodGroup{gang("g", 8, "mode=required").Obj()},
		Pods:      sized("2", "g/10", "g/2", "g/3", "g/1", "g/7", "g/8", "g/4", "g/9"),
	})
	f.allocate(t)
	var leaves []string
	for _, rank := range []string{"1", "2", "3", "4", "7", "8", "9", "10"} {
		leaves = append(leaves, leafOf[f.session.Binds()["ns/g-"+rank]])
	}
	if hops := len(slices.Compact(slices.Clone(leaves))); hops != 3 || slices.Contains(leaves, "") {
		t.Errorf("the leaves in the order of ranks are %v, want consecutive ranks on each of three leaves", leaves)
	}
}

// TestAnElasticGangUsesSeveralLeaves: members that the first leaf has no room for are placed on other leaves in the
// same session. Full groups are not tried for each of the many members.
func TestAnElasticGangUsesSeveralLeaves(t *testing.T) {
	const many = 200
	tests := map[string]struct {
		wish string
		// large is the number of members that request a whole node. The others request 1 cpu.
		large int
		// used is the cpu of each node that other pods use.
		used string
		// want is the sum of the placed members' cpus.
		want int
	}{
		"required":                        {wish: "mode=required", want: 12},
		"preferred":                       {wish: "mode=preferred", want: 24},
		"preferred, members of two kinds": {wish: "mode=preferred", large: 70, want: 24},
		"the first of no use":             {wish: "mode=required", large: 70, used: "1", want: 9},
		"preferred, leaf":                 {wish: "mode=preferred level=leaf", want: 24},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := sessiontest.ClusterSpec{
				Nodes:     nodes("a1 ib-a s1 l1", "a2 ib-a s1 l2", "a3 ib-a s2 l3", "b1 ib-b s1 l1", "b2 ib-b s1 l2", "b3 ib-b s2 l3"),
				PodGroups: []*v1beta1.PodGroup{gang("g", 1, strings.Fields(tt.wish)...).Obj()},
			}
			for i := range many {
				pod := member("g/"+strconv.Itoa(i), "")
				if i < tt.large {
					pod.Req(schedtest.Resources{"cpu": "4"}).Priority(10)
				}
				w.Pods = append(w.Pods, pod.Obj())
			}
			for _, node := range w.Nodes {
				if tt.used != "" {
					w.Pods = append(w.Pods, used(node.Name, tt.used))
				}
			}
			f := open(t, w)
			misfits := 0
			f.allocate(t, allocate.WithTrialObserver(func(result string) {
				if result == "infeasible" {
					misfits++
				}
			}))
			given := 0
			for _, task := range f.job("g").TaskStatusIndex[api.Binding] {
				given += int(task.Resreq.MilliCPU / 1000)
			}
			if given != tt.want {
				t.Errorf("placed members have %d cpus, want %d", given, tt.want)
			}
			if misfits > 20 {
				t.Errorf("%d trial placements in groups without room, want at most 20", misfits)
			}
		})
	}
}

// TestAffinityGroupInOneSession checks that the second gang is placed in the cluster of the first gang of its affinity
// group, which the same session placed, or waits.
func TestAffinityGroupInOneSession(t *testing.T) {
	tests := map[string]struct {
		second []*v1.Pod
		want   string
		says   string
	}{
		"there is room": {second: sized("4", "second/0"), want: "0:a2"},
		"there is none": {second: sized("4", "second/0", "second/1"),
			says: "no node group holds the 2 members needed: ib-a 1/2: 1 node short of cpu, 1 filled by its members (cpu); ib-b: affinity group ring is in ib-a"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.ClusterSpec{
				Nodes: nodes("a1 ib-a", "a2 ib-a", "b1 ib-b", "b2 ib-b", "b3 ib-b"), PriorityClasses: classes(),
				PodGroups: []*v1beta1.PodGroup{
					gang("first", 1, "affinity-group=ring").PriorityClass("high").Obj(),
					gang("second", int32(len(tt.second)), "affinity-group=ring").Obj(),
				},
				Pods: append(sized("4", "first/0"), tt.second...),
			})
			f.allocate(t)
			if diff := cmp.Diff("0:a1", f.bindings("first")); diff != "" {
				t.Errorf("bindings of the first (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, f.bindings("second")); diff != "" {
				t.Errorf("bindings of the second (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.says, f.job("second").JobFitErrors); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNodesChangeTheirLabels checks that each session uses the current labels of nodes.
func TestNodesChangeTheirLabels(t *testing.T) {
	spec := func(nodes []*v1.Node) sessiontest.ClusterSpec {
		return sessiontest.ClusterSpec{
			Nodes: nodes, Pods: append(members("g/0@b1"), sized("4", "g/1")...), PodGroups: []*v1beta1.PodGroup{gang("g", 2, "mode=required").Obj()},
		}
	}
	steps := []struct {
		name  string
		nodes []*v1.Node
		want  string
	}{
		{"no room in the gang's cluster", nodes("a1 ib-a", "b1 ib-b", "x"), ""},
		{"a node joins the cluster", nodes("a1 ib-a", "b1 ib-b", "x ib-b"), "1:x"},
		{"a node moves to the cluster", nodes("a1 ib-b", "b1 ib-b", "x"), "1:a1"},
		{"the gang's node moves to another cluster", nodes("a1 ib-a", "b1 ib-a", "x ib-b"), "1:a1"},
		{"the gang's node loses its label", nodes("a1 ib-a", "b1", "x ib-b"), ""},
		{"the gang's node has its label again", nodes("a1 ib-a", "b1 ib-b", "x ib-b"), "1:x"},
	}
	first := spec(steps[0].nodes)
	f := open(t, first)
	for i, step := range steps {
		if i > 0 {
			next := spec(step.nodes)
			f.reopen(t, &next)
		}
		f.allocate(t)
		if diff := cmp.Diff(step.want, f.bindings("g")); diff != "" {
			t.Errorf("%s: bindings (-want +got):\n%s", step.name, diff)
		}
	}
}
