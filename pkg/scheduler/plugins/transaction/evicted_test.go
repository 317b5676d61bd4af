// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAGangThatWasTakenFromWaitsInItsOrder checks that a gang is not placed first after preempt or reclaim evicted one
// of its members. The freed resources are for the preemptor.
func TestAGangThatWasTakenFromWaitsInItsOrder(t *testing.T) {
	for action, first := range map[string]bool{"preempt": false, "reclaim": false, "": true} {
		t.Run("evicted by "+action, func(t *testing.T) {
			c := newCache(t)
			c.AddPodGroupV1beta1(schedtest.MakePodGroup().Name("g").Queue("a").MinMember(2).Obj())
			pod := func(n string) *schedtest.PodBuilder { return schedtest.MakePod().Name("g-" + n).Group("g") }
			bound := v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(schedtest.Created.Add(-time.Minute))}
			runs := func(n string) *v1.Pod {
				p := pod(n).Node("n").Phase(v1.PodRunning).Annotation(binding.MinimumAnnotation, "2").Obj()
				p.Status.Conditions = []v1.PodCondition{bound}
				return p
			}
			c.AddPod(runs("0"))
			c.AddPod(runs("1"))
			synctest.Test(t, func(t *testing.T) {
				session := sessions(t, c, time.Minute)
				evict := func(name string) {
					session(func(ssn *framework.Session) {
						if ssn.Action = action; action == "" {
							return // its owner deletes the pod
						}
						if err := ssn.Evict(ssn.Jobs["ns/g"].Tasks[api.TaskID("ns-"+name)], "another gang needs the room"); err != nil {
							t.Error(err)
						}
					})
					c.DeletePod(runs(strings.TrimPrefix(name, "g-")))
				}
				urgent := func() (urgent bool) {
					session(func(ssn *framework.Session) { urgent = ssn.Placements.IsPlacedFirst(ssn.Jobs["ns/g"]) })
					return urgent
				}
				evict("g-1")
				session(nil) // the controller has not created the replacement yet
				c.AddPod(pod("2").Obj())
				if got := urgent(); got != first {
					t.Errorf("the gang is placed first: %t, want %t", got, first)
				}
				message := conditionOf(c.Jobs["ns/g"]).Message
				group := func(uid types.UID) *v1beta1.PodGroup {
					pg := schedtest.MakePodGroup().Name("g").Queue("a").MinMember(2).Obj()
					pg.UID = uid
					return pg
				}
				for i, inOneSession := range []bool{false, true} { // its user deletes and recreates the PodGroup
					c.DeletePodGroupV1beta1(group(types.UID(fmt.Sprint(i))))
					if !inOneSession {
						session(nil)
					}
					c.AddPodGroupV1beta1(group(types.UID(fmt.Sprint(i + 1))))
					if action != "" && urgent() {
						t.Error("the gang is placed first after its PodGroup was recreated")
					}
				}
				if usual := strings.HasSuffix(message, "its remaining pods are scheduled in the usual order, because they request more than the gang has lost, or members were evicted, or were lost under a former leader"); usual == first {
					t.Errorf("the condition says that the gang is scheduled in the usual order: %t, want %t: %s", usual, !first, message)
				}

				c.DeletePod(pod("2").Obj())
				c.AddPod(runs("2"))
				session(nil)
				c.DeletePod(runs("2"))
				c.AddPod(pod("3").Obj())
				if !urgent() {
					t.Error("a gang that was completed after an eviction, and then lost a member, is not placed first")
				}

				c.evicted = nil
				c.DeletePod(pod("3").Obj())
				c.AddPod(runs("3"))
				session(nil)
				evict("g-3")
				c.AddPod(pod("4").Obj())
				session(nil)
				time.Sleep(2 * time.Minute)
				session(nil)
				if last := c.evicted[len(c.evicted)-1]; !strings.Contains(last, "partially bound for more than") {
					t.Errorf("the gang is not evicted after the limit of partially bound gangs; evicted: %q", c.evicted)
				}
			})
		})
	}
}

// TestANewLeaderCompletesWhatACrashLeft checks that a new leader completes gangs that a crash left partially bound, and
// not gangs that lost members in another way. The leader compares the times when pods were created and bound.
func TestANewLeaderCompletesWhatACrashLeft(t *testing.T) {
	bound := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	member := func(n string, created time.Duration) *v1.Pod {
		p := schedtest.MakePod().Name("g-" + n).Group("g").Obj()
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
	large := member("3", time.Hour)
	large.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
	tests := map[string]struct {
		pods []*v1.Pod
		// later are the pods that are created after the leader's first session.
		later []*v1.Pod
		want  bool
	}{
		"a crash after the first bind":                              {pods: []*v1.Pod{runs("0", 0), member("1", -time.Minute), member("2", 0)}, want: true},
		"a crash before the last bind":                              {pods: []*v1.Pod{runs("0", 0), runs("1", time.Second), member("2", -time.Minute)}, want: true},
		"more members came since a crash":                           {pods: []*v1.Pod{runs("0", 0), member("1", 0), member("2", 0), member("3", time.Hour)}, want: true},
		"a larger member came since a crash":                        {pods: []*v1.Pod{runs("0", 0), member("1", 0), member("2", 0), large}},
		"a member was evicted":                                      {pods: []*v1.Pod{runs("0", 0), runs("1", 0), member("2", time.Second)}},
		"a member was evicted, after others were bound for another": {pods: []*v1.Pod{runs("0", 0), runs("1", time.Hour), member("2", time.Minute)}},
		"an evicted member is made again later":                     {pods: []*v1.Pod{runs("0", 0), runs("1", 0)}, later: []*v1.Pod{member("2", time.Hour)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCache(t)
			c.AddPodGroupV1beta1(schedtest.MakePodGroup().Name("g").Queue("a").MinMember(3).Obj())
			for _, pod := range tt.pods {
				c.AddPod(pod)
			}
			session := sessions(t, c, 0)
			session(nil)
			for _, pod := range tt.later {
				c.AddPod(pod)
			}
			for range 2 {
				session(func(ssn *framework.Session) {
					if got := ssn.Placements.IsPlacedFirst(ssn.Jobs["ns/g"]); got != tt.want {
						t.Errorf("the gang is placed first: %t, want %t", got, tt.want)
					}
				})
			}
			if conditionOf(c.Jobs["ns/g"]) == nil {
				t.Error("the gang has no condition PartiallyBound")
			}
		})
	}
}

// TestAForgedConditionDecidesNothing checks that the time limit does not depend on condition PartiallyBound, which a
// tenant may write or delete.
func TestAForgedConditionDecidesNothing(t *testing.T) {
	tests := map[string]func(pg *api.PodGroup, partiallyBound *scheduling.PodGroupCondition){
		"dated in the past": func(_ *api.PodGroup, c *scheduling.PodGroupCondition) {
			c.LastTransitionTime = metav1.NewTime(time.Now().Add(-time.Hour))
		},
		"dated in the future": func(_ *api.PodGroup, c *scheduling.PodGroupCondition) {
			c.LastTransitionTime = metav1.NewTime(time.Now().Add(time.Hour))
		},
		"deleted": func(pg *api.PodGroup, _ *scheduling.PodGroupCondition) { pg.Status.Conditions = nil },
	}
	for name, forge := range tests {
		for _, inFlight := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in flight: %t", name, inFlight), func(t *testing.T) {
				c := newCache(t)
				synctest.Test(t, func(t *testing.T) {
					session := sessions(t, c, time.Minute)
					session(nil)
					if inFlight {
						c.setStatus("half", "1", api.Binding)
						session(nil)
					}
					for i := range 7 {
						if condition := conditionOf(c.Jobs["ns/half"]); condition != nil {
							forge(c.Jobs["ns/half"].PodGroup, condition)
						}
						if time.Sleep(10 * time.Second); i == 5 {
							time.Sleep(time.Second)
						}
						session(nil)
						if want := i >= 5; (len(c.evicted) > 0) != want {
							t.Fatalf("after %d s the evictions are %v, want them after more than 60 s", 10*(i+1), c.evicted)
						}
					}
				})
			})
		}
	}
}
