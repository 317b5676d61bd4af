// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// notWithCompany returns the error of a mode other than required in an affinity group.
func notWithCompany(mode string) string {
	return fmt.Sprintf(`annotation ibcluster.volcano-prebind.io/mode: invalid value %q with ibcluster.volcano-prebind.io/affinity-group, `+
		`must be "required" because the PodGroups of an affinity group must share one cluster`, mode)
}

// notWhereMostAre returns the refusals of these groups for a gang in ib-a to ib-f that has most members in ib-f.
func notWhereMostAre(groups ...string) []string {
	var lines []string
	for _, group := range groups {
		lines = append(lines, group+" not: the gang is split across ib-a (1), ib-b (1), ib-c (1), ib-d (1) and 2 more; new pods go to ib-f")
	}
	return lines
}

const notListed = "not listed in annotation ibcluster.volcano-prebind.io/clusters"

func TestNodeGroups(t *testing.T) {
	deep := nodes("a1 ib-a s1 l1", "a2 ib-a s1 l2", "b1 ib-b s1 l1", "b2 ib-b", "x")
	tests := map[string]struct {
		nodes     []*v1.Node
		gang      *schedtest.PodGroupBuilder
		others    []*v1beta1.PodGroup
		pods      []*v1.Pod
		arguments []string
		want      []string
		events    []string
	}{
		"a gang without a wish": {nodes: two(), gang: gang("g", 1), pods: members("g/0"), want: []string{"no wish"}},
		"required by annotation": {
			nodes: two(), gang: gang("g", 1, "mode=required"), pods: members("g/0"),
			want: []string{"required true", "ib-a", "ib-b"},
		},
		"required by default": {
			nodes: two(), gang: gang("g", 1), pods: members("g/0"), arguments: []string{"defaultMode: required"},
			want: []string{"required true", "ib-a", "ib-b"},
		},
		"preferred": {
			nodes: two(), gang: gang("g", 1, "mode=preferred"), pods: members("g/0"),
			want: []string{"required false", "ib-a", "ib-b"},
		},
		"none in spite of the default": {
			nodes: two(), gang: gang("g", 1, "mode=none"), pods: members("g/0"), arguments: []string{"defaultMode: required"},
			want: []string{"no wish"},
		},
		"required by a resource one member asks for": {
			nodes: two(), gang: gang("g", 1), arguments: []string{"triggerResources: [rdma/hca]", "defaultMode: preferred"},
			pods: append(members("g/0"), member("g/1", "").Req(schedtest.Resources{"rdma/hca": "1"}).Obj()),
			want: []string{"required true", "ib-a", "ib-b"},
		},
		"the annotation overrules the resource": {
			nodes: two(), gang: gang("g", 1, "mode=preferred"), arguments: []string{"triggerResources: [rdma/hca]"},
			pods: []*v1.Pod{member("g/1", "").Req(schedtest.Resources{"rdma/hca": "1"}).Obj()},
			want: []string{"required false", "ib-a", "ib-b"},
		},
		"a wish without a mode is a must where the default is none": {
			nodes: two(), gang: gang("g", 1, "clusters=ib-a"), pods: members("g/0"),
			want: []string{"required true", "ib-a", "ib-b not: " + notListed},
		},
		"a wish without a mode keeps another default": {
			nodes: two(), gang: gang("g", 1, "clusters=ib-a"), pods: members("g/0"), arguments: []string{"defaultMode: preferred"},
			want: []string{"required false", "ib-a", "ib-b not: " + notListed},
		},
		"a narrower level": {
			nodes: deep, gang: gang("g", 1, "level=leaf"), pods: members("g/0"),
			want: []string{"required true", "ib-a/s1/l1", "ib-a/s1/l2", "ib-b/s1/l1"},
		},
		"leaves of one cluster": {
			nodes: deep, gang: gang("g", 1, "level=leaf", "clusters=ib-b"), pods: members("g/0"),
			want: []string{"required true", "ib-b/s1/l1", "ib-a/s1/l1 not: " + notListed, "ib-a/s1/l2 not: " + notListed},
		},
		"a cluster that does not exist": {
			nodes: two(), gang: gang("g", 1, "clusters= ib-c , ib-b"), pods: members("g/0"),
			want: []string{"required true", "ib-b", "ib-a not: " + notListed,
				"ib-c not: listed in annotation ibcluster.volcano-prebind.io/clusters, but has no nodes"},
		},
		"no node has the labels": {
			nodes: nodes("n1", "n2"), gang: gang("g", 1, "mode=required"), pods: members("g/0"),
			want: []string{"error: plugin ibcluster: required node group not found: no node has the labels ibcluster"},
		},
		"no node has the labels of the level": {
			nodes: two(), gang: gang("g", 1, "level=leaf"), pods: members("g/0"),
			want: []string{"error: plugin ibcluster: required node group not found: no node has the labels ibcluster, spine, leaf"},
		},
		"no node has the labels, and the gang can do without": {
			nodes: nodes("n1"), gang: gang("g", 1, "mode=preferred"), pods: members("g/0"), want: []string{"no wish"},
		},
		"other members go where the gang is": {
			nodes: two(), gang: gang("g", 2, "mode=required"), pods: members("g/0@b1", "g/1"),
			want: []string{"required true", "ib-b", "ib-a not: the gang's pods are in ib-b"},
		},
		"a preferred gang may go on elsewhere": {
			nodes: two(), gang: gang("g", 2, "mode=preferred"), pods: members("g/0@b1", "g/1"),
			want: []string{"required false", "ib-a", "ib-b"},
		},
		"a member that is being deleted restricts no other": {
			nodes: two(), gang: gang("g", 2, "mode=required"), pods: members("g/0@b1!", "g/1"),
			want: []string{"required true", "ib-a", "ib-b"},
		},
		"a member that has ended restricts no other": {
			nodes: two(), gang: gang("g", 2, "mode=required"),
			pods: append(members("g/1"), member("g/0", "b1").Phase(v1.PodSucceeded).Obj()),
			want: []string{"required true", "ib-a", "ib-b"},
		},
		"members in two clusters": {
			nodes: two(), gang: gang("g", 4, "mode=required"), pods: members("g/0@b1", "g/1@a1", "g/2@b2", "g/3"),
			want: []string{"required true", "ib-b",
				"ib-a not: the gang is split across ib-a (1), ib-b (2); new pods go to ib-b"},
			events: []string{"Warning IBClusterSplit g: gang is split across ib-a (1), ib-b (2); new pods go to ib-b"},
		},
		"as many members in one cluster as in another": {
			nodes: two(), gang: gang("g", 4, "mode=required"), pods: members("g/0@b1", "g/1@a1", "g/3"),
			want: []string{"required true", "ib-a",
				"ib-b not: the gang is split across ib-a (1), ib-b (1); new pods go to ib-a"},
			events: []string{"Warning IBClusterSplit g: gang is split across ib-a (1), ib-b (1); new pods go to ib-a"},
		},
		"members in two clusters, where they may be": {
			nodes: two(), gang: gang("g", 4, "mode=preferred"), pods: members("g/0@b1", "g/1@a1", "g/3"),
			want: []string{"required false", "ib-a", "ib-b"},
		},
		"members in many clusters": {
			nodes: nodes("a ib-a", "b ib-b", "c ib-c", "d ib-d", "e ib-e", "f ib-f"), gang: gang("g", 8, "mode=required"),
			pods: members("g/0@a", "g/1@b", "g/2@c", "g/3@d", "g/4@e", "g/5@f", "g/6@f", "g/7"),
			want: append([]string{"required true", "ib-f"}, notWhereMostAre("ib-a", "ib-b", "ib-c", "ib-d", "ib-e")...),
			events: []string{"Warning IBClusterSplit g: gang is split across ib-a (1), ib-b (1), ib-c (1), ib-d (1) and 2 more; " +
				"new pods go to ib-f"},
		},
		"a member's node lost its label": {
			nodes: two(), gang: gang("g", 3, "mode=required"), pods: members("g/0@b1", "g/1@x", "g/3"),
			want: []string{"required true", "ib-b",
				"ib-a not: the gang is split across ib-b (1) and on node x outside of node groups; new pods go to ib-b"},
			events: []string{"Warning IBClusterSplit g: gang is split across ib-b (1) and on node x outside of node groups; new pods go to ib-b"},
		},
		"the cluster of the gang vanished": {
			nodes: two(), gang: gang("g", 3, "mode=required"), pods: members("g/0@x", "g/1"),
			want: []string{"required true",
				"ib-a not: the gang's pods are on nodes outside of node groups", "ib-b not: the gang's pods are on nodes outside of node groups"},
		},
		"the gang is where it may not go on": {
			nodes: two(), gang: gang("g", 3, "clusters=ib-a"), pods: members("g/0@b1", "g/1"),
			want: []string{"required true", "ib-a not: the gang's pods are in ib-b", "ib-b not: " + notListed},
		},
		"an affinity group goes where its first member went": {
			nodes: two(), gang: gang("g", 1, "affinity-group=ring"), pods: members("g/0", "other/0@b2"),
			others: []*v1beta1.PodGroup{gang("other", 1, "affinity-group=ring").Obj()},
			want:   []string{"required true", "ib-b", "ib-a not: affinity group ring is in ib-b"},
		},
		"an affinity group in two clusters goes where most of it is": {
			nodes: two(), gang: gang("g", 1, "affinity-group=ring"), pods: members("g/0", "other/0@a1", "other/1@b1", "other/2@b2"),
			others: []*v1beta1.PodGroup{gang("other", 1, "affinity-group=ring").Obj()},
			want:   []string{"required true", "ib-b", "ib-a not: affinity group ring is in ib-b"},
		},
		"an affinity group shares the cluster, not the leaf": {
			nodes: deep, gang: gang("g", 1, "affinity-group=ring", "level=leaf"), pods: members("g/0", "other/0@a1"),
			others: []*v1beta1.PodGroup{gang("other", 1, "affinity-group=ring", "level=leaf").Obj()},
			want:   []string{"required true", "ib-a/s1/l1", "ib-a/s1/l2", "ib-b/s1/l1 not: affinity group ring is in ib-a"},
		},
		"an affinity group without a placed member": {
			nodes: two(), gang: gang("g", 1, "affinity-group=ring"), pods: members("g/0", "other/0"),
			others: []*v1beta1.PodGroup{gang("other", 1, "affinity-group=ring").Obj()},
			want:   []string{"required true", "ib-a", "ib-b"},
		},
		"another affinity group": {
			nodes: two(), gang: gang("g", 1, "affinity-group=ring"), pods: members("g/0", "other/0@b2"),
			others: []*v1beta1.PodGroup{gang("other", 1, "affinity-group=star").Obj()},
			want:   []string{"required true", "ib-a", "ib-b"},
		},
		"an affinity group of another namespace": {
			nodes: two(), gang: gang("g", 1, "affinity-group=ring"),
			pods:   append(members("g/0"), schedtest.MakePod().Namespace("far").Name("p").Group("other").Node("b2").Phase(v1.PodRunning).Obj()),
			others: []*v1beta1.PodGroup{gang("other", 1, "affinity-group=ring").Namespace("far").Obj()},
			want:   []string{"required true", "ib-a", "ib-b"},
		},
		"an affinity group on nodes without labels": {
			nodes: two(), gang: gang("g", 1, "affinity-group=ring"), pods: members("g/0", "other/0@x"),
			others: []*v1beta1.PodGroup{gang("other", 1, "affinity-group=ring").Obj()},
			want: []string{"required true", "ib-a not: affinity group ring is on node x, outside of node groups",
				"ib-b not: affinity group ring is on node x, outside of node groups"},
		},
		"an affinity group is a must whatever the default": {
			nodes: two(), gang: gang("g", 1, "affinity-group=ring"), pods: members("g/0", "other/0@b2"),
			others:    []*v1beta1.PodGroup{gang("other", 1, "affinity-group=ring").Obj()},
			arguments: []string{"defaultMode: preferred"},
			want:      []string{"required true", "ib-b", "ib-a not: affinity group ring is in ib-b"},
		},
		"an affinity group with a level is a must whatever the default": {
			nodes: deep, gang: gang("g", 1, "affinity-group=ring", "level=leaf"), pods: members("g/0", "other/0@b2"),
			others:    []*v1beta1.PodGroup{gang("other", 1, "affinity-group=ring").Obj()},
			arguments: []string{"defaultMode: preferred"},
			want: []string{"required true", "ib-b/s1/l1", "ib-a/s1/l1 not: affinity group ring is in ib-b",
				"ib-a/s1/l2 not: affinity group ring is in ib-b"},
		},
		"a gang of the affinity group that runs counts although its annotations became malformed": {
			nodes: two(), gang: gang("g", 1, "affinity-group=ring"), pods: members("g/0", "other/0@b2"),
			others: []*v1beta1.PodGroup{gang("other", 1, "affinity-group=ring", "level=nope").Obj()},
			want:   []string{"required true", "ib-b", "ib-a not: affinity group ring is in ib-b"},
		},
		"and so does one that waits for more of its members": {
			nodes: two(), gang: gang("g", 1, "affinity-group=ring"), pods: members("g/0", "other/0@b2", "other/1"),
			others: []*v1beta1.PodGroup{gang("other", 1, "affinity-group=ring", "mode=preferred").Obj()},
			want:   []string{"required true", "ib-b", "ib-a not: affinity group ring is in ib-b"},
			events: []string{"Warning IBClusterAnnotationInvalid other: " + notWithCompany("preferred")},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.ClusterSpec{
				Nodes: tt.nodes, PodGroups: append(tt.others, tt.gang.Obj()), Pods: tt.pods,
			}, tt.arguments...)
			if diff := cmp.Diff(tt.want, f.groups("g")); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.events, f.events.Take()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNodeGroupsFollowTheSession: after a member was placed, the gang may use only that cluster. After the placement
// was reverted, it may use all clusters again.
func TestNodeGroupsFollowTheSession(t *testing.T) {
	free := []string{"required true", "ib-a", "ib-b"}
	f := open(t, sessiontest.ClusterSpec{
		Nodes:     two(),
		PodGroups: []*v1beta1.PodGroup{gang("g", 2, "affinity-group=ring").Obj(), gang("kin", 1, "affinity-group=ring").Obj()},
		Pods:      members("g/0", "g/1", "kin/0"),
	})
	check := func(step, group string, want []string) {
		t.Helper()
		if diff := cmp.Diff(want, f.groups(group)); diff != "" {
			t.Errorf("%s: groups of %s (-want +got):\n%s", step, group, diff)
		}
	}
	check("at first", "g", free)
	check("at first", "kin", free)
	statement := f.place(t, "g/0", "b2")
	check("one placed", "g", []string{"required true", "ib-b", "ib-a not: the gang's pods are in ib-b"})
	check("one placed", "kin", []string{"required true", "ib-b", "ib-a not: affinity group ring is in ib-b"})
	statement.Discard()
	check("taken back", "g", free)
	check("taken back", "kin", free)
}

// TestNodeGroupsFollowEvictions: a gang may use all clusters again after the session evicted the last member of its
// affinity group, even if the annotations of that member's gang are malformed.
func TestNodeGroupsFollowEvictions(t *testing.T) {
	f := open(t, sessiontest.ClusterSpec{
		Nodes:     two(),
		PodGroups: []*v1beta1.PodGroup{gang("g", 1, "affinity-group=ring").Obj(), gang("kin", 1, "affinity-group=ring", "level=nope").Obj()},
		Pods:      members("g/0", "kin/0@b1"),
	})
	held := []string{"required true", "ib-b", "ib-a not: affinity group ring is in ib-b"}
	if diff := cmp.Diff(held, f.groups("g")); diff != "" {
		t.Errorf("groups at first (-want +got):\n%s", diff)
	}
	if err := vcframework.NewStatement(f.session.Session.Session).Evict(f.task("kin/0"), "for the test"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"required true", "ib-a", "ib-b"}, f.groups("g")); diff != "" {
		t.Errorf("groups after the eviction (-want +got):\n%s", diff)
	}
}

// TestSplitIsReportedAsOfTheSessionsStart: placements of the session do not change the reported split. Otherwise each
// session would report it again.
func TestSplitIsReportedAsOfTheSessionsStart(t *testing.T) {
	f := open(t, sessiontest.ClusterSpec{
		Nodes: two(), PodGroups: []*v1beta1.PodGroup{gang("g", 2, "mode=required").Obj()}, Pods: members("g/0@a1", "g/1@b1", "g/2", "g/3"),
	})
	want := []string{"Warning IBClusterSplit g: gang is split across ib-a (1), ib-b (1); new pods go to ib-a"}
	f.groups("g")
	if diff := cmp.Diff(want, f.events.Take()); diff != "" {
		t.Errorf("events at first (-want +got):\n%s", diff)
	}
	f.place(t, "g/2", "a2")
	f.place(t, "g/3", "a2").Discard()
	f.groups("g")
	if diff := cmp.Diff(want, f.events.Take()); diff != "" {
		t.Errorf("events after one member is placed (-want +got):\n%s", diff)
	}
}
