// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	evictions "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestNamespacesTakeTurnsToEvict checks for which gangs upstream's actions search in each cycle, in the order of their
// priority. The search for one gang takes 60 ms, so a namespace has time for two gangs in a cycle, and its other gangs
// come first in the next cycle. This project's actions search for all gangs.
func TestNamespacesTakeTurnsToEvict(t *testing.T) {
	const search = 60 * time.Millisecond
	tests := map[string]struct {
		// others are gangs of the other namespace.
		others  []string
		actions []string
		want    [][]string
	}{
		"two gangs of a namespace in a cycle": {
			others: []string{"other"}, actions: []string{upstreamsPreempt, upstreamsReclaim},
			want: [][]string{{"a", "b", "other"}, {"c", "d", "other"}, {"e", "other"}, {"a", "b", "other"}},
		},
		"all gangs where there is no other namespace": {
			actions: []string{upstreamsPreempt, upstreamsReclaim},
			want:    [][]string{{"a", "b", "c", "d", "e"}, {"a", "b", "c", "d", "e"}},
		},
		"all gangs by this project's actions": {
			others: []string{"other"}, actions: []string{preempt, reclaim},
			want: [][]string{{"a", "b", "c", "d", "e", "other"}, {"a", "b", "c", "d", "e", "other"}},
		},
	}
	for name, tt := range tests {
		for _, action := range tt.actions {
			t.Run(name+" in "+action, func(t *testing.T) {
				var w specBuilder
				w.node("n")
				w.gang("runs", map[bool]string{false: "q", true: "lender"}[reclaims(action)], "1", 0, 2, "n", "n")
				for i, gang := range []string{"a", "b", "c", "d", "e"} {
					w.waits(schedtest.Namespace, gang, int32(100-i))
				}
				for _, gang := range tt.others {
					w.waits("elsewhere", gang, 1)
				}
				if reclaims(action) {
					w.Queues = append(w.Queues, schedtest.MakeQueue().Name("q").Obj())
				}
				s := newRepeatedEvictions(t, w.ClusterSpec, strings.Replace(fmt.Sprintf(tiers, Name, true), "- name: predicates", "- name: predicates\n  - name: helper", 1))
				var mu sync.Mutex
				var searched []string
				s.registry.RegisterPlugin(helper{Open: func(ssn *framework.Session) {
					ssn.AddPredicateFn("helper", func(task *api.TaskInfo, node *api.NodeInfo) error {
						mu.Lock()
						defer mu.Unlock()
						if name := ssn.Jobs[task.Job].Name; !slices.Contains(searched, name) {
							searched = append(searched, name)
							time.Sleep(search)
						}
						return api.NewFitError(task, node, "no")
					})
				}}.spec())
				s.actions = append(s.actions, registered(s.registry, evictions.Upstreams()...)...)
				synctest.Test(t, func(t *testing.T) {
					var got [][]string
					for range tt.want {
						searched = nil
						ssn := s.cluster.Open(s.registry, s.conf)
						ssn.Run(s.action(action))
						ssn.Close()
						got = append(got, searched)
					}
					if diff := cmp.Diff(tt.want, got); diff != "" {
						t.Errorf("gangs that were searched for, by session (-want +got):\n%s", diff)
					}
				})
			})
		}
	}
}

// waits adds a pending gang of one pod to queue q.
func (w *specBuilder) waits(namespace, name string, priority int32) {
	w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Namespace(namespace).Name(name).Queue("q").MinMember(1).
		PriorityClass(fmt.Sprintf("p%d", priority)).Phase(v1beta1.PodGroupInqueue).Obj())
	w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass(fmt.Sprintf("p%d", priority), priority))
	w.Pods = append(w.Pods, schedtest.MakePod().Namespace(namespace).Name(name+"-0").Group(name).Priority(priority).
		Req(schedtest.Resources{"cpu": "1"}).Obj())
}
