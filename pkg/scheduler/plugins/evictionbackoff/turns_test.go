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

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestNamespacesTakeTurnsToEvict checks for which gangs each cycle searches, in the order of their priority. The search
// for one gang takes 60 ms, so a namespace has time for two gangs in a cycle, and its other gangs come first in the
// next cycle.
func TestNamespacesTakeTurnsToEvict(t *testing.T) {
	const search = 60 * time.Millisecond
	tests := map[string]struct {
		// others are gangs of the other namespace.
		others    []string
		gangGroup []string
		want      [][]string
	}{
		"two gangs of a namespace in a cycle": {
			others: []string{"other"},
			want:   [][]string{{"a", "b", "other"}, {"c", "d", "other"}, {"e", "other"}, {"a", "b", "other"}},
		},
		"gangs of a group together": {
			others:    []string{"other"},
			gangGroup: []string{"b", "c"},
			want:      [][]string{{"a", "b", "c", "other"}, {"d", "e", "other"}, {"a", "b", "c", "other"}},
		},
		"all gangs where there is no other namespace": {
			want: [][]string{{"a", "b", "c", "d", "e"}, {"a", "b", "c", "d", "e"}},
		},
	}
	for name, tt := range tests {
		for _, action := range []string{preempt, reclaim} {
			t.Run(name+" in "+action, func(t *testing.T) {
				var w specBuilder
				w.node("n")
				w.gang("runs", map[string]string{preempt: "q", reclaim: "lender"}[action], "1", 0, 2, "n", "n")
				for i, gang := range []string{"a", "b", "c", "d", "e"} {
					w.waits(schedtest.Namespace, gang, int32(100-i))
				}
				for _, gang := range tt.others {
					w.waits("elsewhere", gang, 1)
				}
				if action == reclaim {
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
						if len(tt.gangGroup) > 0 && task.Job == api.JobID(schedtest.Namespace+"/"+tt.gangGroup[0]) {
							return nil // so that the next gang of its group is searched for, too
						}
						return api.NewFitError(task, node, "no")
					})
				}, Part: sessiontest.GangGroupFn(func(job *api.JobInfo) *binding.GangGroup {
					gangGroup := &binding.GangGroup{ID: "ns/group"}
					member := false
					for _, name := range tt.gangGroup {
						gangGroup.Gangs = append(gangGroup.Gangs, binding.GangTerms{Gang: api.JobID(schedtest.Namespace + "/" + name)})
						member = member || job.Name == name
					}
					if !member {
						return nil
					}
					return gangGroup
				})}.spec())
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
