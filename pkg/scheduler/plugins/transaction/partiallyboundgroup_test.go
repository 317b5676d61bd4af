// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestGroupsBoundInPart checks that a gang without bound members is placed first if other gangs of its group are bound.
// A crash can leave such a group.
func TestGroupsBoundInPart(t *testing.T) {
	const xy = `["ns/x","ns/y"]`
	podGroup := func(name, group string) *v1beta1.PodGroup {
		return schedtest.MakePodGroup().Name(name).Queue("a").MinMember(2).Annotation(gangs.GroupsAnnotation, group).Obj()
	}
	satisfied := func(pg *v1beta1.PodGroup) *v1beta1.PodGroup {
		pg.Status.Conditions = []v1beta1.PodGroupCondition{{Type: gangs.SatisfiedCondition, Status: v1.ConditionTrue}}
		return pg
	}
	pod := func(gang, n string) *schedtest.PodBuilder {
		return schedtest.MakePod().Name(gang + "-" + n).Group(gang).Req(schedtest.Resources{"cpu": "1"})
	}
	runs := func(gang, n, with string) *schedtest.PodBuilder {
		return pod(gang, n).Node("n").Phase(v1.PodRunning).Annotation(binding.MinimumAnnotation, "2").Annotation(gangs.BindGroupAnnotation, with)
	}
	bound := []*schedtest.PodBuilder{runs("x", "0", "ns/x,ns/y"), runs("x", "1", "ns/x,ns/y"), pod("y", "0"), pod("y", "1")}
	tests := map[string]struct {
		x, y *v1beta1.PodGroup
		pods []*schedtest.PodBuilder
		want bool
	}{
		"a crash left it":                        {podGroup("x", xy), podGroup("y", xy), bound, true},
		"the other gang is now in another group": {podGroup("x", xy), podGroup("y", `["ns/w","ns/y"]`), bound, false},
		"the first was bound by itself":          {podGroup("x", xy), podGroup("y", xy), []*schedtest.PodBuilder{runs("x", "0", "ns/x"), runs("x", "1", "ns/x"), pod("y", "0"), pod("y", "1")}, false},
		"no member of the other waits":           {podGroup("x", xy), podGroup("y", xy), bound[:2], false},
		"no member is bound":                     {podGroup("x", xy), podGroup("y", xy), bound[2:], false},
		"the first is gone":                      {podGroup("z", xy), podGroup("y", xy), bound[2:], false},
		"the list cannot be parsed now":          {podGroup("x", xy), podGroup("y", `["ns/x"`), bound, false},
		"the first was whole with its group, but plugin coscheduling is not configured": {satisfied(podGroup("x", xy)), podGroup("y", xy), bound, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCache(t)
			c.AddPodGroupV1beta1(tt.x)
			c.AddPodGroupV1beta1(tt.y)
			for _, pod := range tt.pods {
				c.AddPod(pod.Obj())
			}
			sessions(t, c, 0)(func(ssn *framework.Session) {
				job := ssn.Jobs["ns/y"]
				if got := ssn.Placements.IsPlacedFirst(job); got != tt.want {
					t.Errorf("the gang is placed first: %t, want %t", got, tt.want)
				}
				if reported := conditions.Find(&job.PodGroup.Status, PartiallyBound) != nil; reported != tt.want {
					t.Errorf("the gang has condition PartiallyBound: %t, want %t", reported, tt.want)
				}
			})
		})
	}
	// wasWhole reports whether gang y is placed first if gang x has this condition, which the plugin coscheduling sets
	// on gangs that were complete.
	wasWhole := func(condition, reason string) bool {
		c := newCache(t)
		x := podGroup("x", xy)
		x.Status.Conditions = []v1beta1.PodGroupCondition{{Type: v1beta1.PodGroupConditionType(condition), Status: v1.ConditionTrue, Reason: reason}}
		c.AddPodGroupV1beta1(x)
		c.AddPodGroupV1beta1(podGroup("y", xy))
		for _, pod := range bound {
			c.AddPod(pod.Obj())
		}
		urgent := false
		sessions(t, c, 0, conf.PluginOption{Name: gangs.Plugin})(func(ssn *framework.Session) { urgent = ssn.Placements.IsPlacedFirst(ssn.Jobs["ns/y"]) })
		return urgent
	}
	for condition, want := range map[string]bool{gangs.SatisfiedCondition: false, gangs.WholeCondition: false, "Other": true} {
		t.Run("the first was whole with its group: "+condition, func(t *testing.T) {
			if got := wasWhole(condition, ""); got != want {
				t.Errorf("gang y is placed first: %t, want %t", got, want)
			}
		})
	}
	// crashed returns a cache with gang x bound and gang y of its group waiting.
	crashed := func(t *testing.T) *fakeCache {
		c := newCache(t)
		c.AddPodGroupV1beta1(podGroup("x", xy))
		c.AddPodGroupV1beta1(podGroup("y", xy))
		for _, pod := range bound {
			c.AddPod(pod.Obj())
		}
		return c
	}
	t.Run("the condition and its time stay while the missing members are being bound", func(t *testing.T) {
		c := crashed(t)
		session := sessions(t, c, time.Minute)
		synctest.Test(t, func(t *testing.T) {
			keep := func(ssn *framework.Session) { // as the cache does with the status that a session writes
				ssn.Jobs["ns/y"].PodGroup.Status.DeepCopyInto(&c.Jobs["ns/y"].PodGroup.Status)
			}
			session(keep)
			set := func(status api.TaskStatus) {
				for _, task := range c.Jobs["ns/y"].Tasks {
					if err := c.Jobs["ns/y"].UpdateTaskStatus(task, status); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range 6 {
				time.Sleep(5 * time.Second)
				set(api.Binding)
				session(func(ssn *framework.Session) {
					if conditions.Find(&ssn.Jobs["ns/y"].PodGroup.Status, PartiallyBound) == nil {
						t.Error("the condition is gone while the missing members are being bound")
					}
					keep(ssn)
				})
				time.Sleep(5 * time.Second)
				set(api.Pending)
				session(keep)
			}
			time.Sleep(2 * time.Second)
			session(keep)
			if len(ofGang(c.evicted, "x")) != 2 {
				t.Errorf("evicted after a minute of failed attempts: %v, want the bound members", c.evicted)
			}
		})
	})
	t.Run("what cannot be completed goes", func(t *testing.T) {
		c := crashed(t)
		session := sessions(t, c, time.Minute)
		synctest.Test(t, func(t *testing.T) {
			session(nil)
			time.Sleep(59 * time.Second)
			session(nil)
			before := len(ofGang(c.evicted, "x"))
			time.Sleep(2 * time.Second)
			session(nil)
			reason := evictionReason(true, time.Minute)
			if diff := cmp.Diff([]string{"x-0: " + reason, "x-1: " + reason}, ofGang(c.evicted, "x")); diff != "" || before > 0 {
				t.Errorf("%d pods were evicted before the limit, want none; evicted after it (-want +got):\n%s", before, diff)
			}
		})
	})
}

// ofGang returns the evictions of the gang's members, in order.
func ofGang(evicted []string, gang string) []string {
	set := map[string]bool{}
	for _, text := range evicted {
		set[text] = true
	}
	var own []string
	for _, n := range []string{"0", "1"} {
		for text := range set {
			if prefix := gang + "-" + n + ":"; len(text) > len(prefix) && text[:len(prefix)] == prefix {
				own = append(own, text)
			}
		}
	}
	return own
}

// TestEvictionsAtTheEndAreSent checks that evictions of partially bound gangs are sent when the session closes, also in a
// session with gang groups.
func TestEvictionsAtTheEndAreSent(t *testing.T) {
	c := newCache(t)
	gangGroup := &binding.GangGroup{ID: "g", Gangs: []binding.GangTerms{{Gang: "ns/waits"}, {Gang: "ns/whole"}}}
	c.part = sessiontest.GangGroupFn(func(job *api.JobInfo) *binding.GangGroup {
		if job.UID == "ns/waits" || job.UID == "ns/whole" {
			return gangGroup
		}
		return nil
	})
	session := sessions(t, c, time.Minute, conf.PluginOption{Name: "units"})
	synctest.Test(t, func(t *testing.T) {
		open := func(ssn *framework.Session) { ssn.Action = "backfill" }
		session(open)
		time.Sleep(61 * time.Second)
		session(open)
		if len(c.evicted) == 0 {
			t.Error("no member is evicted of the gang that was partially bound for longer than the limit")
		}
	})
}

// TestGroupsAreParsedOnceForEachVersion checks that the list of a group is parsed once for each version of the
// PodGroup. A tenant's list may be long, and sessions are frequent.
func TestGroupsAreParsedOnceForEachVersion(t *testing.T) {
	c := newCache(t)
	pg := schedtest.MakePodGroup().Name("x").Queue("a").MinMember(1).Annotation(gangs.GroupsAnnotation, `["ns/x","ns/y"]`).Obj()
	pg.UID, pg.ResourceVersion = "x", "1"
	c.AddPodGroupV1beta1(pg)
	p := &plugin{groups: map[api.JobID]group{}}
	parsed := func() *gangs.Name {
		p.formerGroups, p.groups = p.groups, map[api.JobID]group{} // as at the beginning of a session
		return &p.groupOf(c.Snapshot().Jobs["ns/x"]).gangs[0]
	}
	first := parsed()
	if parsed() != first {
		t.Error("the list of the same version was parsed again")
	}
	changed := pg.DeepCopy()
	changed.ResourceVersion = "2"
	changed.Annotations[gangs.GroupsAnnotation] = `["ns/x","ns/z"]`
	c.UpdatePodGroupV1beta1(pg, changed)
	if parsed(); p.groups["ns/x"].gangs[1].Name != "z" {
		t.Errorf("after the list was changed, the gangs are %v", p.groups["ns/x"].gangs)
	}
}
