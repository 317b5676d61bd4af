// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// bindWorld is a cluster with bound and pending gang members, and a leader that has already had its first session. The
// pods are named "<gang>-<number>".
type bindWorld struct {
	*fakeCache
	pods map[string]*v1.Pod
}

func newBindWorld(t *testing.T) *bindWorld {
	w := &bindWorld{fakeCache: newCache(t), pods: map[string]*v1.Pod{}}
	w.session = sessions(t, w.fakeCache, 0)
	w.session(nil)
	return w
}

// needs writes the PodGroup g with this minMember.
func (w *bindWorld) needs(minimum int32) {
	w.AddPodGroupV1beta1(schedtest.MakePodGroup().Name("g").Queue("a").MinMember(minimum).Obj())
}

// member makes a pod that requests 1 CPU and 1 MiB.
func member(name string) *schedtest.PodBuilder {
	gang, _, _ := strings.Cut(name, "-")
	return schedtest.MakePod().Name(name).Group(gang).Req(schedtest.Resources{"cpu": "1", "memory": "1Mi"})
}

func (w *bindWorld) add(pods ...*schedtest.PodBuilder) {
	for _, b := range pods {
		pod := b.Obj()
		w.pods[pod.Name] = pod
		w.AddPod(pod)
	}
}

func (w *bindWorld) waits(names ...string) {
	for _, name := range names {
		w.add(member(name))
	}
}

func (w *bindWorld) remove(name string) { w.DeletePod(w.pods[name]) }

func (w *bindWorld) change(name string, change func(pod *v1.Pod)) {
	pod := w.pods[name].DeepCopy()
	change(pod)
	w.UpdatePod(w.pods[name], pod)
	w.pods[name] = pod
}

func (w *bindWorld) resize(name string, what v1.ResourceName, amount string) {
	w.change(name, func(pod *v1.Pod) { pod.Spec.Containers[0].Resources.Requests[what] = resource.MustParse(amount) })
}

func (w *bindWorld) moves(name, gang string) {
	w.change(name, func(pod *v1.Pod) { pod.Annotations["scheduling.k8s.io/group-name"] = gang })
}

// sets has a session in which the members get a status.
func (w *bindWorld) sets(status api.TaskStatus, names ...string) {
	w.session(func(ssn *framework.Session) {
		for _, name := range names {
			gang, _, _ := strings.Cut(name, "-")
			job := ssn.Jobs[api.JobID("ns/"+gang)]
			if err := job.UpdateTaskStatus(job.Tasks[api.TaskID("ns-"+name)], status); err != nil {
				w.t.Fatal(err)
			}
		}
	})
}

// binds runs a session that hands the members over to be bound. In the next session they are pending, unless the test
// calls bound before that.
func (w *bindWorld) binds(names ...string) { w.sets(api.Binding, names...) }

// bound has the Bindings of the members succeed.
func (w *bindWorld) bound(names ...string) {
	for _, name := range names {
		w.change(name, func(pod *v1.Pod) {
			pod.Spec.NodeName, pod.Status.Phase = "n", v1.PodRunning
			pod.Annotations[binding.MinimumAnnotation] = "2"
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(schedtest.Created.Add(time.Minute))}}
		})
	}
}

// runs adds members that are bound, without a session before.
func (w *bindWorld) runs(names ...string) {
	w.waits(names...)
	w.bound(names...)
}

func (w *bindWorld) evict(name string) {
	w.session(func(ssn *framework.Session) {
		ssn.Action = "preempt"
		for _, job := range ssn.Jobs {
			if task := job.Tasks[api.TaskID("ns-"+name)]; task != nil {
				if err := ssn.Evict(task, "another gang needs the room"); err != nil {
					w.t.Error(err)
				}
			}
		}
	})
	w.remove(name)
}

// first returns the members of the gang that go first in the next session, and the condition's message.
func (w *bindWorld) first(gang string) (names []string, message string) {
	w.session(func(ssn *framework.Session) {
		job := ssn.Jobs[api.JobID("ns/"+gang)]
		if precedence, first := ssn.Placements.Precedence(job); first {
			for uid := range precedence.Only {
				names = append(names, job.Tasks[uid].Name)
			}
		}
		if c := conditions.Find(&job.PodGroup.Status, PartiallyBound); c != nil {
			message = c.Message
		}
	})
	slices.Sort(names)
	return names, message
}

// TestInterruptedMembersGoFirst: of a partially bound gang, only the pods whose bind failed go first, if they complete
// the gang and request no more than when they were handed over. In all other cases, for example after a running member
// was deleted, the gang waits in its usual order.
func TestInterruptedMembersGoFirst(t *testing.T) {
	rejected := func(w *bindWorld) { // the Binding of g-1
		w.waits("g-0", "g-1")
		w.binds("g-0", "g-1")
		w.bound("g-0")
	}
	hint := func(value string) func(pod *v1.Pod) {
		return func(pod *v1.Pod) { pod.Annotations[v1alpha1.DeviceAllocateHintAnnotation] = value }
	}
	for name, tt := range map[string]struct {
		do   func(w *bindWorld)
		want []string
	}{
		"a Binding failed": {do: rejected, want: []string{"g-1"}},
		"it failed several sessions ago": {want: []string{"g-1"}, do: func(w *bindWorld) {
			rejected(w)
			for range 3 {
				w.session(nil)
			}
		}},
		"it failed again": {want: []string{"g-1"}, do: func(w *bindWorld) { rejected(w); w.binds("g-1") }},
		"others of the gang wait in the usual order": {want: []string{"g-1"}, do: func(w *bindWorld) {
			w.waits("g-2")
			rejected(w)
			w.waits("g-3")
		}},
		"the other Binding takes longer": {want: []string{"g-1"}, do: func(w *bindWorld) {
			w.waits("g-0", "g-1")
			w.binds("g-0", "g-1")
			w.setStatus("g", "0", api.Binding)
			w.session(nil)
			w.bound("g-0")
		}},
		"smaller":                          {want: []string{"g-1"}, do: func(w *bindWorld) { rejected(w); w.resize("g-1", "cpu", "10m") }},
		"larger":                           {do: func(w *bindWorld) { rejected(w); w.resize("g-1", "cpu", "7") }},
		"larger in memory, smaller in CPU": {do: func(w *bindWorld) { rejected(w); w.resize("g-1", "memory", "1Gi"); w.resize("g-1", "cpu", "10m") }},
		"larger in a new resource":         {do: func(w *bindWorld) { rejected(w); w.resize("g-1", "nvidia.com/gpu", "1") }},
		"larger for a while": {want: []string{"g-1"}, do: func(w *bindWorld) {
			rejected(w)
			w.resize("g-1", "cpu", "7")
			w.session(nil)
			w.resize("g-1", "cpu", "1")
		}},
		"larger while it was being bound": {do: func(w *bindWorld) {
			w.waits("g-0", "g-1")
			w.binds("g-0", "g-1")
			w.resize("g-1", "cpu", "7")
			w.setStatus("g", "0", api.Binding)
			w.setStatus("g", "1", api.Binding)
			w.session(nil)
			w.bound("g-0")
			w.setStatus("g", "1", api.Pending)
		}},
		"with a hint that may ask for all devices": {do: func(w *bindWorld) { rejected(w); w.change("g-1", hint("{}")) }},
		"with the same hint": {want: []string{"g-1"}, do: func(w *bindWorld) {
			w.waits("g-0", "g-1")
			w.change("g-1", hint("{}"))
			w.binds("g-0", "g-1")
			w.bound("g-0")
		}},
		"another pod of the same name": {do: func(w *bindWorld) { rejected(w); w.remove("g-1"); w.add(member("g-1").UID("other")) }},
		"too few of the same pods": {do: func(w *bindWorld) {
			w.waits("g-2")
			rejected(w)
			w.needs(3)
			w.change("g-0", func(pod *v1.Pod) { pod.Annotations[binding.MinimumAnnotation] = "3" })
		}},
		"it was placed, and not handed over": {do: func(w *bindWorld) {
			w.waits("g-0", "g-1")
			w.binds("g-0")
			w.sets(api.Allocated, "g-1")
			w.bound("g-0")
		}},
		"no member held a node since": {do: func(w *bindWorld) {
			w.waits("g-0", "g-1")
			w.binds("g-0", "g-1")
			w.session(nil)
			w.bound("g-0")
		}},
		"the gang had its minimum since": {do: func(w *bindWorld) {
			w.waits("g-2")
			rejected(w)
			w.bound("g-2")
			w.session(nil)
			w.remove("g-2")
		}},
		"its PodGroup was created again": {do: func(w *bindWorld) {
			rejected(w)
			w.DeletePodGroupV1beta1(schedtest.MakePodGroup().Name("g").Obj())
			w.session(nil)
			again := schedtest.MakePodGroup().Name("g").Queue("a").MinMember(2).Obj()
			again.UID = "again"
			w.AddPodGroupV1beta1(again)
		}},
		"it was in another gang since": {do: func(w *bindWorld) {
			rejected(w)
			w.moves("g-1", "waits")
			w.session(nil)
			w.moves("g-1", "g")
		}},
		"a member that replaces a running member failed to bind": {do: func(w *bindWorld) {
			w.runs("g-0", "g-1")
			w.session(nil)
			w.remove("g-1")
			w.waits("g-2")
			w.binds("g-2")
		}},
		"a running member was deleted": {do: func(w *bindWorld) { w.runs("g-0", "g-1"); w.session(nil); w.remove("g-1"); w.waits("g-2") }},
		"a running member was deleted, and created again": {do: func(w *bindWorld) {
			w.waits("g-0", "g-1")
			w.binds("g-0", "g-1")
			w.bound("g-0", "g-1")
			w.session(nil)
			w.remove("g-1")
			w.waits("g-1")
		}},
		"a running member was deleted long ago": {do: func(w *bindWorld) {
			w.runs("g-0", "g-1")
			w.session(nil)
			w.remove("g-1")
			for range 50 {
				w.session(nil)
			}
			w.waits("g-2")
		}},
		"a running member was evicted, and another one waits": {do: func(w *bindWorld) { w.waits("g-2"); w.runs("g-0", "g-1"); w.evict("g-1"); w.session(nil) }},
		"a running member moved to another gang, and was evicted from there": {do: func(w *bindWorld) {
			w.runs("g-0", "g-1")
			w.session(nil)
			w.moves("g-1", "whole")
			w.evict("g-1")
			w.session(nil)
			w.waits("g-2")
		}},
		"a running member was resized to more than its kubelet grants, and deleted": {do: func(w *bindWorld) {
			w.runs("g-0", "g-1")
			w.session(nil)
			w.resize("g-1", "cpu", "700")
			w.session(nil)
			w.remove("g-1")
			w.add(member("g-2").Req(schedtest.Resources{"cpu": "700"}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBindWorld(t)
			w.needs(2)
			tt.do(w)
			for range 2 { // it stays so
				got, message := w.first("g")
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("members that go first (-want +got):\n%s", diff)
				}
				if says := strings.HasSuffix(message, "its pods whose bind was interrupted are scheduled first"); message == "" || says != (tt.want != nil) {
					t.Errorf("the condition says %q", message)
				}
			}
		})
	}
}

// TestAbsentGangsAreRemembered checks that interrupted members still go first after a session without their gang, and
// that they are forgotten if the gang is absent for framework.AbsentFor. A gang is absent, for example, while the quarantine
// searches for an object that makes sessions panic.
func TestAbsentGangsAreRemembered(t *testing.T) {
	for absent, want := range map[time.Duration][]string{framework.AbsentFor / 2: {"g-1"}, framework.AbsentFor: nil} {
		w := newBindWorld(t)
		synctest.Test(t, func(t *testing.T) {
			w.needs(2)
			w.waits("g-0", "g-1")
			w.binds("g-0", "g-1")
			w.bound("g-0")
			group := w.Jobs["ns/g"]
			delete(w.Jobs, "ns/g")
			time.Sleep(absent)
			w.session(nil)
			w.Jobs["ns/g"] = group
			if got, _ := w.first("g"); !slices.Equal(got, want) {
				t.Errorf("after %s without the gang, %v go first, want %v", absent, got, want)
			}
		})
	}
}

// TestABindThatLosesAllBoundMembers: a gang was bound with a minimum of two, which was then raised to three. Its third
// member is being bound when its owner deletes the other two. The third member does not go first.
func TestABindThatLosesAllBoundMembers(t *testing.T) {
	w := &bindWorld{fakeCache: newCache(t), pods: map[string]*v1.Pod{}}
	w.needs(3)
	w.runs("g-0", "g-1")
	w.waits("g-2")
	w.session = sessions(t, w.fakeCache, 0)
	w.session(nil)
	w.setStatus("g", "2", api.Binding)
	w.session(nil)
	w.remove("g-0")
	w.remove("g-1")
	if got, _ := w.first("g"); got != nil {
		t.Errorf("members that go first: %q, want none", got)
	}
}

// TestInterruptedGangsOfAGroup: gang y of a group is interrupted while gang x is bound. Its members go first only if
// all pending members of the gangs below their minimum were interrupted, because the gangs of a group are placed
// together, with any of their pending members.
func TestInterruptedGangsOfAGroup(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(w *bindWorld)
		want []string
	}{
		"the Bindings of one gang failed": {want: []string{"y-0", "y-1"}, do: func(w *bindWorld) {}},
		"the Bindings of the other gang took longer": {want: []string{"y-0", "y-1"}, do: func(w *bindWorld) {
			w.setStatus("x", "0", api.Binding)
			w.setStatus("x", "1", api.Binding)
			w.session(nil)
		}},
		"another member waits":             {do: func(w *bindWorld) { w.waits("y-2") }},
		"another member has a gate":        {want: []string{"y-0", "y-1"}, do: func(w *bindWorld) { w.add(member("y-2").Gate("later")) }},
		"a member is another pod":          {do: func(w *bindWorld) { w.remove("y-1"); w.waits("y-2") }},
		"a gang of the group never waited": {do: func(w *bindWorld) { w.remove("z-0"); w.waits("z-1") }},
		"a gang of the group does not exist": {want: []string{"y-0", "y-1"}, do: func(w *bindWorld) {
			w.DeletePodGroupV1beta1(schedtest.MakePodGroup().Name("z").Obj())
		}},
		"a gang of the group has no pods":        {do: func(w *bindWorld) { w.remove("z-0") }},
		"a gang of the group is complete":        {want: []string{"y-0", "y-1"}, do: func(w *bindWorld) { w.bound("z-0"); w.waits("z-1") }},
		"no gang of the group held a node since": {do: func(w *bindWorld) { w.session(nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBindWorld(t)
			for name, minimum := range map[string]int32{"x": 2, "y": 2, "z": 1} {
				w.AddPodGroupV1beta1(schedtest.MakePodGroup().Name(name).Queue("a").MinMember(minimum).Annotation(gangs.GroupsAnnotation, `["ns/x","ns/y","ns/z"]`).Obj())
			}
			w.waits("x-0", "x-1", "y-0", "y-1", "z-0")
			w.binds(slices.Collect(maps.Keys(w.pods))...)
			tt.do(w)
			w.bound("x-0", "x-1")
			for _, name := range []string{"x-0", "x-1"} {
				w.change(name, func(pod *v1.Pod) { pod.Annotations[gangs.BindGroupAnnotation] = "ns/x,ns/y,ns/z" })
			}
			for range 2 {
				if got, _ := w.first("y"); !slices.Equal(got, tt.want) {
					t.Errorf("members that go first: %q, want %q", got, tt.want)
				}
			}
		})
	}
}

// TestNoMemberGoesFirstDuringABind checks that no member goes first while another member is being bound, which may
// complete the gang.
func TestNoMemberGoesFirstDuringABind(t *testing.T) {
	w := newBindWorld(t)
	w.needs(2)
	w.waits("g-0", "g-1", "g-2")
	w.binds("g-0", "g-1", "g-2")
	w.bound("g-0")
	if got, _ := w.first("g"); !slices.Equal(got, []string{"g-1", "g-2"}) {
		t.Errorf("members that go first: %q, want g-1 and g-2", got)
	}
	w.setStatus("g", "2", api.Binding)
	if got, _ := w.first("g"); got != nil {
		t.Errorf("members that go first during a bind: %q, want none", got)
	}
}

// TestReplacementsOfAGangOfAGroupWait: gang y of a group lost all its members while gang x is bound. Its new members,
// which failed to bind, do not go first.
func TestReplacementsOfAGangOfAGroupWait(t *testing.T) {
	w := newBindWorld(t)
	for _, name := range []string{"x", "y"} {
		w.AddPodGroupV1beta1(schedtest.MakePodGroup().Name(name).Queue("a").MinMember(1).Annotation(gangs.GroupsAnnotation, `["ns/x","ns/y"]`).Obj())
	}
	w.runs("x-0")
	w.change("x-0", func(pod *v1.Pod) { pod.Annotations[gangs.BindGroupAnnotation] = "ns/x,ns/y" })
	w.session(nil)
	w.waits("y-0")
	w.binds("y-0")
	if got, message := w.first("y"); got != nil || message == "" {
		t.Errorf("members that go first: %q, with the condition %q", got, message)
	}
}

// TestANewLeaderCompletesWhatACrashLeft: the pending members of gangs that a crash left partially bound go first under
// a new leader. Members of gangs that lost members in another way do not. The times when pods were created and bound
// distinguish these gangs.
func TestANewLeaderCompletesWhatACrashLeft(t *testing.T) {
	bound := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	member := func(n string, created time.Duration) *v1.Pod {
		p := member("g-" + n).Role("worker").Obj()
		p.CreationTimestamp = metav1.NewTime(bound.Add(created))
		return p
	}
	runs := func(n string, after time.Duration) *v1.Pod {
		p := member(n, -time.Minute)
		p.Spec.NodeName, p.Status.Phase = "n", v1.PodRunning
		p.Annotations[binding.MinimumAnnotation] = "3"
		p.Status.Conditions = []v1.PodCondition{
			{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(bound.Add(-time.Hour))},
			{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(bound.Add(after))},
		}
		return p
	}
	leader := member("3", -time.Minute)
	leader.Annotations["volcano.sh/task-spec"] = "leader"
	group := func() *schedtest.PodGroupBuilder { return schedtest.MakePodGroup().MinMember(3) }
	tests := map[string]struct {
		group *schedtest.PodGroupBuilder
		pods  []*v1.Pod
		// later come after the leader's first session.
		later []*v1.Pod
		want  []string
	}{
		"a crash after the first bind":                                      {pods: []*v1.Pod{runs("0", 0), member("1", -time.Minute), member("2", 0)}, want: []string{"g-1", "g-2"}},
		"a crash before the last bind":                                      {pods: []*v1.Pod{runs("0", 0), runs("1", time.Second), member("2", -time.Minute)}, want: []string{"g-2"}},
		"more members came since a crash":                                   {pods: []*v1.Pod{runs("0", 0), member("1", 0), member("2", 0), member("3", time.Hour)}, want: []string{"g-1", "g-2"}},
		"a member was evicted":                                              {pods: []*v1.Pod{runs("0", 0), runs("1", 0), member("2", time.Second)}},
		"a member was evicted, after others were bound for another":         {pods: []*v1.Pod{runs("0", 0), runs("1", time.Hour), member("2", time.Minute)}},
		"a member was evicted, and too few are older":                       {pods: []*v1.Pod{runs("0", 0), member("1", -time.Minute), member("2", time.Second)}},
		"an evicted member is made again later":                             {pods: []*v1.Pod{runs("0", 0), runs("1", 0)}, later: []*v1.Pod{member("2", time.Hour)}},
		"an older pod joins the gang later":                                 {pods: []*v1.Pod{runs("0", 0), runs("1", 0)}, later: []*v1.Pod{member("2", -time.Hour)}},
		"a crash left out all of a role that has a minimum":                 {group: group().MinTaskMember("leader", 1), pods: []*v1.Pod{runs("0", 0), runs("1", 0), runs("2", 0), leader}, want: []string{"g-3"}},
		"it has a role's minimum, and a crash left it before its last bind": {group: group().MinTaskMember("leader", 1), pods: []*v1.Pod{runs("0", 0), runs("1", 0), leader}, want: []string{"g-3"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCache(t)
			if tt.group == nil {
				tt.group = group()
			}
			c.AddPodGroupV1beta1(tt.group.Name("g").Queue("a").Obj())
			for _, pod := range tt.pods {
				c.AddPod(pod)
			}
			w := &bindWorld{fakeCache: c}
			w.session = sessions(t, c, 0)
			w.session(nil)
			for _, pod := range tt.later {
				c.AddPod(pod)
			}
			for range 2 {
				got, message := w.first("g")
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("members that go first (-want +got):\n%s", diff)
				}
				if message == "" {
					t.Error("the gang is not said to be bound in part")
				}
			}
		})
	}
}

// TestAClaimThatIsBoundMeanwhile checks that a member whose own pre-bind step bound a claim does not count as resized: the
// task's requests then include the volume.
func TestAClaimThatIsBoundMeanwhile(t *testing.T) {
	before, now := api.NewTaskInfo(member("g-1").Obj()), api.NewTaskInfo(member("g-1").Obj())
	now.InitResreq.AddScalar("attachable-volumes-csi-x", 1)
	if isLarger(requestOf(now.Pod), requestOf(before.Pod)) {
		t.Error("the member counts as resized")
	}
}
