// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// BenchmarkSessionOfManyGangs measures opening and closing a session with 10,000 pending gangs that cannot be placed,
// with and without the plugin.
func BenchmarkSessionOfManyGangs(b *testing.B) {
	for name, conf := range map[string]string{
		"without": "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n",
		"with":    "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: coscheduling\n",
	} {
		b.Run(name, func(b *testing.B) {
			spec := sessiontest.ClusterSpec{Nodes: []*v1.Node{holds("4").Name("n").Obj()}}
			for i := range 10000 {
				name := fmt.Sprintf("g%d", i)
				group := schedtest.MakePodGroup().Name(name).MinMember(2).Annotation(gangs.ModeAnnotation, "Strict").Obj()
				group.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
				spec.PodGroups = append(spec.PodGroups, group)
				for j := range 2 {
					spec.Pods = append(spec.Pods, schedtest.MakePod().Name(fmt.Sprintf("%s-%d", name, j)).Group(name).Req(cores("8")).Obj())
				}
			}
			cluster := sessiontest.New(spec)
			defer cluster.Close()
			registry := framework.NewRegistry()
			registry.RegisterPlugin(Spec())
			scheduler := cluster.Scheduler(registry, conf)
			defer scheduler.Close()
			for b.Loop() {
				scheduler.Open().Close()
			}
		})
	}
}

// BenchmarkLooksForRoom measures the search for room for gangs in a backoff that fit on none of 5,000 full nodes. A
// session compares only a limited number of gangs with all nodes.
func BenchmarkLooksForRoom(b *testing.B) {
	full := schedtest.Resources{"cpu": "64", "memory": "1Ti", "nvidia.com/gpu": "8", "rdma/ib": "8", "ephemeral-storage": "1Ti", "hugepages-2Mi": "1Gi"}
	for _, gangs := range []int{1, 20, 10_000} {
		b.Run(fmt.Sprint(gangs, " gangs in a backoff"), func(b *testing.B) {
			s := &session{ssn: &framework.Session{Session: &vcframework.Session{Nodes: map[string]*api.NodeInfo{}}}, limits: map[string]*admissionDeadline{}}
			for i := range 5_000 {
				node := schedtest.MakeNode().Name(fmt.Sprint("n", i)).Capacity(full).Obj()
				s.ssn.Nodes[node.Name] = api.NewNodeInfo(node)
			}
			for i := range gangs {
				job := ofSizes(1, cores("100"))
				job.Namespace, job.Name = fmt.Sprint("ns", i%10), fmt.Sprint("g", i)
				s.limits[job.Name] = &admissionDeadline{id: job.Name, gangs: []*gang{{JobInfo: job}}, until: time.Now().Add(time.Hour)}
			}
			b.ReportAllocs()
			for b.Loop() {
				s.endEarly()
			}
		})
	}
}
