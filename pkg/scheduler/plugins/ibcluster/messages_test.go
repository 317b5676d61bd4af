// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

func TestMalformedAnnotations(t *testing.T) {
	const prefix = "annotation ibcluster.volcano-prebind.io/"
	tests := map[string]struct {
		wishes []string
		want   string
	}{
		"mode":           {wishes: []string{"mode=hard"}, want: prefix + `mode: invalid value "hard", must be "required" or "preferred" or "none"`},
		"empty mode":     {wishes: []string{"mode="}, want: prefix + `mode: invalid value "", must be "required" or "preferred" or "none"`},
		"level":          {wishes: []string{"level=rack"}, want: prefix + `level: invalid value "rack", must be the name of a level: "ibcluster" or "spine" or "leaf"`},
		"clusters":       {wishes: []string{"clusters=ib-a,,ib-b"}, want: prefix + `clusters: invalid name "" in value "ib-a,,ib-b", must be names of clusters separated by commas, such as "ib-a,ib-b"`},
		"path":           {wishes: []string{"clusters=ib-a/s1"}, want: prefix + `clusters: invalid name "ib-a/s1" in value "ib-a/s1", must be names of clusters separated by commas, such as "ib-a,ib-b"`},
		"many clusters":  {wishes: []string{"clusters=" + strings.Repeat("a,", 1000) + "a"}, want: prefix + "clusters: has 1001 names, must have at most 1000"},
		"affinity group": {wishes: []string{"affinity-group=a b"}, want: prefix + `affinity-group: invalid value "a b", must be at most 63 letters, digits, '-', '_' and '.'`},
		"misspelt": {wishes: []string{"cluster=ib-a"}, want: prefix + "cluster: unknown annotation, must be ibcluster.volcano-prebind.io/mode, " +
			"ibcluster.volcano-prebind.io/level, ibcluster.volcano-prebind.io/clusters or ibcluster.volcano-prebind.io/affinity-group"},
		"a long value": {wishes: []string{"level=" + strings.Repeat("x", 200_000)}, want: prefix + `level: invalid value "` + strings.Repeat("x", 64) +
			`"... (and 199936 bytes more), must be the name of a level: "ibcluster" or "spine" or "leaf"`},
		"a percent sign":          {wishes: []string{"level=50%off"}, want: prefix + `level: invalid value "50%off", must be the name of a level: "ibcluster" or "spine" or "leaf"`},
		"company, but only if":    {wishes: []string{"mode=preferred", "affinity-group=ring"}, want: notWithCompany("preferred")},
		"company, and yet none":   {wishes: []string{"mode=none", "affinity-group=ring"}, want: notWithCompany("none")},
		"none, and yet something": {wishes: []string{"mode=none", "clusters=ib-a"}, want: prefix + `mode: invalid value "none" with other annotations of ibcluster, must be "required" or "preferred"`},
		"four": {wishes: []string{"mode=x", "level=y", "clusters=ib-a,,ib-b", "affinity-group=a b"}, want: prefix + `affinity-group: invalid value "a b", must be at most 63 letters, digits, '-', '_' and '.'` + "\n" +
			prefix + `clusters: invalid name "" in value "ib-a,,ib-b", must be names of clusters separated by commas, such as "ib-a,ib-b"` + "\n" +
			prefix + `level: invalid value "y", must be the name of a level: "ibcluster" or "spine" or "leaf"` + "\nand 1 more invalid annotation"},
		"two": {wishes: []string{"mode=x", "level=y"}, want: prefix + `level: invalid value "y", must be the name of a level: "ibcluster" or "spine" or "leaf"` + "\n" + prefix + `mode: invalid value "x", must be "required" or "preferred" or "none"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.ClusterSpec{
				Nodes: two(), PodGroups: []*v1beta1.PodGroup{gang("g", 1, tt.wishes...).Obj()}, Pods: members("g/0"),
			})
			if diff := cmp.Diff([]string{"Warning IBClusterAnnotationInvalid g: " + tt.want}, f.events.Take()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, f.job("g").JobFitErrors); diff != "" {
				t.Errorf("explanation (-want +got):\n%s", diff)
			}
		})
	}
}

func TestArgumentErrors(t *testing.T) {
	tests := map[string]struct {
		args string
		want []string
	}{
		"unknown source":   {args: "{ibcluster.source: racks}", want: []string{`ibcluster.source: found "racks", want "labels" or "hypernodes"`}},
		"source no string": {args: "{ibcluster.source: 3}", want: []string{`ibcluster.source: found 3, want "labels" or "hypernodes"`}},
		"unknown preset":   {args: "{ibcluster.preset: slurm}", want: []string{`ibcluster.preset: found "slurm", want "ibcluster" or "topograph" or "topograph-core" or "topograph-datacenter" or "topograph-kubernetes" or "topograph-level" or "nvidia"`}},
		"preset and levels": {args: "{ibcluster.preset: ibcluster, ibcluster.levels: [a]}", want: []string{
			"ibcluster.preset and ibcluster.levels: both are given, want one of them"}},
		"preset of HyperNodes": {args: "{ibcluster.preset: ibcluster, ibcluster.source: hypernodes}", want: []string{
			"ibcluster.preset: presets are sets of label keys, leave it out with ibcluster.source: hypernodes"}},
		"levels no list":  {args: "{ibcluster.levels: leaf}", want: []string{`ibcluster.levels: found "leaf", want a list of strings`}},
		"levels empty":    {args: "{ibcluster.levels: []}", want: []string{"ibcluster.levels: found an empty list, want at least one level"}},
		"level no string": {args: "{ibcluster.levels: [3]}", want: []string{"ibcluster.levels: found 3 in the list, want strings that are not empty"}},
		"level no key": {args: "{ibcluster.levels: [a b]}", want: []string{`ibcluster.levels: found "a b", want a label key: name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character ` +
			`(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`}},
		"level twice": {args: "{ibcluster.levels: [a, a]}", want: []string{`ibcluster.levels: found "a" twice, want each level once`}},
		"levels of one name": {args: "{ibcluster.levels: [a.io/fabric, a.io/leaf, b.io/leaf]}", want: []string{
			`ibcluster.levels: found "a.io/leaf" and "b.io/leaf", want levels that differ after the slash: an annotation may name a level by that part, "leaf"`}},
		"a level that shadows another": {args: "{ibcluster.levels: [leaf, b.io/leaf]}", want: []string{
			`ibcluster.levels: found "leaf" and "b.io/leaf", want levels that differ after the slash: an annotation may name a level by that part, "leaf"`}},
		"unknown mode":     {args: "{ibcluster.defaultMode: hard}", want: []string{`ibcluster.defaultMode: found "hard", want "required" or "preferred" or "none"`}},
		"trigger of cpu":   {args: "{ibcluster.triggerResources: [cpu]}", want: []string{`ibcluster.triggerResources: found "cpu", want names of extended resources such as "rdma/hca"`}},
		"unknown strategy": {args: "{ibcluster.strategy: first}", want: []string{`ibcluster.strategy: found "first", want "tightest" or "emptiest"`}},
		"negative weight":  {args: "{ibcluster.weight: -1}", want: []string{"ibcluster.weight: found -1, want a number from 0 to 1000000"}},
		"huge weight":      {args: "{ibcluster.weight: 10000000}", want: []string{"ibcluster.weight: found 1e+07, want a number from 0 to 1000000"}},
		"weight in quotes": {args: `{ibcluster.weight: "1"}`, want: []string{`ibcluster.weight: found "1", want a number from 0 to 1000000`}},
		"all at once": {args: "{ibcluster.source: racks, ibcluster.weight: -1, ibcluster.levels: []}", want: []string{
			`ibcluster.source: found "racks", want "labels" or "hypernodes"`, "ibcluster.weight: found -1, want a number from 0 to 1000000", "ibcluster.levels: found an empty list, want at least one level"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Spec().Load(argumentsOf(t, tt.args))
			if err == nil {
				t.Fatal("Load returned no error")
			}
			if diff := cmp.Diff(strings.Join(tt.want, "\n"), err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if _, err := Spec().New(argumentsOf(t, tt.args), nil); err == nil {
				t.Error("New returned no error")
			}
		})
	}
}

// TestNodesThatLeaveBeforeTheBind checks that a member is not bound to a node that left the permitted node groups after
// the placement.
func TestNodesThatLeaveBeforeTheBind(t *testing.T) {
	const label, gone = "(by its label ibcluster) after the gang was placed", "; the gang must be in one node group"
	flat := []string{"a1 ib-a", "a2 ib-a"}
	deep := []string{"a1 ib-a s1 l1", "a2 ib-a s1 l1", "b1 ib-b s1 l2"}
	tests := map[string]struct {
		nodes   []string
		wishes  []string
		changes map[string]string
		others  []*v1beta1.PodGroup
		pods    []*v1.Pod
		want    []string
	}{
		"nothing changed": {nodes: flat, wishes: []string{"mode=required"}, want: []string{"0: goes on", "1: goes on"}},
		"another cluster": {
			nodes: flat, wishes: []string{"mode=required"}, changes: map[string]string{"a2": "a2 ib-b"},
			want: []string{"0: goes on", "1: node a2 moved from ib-a to ib-b " + label + gone},
		},
		"the label is removed": {
			nodes: flat, wishes: []string{"mode=required"}, changes: map[string]string{"a2": "a2"},
			want: []string{"0: goes on", "1: node a2 moved from ib-a to no node group " + label + gone},
		},
		"the node is deleted": {
			nodes: flat, wishes: []string{"mode=required"}, changes: map[string]string{"a2": ""},
			want: []string{"0: goes on", "1: node a2 no longer exists; it was in ib-a when the gang was placed"},
		},
		"the whole cluster has another name: the next session finds the gang's place in it": {
			nodes: flat, wishes: []string{"mode=required"}, changes: map[string]string{"a1": "a1 ib-z", "a2": "a2 ib-z"},
			want: []string{"0: node a1 moved from ib-a to ib-z " + label + gone, "1: node a2 moved from ib-a to ib-z " + label + gone},
		},
		"another leaf of the same cluster": {
			nodes: deep, wishes: []string{"mode=required"}, changes: map[string]string{"a2": "a2 ib-a s1 l9"}, want: []string{"0: goes on", "1: goes on"},
		},
		"another leaf, where the leaf is what is asked for": {
			nodes: deep, wishes: []string{"level=leaf", "clusters=ib-a"}, changes: map[string]string{"a2": "a2 ib-a s1 l9"},
			want: []string{"0: goes on", "1: node a2 moved from ib-a/s1/l1 to ib-a/s1/l9 (by its labels ibcluster, spine, leaf) after the gang was placed" + gone},
		},
		"a leaf of the same name in another cluster": {
			nodes: deep, wishes: []string{"level=leaf", "clusters=ib-a"}, changes: map[string]string{"a2": "a2 ib-b s1 l1"},
			want: []string{"0: goes on", "1: node a2 moved from ib-a/s1/l1 to ib-b/s1/l1 (by its labels ibcluster, spine, leaf) after the gang was placed" + gone},
		},
		"the cluster is not in the list": {
			nodes: flat, wishes: []string{"mode=preferred", "clusters=ib-a,ib-c"}, changes: map[string]string{"a2": "a2 ib-b"},
			want: []string{"0: goes on", "1: node a2 moved from ib-a to ib-b " + label + "; annotation " + ClustersAnnotation + " does not list that cluster"},
		},
		"a preferred gang may spread over the clusters of its list": {
			nodes: flat, wishes: []string{"mode=preferred", "clusters=ib-a,ib-c"}, changes: map[string]string{"a2": "a2 ib-c"}, want: []string{"0: goes on", "1: goes on"},
		},
		"a preferred gang without a list": {nodes: flat, wishes: []string{"mode=preferred"}, changes: map[string]string{"a2": "a2"}, want: []string{"0: goes on", "1: goes on"}},
		"a gang that asks for nothing":    {nodes: flat, changes: map[string]string{"a2": "a2 ib-b"}, want: []string{"0: goes on", "1: goes on"}},
		"a required gang beside one that is not": {
			nodes: flat, changes: map[string]string{"a1": "a1", "a2": "a2"}, others: []*v1beta1.PodGroup{gang("h", 1, "mode=required").Obj()},
			pods: sized("4", "h/0"), want: []string{"0: goes on", "1: goes on"},
		},
		"an affinity group": {
			nodes: flat, wishes: []string{"affinity-group=ring"}, changes: map[string]string{"a2": "a2 ib-b"},
			want: []string{"0: goes on", "1: node a2 moved from ib-a to ib-b " + label + gone},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.ClusterSpec{
				Nodes: nodes(tt.nodes...), PodGroups: append(tt.others, gang("g", 2, tt.wishes...).Obj()), Pods: append(tt.pods, sized("4", "g/0", "g/1")...),
			})
			f.allocate(t)
			if got := f.bindings("g"); got != "0:a1 1:a2" {
				t.Fatalf("the bindings are %q", got)
			}
			f.Load(sessiontest.ClusterSpec{Nodes: relabelled(tt.nodes, tt.changes)})
			if diff := cmp.Diff(tt.want, f.prepare(t, "g")); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
			f.session.Close()
			if diff := cmp.Diff(tt.want, f.prepare(t, "g")); diff != "" {
				t.Errorf("members after the session was closed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhichGangsAreAdmitted checks which gangs are admitted, and the pending reason of the other gangs. The InfiniBand
// clusters have 8, 8 and 4 cpu, and one node is in none of them.
func TestWhichGangsAreAdmitted(t *testing.T) {
	fabric := nodes("a1 ib-a s1", "a2 ib-a s2", "b1 ib-b", "b2 ib-b", "c1 ib-c", "x")
	tests := map[string]struct {
		gang *schedtest.PodGroupBuilder
		// admitted reports whether the gang is admitted. message is its pending reason if it is not.
		admitted bool
		message  string
	}{
		"what a cluster has": {gang("g", 8, "mode=required").MinResources(schedtest.Resources{"cpu": "8"}), true, ""},
		"more than any has": {gang("g", 9, "mode=required").MinResources(schedtest.Resources{"cpu": "9"}), false,
			"no node group is large enough: ib-a, the largest of 3, has cpu 8 in total; minResources asks for cpu 9"},
		"more than the listed one has": {gang("g", 8, "mode=required", "clusters=ib-c").MinResources(schedtest.Resources{"cpu": "8", "rdma/hca": "9"}), false,
			"no node group is large enough: ib-c, the only one allowed, has cpu 4, rdma/hca 8 in total; minResources asks for cpu 8, rdma/hca 9"},
		"more than a narrower group has": {gang("g", 5, "mode=required", "level=spine").MinResources(schedtest.Resources{"cpu": "5"}), false,
			"no node group is large enough: ib-a/s1, the largest of 2, has cpu 4 in total; minResources asks for cpu 5"},
		"more, for a gang that only prefers":  {gang("g", 9, "mode=preferred").MinResources(schedtest.Resources{"cpu": "9"}), true, ""},
		"more, for a gang without a wish":     {gang("g", 9).MinResources(schedtest.Resources{"cpu": "9"}), true, ""},
		"what is no node's, but a quota's":    {gang("g", 8, "mode=required").MinResources(schedtest.Resources{"cpu": "8", "limits.cpu": "800"}), true, ""},
		"no cluster that is listed is there":  {gang("g", 9, "mode=required", "clusters=ib-z").MinResources(schedtest.Resources{"cpu": "9"}), true, ""},
		"a gang that does not say how much":   {gang("g", 99, "mode=required"), true, ""},
		"annotations that cannot be read yet": {gang("g", 9, "mode=perhaps").MinResources(schedtest.Resources{"cpu": "9"}), true, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.ClusterSpec{Nodes: fabric, PodGroups: []*v1beta1.PodGroup{tt.gang.Phase(v1beta1.PodGroupPending).Obj()}}, "levels: [ibcluster, spine, leaf]")
			f.session.Run(enqueue.New())
			if admitted := f.job("g").PodGroup.Status.Phase == scheduling.PodGroupInqueue; admitted != tt.admitted {
				t.Errorf("the gang is admitted: %t, want %t", admitted, tt.admitted)
			}
			f.session.Close()
			reason, _ := f.session.PendingReason("ns/g")
			// An admitted gang waits for a reason of another package, which is not compared.
			if tt.message != "" && reason.Message != tt.message {
				t.Errorf("the gang waits because of %q, want %q", reason.Message, tt.message)
			}
		})
	}
}

// TestMembersThatNoClusterHolds: minResources fit each cluster, but the members may not. The clusters have two nodes of
// 4 cpu and 10 pods each; ib-c has only one node.
func TestMembersThatNoClusterHolds(t *testing.T) {
	fabric := nodes("a1 ib-a", "a2 ib-a", "b1 ib-b", "b2 ib-b", "c1 ib-c", "x")
	many := func(n int, cpu string) []*v1.Pod {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("g/%d", i))
		}
		return sized(cpu, names...)
	}
	tests := map[string]struct {
		minMember int32
		wishes    []string
		pods      []*v1.Pod
		// message is the gang's pending reason; empty if the gang is admitted.
		message string
	}{
		"members that fill their nodes": {2, nil, many(2, "4"), ""},
		"as many as nodes take":         {4, nil, many(4, "2"), ""},
		"of which each node takes one": {3, nil, many(3, "2500m"),
			"none of 3 node groups fits the 3 pods needed, even when idle: ib-a fits 2 of the 3 that request cpu 2500m"},
		"larger than every node": {1, nil, many(1, "6"),
			"none of 3 node groups fits the 1 pod needed, even when idle: ib-a does not fit the pod that requests cpu 6"},
		"more pods than the nodes take": {40, nil, many(40, "200m"),
			"none of 3 node groups fits the 40 pods needed, even when idle: ib-a has pods 20, enough for 20 of them"},
		"that ask for more than minResources say": {3, nil, many(3, "4"),
			"none of 3 node groups fits the 3 pods needed, even when idle: ib-a has cpu 8, enough for 2 of them"},
		"of sizes of which the sum is too much": {3, nil, slices.Concat(sized("3", "g/0"), sized("2500m", "g/1"), sized("2600m", "g/2")),
			"none of 3 node groups fits the 3 pods needed, even when idle: ib-a has cpu 8, enough for 2 of them"},
		"of sizes of which each node takes one": {3, nil, slices.Concat(sized("2500m", "g/0"), sized("2600m", "g/1"), sized("2700m", "g/2")),
			"none of 3 node groups fits the 3 pods needed, even when idle: ib-a fits 2 of the 3 that request cpu 2500m or more"},
		"of which one of several sizes fits nowhere": {3, nil, slices.Concat(sized("1", "g/0", "g/1"), sized("5", "g/2")),
			"none of 3 node groups fits the 3 pods needed, even when idle: ib-a does not fit the pod that requests cpu 5"},
		"of which the smallest are enough":                 {2, nil, slices.Concat(sized("1", "g/0", "g/1"), sized("5", "g/2")), ""},
		"of which those that ask for nothing do":           {3, nil, slices.Concat(sized("4", "g/0", "g/1"), []*v1.Pod{schedtest.MakePod().Name("g-2").Group("g").Obj()}), ""},
		"of which one that asks for nothing leaves enough": {3, nil, slices.Concat(many(3, "4"), []*v1.Pod{schedtest.MakePod().Name("g-3").Group("g").Obj()}), ""},
		"of which some are there":                          {3, nil, many(2, "6"), ""},
		"of which some run":                                {3, nil, slices.Concat(many(2, "4"), members("g/9@x")), ""},
		"that a listed cluster does not hold": {2, []string{"clusters=ib-c"}, many(2, "4"),
			"the only allowed node group, ib-c, does not fit the 2 pods needed, even when idle: it has cpu 4, enough for 1 of them"},
		"that need not lie in one": {3, []string{"mode=preferred"}, many(3, "2500m"), ""},
		"beside a resource that no node has": {2, nil, func() []*v1.Pod {
			pods := many(2, "4")
			pods[0].Spec.Containers[0].Resources.Requests["example.com/dongle"] = resource.MustParse("1")
			return pods
		}(), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, pod := range tt.pods {
				pod.Annotations = map[string]string{v1beta1.KubeGroupNameAnnotationKey: "g"}
			}
			g := gang("g", tt.minMember, append([]string{"mode=required"}, tt.wishes...)...).MinResources(schedtest.Resources{"cpu": "4"}).Phase(v1beta1.PodGroupPending)
			// Its resources count, because it will end.
			busy := schedtest.MakePod().Name("busy").Req(schedtest.Resources{"cpu": "3"}).Node("a1").Phase(v1.PodRunning).Obj()
			f := open(t, sessiontest.ClusterSpec{Nodes: fabric, PodGroups: []*v1beta1.PodGroup{g.Obj()}, Pods: append(tt.pods, busy)})
			f.session.Run(enqueue.New())
			want := scheduling.PodGroupInqueue
			if tt.message != "" {
				want = scheduling.PodGroupPending
			}
			if got := f.job("g").PodGroup.Status.Phase; got != want {
				t.Errorf("the gang is %s, want %s", got, want)
			}
			f.session.Close()
			reason, _ := f.session.PendingReason("ns/g")
			// An admitted gang waits for a reason of another package, which is not compared.
			if tt.message != "" && reason.Message != tt.message {
				t.Errorf("the gang waits because of %q, want %q", reason.Message, tt.message)
			}
		})
	}
}
