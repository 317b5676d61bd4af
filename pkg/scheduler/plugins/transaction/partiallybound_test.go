// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// setStatus sets the status of a gang's member in the cache.
func (c *fakeCache) setStatus(gang, n string, status api.TaskStatus) {
	c.t.Helper()
	job := c.Jobs[api.JobID("ns/"+gang)]
	if err := job.UpdateTaskStatus(job.Tasks[api.TaskID("ns-"+gang+"-"+n)], status); err != nil {
		c.t.Fatal(err)
	}
}

// TestWhichGangsAreBoundInPart checks which gangs count as partially bound, and therefore go first: gangs below
// their minimum, unless the minimum was raised after their members were bound.
func TestWhichGangsAreBoundInPart(t *testing.T) {
	group := func(minMember int32) *schedtest.PodGroupBuilder { return schedtest.MakePodGroup().MinMember(minMember) }
	waits := func(n string) *schedtest.PodBuilder { return schedtest.MakePod().Name("g-" + n).Group("g") }
	runs := func(n, minimum string) *schedtest.PodBuilder {
		return waits(n).Node("n").Phase(v1.PodRunning).Annotation(binding.MinimumAnnotation, minimum)
	}
	tests := map[string]struct {
		group *schedtest.PodGroupBuilder
		pods  []*schedtest.PodBuilder
		// binding is the member that is being bound.
		binding string
		// want reports whether the gang is partially bound. It then goes first.
		want bool
	}{
		"a crash left it":  {group: group(2), pods: []*schedtest.PodBuilder{runs("0", "2"), waits("1")}, want: true},
		"it lost a member": {group: group(3), pods: []*schedtest.PodBuilder{runs("0", "3"), runs("1", "3"), waits("2")}, want: true},
		"it lost a member and needs fewer than it did": {group: group(2), pods: []*schedtest.PodBuilder{runs("0", "3"), waits("1")}, want: true},
		"it has its minimum":                           {group: group(2), pods: []*schedtest.PodBuilder{runs("0", "2"), runs("1", "2"), waits("2")}},
		"it ran alone and was made larger":             {group: group(1000), pods: []*schedtest.PodBuilder{waits("0").Node("n").Phase(v1.PodRunning), waits("1")}},
		"it ran whole and was made larger":             {group: group(1000), pods: []*schedtest.PodBuilder{runs("0", "2"), runs("1", "2"), waits("2")}},
		"it lost a member and was made larger":         {group: group(1000), pods: []*schedtest.PodBuilder{runs("0", "2"), waits("1")}},
		"it grew, and what was bound since is short":   {group: group(3), pods: []*schedtest.PodBuilder{runs("0", "2"), runs("1", "3"), waits("2")}, want: true},
		"roles ask for more than when it was bound": {
			group: group(3).MinTaskMember("worker", 3), pods: []*schedtest.PodBuilder{runs("0", "2").Role("worker"), waits("1").Role("worker")},
		},
		"its leader is lost, and as many as its minimum are bound": {
			group: group(2).MinTaskMember("leader", 1), want: true,
			pods: []*schedtest.PodBuilder{runs("0", "2").Role("worker"), runs("1", "2").Role("worker"), waits("2").Role("leader")},
		},
		"another scheduler bound it":  {group: group(2), pods: []*schedtest.PodBuilder{waits("0").Node("n").Phase(v1.PodRunning), waits("1")}},
		"the annotation is no number": {group: group(2), pods: []*schedtest.PodBuilder{runs("0", "many"), waits("1")}},
		"a waiting pod has the annotation": {group: group(2), pods: []*schedtest.PodBuilder{
			waits("0").Node("n").Phase(v1.PodRunning), waits("1").Annotation(binding.MinimumAnnotation, "2"),
		}},
		"more of it is being bound": {
			group: group(3), pods: []*schedtest.PodBuilder{runs("0", "3"), waits("1"), waits("2")}, binding: "1",
		},
		"nothing of it waits":    {group: group(2), pods: []*schedtest.PodBuilder{runs("0", "2")}},
		"nothing of it is bound": {group: group(2), pods: []*schedtest.PodBuilder{waits("0"), waits("1")}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCache(t)
			c.AddPodGroupV1beta1(tt.group.Name("g").Queue("a").Obj())
			for _, pod := range tt.pods {
				c.AddPod(pod.Obj())
			}
			if tt.binding != "" {
				c.setStatus("g", tt.binding, api.Binding)
			}
			sessions(t, c, 0)(func(ssn *framework.Session) {
				job := ssn.Jobs["ns/g"]
				if got := ssn.Placements.IsPlacedFirst(job); got != tt.want {
					t.Errorf("the gang is placed first: %t, want %t", got, tt.want)
				}
				if reported := conditions.Find(&job.PodGroup.Status, PartiallyBound) != nil; reported != tt.want {
					t.Errorf("the gang has condition PartiallyBound: %t, want %t", reported, tt.want)
				}
			})
		})
	}
}

// TestPartiallyBoundConditionStays checks that the condition stays until the gang reaches its minimum, even while its
// remaining members are being bound.
func TestPartiallyBoundConditionStays(t *testing.T) {
	c := newCache(t)
	session := sessions(t, c, 0)
	says := func(when string, want bool) {
		t.Helper()
		session(nil)
		reported := strings.Contains(strings.Join(conditionsOf(c, "half"), " "), string(PartiallyBound))
		if reported != want {
			t.Errorf("%s the gang has condition PartiallyBound: %t, want %t", when, reported, want)
		}
	}
	says("at first", true)
	c.setStatus("half", "1", api.Binding)
	says("while it is being completed", true)
	c.setStatus("half", "1", api.Bound)
	says("once it is whole", false)
}

func conditionsOf(c *fakeCache, gang string) (types []string) {
	for _, condition := range c.Jobs[api.JobID("ns/"+gang)].PodGroup.Status.Conditions {
		types = append(types, string(condition.Type))
	}
	return types
}

func TestPartiallyBoundGangIsEvictedAfterTheLimitOnly(t *testing.T) {
	reason := "half-0: " + evictionReason(false, time.Minute)
	tests := map[string]struct {
		limit time.Duration
		waits time.Duration
		// between runs between the first session and the wait.
		between func(c *fakeCache)
		want    []string
	}{
		"before the limit":      {limit: time.Minute, waits: 59 * time.Second},
		"after the limit":       {limit: time.Minute, waits: 61 * time.Second, want: []string{reason}},
		"never without a limit": {waits: time.Hour},
		"not one that is whole": {limit: time.Minute, waits: time.Hour, between: func(c *fakeCache) {
			c.UpdatePod(schedtest.MakePod().Name("half-1").Group("half").Obj(),
				schedtest.MakePod().Name("half-1").Group("half").Node("n").Annotation(binding.MinimumAnnotation, "2").Phase(v1.PodRunning).Obj())
		}},
		"not one that is being completed": {limit: time.Minute, waits: time.Hour, between: func(c *fakeCache) {
			c.AddPod(schedtest.MakePod().Name("half-2").Group("half").Obj())
			c.setStatus("half", "1", api.Binding)
		}},
		"one whose rest is stuck in its transaction": {limit: time.Minute, waits: 61 * time.Second, want: []string{reason}, between: func(c *fakeCache) {
			c.setStatus("half", "1", api.Binding)
			c.session(nil)
		}},
		"one whose rest is stuck while the configuration changes": {limit: time.Minute, waits: 31 * time.Second, want: []string{reason}, between: func(c *fakeCache) {
			c.setStatus("half", "1", api.Binding)
			c.session(nil)
			time.Sleep(30 * time.Second)
			c.reload()
			c.session(nil)
		}},
		"not one whose rest is on its way for a moment": {limit: time.Minute, waits: 59 * time.Second, between: func(c *fakeCache) {
			time.Sleep(time.Hour)
			c.setStatus("half", "1", api.Binding)
			c.session(nil)
		}},
		"not one whose rest is being bound again": {limit: time.Minute, waits: 31 * time.Second, between: func(c *fakeCache) {
			for _, status := range []api.TaskStatus{api.Binding, api.Pending, api.Binding} {
				c.setStatus("half", "1", status)
				c.session(nil)
				if status == api.Binding {
					time.Sleep(28 * time.Second)
				}
			}
		}},
		"one that was tried in between": {limit: time.Minute, waits: 61 * time.Second, want: []string{reason}, between: func(c *fakeCache) {
			c.setStatus("half", "1", api.Binding)
			c.session(nil)
			c.setStatus("half", "1", api.Pending)
			c.session(nil)
		}},
		"one that another configuration found": {limit: time.Minute, waits: 31 * time.Second, want: []string{reason}, between: func(c *fakeCache) {
			time.Sleep(30 * time.Second)
			c.reload()
		}},
		"one that another leader has seen for as long": {limit: time.Minute, waits: 61 * time.Second, want: []string{reason}, between: func(c *fakeCache) {
			c.session = sessions(c.t, c, time.Minute)
			c.session(nil)
		}},
		"not one that another leader has just seen": {limit: time.Minute, waits: 59 * time.Second, between: func(c *fakeCache) {
			time.Sleep(30 * time.Second)
			c.session = sessions(c.t, c, time.Minute)
			c.session(nil)
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCache(t)
			synctest.Test(t, func(t *testing.T) {
				c.session = sessions(t, c, tt.limit)
				c.session(nil)
				if len(c.evicted) != 0 {
					t.Errorf("the first session evicted %v, want no eviction", c.evicted)
				}
				if tt.between != nil {
					tt.between(c)
				}
				time.Sleep(tt.waits)
				c.session(nil)
				if diff := cmp.Diff(tt.want, c.evicted); diff != "" {
					t.Errorf("evicted (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAMemberThatIsNotEvictedKeepsNoOther: if the API server rejects the eviction of one member, the other members are
// still evicted. Their resources are of no use to a partial gang.
func TestAMemberThatIsNotEvictedKeepsNoOther(t *testing.T) {
	c := newCache(t)
	c.AddPodGroupV1beta1(schedtest.MakePodGroup().Name("half").Queue("b").MinMember(3).Obj())
	c.AddPod(schedtest.MakePod().Name("half-2").Group("half").Node("n").Annotation(binding.MinimumAnnotation, "3").Obj())
	synctest.Test(t, func(t *testing.T) {
		session := sessions(t, c, time.Minute)
		session(nil)
		time.Sleep(61 * time.Second)
		c.refuses = 1
		session(nil)
		if len(c.evicted) != 1 {
			t.Errorf("evicted %v, want one member: the API server rejected the eviction of the other", c.evicted)
		}
	})
}

// TestTheTimeLimitStartsOver checks that the time limit starts again for a gang that was complete in between.
func TestTheTimeLimitStartsOver(t *testing.T) {
	c := newCache(t)
	waiting := schedtest.MakePod().Name("half-1").Group("half")
	running := schedtest.MakePod().Name("half-1").Group("half").Node("n").Annotation(binding.MinimumAnnotation, "2").Phase(v1.PodRunning)
	synctest.Test(t, func(t *testing.T) {
		session := sessions(t, c, time.Minute)
		session(nil)
		time.Sleep(40 * time.Second)
		c.UpdatePod(waiting.Obj(), running.Obj())
		session(nil)
		c.DeletePod(running.Obj())
		c.AddPod(waiting.Obj())
		session(nil)
		time.Sleep(40 * time.Second)
		session(nil)
		if len(c.evicted) != 0 {
			t.Errorf("evicted 40 s after the gang became partially bound again: %v", c.evicted)
		}
	})
}

// TestAGangThatIsCompletedAtLastIsNotEvicted checks that a gang is not evicted if the session places its remaining
// members.
func TestAGangThatIsCompletedAtLastIsNotEvicted(t *testing.T) {
	c := newCache(t)
	synctest.Test(t, func(t *testing.T) {
		session := sessions(t, c, time.Minute)
		session(nil)
		time.Sleep(time.Hour)
		session(func(ssn *framework.Session) {
			job := ssn.Jobs[schedtest.Namespace+"/half"]
			for _, task := range job.TaskStatusIndex[api.Pending] {
				if err := job.UpdateTaskStatus(task, api.Binding); err != nil {
					t.Error(err)
				}
			}
		})
		if len(c.evicted) > 0 {
			t.Errorf("evicted %v, want no eviction", c.evicted)
		}
	})
}

// TestPartiallyBoundIsRecordedInEverySession: each session records the event again, because an earlier one may have
// been lost. The recorder drops repeated events.
func TestPartiallyBoundIsRecordedInEverySession(t *testing.T) {
	c := newCache(t)
	session := sessions(t, c, 0)
	recorded := map[string]int{}
	for range 3 {
		session(nil)
		for _, event := range c.events.Take() {
			if strings.HasPrefix(event, "Warning PartiallyBound half: Gang is partially bound (1 of minMember 2)") {
				recorded[event]++
			}
		}
	}
	if len(recorded) != 1 {
		t.Errorf("%d different events, want one that states the missing members: %v", len(recorded), recorded)
	}
	for event, n := range recorded {
		if n != 3 {
			t.Errorf("the event was recorded %d times in 3 sessions: %s", n, event)
		}
	}
}

// TestAGangWithoutPendingPodsIsNotReportedPartiallyBound: a gang whose pending pods were deleted keeps condition
// PartiallyBound, but no further event is recorded.
func TestAGangWithoutPendingPodsIsNotReportedPartiallyBound(t *testing.T) {
	c := newCache(t)
	session := sessions(t, c, 0)
	session(nil)
	c.DeletePod(schedtest.MakePod().Name("half-1").Group("half").Obj())
	c.events.Take()
	session(nil)
	for _, event := range c.events.Take() {
		if strings.Contains(event, partiallyBoundReason) {
			t.Errorf("an event was recorded: %s", event)
		}
	}
	if !slices.Contains(conditionsOf(c, "half"), string(PartiallyBound)) {
		t.Error("the gang has no condition PartiallyBound")
	}
}
