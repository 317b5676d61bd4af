// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcallocate "volcano.sh/volcano/pkg/scheduler/actions/allocate"
	vcbackfill "volcano.sh/volcano/pkg/scheduler/actions/backfill"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

func TestPredicate(t *testing.T) {
	deep := nodes("a1 ib-a s1 l1", "a2 ib-a s1 l2", "a3 ib-a", "b1 ib-b s1 l1")
	tests := map[string]struct {
		nodes []*v1.Node
		gang  *schedtest.PodGroupBuilder
		pods  []*v1.Pod
		want  string
	}{
		"no wish":                          {nodes: two(), gang: gang("g", 1), pods: members("g/0"), want: "a1 a2 b1 b2 x"},
		"preferred":                        {nodes: two(), gang: gang("g", 1, "mode=preferred"), pods: members("g/0", "g/1@a1"), want: "a1 a2 b1 b2 x"},
		"preferred, some clusters":         {nodes: deep, gang: gang("g", 1, "mode=preferred", "clusters=ib-c,ib-a", "level=leaf"), pods: members("g/0", "g/1@b1"), want: "a1 a2 a3"},
		"required, no member placed":       {nodes: two(), gang: gang("g", 1, "mode=required"), pods: members("g/0"), want: "a1 a2 b1 b2"},
		"required, a member runs":          {nodes: two(), gang: gang("g", 1, "mode=required"), pods: members("g/0", "g/1@b2"), want: "b1 b2"},
		"some clusters":                    {nodes: two(), gang: gang("g", 1, "clusters=ib-b"), pods: members("g/0"), want: "b1 b2"},
		"a leaf, no member placed":         {nodes: deep, gang: gang("g", 1, "level=leaf"), pods: members("g/0"), want: "a1 a2 b1"},
		"a leaf, a member runs":            {nodes: deep, gang: gang("g", 1, "level=leaf"), pods: members("g/0", "g/1@a2"), want: "a2"},
		"members in two clusters":          {nodes: two(), gang: gang("g", 1, "mode=required"), pods: members("g/0", "g/1@b2", "g/2@b1", "g/3@a1"), want: "b1 b2"},
		"members on nodes without a label": {nodes: two(), gang: gang("g", 1, "mode=required"), pods: members("g/0", "g/1@x"), want: ""},
		"no cluster of the list exists":    {nodes: two(), gang: gang("g", 1, "clusters=ib-c"), pods: members("g/0"), want: ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.ClusterSpec{Nodes: tt.nodes, PodGroups: []*v1beta1.PodGroup{tt.gang.Obj()}, Pods: tt.pods})
			if diff := cmp.Diff(tt.want, f.admitted("g/0")); diff != "" {
				t.Errorf("accepted nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPredicateOfOneCandidate checks the message for actions that do not evict if only one group is permitted: it must
// not state that resources are freed there.
func TestPredicateOfOneCandidate(t *testing.T) {
	f := open(t, sessiontest.ClusterSpec{Nodes: two(), PodGroups: []*v1beta1.PodGroup{gang("g", 1, "clusters=ib-b").Obj()}, Pods: members("g/0")})
	const want = "node(s) outside of the node groups allowed for the gang"
	if err := f.session.PredicateFn(f.task("g/0"), f.session.Nodes["a1"]); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the verdict is %v, want %q", err, want)
	}
}

// TestPredicateFollowsTheSession: after one member is allocated or pipelined, the others may use only its cluster,
// until the placement is reverted.
func TestPredicateFollowsTheSession(t *testing.T) {
	tests := map[string]func(f *fixture, statement *vcframework.Statement) error{
		"allocated": func(f *fixture, s *vcframework.Statement) error {
			return s.Allocate(f.task("g/0"), f.session.Nodes["b2"])
		},
		"pipelined": func(f *fixture, s *vcframework.Statement) error { return s.Pipeline(f.task("g/0"), "b2", false) },
	}
	for name, place := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.ClusterSpec{
				Nodes: two(), PodGroups: []*v1beta1.PodGroup{gang("g", 2, "mode=required").Obj()}, Pods: members("g/0", "g/1"),
			})
			statement := vcframework.NewStatement(f.session.Session.Session)
			want := func(step, want string) {
				t.Helper()
				if diff := cmp.Diff(want, f.admitted("g/1")); diff != "" {
					t.Errorf("%s, accepted nodes (-want +got):\n%s", step, diff)
				}
			}
			want("at first", "a1 a2 b1 b2")
			if err := place(f, statement); err != nil {
				t.Fatal(err)
			}
			want("one placed", "b1 b2")
			statement.Discard()
			want("taken back", "a1 a2 b1 b2")
		})
	}
}

// TestVerdictOutlivesAllocateOnlyIfItMust: preempt skips nodes that allocate found unresolvable. Nodes outside of a
// cluster in which the gang was only tried must not be unresolvable.
func TestVerdictOutlivesAllocateOnlyIfItMust(t *testing.T) {
	tests := map[string]struct {
		wishes []string // nil means mode=required
		pods   []*v1.Pod
		place  bool
		node   string
		want   api.Status
	}{
		"a node in no cluster": {pods: members("g/0", "g/1"), node: "x",
			want: api.Status{Code: api.UnschedulableAndUnresolvable, Plugin: Name, Reason: "node(s) outside of the node groups allowed for the gang"}},
		"outside of the cluster where a member runs": {pods: members("g/0", "g/1@b2"), node: "a1",
			want: api.Status{Code: api.UnschedulableAndUnresolvable, Plugin: Name, Reason: "node(s) outside of node group ib-b, where the gang's pods are"}},
		"outside of the cluster where a member is tried": {pods: members("g/0", "g/1"), place: true, node: "a1",
			want: api.Status{Code: api.Unschedulable, Plugin: Name, Reason: "node(s) outside of node group ib-b, where the gang's pods are"}},
		"outside of the clusters that a preferred gang lists": {wishes: []string{"mode=preferred", "clusters=ib-b"}, pods: members("g/0", "g/1"),
			place: true, node: "a1",
			want: api.Status{Code: api.UnschedulableAndUnresolvable, Plugin: Name, Reason: "node(s) outside of the node groups allowed for the gang"}},
		"where no label is left": {pods: members("g/0", "g/1@x"), node: "a1",
			want: api.Status{Code: api.UnschedulableAndUnresolvable, Plugin: Name, Reason: "node(s) not usable while the gang's pods run on nodes outside of node groups; delete these pods, or label their nodes"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.wishes == nil {
				tt.wishes = []string{"mode=required"}
			}
			f := open(t, sessiontest.ClusterSpec{Nodes: two(), PodGroups: []*v1beta1.PodGroup{gang("g", 2, tt.wishes...).Obj()}, Pods: tt.pods})
			if tt.place {
				f.place(t, "g/1", "b1")
			}
			var fit *api.FitError
			if err := f.session.PredicateFn(f.task("g/0"), f.session.Nodes[tt.node]); !errors.As(err, &fit) {
				t.Fatalf("the node is accepted, or the error is no FitError: %v", err)
			}
			if diff := cmp.Diff(api.StatusSets{&tt.want}, fit.Status); diff != "" {
				t.Errorf("verdict (-want +got):\n%s", diff)
			}
		})
	}
}

func classes() []*schedulingv1.PriorityClass {
	return []*schedulingv1.PriorityClass{schedtest.PriorityClass("high", 100), schedtest.PriorityClass("low", 1)}
}

// filler returns a PodGroup whose pods may all be evicted.
func filler(name string) *schedtest.PodGroupBuilder { return gang(name, 0).PriorityClass("low") }

// big returns a filler's pod that uses this cpu.
func big(name, node, cpu string) *v1.Pod {
	return member(name, node).Req(schedtest.Resources{"cpu": cpu}).Priority(1).Obj()
}

// TestOtherActionsKeepMembersTogether: actions that do not use node groups must not place further members of a gang in
// ib-b outside of ib-b, although ib-a is the better cluster for a single pod.
func TestOtherActionsKeepMembersTogether(t *testing.T) {
	vip := gang("g", 2, "mode=required").PriorityClass("high")
	crowded := two()
	for _, node := range crowded[:2] {
		node.Status.Allocatable[v1.ResourcePods] = resource.MustParse("1")
	}
	tests := map[string]struct {
		nodes  []*v1.Node
		queues []*v1beta1.Queue
		groups []*v1beta1.PodGroup
		pods   []*v1.Pod
		action vcframework.Action
		// own is the name of this project's action that runs instead of action.
		own    string
		where  func(f *fixture) map[string]string
		want   map[string]string
		evicts []string
	}{
		"backfill": {
			groups: []*v1beta1.PodGroup{vip.Obj(), filler("f").Obj()},
			pods:   append(members("g/0@b1"), member("g/1", "").Req(nil).Obj(), big("f/0", "b1", "2"), big("f/1", "b2", "4")),
			action: vcbackfill.New(), where: func(f *fixture) map[string]string { return f.session.Binds() },
			want: map[string]string{"ns/g-1": "b"},
		},
		"a nomination": {
			groups: []*v1beta1.PodGroup{vip.Obj()},
			pods:   append(members("g/0@b1"), member("g/1", "").Nominated("a1").Obj()),
			action: vcallocate.New(), where: func(f *fixture) map[string]string { return f.session.Binds() },
			want: map[string]string{"ns/g-1": "b"},
		},
		"preempt": {
			groups: []*v1beta1.PodGroup{vip.Obj(), filler("f").Obj()},
			pods: append(members("g/0@b1"), member("g/1", "").Req(schedtest.Resources{"cpu": "4"}).Priority(100).Obj(),
				big("f/0", "a1", "4"), big("f/1", "a2", "4"), big("f/2", "b2", "1"), big("f/3", "b2", "3")),
			own: "preempt", where: func(f *fixture) map[string]string { return f.session.Pipelined() },
			want: map[string]string{"ns/g-1": "b"}, evicts: []string{"ns/f-2", "ns/f-3"},
		},
		// The nodes of ib-a have too many pods, which is a reason that evictions could resolve.
		"preempt where another plugin would let it": {
			nodes: crowded, groups: []*v1beta1.PodGroup{vip.Obj(), filler("f").Obj()},
			pods: append(members("g/0@b1"), member("g/1", "").Req(schedtest.Resources{"cpu": "4"}).Priority(100).Obj(),
				big("f/0", "a1", "4"), big("f/1", "a2", "4"), big("f/2", "b2", "1"), big("f/3", "b2", "3")),
			own: "preempt", where: func(f *fixture) map[string]string { return f.session.Pipelined() },
			want: map[string]string{"ns/g-1": "b"}, evicts: []string{"ns/f-2", "ns/f-3"},
		},
		"preempt for a pod that was nominated": {
			groups: []*v1beta1.PodGroup{vip.Obj(), filler("f").Obj()},
			pods: append(members("g/0@b1"), member("g/1", "").Req(schedtest.Resources{"cpu": "4"}).Priority(100).Nominated("a1").Obj(),
				big("f/0", "a1", "4"), big("f/1", "a2", "4"), big("f/2", "b2", "4")),
			own: "preempt", where: func(f *fixture) map[string]string { return f.session.Pipelined() },
			want: map[string]string{"ns/g-1": "b"}, evicts: []string{"ns/f-2"},
		},
		"reclaim": {
			queues: []*v1beta1.Queue{schedtest.MakeQueue().Name("greedy").Obj()},
			groups: []*v1beta1.PodGroup{vip.Obj(), filler("f").Queue("greedy").Obj()},
			pods: append(members("g/0@b1"), member("g/1", "").Req(schedtest.Resources{"cpu": "4"}).Obj(),
				big("f/0", "a1", "4"), big("f/1", "a2", "4"), big("f/2", "b2", "4")),
			own: "reclaim", where: func(f *fixture) map[string]string { return f.session.Pipelined() },
			want: map[string]string{"ns/g-1": "b"}, evicts: []string{"ns/f-2"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.nodes == nil {
				tt.nodes = two()
			}
			f := open(t, sessiontest.ClusterSpec{
				Nodes: tt.nodes, Queues: tt.queues, PriorityClasses: classes(), PodGroups: tt.groups, Pods: tt.pods,
			})
			if tt.own != "" {
				tt.action = f.action(tt.own)
			}
			f.session.Run(tt.action)
			if diff := cmp.Diff(tt.want, clustersOf(tt.where(f))); diff != "" {
				t.Errorf("clusters of the placed pods (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.evicts, sorted(f.session.Evicts())); diff != "" {
				t.Errorf("evicted (-want +got):\n%s", diff)
			}
		})
	}
}

// clustersOf replaces nodes by the letter of their cluster.
func clustersOf(placed map[string]string) map[string]string {
	for pod, node := range placed {
		placed[pod] = node[:1]
	}
	return placed
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// TestJobKey checks that only gangs restricted to some clusters have their own cached results, and that these change
// when a member is placed.
func TestJobKey(t *testing.T) {
	f := open(t, sessiontest.ClusterSpec{
		Nodes: two(),
		PodGroups: []*v1beta1.PodGroup{
			gang("free", 1).Obj(), gang("preferred", 1, "mode=preferred").Obj(), gang("required", 1, "mode=required").Obj(),
			gang("listing", 1, "mode=preferred", "clusters=ib-a").Obj(), gang("other", 1, "mode=preferred", "clusters=ib-b").Obj(),
		},
		Pods: members("free/0", "preferred/0", "required/0", "required/1", "required/2", "listing/0", "other/0"),
	})
	key := func(name string) string { return f.session.Signers.JobKey(Name, f.job(name)) }
	for _, name := range []string{"free", "preferred"} {
		if got := key(name); got != "" {
			t.Errorf("the key of gang %s is %q, want none", name, got)
		}
	}
	distinct := map[string]bool{"": true}
	for _, name := range []string{"required", "listing", "other"} {
		if got := key(name); distinct[got] {
			t.Errorf("the key %q of gang %s is not its own", got, name)
		}
		distinct[key(name)] = true
	}

	before := key("required")
	first := f.place(t, "required/0", "a1")
	inA := key("required")
	if inA == before {
		t.Errorf("the key %q did not change with the first member, which restricts the others to its cluster", inA)
	}
	second := f.place(t, "required/1", "a2")
	if got := key("required"); got != inA {
		t.Errorf("the key changed from %q to %q with another member in the same cluster", inA, got)
	}
	if listing := key("listing"); !distinct[listing] {
		t.Errorf("the key of gang listing changed to %q with a member of another gang", listing)
	}
	second.Discard()
	first.Discard()
	if got := key("required"); got != before {
		t.Errorf("after all placements were reverted the key is %q, want %q again", got, before)
	}
	f.place(t, "required/2", "b1")
	if got := key("required"); got == inA {
		t.Errorf("the key %q is the same with a member in another cluster", got)
	}
}
