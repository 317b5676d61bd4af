// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	evictions "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/transaction"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestAClaimEndsWhenItsVictimShouldHaveTerminated checks that a claim has a time limit, because a victim may never
// terminate: it may have a finalizer, a dead node, or a grace period of a year.
func TestAClaimEndsWhenItsVictimShouldHaveTerminated(t *testing.T) {
	const year = 365 * 24 * 3600
	for name, c := range map[string]struct {
		grace *int64
		want  time.Duration
	}{
		"no grace period said":        {want: 90 * time.Second},
		"five minutes to end":         {grace: new(int64(300)), want: 6 * time.Minute},
		"at once":                     {grace: new(int64(0)), want: time.Minute},
		"a year":                      {grace: new(int64(year)), want: 11 * time.Minute},
		"more seconds than any clock": {grace: new(int64(1 << 62)), want: 11 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			var w specBuilder
			w.node("n")
			w.gang("lends", "q1", "2", 0, 1, "n")
			w.gang("wants", "q2", "2", 1, 1)
			for _, pod := range w.Pods {
				pod.Spec.TerminationGracePeriodSeconds = c.grace
			}
			s := newRepeatedEvictions(t, w.ClusterSpec, fmt.Sprintf(tiers, Name, false))
			synctest.Test(t, func(t *testing.T) {
				s.session()
				if len(s.last) != 1 {
					t.Fatalf("evicted %v, want the pod of gang lends", s.last)
				}
				urgent := func() bool {
					ssn := s.cluster.Open(s.registry, s.conf)
					defer ssn.Close()
					return ssn.Placements.IsPlacedFirst(ssn.Jobs[schedtest.Namespace+"/wants"])
				}
				time.Sleep(c.want - time.Nanosecond)
				if !urgent() {
					t.Errorf("the gang is not placed first just before %s after the eviction", c.want)
				}
				time.Sleep(time.Nanosecond)
				if urgent() {
					t.Errorf("the gang is still placed first after %s", c.want)
				}
			})
		})
	}
}

// TestNomineesAloneGoFirst: while a victim terminates, only the members for which pods were evicted are placed first.
// Other members of the gang are placed in the usual order.
func TestNomineesAloneGoFirst(t *testing.T) {
	for name, c := range map[string]struct {
		free []string
		want []string
	}{
		"room for one":   {free: []string{"n2"}, want: []string{"first"}},
		"room for two":   {free: []string{"n2", "n3"}, want: []string{"first", "wants"}},
		"room for three": {free: []string{"n2", "n3", "n4"}, want: []string{"first", "wants", "wants"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := evicting(map[string]string{"n1": "2"}, []runs{{"n1", "low", 10, "2"}}, 100, []wants{{"n1", "2"}})
			w.PodGroups = slices.DeleteFunc(w.PodGroups, func(pg *v1beta1.PodGroup) bool { return pg.Name == "gang" })
			w.Pods = w.Pods[:1]
			w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass("p500", 500))
			member := func(gang string, i int, priority int32) *v1.Pod {
				return schedtest.MakePod().Name(fmt.Sprintf("%s-%d", gang, i)).Group(gang).Priority(priority).Req(schedtest.Resources{"cpu": "2"}).Obj()
			}
			w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("wants").MinMember(1).PriorityClass("p100").Obj(),
				schedtest.MakePodGroup().Name("first").MinMember(1).PriorityClass("p500").Obj())
			w.Pods = append(w.Pods, member("wants", 0, 100))
			s := newRepeatedEvictions(t, w, strings.Replace(victimTiers, "actions: preempt", "actions: allocate, preempt", 1))
			synctest.Test(t, func(t *testing.T) {
				s.session()
				if len(s.last) != 1 {
					t.Fatalf("evicted %v, want the pod of low priority", s.last)
				}
				for i := 1; i < 3; i++ {
					s.cluster.AddPod(member("wants", i, 100))
				}
				s.cluster.AddPod(member("first", 0, 500))
				for _, name := range c.free {
					if err := s.cluster.Cache().AddOrUpdateNode(schedtest.MakeNode().Name(name).Capacity(schedtest.Resources{"cpu": "2", "pods": "20"}).Obj()); err != nil {
						t.Fatal(err)
					}
				}
				ssn := s.cluster.Open(s.registry, s.conf)
				defer ssn.Close()
				ssn.Run(s.actions[0])
				var bound []string
				for name := range ssn.Binds() {
					bound = append(bound, strings.TrimPrefix(name[:len(name)-2], schedtest.Namespace+"/"))
				}
				slices.Sort(bound)
				if _, waits := ssn.Pipelined()[schedtest.Namespace+"/wants-0"]; !waits {
					t.Error("the member for which a pod was evicted does not wait for its victim")
				}
				if diff := cmp.Diff(c.want, bound); diff != "" {
					t.Errorf("bound (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAGangBoundInPartIsNoLastVictim checks that a partially bound gang of low priority is evicted before a gang of
// higher priority, although its pending members are placed first.
func TestAGangBoundInPartIsNoLastVictim(t *testing.T) {
	w := evicting(map[string]string{"n1": "2"}, []runs{{"n1", "crippled", 10, "1"}, {"n1", "whole", 500, "1"}}, 1000, []wants{{"n1", "1"}})
	for _, pg := range w.PodGroups {
		switch pg.Name {
		case "crippled":
			pg.Spec.MinMember = 2
		case "whole": // its pod is no spare one, which would be evicted before others
			pg.Spec.MinMember = 1
		}
	}
	w.Pods[0].Annotations[binding.MinimumAnnotation] = "2"
	w.Pods = append(w.Pods, schedtest.MakePod().Name("crippled-1").Group("crippled").Priority(10).Req(schedtest.Resources{"cpu": "1"}).Obj())
	cluster := sessiontest.New(w)
	defer cluster.Close()
	registry := framework.NewRegistry()
	registry.RegisterPlugin(Spec())
	registry.RegisterPlugin(transaction.Spec(free{}))
	ssn := cluster.Open(registry, `
actions: preempt
tiers:
- plugins:
  - name: evictionbackoff
- plugins:
  - name: transaction
- plugins:
  - name: priority
  - name: conformance
- plugins:
  - name: predicates
`)
	defer ssn.Close()
	if !ssn.Placements.IsPlacedFirst(ssn.Jobs[schedtest.Namespace+"/crippled"]) {
		t.Fatal("the gang of low priority is not partially bound")
	}
	ssn.Run(registered(registry, evictions.New(nil))...)
	if diff := cmp.Diff([]string{schedtest.Namespace + "/crippled-0"}, ssn.Evicts()); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
}

// TestAClaimIsOfOneSession: a claim has all victims and nominees of one session, until the last victim should have
// terminated. The claim of the next session replaces it. A queue waits once for all evictions of a session.
func TestAClaimIsOfOneSession(t *testing.T) {
	var w specBuilder
	w.node("n")
	w.gang("lends", "q1", "1", 0, 4, "n", "n", "n", "n")
	w.gang("wants", "q2", "1", 2, 2)
	w.Nodes[0].Status.Allocatable["cpu"] = resource.MustParse("4")
	for i, grace := range []int64{0, 300, 0, 0} {
		w.Pods[i].Spec.TerminationGracePeriodSeconds = &grace
	}
	// Predicates would accept only tasks that it filtered before.
	s := newRepeatedEvictions(t, w.ClusterSpec, strings.ReplaceAll(fmt.Sprintf(tiers, Name, false), "predicates", "binpack"))
	const ns = schedtest.Namespace + "-"
	evict := func(nominees map[string]bool, victims ...string) {
		t.Helper()
		ssn := s.cluster.Open(s.registry, s.conf)
		defer ssn.Close()
		ssn.Action = reclaim
		statement := vcframework.NewStatement(ssn.Session.Session)
		for _, name := range victims {
			if err := statement.Evict(ssn.Jobs[schedtest.Namespace+"/lends"].Tasks[api.TaskID(ns+name)].Clone(), "reason"); err != nil {
				t.Fatal(err)
			}
		}
		for name, follows := range nominees {
			if err := statement.Pipeline(ssn.Jobs[schedtest.Namespace+"/wants"].Tasks[api.TaskID(ns+name)], "n", follows); err != nil {
				t.Fatal(err)
			}
		}
		statement.Commit()
	}
	synctest.Test(t, func(t *testing.T) {
		claimed := func() *claim { return s.plugin.claims[schedtest.Namespace+"/wants"] }
		evict(map[string]bool{"wants-0": true, "wants-1": false}, "lends-0", "lends-1", "lends-2")
		if diff := cmp.Diff(map[api.TaskID]bool{ns + "wants-0": true, ns + "wants-1": true}, idsOf(claimed().nominees)); diff != "" {
			t.Errorf("nominees (-want +got):\n%s", diff)
		}
		if got := time.Until(claimed().until); got != 6*time.Minute {
			t.Errorf("the claim holds for %s, want the longest grace period plus one minute", got)
		}
		if _, until, _ := s.plugin.queues.Blocked("q1"); time.Until(until) != firstWait {
			t.Errorf("the queue of the victims waits for %s, want %s", time.Until(until), firstWait)
		}
		for _, pod := range w.Pods[:3] {
			s.cluster.Cache().DeletePod(pod)
		}
		evict(map[string]bool{"wants-0": true}, "lends-3")
		if diff := cmp.Diff(map[api.TaskID]api.JobID{ns + "lends-3": schedtest.Namespace + "/lends"}, claimed().victims); diff != "" {
			t.Errorf("victims of the next session (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(map[api.TaskID]bool{ns + "wants-0": true}, idsOf(claimed().nominees)); diff != "" {
			t.Errorf("nominees of the next session (-want +got):\n%s", diff)
		}
	})
}

// TestClaimsOfUntriedGangsStayOpen checks that the claim of a gang that was to be placed first stays open if allocate
// did not try the gang in the session.
func TestClaimsOfUntriedGangsStayOpen(t *testing.T) {
	ssn, p := &framework.Session{}, newPlugin()
	for _, gang := range []api.JobID{"ns/tried", "ns/untried", "ns/unpromised"} {
		p.claims[gang] = newClaim()
		ssn.Placements.SetUntried(gang, gang != "ns/tried")
	}
	p.promised = map[api.JobID]map[api.TaskID]bool{"ns/tried": {}, "ns/untried": {}, "ns/gone": {}}
	p.keepUntried(ssn)
	for gang, c := range p.claims {
		if want := gang == "ns/untried"; c.open != want {
			t.Errorf("the claim of %s is open: %t, want %t", gang, c.open, want)
		}
	}
}

// TestAGangThatIsGoneHoldsNoRoom: pods were evicted for gang wants, which was then deleted. The node that its victim leaves is
// for gang late, of a lower priority.
func TestAGangThatIsGoneHoldsNoRoom(t *testing.T) {
	w := evicting(map[string]string{"n1": "2"}, []runs{{"n1", "low", 10, "2"}}, 100, []wants{{"n1", "2"}})
	w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass("p50", 50))
	w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("late").MinMember(1).PriorityClass("p50").Obj())
	s := newRepeatedEvictions(t, w, strings.Replace(victimTiers, "actions: preempt", "actions: allocate, preempt", 1))
	synctest.Test(t, func(t *testing.T) {
		s.session()
		if len(s.last) != 1 || len(s.plugin.claims) != 1 {
			t.Fatalf("evicted %v for %d claims, want the pod of low priority for one", s.last, len(s.plugin.claims))
		}
		for _, pod := range s.pods {
			if pod.Spec.NodeName == "" {
				s.cluster.Cache().DeletePod(pod)
			}
		}
		for _, pg := range w.PodGroups {
			if pg.Name == "gang" {
				s.cluster.Cache().DeletePodGroupV1beta1(pg)
			}
		}
		s.cluster.AddPod(schedtest.MakePod().Name("late-0").Group("late").Priority(50).Req(schedtest.Resources{"cpu": "2"}).Obj())
		ssn := s.cluster.Open(s.registry, s.conf)
		defer ssn.Close()
		ssn.Run(s.actions[0])
		if diff := cmp.Diff(map[string]string{schedtest.Namespace + "/late-0": "n1"}, ssn.Pipelined()); diff != "" {
			t.Errorf("pods that wait for the node (-want +got):\n%s", diff)
		}
	})
}

// TestAGangWithoutFurtherVictimsKeepsItsClaim: no pods are evicted for a group of which one gang gets no room, but a pod that
// was evicted for another of its gangs before is still terminating. The other gangs get no claim.
func TestAGangWithoutFurtherVictimsKeepsItsClaim(t *testing.T) {
	running := []runs{{"n1", "low", 10, "1"}, {"n1", "low", 10, "1"}, {"n2", "high", 200, "1"}}
	w := evicting(map[string]string{"n1": "2", "n2": "1", "n3": "1"}, running, 100, []wants{{"n1", "1"}, {"n1", "1"}})
	for gang, node := range map[string]string{"y": "n2", "fits": "n3"} {
		w.Pods = append(w.Pods, schedtest.MakePod().Name(gang+"-0").Group(gang).Priority(100).Req(schedtest.Resources{"cpu": "1"}).NodeSelector("name", node).Obj())
		w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name(gang).MinMember(1).PriorityClass("p100").Obj())
	}
	s := newRepeatedEvictions(t, w, strings.Replace(victimTiers, "- name: nodeorder", "- name: nodeorder\n  - name: helper", 1))
	gangGroup := &binding.GangGroup{ID: "both", Gangs: []binding.GangTerms{{Gang: "ns/gang"}, {Gang: "ns/y"}, {Gang: "ns/fits"}}}
	s.registry.RegisterPlugin(helper{Part: sessiontest.GangGroupFn(func(job *api.JobInfo) *binding.GangGroup {
		if job.Name == "gang" || job.Name == "y" || job.Name == "fits" {
			return gangGroup
		}
		return nil
	})}.spec())
	ssn := s.cluster.Open(s.registry, s.conf)
	before := newClaim()
	before.victims["leaves"] = "ns/leaves"
	before.nominees["ns-gang-0"] = nominee{}
	s.plugin.claims["ns/gang"] = before
	ssn.Run(s.action(preempt))
	ssn.Close()
	got := s.plugin.claims["ns/gang"]
	if len(ssn.Evicts()) > 0 || got == nil || len(got.nominees) == 0 {
		t.Fatalf("evicted %v with claim %v, want no eviction for a part of the group, and the former claim", ssn.Evicts(), got)
	}
	if diff := cmp.Diff(map[api.TaskID]bool{"ns-gang-0": true}, idsOf(got.nominees)); diff != "" {
		t.Errorf("nominees of the claim (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[api.TaskID]api.JobID{"leaves": "ns/leaves"}, got.victims); diff != "" {
		t.Errorf("victims of the claim (-want +got):\n%s", diff)
	}
	if len(s.plugin.claims) != 1 {
		t.Errorf("the claims are %v, want only the claim of the gang for which pods were evicted", s.plugin.claims)
	}
}

// TestClaimsForUpstreamsActions: upstream's actions do not name the gang for which they evict a pod. The gang whose member is
// to take the pod's place on its node has the claim, and no other pod is evicted for it while its victim terminates.
func TestClaimsForUpstreamsActions(t *testing.T) {
	for _, action := range evictions.Upstreams() {
		t.Run(action.Name(), func(t *testing.T) {
			var w specBuilder
			w.node("n1")
			w.node("n2")
			w.gang("lends", "q1", "2", 0, 2, "n1", "n2")
			w.gang("wants", map[string]string{upstreamsPreempt: "q1", upstreamsReclaim: "q2"}[action.Name()], "2", 1, 1)
			w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass("p100", 100))
			w.PodGroups[1].Spec.PriorityClassName = "p100"
			w.Pods[2].Spec.Priority = new(int32(100))
			s := newRepeatedEvictions(t, w.ClusterSpec, fmt.Sprintf(tiers, Name, false))
			s.actions = append(s.actions[:1], registered(s.registry, action)...)
			synctest.Test(t, func(t *testing.T) {
				s.start = time.Now()
				s.session()
				if len(s.last) != 1 {
					t.Fatalf("evicted %v, want one pod of gang lends", s.last)
				}
				c := s.plugin.claims["ns/wants"]
				if c == nil || len(s.plugin.claims) != 1 {
					t.Fatalf("the claims are %v, want one of gang wants", s.plugin.claims)
				}
				if diff := cmp.Diff(map[api.TaskID]bool{"ns-wants-0": true}, idsOf(c.nominees)); diff != "" {
					t.Errorf("nominees (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(map[api.TaskID]api.JobID{api.TaskID(s.pods[s.last[0]].UID): "ns/lends"}, c.victims); diff != "" {
					t.Errorf("victims (-want +got):\n%s", diff)
				}
				s.runFor(time.Minute)
				if len(s.evictions) != 1 || s.running("wants") != 1 {
					t.Errorf("%d members run after evictions at %v, want one after one eviction", s.running("wants"), s.evictions)
				}
			})
		})
	}
}
