// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestANewLeaderCompletesTheGroupThatACrashLeft: gang x of a group is bound, and the other gangs are pending. After a
// crash, a new leader places gang y first if the pods of both other gangs were created before gang x was bound. Pods
// that were created later are replacements of evicted pods, or new.
func TestANewLeaderCompletesTheGroupThatACrashLeft(t *testing.T) {
	bound := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tt := range map[string]struct {
		created, third time.Duration
		want           bool
	}{
		"a crash left it":                      {created: -time.Second, third: -time.Second, want: true},
		"it was evicted":                       {created: time.Second, third: -time.Second},
		"another gang of the group came since": {created: -time.Second, third: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCache(t)
			for _, name := range []string{"x", "y", "z"} {
				c.AddPodGroupV1beta1(schedtest.MakePodGroup().Name(name).Queue("a").MinMember(1).Annotation(gangs.GroupsAnnotation, `["ns/x","ns/y","ns/z"]`).Obj())
			}
			x := schedtest.MakePod().Name("x-0").Group("x").Node("n").Phase(v1.PodRunning).Annotation(binding.MinimumAnnotation, "1").
				Annotation(gangs.BindGroupAnnotation, "ns/x,ns/y,ns/z").Obj()
			x.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(bound)}}
			c.AddPod(x)
			for name, created := range map[string]time.Duration{"y": tt.created, "z": tt.third} {
				waits := schedtest.MakePod().Name(name + "-0").Group(name).Req(schedtest.Resources{"cpu": "1"}).Obj()
				waits.CreationTimestamp = metav1.NewTime(bound.Add(created))
				c.AddPod(waits)
			}
			session := sessions(t, c, 0)
			for range 2 {
				session(func(ssn *framework.Session) {
					if got := ssn.Placements.IsPlacedFirst(ssn.Jobs["ns/y"]); got != tt.want {
						t.Errorf("the gang is placed first: %t, want %t", got, tt.want)
					}
				})
			}
		})
	}
}
