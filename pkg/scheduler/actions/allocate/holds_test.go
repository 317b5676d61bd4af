// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// served simulates the given number of minutes. In each, it calls change, runs a session whose binds it counts, and
// runs six more sessions. No decision of a session takes effect. It returns the minutes in which the counted sessions
// begin or stop binding pods, the number of minutes with binds, and gang a's longest message in these minutes.
func (c *counting) served(t *testing.T, minutes int, change func(minute int)) (changes []int, served int, text string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		was := false
		for minute := range minutes {
			bound := 0
			change(minute)
			c.look(func(ssn *sessiontest.Session) {
				bound = len(ssn.Binds())
				if says := ssn.Jobs["ns/a"].JobFitErrors; bound > 0 && len(says) > len(text) {
					text = says
				}
			})
			if is := bound > 0; is != was {
				was, changes = is, append(changes, minute)
			}
			if was {
				served++
			}
			c.lookAgain(6, func(*sessiontest.Session) {})
		}
	})
	return changes, served, text
}

// lookAgain runs the given number of sessions, 10 seconds apart on the clock of the synctest bubble.
func (c *counting) lookAgain(sessions int, look func(*sessiontest.Session)) {
	for range sessions {
		time.Sleep(10 * time.Second)
		c.look(look)
	}
}

// promises is a plugin that places the gang of the first named task first, because pods were evicted for the gang. The
// named tasks, which may belong to several gangs, may hold idle resources until the victims have terminated.
type promises []string

func (p promises) PlaceFirst(job *api.JobInfo) (map[api.TaskID]bool, bool) {
	only, urgent := map[api.TaskID]bool{}, false
	for _, name := range p {
		only[api.TaskID(schedtest.Namespace+"-"+name)] = true
	}
	for _, task := range job.Tasks {
		urgent = urgent || task.Name == p[0]
	}
	return only, urgent
}

func (p promises) Nominees(job *api.JobInfo) map[api.TaskID]bool {
	if only, first := p.PlaceFirst(job); first {
		return only
	}
	return nil
}

func (promises) Evicted(framework.Eviction) {}

func (promises) Leaving(*api.TaskInfo) []*api.TaskInfo { return nil }

// named places the tasks of another plugin first, and hides that pods were evicted for them (framework.EvictionTracker).
type named struct{ framework.Prioritizer }

// first is a plugin that places all tasks of all gangs first.
type first struct{}

func (first) PlaceFirst(*api.JobInfo) (map[api.TaskID]bool, bool) { return nil, true }

// leaver returns a pod on the node that stays terminating for ever.
func leaver(node, cpu string) *v1.Pod {
	return schedtest.MakePod().Name("leaves-" + node).Node(node).Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": cpu}).Terminating().Obj()
}

// promising adds the plugin promises with the named tasks.
func promising(c *counting, tasks ...string) *counting { return prioritizing(c, promises(tasks)) }

func prioritizing(c *counting, by framework.Prioritizer) *counting {
	c.registry.RegisterPlugin(plugin("promises", func(*framework.Session) {}, by))
	c.conf += "  - name: promises\n"
	return c
}

// TestAGangHoldsIdleNodesForAWhile checks that a gang that waits for a pod that never terminates holds the idle nodes
// for 5 minutes. Then other gangs get the nodes during a pause of 20 minutes.
func TestAGangHoldsIdleNodesForAWhile(t *testing.T) {
	other, otherGroup := gang("other", "1")
	// alone returns a gang with one 4-CPU member per node, and a terminating pod with the given CPUs on n2.
	alone := func(leaving string, nodes ...*v1.Node) func(*testing.T) *counting {
		return func(t *testing.T) *counting {
			requests := []string{"4", "4"}
			pods, podGroup := gang("a", requests[:len(nodes)]...)
			return newCounting(t, sessiontest.ClusterSpec{Nodes: nodes, Pods: append(pods, leaver("n2", leaving)), PodGroups: []*v1beta1.PodGroup{podGroup}})
		}
	}
	two := alone("4", node("n1", "ib-a", "4"), node("n2", "ib-a", "4"))
	group := func(t *testing.T) *counting {
		c := newGroup(t, []string{"4"}, []string{"4"}, node("n1", "ib-a", "4"), node("n2", "ib-a", "4"))
		c.world.Pods = append(c.world.Pods, leaver("n2", "4"))
		return c
	}
	queues := func(t *testing.T) *counting {
		c := two(t)
		for i := range 25 {
			c.world.Queues = append(c.world.Queues, schedtest.MakeQueue().Name(fmt.Sprintf("a%d", i)).Obj())
		}
		return c
	}
	bounded := []int{5, 25, 30, 50, 55, 75, 80}
	tests := map[string]struct {
		world  func(*testing.T) *counting
		change func(c *counting, minute int)
		// want are the first minutes in which binds begin or end. For a gang group, later minutes are not compared,
		// because coscheduling lets its gangs take turns with other gangs, which are then bound in further minutes.
		want   []int
		served [2]int
	}{
		"a gang":                           {world: two, want: bounded, served: [2]int{80, 80}},
		"a gang group":                     {world: group, want: bounded[:1], served: [2]int{70, 85}},
		"the idle rest of a node":          {world: alone("10m", node("n2", "ib-a", "4")), want: bounded, served: [2]int{80, 80}},
		"evictions are for it":             {world: func(t *testing.T) *counting { return promising(two(t), "a-1", "a-0") }},
		"it has grown since the evictions": {world: func(t *testing.T) *counting { return promising(two(t), "a-1") }, want: []int{20}, served: [2]int{35, 80}},
		"it goes first for another reason": {world: func(t *testing.T) *counting { return prioritizing(two(t), first{}) }, want: bounded, served: [2]int{80, 80}},
		"its tasks do":                     {world: func(t *testing.T) *counting { return prioritizing(two(t), named{promises{"a-1", "a-0"}}) }, want: bounded, served: [2]int{80, 80}},
		"evictions are for its group":      {world: func(t *testing.T) *counting { return promising(group(t), "b-0", "a-0") }, served: [2]int{0, 40}},
		"so they are, and it has further members": {served: [2]int{0, 40}, world: func(t *testing.T) *counting {
			c := promising(group(t), "b-0", "a-0")
			c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name("b-1").Group("b").Req(schedtest.Resources{"cpu": "4"}).Obj())
			return c
		}},
		"its group has grown since":     {world: func(t *testing.T) *counting { return promising(group(t), "b-0") }, served: [2]int{45, 80}},
		"only what is released is held": {world: alone("4", node("n2", "ib-a", "4"))},
		"its queue changes": {world: queues, want: bounded, served: [2]int{80, 80}, change: func(c *counting, minute int) {
			c.world.PodGroups[0] = c.world.PodGroups[0].DeepCopy()
			c.world.PodGroups[0].Spec.Queue = fmt.Sprintf("a%d", minute/4)
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := tt.world(t)
			c.world.Pods, c.world.PodGroups = append(c.world.Pods, other...), append(c.world.PodGroups, otherGroup)
			changes, served, text := c.served(t, 100, func(minute int) {
				if tt.change != nil {
					tt.change(c, minute)
				}
			})
			if diff := cmp.Diff(tt.want, changes[:min(len(changes), len(tt.want))], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("minutes (-want +got):\n%s", diff)
			}
			if want := tt.served; served < want[0] || served > want[1] {
				t.Errorf("another gang is served in %d minutes, want %v", served, want)
			}
			if tt.want != nil && !strings.Contains(text, "the gang is placed on idle resources only: ") {
				t.Errorf("in a pause the gang's message is %q", text)
			}
		})
	}
}

// TestOnlyTheGangOfAGroupThatHoldsIsPaused checks that only the gang that holds resources pauses its namespace. A gang
// group has gangs in two namespaces: one gang holds the idle node, the other waits for a terminating pod. Afterwards, a
// new gang may hold idle resources in the second namespace only.
func TestOnlyTheGangOfAGroupThatHoldsIsPaused(t *testing.T) {
	nodes := []*v1.Node{node("n1", "ib-a", "4"), node("n2", "ib-a", "4"), node("n3", "ib-a", "4"), node("n4", "ib-a", "4")}
	on := func(namespace, name string, nodes ...string) ([]*v1.Pod, *v1beta1.PodGroup) {
		pods, podGroup := gang(name, slices.Repeat([]string{"4"}, len(nodes))...)
		for i, pod := range pods {
			pod.Namespace, pod.UID = namespace, types.UID(namespace+"-"+pod.Name)
			pod.Spec.NodeSelector = map[string]string{v1.LabelHostname: nodes[i]}
		}
		podGroup.Namespace = namespace
		return pods, podGroup
	}
	for namespace, want := range map[string]int{"holds": 0, "waits": 1} {
		t.Run(namespace, func(t *testing.T) {
			c := newGroup(t, nil, nil, nodes...)
			c.world.PodGroups, c.world.Pods = nil, []*v1.Pod{leaver("n2", "4"), leaver("n4", "4")}
			add := func(pods []*v1.Pod, podGroup *v1beta1.PodGroup) {
				c.world.Pods, c.world.PodGroups = append(c.world.Pods, pods...), append(c.world.PodGroups, podGroup)
			}
			add(on("holds", "a", "n1"))
			add(on("waits", "b", "n2"))
			for _, podGroup := range c.world.PodGroups {
				podGroup.Annotations = map[string]string{gangs.GroupsAnnotation: `["holds/a","waits/b"]`}
			}
			synctest.Test(t, func(t *testing.T) {
				c.lookAgain(6*6, func(*sessiontest.Session) {})
				add(on(namespace, "late", "n3", "n4"))
				c.look(func(ssn *sessiontest.Session) {
					if says := ssn.Jobs["waits/b"].JobFitErrors; !strings.Contains(says, "the gang is placed on idle resources only: ") {
						t.Errorf("the message of the gang that does not fit is %q", says)
					}
					if got := len(ssn.Jobs[api.JobID(namespace+"/late")].TaskStatusIndex[api.Allocated]); got != want {
						t.Errorf("another gang of the namespace holds %d nodes, want %d", got, want)
					}
					for gang, want := range map[string]bool{"waits/b": true, namespace + "/late": want == 0} {
						if got := ssn.Paused(ssn.Jobs[api.JobID(gang)]); got != want {
							t.Errorf("actions that evict see that %s is paused: %t, want %t", gang, got, want)
						}
					}
				})
			})
		})
	}
}

// TestAGangThatIsBoundHoldsNothing checks that a bound gang holds nothing: another gang waits on the same node and
// holds its idle resources.
func TestAGangThatIsBoundHoldsNothing(t *testing.T) {
	c := newCounting(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: []*v1.Pod{leaver("n1", "4")}})
	for namespace, cpu := range map[string]string{"a-waits": "6", "binds": "1"} {
		pods, podGroup := gang("g", cpu)
		pods[0].Namespace, pods[0].UID, podGroup.Namespace = namespace, types.UID(namespace), namespace
		c.world.Pods, c.world.PodGroups = append(c.world.Pods, pods...), append(c.world.PodGroups, podGroup)
	}
	synctest.Test(t, func(t *testing.T) {
		c.lookAgain(5*6+1, func(ssn *sessiontest.Session) {
			if diff := cmp.Diff([]map[string]string{{"binds/g-0": "n1"}, {"a-waits/g-0": "n1"}}, []map[string]string{ssn.Binds(), ssn.Pipelined()}); diff != "" {
				t.Fatalf("bound, and waiting (-want +got):\n%s", diff)
			}
		})
		c.look(func(ssn *sessiontest.Session) {
			for namespace, want := range map[string]bool{"a-waits": true, "binds": false} {
				if got := ssn.Paused(ssn.Jobs[api.JobID(namespace+"/g")]); got != want {
					t.Errorf("namespace %s is paused: %t, want %t", namespace, got, want)
				}
			}
		})
	})
}

// TestAFurtherMemberThatHoldsIsPaused checks that a namespace is paused if a member beyond a gang's minimum holds idle
// resources while it waits. The members of the minimum are bound.
func TestAFurtherMemberThatHoldsIsPaused(t *testing.T) {
	pods, podGroup := gang("g", "1", "6")
	podGroup.Spec.MinMember = 1
	c := newCounting(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: append(pods, leaver("n1", "4")), PodGroups: []*v1beta1.PodGroup{podGroup}})
	synctest.Test(t, func(t *testing.T) {
		c.lookAgain(5*6+1, func(ssn *sessiontest.Session) {
			if diff := cmp.Diff([]map[string]string{{"ns/g-0": "n1"}, {"ns/g-1": "n1"}}, []map[string]string{ssn.Binds(), ssn.Pipelined()}); diff != "" {
				t.Fatalf("bound, and waiting (-want +got):\n%s", diff)
			}
		})
		c.look(func(ssn *sessiontest.Session) {
			if !ssn.Paused(ssn.Jobs["ns/g"]) {
				t.Error("the gang may hold idle resources for more than five minutes")
			}
		})
	})
}
