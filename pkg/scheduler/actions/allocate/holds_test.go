// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// served plays sessions for the minutes and returns the minutes in which pods began or ceased to be bound, and in how many they were. Nothing that a
// session decides comes true. It also returns the longest text of gang a in a minute with binds.
func (c *counting) served(t *testing.T, minutes int) (changes []int, served int, text string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		was := false
		for minute := range minutes {
			bound := 0
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
			for range 6 {
				time.Sleep(10 * time.Second)
				c.look(func(*sessiontest.Session) {})
			}
		}
	})
	return changes, served, text
}

// promises names the task for which a pod was evicted.
type promises string

func (p promises) Urgent(job *api.JobInfo) (map[api.TaskID]bool, bool) {
	only := map[api.TaskID]bool{}
	for id, task := range job.Tasks {
		if task.Name == string(p) {
			only[id] = true
		}
	}
	return only, len(only) > 0
}

// TestAGangHoldsIdleNodesForAWhile: while it waits for a pod that is being released, which never ends, others get none of the nodes that are idle.
// After 5 minutes they do, for a pause that doubles.
func TestAGangHoldsIdleNodesForAWhile(t *testing.T) {
	leaves := func(cpu string) *v1.Pod {
		return schedtest.MakePod().Name("leaves").Node("n2").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": cpu}).Terminating().Obj()
	}
	other, otherGroup := gang("other", "1")
	// alone is a gang of 4 cpu on each of the nodes, and what leaves one of them.
	alone := func(leaving string, nodes ...*v1.Node) func(*testing.T) *counting {
		return func(t *testing.T) *counting {
			requests := []string{"4", "4"}
			pods, podGroup := gang("a", requests[:len(nodes)]...)
			return newCounting(t, sessiontest.World{Nodes: nodes, Pods: append(pods, leaves(leaving)), PodGroups: []*v1beta1.PodGroup{podGroup}})
		}
	}
	group := func(t *testing.T) *counting {
		c := newGroup(t, []string{"4"}, []string{"4"}, node("n1", "ib-a", "4"), node("n2", "ib-a", "4"))
		c.world.Pods = append(c.world.Pods, leaves("4"))
		return c
	}
	bounded := []int{5, 10, 15, 25, 30, 50, 55, 95}
	// evictor is the gang for whose second member the pod was evicted.
	evictor := func(t *testing.T) *counting {
		c := alone("4", node("n1", "ib-a", "4"), node("n2", "ib-a", "4"))(t)
		c.registry.RegisterPlugin(plugin("promises", func(*framework.Session) {}, promises("a-1")))
		c.conf += "  - name: promises\n"
		return c
	}
	tests := map[string]struct {
		world func(*testing.T) *counting
		// want are the first changes; of a group not all, because coscheduling has its gangs take turns with others.
		want   []int
		served [2]int
	}{
		"a gang":                        {world: alone("4", node("n1", "ib-a", "4"), node("n2", "ib-a", "4")), want: bounded, served: [2]int{75, 75}},
		"a group of gangs":              {world: group, want: bounded[:1], served: [2]int{75, 85}},
		"the idle rest of a node":       {world: alone("10m", node("n2", "ib-a", "4")), want: bounded, served: [2]int{75, 75}},
		"evictions are for it":          {world: evictor},
		"only what is released is held": {world: alone("4", node("n2", "ib-a", "4"))},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := tt.world(t)
			c.world.Pods, c.world.PodGroups = append(c.world.Pods, other...), append(c.world.PodGroups, otherGroup)
			changes, served, text := c.served(t, 100)
			if diff := cmp.Diff(tt.want, changes[:min(len(changes), len(tt.want))]); diff != "" {
				t.Errorf("minutes (-want +got):\n%s", diff)
			}
			if want := tt.served; served < want[0] || served > want[1] {
				t.Errorf("another gang is served in %d minutes, want %v", served, want)
			}
			if tt.want != nil && !strings.Contains(text, "only idle resources count until ") {
				t.Errorf("in a pause the gang says %q", text)
			}
		})
	}
}
