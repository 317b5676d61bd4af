// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestAGroupOfTwoQueuesHasOneGuard: its gangs are placed together, on nodes that are kept once.
func TestAGroupOfTwoQueuesHasOneGuard(t *testing.T) {
	queue := func(name string) *v1beta1.Queue { return schedtest.MakeQueue().Name(name).Obj() }
	in(t, fourNodes(queue("a"), queue("b")), starvingAfter("5m"), func(t *testing.T, w *world) {
		o := w.observe()
		s := w.stream(1, "a", "b")
		group := func(b *schedtest.PodGroupBuilder) {
			b.Annotation(gangs.GroupsAnnotation, fmt.Sprintf("[%q,%q]", schedtest.Namespace+"/x", schedtest.Namespace+"/y"))
		}
		s.submit("x", "a", 1, group)
		s.submit("y", "b", 1, group)
		for range 34 {
			s.flow()
		}
		if kept := s.kept(); o.guards != 1 || len(kept) != 2 {
			t.Errorf("%d guards keep %v for a group that needs two nodes, want one guard of two", o.guards, kept)
		}
		if s.flowUntil("y", 2*drains) < 0 || !w.runs("x") {
			t.Errorf("the group starves: %v", w.job("x").PodGroup.Status.Conditions)
		}
	})
}

// TestWhoHadNotWaitedForRoomHasNoNodesKept: a PodGroup that is made long before its pods, or whose pods had gates, has not starved.
func TestWhoHadNotWaitedForRoomHasNoNodesKept(t *testing.T) {
	late := func(gang string, first, n int) []*v1.Pod {
		all := members(schedtest.MakePod().Req(cores("4")), gang, n)[first:]
		for _, pod := range all {
			pod.CreationTimestamp = metav1.Now()
		}
		return all
	}
	tests := map[string]struct{ before, then func(w *world) }{
		"the pods come late": {func(*world) {}, func(w *world) { w.add(late("big", 0, 2)...) }},
		"one pod comes late": {func(w *world) { w.add(late("big", 0, 1)...) }, func(w *world) { w.add(late("big", 1, 2)...) }},
		"they had scheduling gates": {func(w *world) {
			for _, pod := range late("big", 0, 2) {
				pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/mine"}}
				w.add(pod)
			}
		}, func(w *world) {
			for _, name := range []string{"big-0", "big-1"} {
				w.update(name, func(pod *v1.Pod) { pod.Spec.SchedulingGates = nil })
			}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in(t, fourNodes(), starvingAfter("5m"), func(t *testing.T, w *world) {
				s := w.stream(1, schedtest.Queue)
				s.submit("big", schedtest.Queue, 0, func(b *schedtest.PodGroupBuilder) { b.MinMember(2) })
				tt.before(w)
				for range 40 {
					s.flow()
				}
				tt.then(w)
				for i := range 29 {
					if s.flow(); w.condition("big", Guarded).Type != "" {
						t.Fatalf("nodes are kept %v after it could be placed: %s", time.Duration(i+1)*tick, w.condition("big", Guarded).Message)
					}
				}
				s.guardedAt("big")
			})
		})
	}
}

// BenchmarkGuardOfAGangThatFitsNowhere is of one look for nodes, which goes over all of them.
func BenchmarkGuardOfAGangThatFitsNowhere(b *testing.B) {
	for _, unlike := range []bool{false, true} {
		b.Run(fmt.Sprintf("unlike=%t", unlike), func(b *testing.B) {
			world := sessiontest.World{}
			for i := range 5000 {
				world.Nodes = append(world.Nodes, holds("4").Name(fmt.Sprintf("n%d", i)).Obj())
			}
			group := schedtest.MakePodGroup().Name("big").MinMember(2000).Obj()
			group.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
			world.PodGroups = append(world.PodGroups, group)
			for i := range 2000 {
				pod := schedtest.MakePod().Name(fmt.Sprintf("big-%d", i)).Group("big").Req(cores("1")).Obj()
				pod.Spec.NodeSelector = map[string]string{"there": "is none"}
				if unlike {
					pod.Spec.NodeSelector[fmt.Sprint(i)] = ""
				}
				world.Pods = append(world.Pods, pod)
			}
			cluster := sessiontest.New(world)
			defer cluster.Close()
			var p *plugin
			spec := Spec()
			build := spec.New
			spec.New = func(args framework.Arguments, h framework.Handle) (framework.Plugin, error) {
				made, err := build(args, h)
				p, _ = made.(*plugin)
				return made, err
			}
			registry := framework.NewRegistry()
			registry.RegisterPlugin(spec)
			scheduler := cluster.Scheduler(registry, starvingAfter("5m"))
			defer scheduler.Close()
			ssn := scheduler.Open()
			defer ssn.Close()
			s := p.session
			job := s.Jobs[api.JobID(schedtest.Namespace+"/big")]
			b.ResetTimer()
			for b.Loop() {
				if _, err := s.keep(&guard{gang: job.UID, uid: job.PodGroup.UID, queue: job.Queue}); err == nil {
					b.Fatal("nodes are kept for it")
				}
			}
		})
	}
}

// TestManyGuards: a gang may use its own nodes, and not others', however many gangs nodes are kept for.
func TestManyGuards(t *testing.T) {
	k := &keeper{session: &session{Session: &framework.Session{Session: &vcframework.Session{Jobs: map[api.JobID]*api.JobInfo{}}}}, byNode: map[string]*keeping{}, keys: map[api.JobID]string{}}
	for i := range 25 {
		uid := api.JobID(fmt.Sprintf("ns/g%d", i))
		k.Jobs[uid] = api.NewJobInfo(uid)
		k.guards = append(k.guards, &keeping{guard: &guard{}, number: i, jobs: map[api.JobID]bool{uid: true}, ending: map[api.JobID]bool{}, status: []*api.Status{{Code: api.Unschedulable}}})
		k.byNode[fmt.Sprint(i)] = k.guards[i]
	}
	for gang := range 25 {
		task := &api.TaskInfo{Job: api.JobID(fmt.Sprintf("ns/g%d", gang))}
		for node := range 25 {
			if err := k.predicate(task, &api.NodeInfo{Name: fmt.Sprint(node)}); (err == nil) != (node == gang) {
				t.Errorf("gang %d on a node that is kept for gang %d: %v", gang, node, err)
			}
		}
	}
}

// BenchmarkSessionOfManyGangs is of what the plugin does in a session in which so many gangs wait, none of which can be placed.
func BenchmarkSessionOfManyGangs(b *testing.B) {
	for name, conf := range map[string]string{
		"without": "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n",
		"with":    "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: coscheduling\n",
	} {
		b.Run(name, func(b *testing.B) {
			world := sessiontest.World{Nodes: []*v1.Node{holds("4").Name("n").Obj()}}
			for i := range 10000 {
				name := fmt.Sprintf("g%d", i)
				group := schedtest.MakePodGroup().Name(name).MinMember(2).Annotation(gangs.ModeAnnotation, "Strict").Obj()
				group.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
				world.PodGroups = append(world.PodGroups, group)
				for j := range 2 {
					world.Pods = append(world.Pods, schedtest.MakePod().Name(fmt.Sprintf("%s-%d", name, j)).Group(name).Req(cores("8")).Obj())
				}
			}
			cluster := sessiontest.New(world)
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
