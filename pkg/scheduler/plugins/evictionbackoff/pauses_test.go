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
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestAPausedGangEvictsOnlyForRoomThatItGets: one member of the gang waits for a pod that never terminates, and a pod
// is evicted for the other member. During the pause of its namespace the gang does not get the freed resources, so no
// further pod is evicted for it. Nor are pods evicted for another gang of the namespace, until the pause is over.
func TestAPausedGangEvictsOnlyForRoomThatItGets(t *testing.T) {
	for _, row := range []struct{ action, order string }{
		{preempt, "allocate, preempt, reclaim"}, {preempt, "preempt, reclaim, allocate"},
		{reclaim, "allocate, preempt, reclaim"}, {reclaim, "reclaim, allocate, preempt"},
	} {
		action := row.action
		t.Run(action+" in "+row.order, func(t *testing.T) {
			w := evicting(map[string]string{"n1": "4", "n2": "4", "n3": "4", "n4": "4"}, []runs{{"n1", "beside", 1, "1"}, {"n2", "low", 1, "4"}, {"n3", "aside", 1, "4"}, {"n4", "aside", 1, "4"}}, 100, []wants{{"n1", "3"}, {"n2", "4"}})
			w.Pods = append(w.Pods, schedtest.MakePod().Name("leaves").Node("n1").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "3"}).Terminating().Obj())
			w.Pods[0].Spec.NodeSelector = map[string]string{"name": "n1"} // so that its replacement runs there, too
			w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("late").MinMember(2).PriorityClass("p100").Obj())
			if action == reclaim {
				for _, podGroup := range w.PodGroups {
					podGroup.Spec.Queue = map[bool]string{true: "gives", false: "gets"}[podGroup.Spec.PriorityClassName == "p1"]
				}
				w.Queues = append(w.Queues, schedtest.MakeQueue().Name("gets").Obj(), schedtest.MakeQueue().Name("gives").Obj())
			}
			s := newRepeatedEvictions(t, w, strings.Replace(fmt.Sprintf(tiers, Name, true), "preempt, reclaim", action, 1))
			s.inOrder(row.order)
			synctest.Test(t, func(t *testing.T) {
				s.start = time.Now()
				play := func(until time.Duration) {
					for time.Since(s.start) < until {
						s.session()
						for _, name := range []string{"ns/gang-0", "ns/gang-1"} {
							// As if the members were recreated.
							s.update(name, func(pod *v1.Pod) { pod.Status.NominatedNodeName = "" })
						}
						time.Sleep(5 * time.Second)
						s.leave()
					}
				}
				play(10 * time.Minute)
				for i, member := range []wants{{"n3", "4"}, {"n4", "4"}} {
					pod := schedtest.MakePod().Name(fmt.Sprintf("late-%d", i)).Group("late").Priority(100).Req(schedtest.Resources{"cpu": member.cpu}).NodeSelector("name", member.node).Obj()
					s.cluster.Cache().AddPod(pod)
					s.pods["ns/"+pod.Name] = pod
				}
				play(25 * time.Minute)
				if diff := cmp.Diff([]time.Duration{0}, s.evictions); diff != "" {
					t.Errorf("pods are evicted at (-want +got):\n%s", diff)
				}
				if play(27 * time.Minute); s.running("late") != 2 {
					t.Errorf("after the pause, %d members run of a gang that needs only the resources of evicted pods, want 2; evicted at %v", s.running("late"), s.evictions)
				}
			})
		})
	}
}

// inOrder makes the sessions run their actions in this order.
func (s *repeatedEvictions) inOrder(order string) {
	slices.SortFunc(s.actions, func(l, r vcframework.Action) int {
		return strings.Index(order, l.Name()) - strings.Index(order, r.Name())
	})
}

// TestAGangHoldsIdleNodesForAWhileInAnyOrder: one member of the gang waits for a pod that never terminates, and the
// other holds an idle node that a pod of another namespace needs. No pod can be evicted. The order of actions makes no
// difference.
func TestAGangHoldsIdleNodesForAWhileInAnyOrder(t *testing.T) {
	for _, order := range []string{"allocate, preempt, reclaim", "preempt, allocate, reclaim", "reclaim, preempt, allocate", "reclaim, allocate, preempt"} {
		t.Run(order, func(t *testing.T) {
			w := evicting(map[string]string{"n1": "4", "n2": "4"}, nil, 100, []wants{{"n1", "4"}, {"n2", "4"}})
			other := schedtest.MakePod().Name("other-0").Namespace("elsewhere").Group("other").Req(schedtest.Resources{"cpu": "4"}).NodeSelector("name", "n2").Obj()
			w.Pods = append(w.Pods, other, schedtest.MakePod().Name("leaves").Node("n1").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "4"}).Terminating().Obj())
			w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("other").Namespace("elsewhere").MinMember(1).Obj())
			s := newRepeatedEvictions(t, w, fmt.Sprintf(tiers, Name, true))
			s.inOrder(order)
			synctest.Test(t, func(t *testing.T) {
				s.start = time.Now()
				for s.running("other") == 0 && time.Since(s.start) < time.Hour {
					s.session()
					time.Sleep(10 * time.Second)
				}
				if waited := time.Since(s.start); waited < 5*time.Minute || waited > 6*time.Minute {
					t.Errorf("the pod of the other namespace is placed after %s, want between 5 and 6 minutes", waited)
				}
			})
		})
	}
}

// TestPreemptLeavesIdleNodesToAllocate: a gang that preempt pipelines on idle resources before allocate runs is bound
// in the same session.
func TestPreemptLeavesIdleNodesToAllocate(t *testing.T) {
	w := evicting(map[string]string{"n1": "4", "n2": "4"}, []runs{{"n2", "low", 10, "1"}}, 100, []wants{{"n1", "3"}, {"n2", "3"}})
	s := newRepeatedEvictions(t, w, fmt.Sprintf(tiers, Name, true))
	s.inOrder("preempt, reclaim, allocate")
	if s.session(); s.running("gang") != 2 || len(s.last) > 0 {
		t.Errorf("%d members run after a session, want 2; evicted are %v, want none", s.running("gang"), s.last)
	}
}

// TestAGangThatEvictsKeepsItsNodes: one member gets the node of an evicted pod. The other member, or the other gang of
// its group, gets an idle node. allocate, which runs after preempt, keeps both placements. Otherwise the first member
// would not be nominated, and the evictions would be useless.
func TestAGangThatEvictsKeepsItsNodes(t *testing.T) {
	for name, grouped := range map[string]bool{"a gang": false, "a gang group": true} {
		t.Run(name, func(t *testing.T) {
			var s *repeatedEvictions
			if grouped {
				s = newGroupEvictions(t)
			} else {
				w := evicting(map[string]string{"n1": "4", "n2": "4"}, []runs{{"n1", "low", 10, "4"}}, 100, []wants{{"n1", "4"}, {"n2", "4"}})
				s = newRepeatedEvictions(t, w, fmt.Sprintf(tiers, Name, true))
			}
			s.inOrder("preempt, allocate, reclaim")
			s.session()
			if diff := cmp.Diff([]string{"ns/low-0"}, s.last); diff != "" {
				t.Fatalf("evicted (-want +got):\n%s", diff)
			}
			if got := s.pods["ns/gang-0"].Status.NominatedNodeName; got != "n1" {
				t.Errorf("the member for which a pod was evicted is nominated to %q, want n1", got)
			}
			if other := map[bool]api.TaskID{false: "ns-gang-1", true: "ns-y-0"}[grouped]; !idsOf(s.plugin.claims["ns/gang"].nominees)[other] {
				t.Errorf("%s is no nominee of the claim, so it loses its place in a pause", other)
			}
		})
	}
}

// newGroupEvictions has a group of two gangs of one member: gang needs node n1, where a pod of low priority runs, and y
// needs n2, which is idle.
func newGroupEvictions(t *testing.T) *repeatedEvictions {
	t.Helper()
	w := evicting(map[string]string{"n1": "4", "n2": "4"}, []runs{{"n1", "low", 10, "4"}}, 100, []wants{{"n1", "4"}})
	w.Pods = append(w.Pods, schedtest.MakePod().Name("y-0").Group("y").Priority(100).Req(schedtest.Resources{"cpu": "4"}).NodeSelector("name", "n2").Obj())
	w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("y").MinMember(1).PriorityClass("p100").Obj())
	s := newRepeatedEvictions(t, w, strings.Replace(fmt.Sprintf(tiers, Name, true), "- name: nodeorder", "- name: nodeorder\n  - name: helper", 1))
	gangGroup := &binding.GangGroup{ID: "both", Gangs: []binding.GangTerms{{Gang: "ns/gang"}, {Gang: "ns/y"}}}
	s.registry.RegisterPlugin(helper{Part: sessiontest.GangGroupFn(func(job *api.JobInfo) *binding.GangGroup {
		return map[string]*binding.GangGroup{"gang": gangGroup, "y": gangGroup}[job.Name]
	})}.spec())
	return s
}

// pausedGangs is an action that pauses gangs for the actions that evict: the gangs with these names, or all gangs if it
// has the key "*".
type pausedGangs map[string]bool

var _ framework.Pauser = pausedGangs{}

func (pausedGangs) Name() string               { return "pausedgangs" }
func (pausedGangs) Execute(*framework.Session) {}

func (p pausedGangs) Paused(_ *framework.Session, job *api.JobInfo) bool {
	return p[job.Name] || p["*"]
}

// TestAPausedGroupHoldsNoIdleNodeByEvicting: one gang of the group needs an eviction, and the other gang an idle node.
// During a pause, no pod is evicted for the group.
func TestAPausedGroupHoldsNoIdleNodeByEvicting(t *testing.T) {
	for name, tt := range map[string]struct {
		paused pausedGangs
		want   []string
	}{
		"not in a pause": {want: []string{"ns/low-0"}},
		"in a pause":     {paused: pausedGangs{"gang": true, "y": true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGroupEvictions(t)
			s.registry.RegisterAction(tt.paused)
			ssn := s.cluster.Open(s.registry, s.conf)
			ssn.Run(s.action(preempt))
			ssn.Close()
			if diff := cmp.Diff(tt.want, ssn.Evicts()); diff != "" {
				t.Errorf("evicted (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoPodsAreEvictedForAPausedGang checks that no pods are evicted for a gang in a pause, even if it needs only their
// resources, and what the gang's reason says.
func TestNoPodsAreEvictedForAPausedGang(t *testing.T) {
	s := newRepeatedEvictions(t, evicting(map[string]string{"n1": "4"}, []runs{{"n1", "low", 1, "4"}}, 100, []wants{{"n1", "4"}}), fmt.Sprintf(tiers, Name, true))
	s.registry.RegisterAction(pausedGangs{"gang": true})
	ssn := s.cluster.Open(s.registry, s.conf)
	defer ssn.Close()
	ssn.Run(s.action(preempt))
	if len(ssn.Evicts()) > 0 {
		t.Errorf("evicted %v, want none", ssn.Evicts())
	}
	const why = "; preemption cannot help: the gang may be placed on idle resources only, for now"
	if reason, _ := ssn.PendingReason("ns/gang"); !strings.HasSuffix(reason.Message, why) {
		t.Errorf("the gang waits because of %q, want that it ends in %q", reason.Message, why)
	}
}

// TestATenantHoldsNoIdleNodesByEvictingItsOwnPods: each gang of the tenant needs an idle node, and a node where a pod
// of the tenant runs that takes ten minutes to terminate. Then the tenant deletes the gang, and the next gang evicts
// the next pod. A pod of another namespace needs the idle node.
func TestATenantHoldsNoIdleNodesByEvictingItsOwnPods(t *testing.T) {
	for _, order := range []string{"allocate, preempt, reclaim", "preempt, allocate, reclaim"} {
		for _, form := range []string{"a new gang", "a new member", "the rest of a node"} {
			t.Run(order+" "+form, func(t *testing.T) {
				w := evicting(map[string]string{"n1": "4", "n2": "4"}, nil, 100, nil)
				w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass("p1", 1))
				w.PodGroups = []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("low").MinMember(0).PriorityClass("p1").Obj()}
				s := newRepeatedEvictions(t, w, fmt.Sprintf(tiers, Name, true))
				s.inOrder(order)
				add := func(pod *v1.Pod) {
					s.cluster.Cache().AddPod(pod)
					s.pods[pod.Namespace+"/"+pod.Name] = pod
				}
				group := func(podGroup *v1beta1.PodGroup) { s.cluster.Cache().AddPodGroupV1beta1(podGroup) }
				synctest.Test(t, func(t *testing.T) {
					s.start = time.Now()
					for s.running("other") == 0 && time.Since(s.start) < 3*time.Hour {
						round := int(time.Since(s.start) / (10 * time.Minute))
						low := fmt.Sprint("low-", round)
						if s.pods["ns/"+low] == nil {
							for name, pod := range s.pods { // pods of the former round
								if pod.Namespace == schedtest.Namespace && (form != "a new member" || strings.HasPrefix(name, "ns/low")) {
									s.cluster.Cache().DeletePod(pod)
									delete(s.pods, name)
								}
							}
							grace := int64(600)
							victim := schedtest.MakePod().Name(low).Group("low").Priority(1).Node("n1").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "1"}).Obj()
							victim.Spec.TerminationGracePeriodSeconds = &grace
							add(victim)
							gang, first := fmt.Sprint("gang", round), 0
							if form == "a new member" {
								gang, first = "gang", round
							}
							nodes := []string{"n1", "n2"}
							if form == "the rest of a node" {
								nodes = nodes[:1]
							}
							group(schedtest.MakePodGroup().Name(gang).MinMember(int32(len(nodes))).PriorityClass("p100").Obj())
							for i, node := range nodes {
								if name := fmt.Sprintf("%s-%d", gang, first*(1-i)+1000*i); s.pods["ns/"+name] == nil {
									add(schedtest.MakePod().Name(name).Group(gang).Priority(100).Req(schedtest.Resources{"cpu": "4"}).NodeSelector("name", node).Obj())
								}
							}
							if form == "a new member" && round > 0 {
								old := s.pods[fmt.Sprintf("ns/gang-%d", round-1)]
								s.cluster.Cache().DeletePod(old)
								delete(s.pods, "ns/"+old.Name)
							}
						}
						if s.session(); round == 0 && time.Since(s.start) > 0 && s.pods["ns/other-0"] == nil {
							group(schedtest.MakePodGroup().Name("other").Namespace("elsewhere").MinMember(1).Obj())
							other := schedtest.MakePod().Name("other-0").Namespace("elsewhere").Group("other").Req(schedtest.Resources{"cpu": "3"}).NodeSelector("name", "n2")
							if form == "the rest of a node" {
								other.NodeSelector("name", "n1")
							}
							add(other.Obj())
						}
						time.Sleep(10 * time.Second)
					}
					if strings.HasPrefix(order, "preempt") && len(s.evictions) < 2 {
						t.Errorf("pods are evicted at %v, want at least two", s.evictions)
					}
					if waited := time.Since(s.start); waited > 45*time.Minute {
						t.Errorf("the pod of the other namespace is placed after %s, want at most 45 minutes", waited)
					}
				})
			})
		}
	}
}

// TestAGangThatGrowsHoldsNoIdleNodes: a gang of one pod evicts a pod of the tenant that takes ten minutes to terminate,
// and holds only the resources of that pod. Then its minimum rises, or another gang joins it, so that it needs an idle
// node, too. Ten minutes later the tenant does the same with the next gang, and then deletes this one. A pod of another
// namespace needs the idle node.
func TestAGangThatGrowsHoldsNoIdleNodes(t *testing.T) {
	for _, order := range []string{"allocate, preempt, reclaim", "preempt, allocate, reclaim"} {
		for _, grouped := range []bool{false, true} {
			t.Run(fmt.Sprint(order, ", grouped ", grouped), func(t *testing.T) {
				w := evicting(map[string]string{"n0": "4", "n1": "4", "n2": "4"}, nil, 100, nil)
				w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass("p1", 1))
				w.PodGroups = []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("low").MinMember(0).PriorityClass("p1").Obj()}
				groups := map[string]*binding.GangGroup{}
				s := newRepeatedEvictions(t, w, strings.Replace(fmt.Sprintf(tiers, Name, true), "- name: nodeorder", "- name: nodeorder\n  - name: helper", 1))
				s.registry.RegisterPlugin(helper{Part: sessiontest.GangGroupFn(func(job *api.JobInfo) *binding.GangGroup { return groups[job.Name] })}.spec())
				s.inOrder(order)
				add := func(pod *v1.Pod) {
					s.cluster.Cache().AddPod(pod)
					s.pods[pod.Namespace+"/"+pod.Name] = pod
				}
				remove := func(prefix string) {
					for name, pod := range s.pods {
						if strings.HasPrefix(name, "ns/"+prefix) {
							s.cluster.Cache().DeletePod(pod)
							delete(s.pods, name)
						}
					}
				}
				submit := func(group string, member int32, nodes ...string) {
					s.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name(group).MinMember(member).PriorityClass("p100").Obj())
					for _, node := range nodes {
						add(schedtest.MakePod().Name(fmt.Sprintf("%s-%s-1", group, node)).Group(group).Priority(100).Req(schedtest.Resources{"cpu": "4"}).NodeSelector("name", node).Obj())
					}
				}
				grow := func(gang string) {
					if !grouped {
						submit(gang, 2, "n2")
						return
					}
					other := gang + "other"
					submit(other, 1, "n2")
					gangGroup := &binding.GangGroup{ID: gang, Gangs: []binding.GangTerms{{Gang: api.JobID("ns/" + gang)}, {Gang: api.JobID("ns/" + other)}}}
					groups[gang], groups[other] = gangGroup, gangGroup
				}
				synctest.Test(t, func(t *testing.T) {
					s.start = time.Now()
					for round := 0; s.running("other") == 0 && round < 12; round++ {
						gang, low, node := fmt.Sprintf("gang%dx", round), fmt.Sprintf("low-%dx", round), fmt.Sprint("n", round%2)
						grace := int64(600)
						victim := schedtest.MakePod().Name(low).Group("low").Priority(1).Node(node).Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "4"}).Obj()
						victim.Spec.TerminationGracePeriodSeconds = &grace
						remove(fmt.Sprintf("low-%dx", round-2))
						add(victim)
						submit(gang, 1, node)
						for step := range 60 {
							switch step {
							case 2:
								grow(gang)
							case 4:
								if remove(fmt.Sprintf("gang%dx", round-1)); round == 0 {
									s.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("other").Namespace("elsewhere").MinMember(1).Obj())
									add(schedtest.MakePod().Name("other-0").Namespace("elsewhere").Group("other").Req(schedtest.Resources{"cpu": "3"}).NodeSelector("name", "n2").Obj())
								}
							}
							s.session()
							time.Sleep(10 * time.Second)
						}
					}
					if len(s.evictions) < 2 {
						t.Errorf("pods are evicted at %v, want at least two", s.evictions)
					}
					if waited := time.Since(s.start); s.running("other") == 0 || waited > 45*time.Minute {
						t.Errorf("the pod of the other namespace is placed after %s: %t, want at most 45 minutes; evicted at %v", waited, s.running("other") > 0, s.evictions)
					}
				})
			})
		}
	}
}

// TestAPausedGangThatEvictedTakesNoRoomOfOthers: before a pause, a gang has evicted a pod of the tenant that takes ten
// minutes to terminate. In the pause, its next member must not evict a small pod on a node where a pod of another
// namespace ends soon: it would hold the resources of both pods.
func TestAPausedGangThatEvictedTakesNoRoomOfOthers(t *testing.T) {
	for _, order := range []string{"allocate, preempt, reclaim", "preempt, allocate, reclaim"} {
		t.Run(order, func(t *testing.T) {
			w := evicting(map[string]string{"n0": "4", "n1": "4"}, []runs{{"n0", "low", 1, "4"}, {"n1", "tiny", 1, "1"}}, 100, []wants{{"n0", "4"}})
			w.Pods = append(w.Pods, schedtest.MakePod().Name("ends").Namespace("elsewhere").Node("n1").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "3"}).Terminating().Obj())
			s := newRepeatedEvictions(t, w, fmt.Sprintf(tiers, Name, true))
			s.inOrder(order)
			synctest.Test(t, func(t *testing.T) {
				s.start = time.Now()
				s.session()
				if diff := cmp.Diff([]string{"ns/low-0"}, s.last); diff != "" {
					t.Fatalf("evicted (-want +got):\n%s", diff)
				}
				s.paused = true
				pod := schedtest.MakePod().Name("gang-1").Group("gang").Priority(100).Req(schedtest.Resources{"cpu": "4"}).NodeSelector("name", "n1").Obj()
				s.cluster.Cache().AddPod(pod)
				s.pods["ns/gang-1"] = pod
				s.cluster.Cache().AddPodGroupV1beta1(schedtest.MakePodGroup().Name("gang").MinMember(2).PriorityClass("p100").Obj())
				for range 6 {
					time.Sleep(10 * time.Second)
					if s.session(); len(s.last) > 0 {
						t.Fatalf("evicted %v, want none", s.last)
					}
				}
			})
		})
	}
}

// TestAPausedGangWaitsForItsVictim: one pod was evicted for a gang that is paused then. No other is evicted while that pod
// terminates.
func TestAPausedGangWaitsForItsVictim(t *testing.T) {
	for _, order := range []string{"allocate, preempt, reclaim", "preempt, allocate, reclaim"} {
		t.Run(order, func(t *testing.T) {
			w := evicting(map[string]string{"n0": "4", "n1": "4"}, []runs{{"n0", "low", 1, "4"}, {"n1", "also", 2, "4"}}, 100, []wants{{"", "4"}})
			s := newRepeatedEvictions(t, w, fmt.Sprintf(tiers, Name, true))
			s.inOrder(order)
			synctest.Test(t, func(t *testing.T) {
				s.start = time.Now()
				for range 7 {
					s.session()
					s.paused = true
					time.Sleep(10 * time.Second)
				}
				if diff := cmp.Diff([]time.Duration{0}, s.evictions); diff != "" {
					t.Errorf("pods are evicted at (-want +got):\n%s", diff)
				}
			})
		})
	}
}
