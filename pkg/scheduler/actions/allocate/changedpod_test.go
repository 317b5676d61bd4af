// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/coscheduling"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestAChangedPodIsNotTakenForWhatItWas checks that a changed pod gets a new result. Users change requests and
// tolerations of waiting pods, and nothing else in the cluster changes. Pods of another, unchanged gang have cached
// results from the former session.
func TestAChangedPodIsNotTakenForWhatItWas(t *testing.T) {
	const withOurs = "actions: allocate\ntiers:\n- plugins:\n  - name: coscheduling\n  - name: gang\n  - name: predicates\n"
	waiting := func() *schedtest.PodBuilder {
		return schedtest.MakePod().Name("g-0").Group("g").Req(schedtest.Resources{"cpu": "5"})
	}
	tests := map[string]*v1.Pod{
		"it requests less": schedtest.MakePod().Name("g-0").Group("g").Req(schedtest.Resources{"cpu": "2"}).Obj(),
		"it tolerates the taint of a node": func() *v1.Pod {
			p := waiting().Obj()
			p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
			return p
		}(),
		"it no longer selects a node by label": nil,
	}
	for name, after := range tests {
		t.Run(name, func(t *testing.T) {
			before := waiting().Obj()
			if after == nil {
				before = schedtest.MakePod().Name("g-0").Group("g").Req(schedtest.Resources{"cpu": "1"}).NodeSelector("zone", "none").Obj()
				after = schedtest.MakePod().Name("g-0").Group("g").Req(schedtest.Resources{"cpu": "1"}).Obj()
			}
			others, h := gang("h", "9", "9")
			_, g := gang("g", "1")
			tainted := schedtest.MakeNode().Name("n2").Capacity(schedtest.Resources{"cpu": "8", "pods": "10"}).Obj()
			tainted.Spec.Taints = []v1.Taint{{Key: "x", Effect: v1.TaintEffectNoSchedule}}
			cluster := sessiontest.New(sessiontest.ClusterSpec{})
			defer cluster.Close()
			cluster.UseBooks(true)
			cluster.Load(sessiontest.ClusterSpec{
				Nodes:     []*v1.Node{schedtest.MakeNode().Name("n1").Capacity(schedtest.Resources{"cpu": "4", "pods": "10"}).Obj(), tainted},
				Pods:      append(others, before),
				PodGroups: []*v1beta1.PodGroup{g, h},
			})
			registry, action := action()
			registry.RegisterPlugin(coscheduling.Spec())
			scheduler := cluster.Scheduler(registry, withOurs)
			defer scheduler.Close()
			binds := func() map[string]string {
				ssn := scheduler.Open()
				defer ssn.Close()
				ssn.Run(action)
				return ssn.Binds()
			}
			for range 2 {
				if got := binds(); len(got) > 0 {
					t.Fatalf("bound %v before the pod changed", got)
				}
			}
			cluster.AddPod(after)
			if got := binds(); len(got) != 1 || got["ns/g-0"] == "" {
				t.Errorf("bound %v after the pod changed, want ns/g-0", got)
			}
		})
	}
}
