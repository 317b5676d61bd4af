// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// stepless runs the action as if other gangs had used the steps of all searches while noSteps is true.
type stepless struct {
	*allocate.Action
	noSteps *bool
}

func (s stepless) Execute(ssn *framework.Session) {
	if *s.noSteps {
		s.ExecuteWithoutSteps(ssn)
	} else {
		s.Action.Execute(ssn)
	}
}

// TestASearchThatSomethingElseEndedIsMadeAgain checks that a search is repeated if a plugin or the queue made it fail,
// and not a lack of resources. The second session removes this cause, but resources are unchanged and no steps are left
// for other orders. So the gang is placed only if the search that failed is repeated.
func TestASearchThatSomethingElseEndedIsMadeAgain(t *testing.T) {
	small := schedtest.MakeQueue().Name("q").Capability(schedtest.Resources{"cpu": "5"}).Obj()
	large := schedtest.MakeQueue().Name("q").Capability(schedtest.Resources{"cpu": "50"}).Obj()
	type session struct {
		// hasSteps reports whether searches have steps left, and waits whether a plugin reports the gang as not ready.
		// refuses reports whether a plugin refuses the reservation on a node.
		hasSteps, waits bool
		refuses         func(node string) bool
		queue           *v1beta1.Queue
	}
	never := func(string) bool { return false }
	first := ""
	tests := map[string][2]session{
		"another plugin does not call it ready": {{waits: true, refuses: never, queue: large}, {refuses: never, queue: large}},
		"its queue has too little":              {{refuses: never, queue: small}, {refuses: never, queue: large}},
		"its plan meets a node where nothing is reserved for it": {
			{hasSteps: true, refuses: func(string) bool { return true }, queue: large},
			{refuses: func(node string) bool {
				if first == "" {
					first = node
				}
				return node == first
			}, queue: large},
		},
	}
	for name, sessions := range tests {
		for where, lies := range map[string]func(*v1beta1.PodGroup){"HyperNode": inOneHyperNode, "cluster": inOneCluster} {
			t.Run(name+", "+where, func(t *testing.T) {
				first = ""
				w, podGroup := rackWorld([]string{"4", "4", "4"}, "3", "2", "2")
				lies(podGroup)
				podGroup.Spec.Queue = "q"
				w.Nodes, w.HyperNodes = w.Nodes[:3], w.HyperNodes[:1]
				c := newCounting(t, w)
				c.conf = strings.Replace(c.conf, "- name: gang\n", "- name: gang\n  - name: capacity\n  - name: refuser\n    enablePredicate: false\n    enableNodeOrder: false\n    enableBestNode: false\n", 1)
				noSteps := false
				c.registry.RegisterAction(stepless{allocate.New(), &noSteps})
				c.action, _ = vcframework.GetAction("allocate")
				var now session
				c.registry.RegisterPlugin(framework.PluginSpec{Name: "refuser", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
					return &sessiontest.Plugin{Called: "refuser", Open: func(ssn *framework.Session) {
						ssn.Session.AddJobReadyFn("refuser", func(any) bool { return !now.waits })
						ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: func(e *vcframework.Event) {
							if now.refuses(e.Task.NodeName) {
								e.Err = errors.New("nothing is reserved here")
							}
						}})
					}}, nil
				})})
				for i, want := range []int{0, len(w.Pods)} {
					now = sessions[i]
					noSteps, c.world.Queues = !now.hasSteps, []*v1beta1.Queue{now.queue}
					if _, bound := c.session(); bound != want {
						t.Errorf("session %d bound %d members, want %d: %s", i, bound, want, c.says)
					}
				}
			})
		}
	}
}

// fastAndSlow returns a rack with a fast node of the given CPUs and a slow node with room for all members. Some
// members of its gang may use fast nodes only. The free resources alone do not show that these members have no room.
func fastAndSlow(lies func(*v1beta1.PodGroup), cpus string, fast int, members ...string) sessiontest.ClusterSpec {
	pods, podGroup := gang("g", members...)
	lies(podGroup)
	w := sessiontest.ClusterSpec{Nodes: []*v1.Node{node("fast", "ib-a", cpus), node("slow", "ib-a", "16")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
	w.Nodes[0].Labels["speed"] = "fast"
	for _, pod := range pods[:fast] {
		pod.Spec.NodeSelector = map[string]string{"speed": "fast"}
	}
	w.HyperNodes = append(w.HyperNodes, schedtest.MakeHyperNode().Name("rack").Nodes("fast", "slow").Obj())
	return w
}

// TestAMemberJoinsOneThatWaits checks that a member is placed when another member of its gang already waits for
// resources being released. In the session before, two members had to be placed and found no room. Beside the waiting
// member, one suffices.
func TestAMemberJoinsOneThatWaits(t *testing.T) {
	for where, lies := range map[string]func(*v1beta1.PodGroup){"HyperNode": inOneHyperNode, "cluster": inOneCluster} {
		t.Run(where, func(t *testing.T) {
			w := fastAndSlow(lies, "4", 2, "3", "2")
			w.Nodes = append(w.Nodes, node("full", "ib-a", "5"), node("elsewhere", "ib-b", "1"))
			w.HyperNodes[0] = schedtest.MakeHyperNode().Name("rack").Nodes("fast", "slow", "full").Obj()
			w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj())
			runs := schedtest.MakePod().Group("old").Phase(v1.PodRunning)
			w.Pods = append(w.Pods, runs.Name("victim").Node("full").Req(schedtest.Resources{"cpu": "5"}).Obj().DeepCopy(),
				runs.Name("leaves").Node("elsewhere").Req(schedtest.Resources{"cpu": "1"}).Terminating().Obj().DeepCopy())
			c := newCounting(t, w)
			if _, bound := c.session(); bound != 0 {
				t.Fatalf("%d members were bound, want none", bound)
			}
			c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name("g-2").Group("g").Req(schedtest.Resources{"cpu": "5"}).Obj())
			c.cluster.Load(c.world)
			ssn := c.cluster.Open(c.registry, c.conf)
			defer ssn.Close()
			stmt := vcframework.NewStatement(ssn.Session.Session)
			waits := taskOf(ssn, "g", "g-2")
			if err := errors.Join(stmt.Evict(taskOf(ssn, "old", "victim"), "test"), ssn.PrePredicateFn(waits), stmt.Pipeline(waits, "full", true)); err != nil {
				t.Fatal(err)
			}
			ssn.Run(c.action)
			if on := taskOf(ssn, "g", "g-0").NodeName + taskOf(ssn, "g", "g-1").NodeName; on != "fast" {
				t.Errorf("the others are on %q, want one of them on the fast node: %s", on, ssn.Jobs["ns/g"].JobFitErrors)
			}
		})
	}
}

func taskOf(ssn *sessiontest.Session, podGroup, name string) *api.TaskInfo {
	for _, task := range ssn.Jobs[api.JobID(schedtest.Namespace+"/"+podGroup)].Tasks {
		if task.Name == name {
			return task
		}
	}
	return nil
}

// TestMembersAreRetriedWhenAGateIsRemoved checks that members are retried when a scheduling gate is removed. While
// one member has a gate, three others are needed, and there is room for two.
func TestMembersAreRetriedWhenAGateIsRemoved(t *testing.T) {
	for where, lies := range map[string]func(*v1beta1.PodGroup){"HyperNode": inOneHyperNode, "cluster": inOneCluster} {
		t.Run(where, func(t *testing.T) {
			w := fastAndSlow(lies, "5", 3, "3", "2", "2")
			gated := schedtest.MakePod().Name("g-3").Group("g").Obj()
			gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "x"}}
			w.Pods = append(w.Pods, gated)
			c := newCounting(t, w)
			if _, bound := c.session(); bound != 0 {
				t.Fatalf("%d members were bound, want none", bound)
			}
			gated = gated.DeepCopy()
			gated.Spec.SchedulingGates = nil
			c.world.Pods[3] = gated
			if _, bound := c.session(); bound != 2 {
				t.Errorf("%d members were bound beside one without requests, want 2: %s", bound, c.says)
			}
		})
	}
}

// TestMembersOfEverySubGroupGetTheirReason checks that the members of every sub-group get their reason in each session,
// even if their sub-group equals another one.
func TestMembersOfEverySubGroupGetTheirReason(t *testing.T) {
	w := fastAndSlow(inOneHyperNode, "4", 4, "3", "2", "3", "2")
	w.PodGroups[0].Spec.SubGroupPolicy = schedtest.MakePodGroup().SubGroups("cells", "cell", 2, 2).Obj().Spec.SubGroupPolicy
	for i, pod := range w.Pods {
		pod.Labels["cell"] = fmt.Sprint(i / 2)
	}
	c := newCounting(t, w)
	for range 2 {
		c.cluster.Load(c.world)
		ssn := c.cluster.Open(c.registry, c.conf)
		ssn.Run(c.action)
		for _, name := range []string{"g-1", "g-3"} {
			if errs := ssn.Jobs["ns/g"].NodesFitErrors[taskOf(ssn, "g", name).UID]; errs == nil || !strings.Contains(errs.Error(), "Insufficient cpu") {
				t.Errorf("the message of %s is %v, want that cpu is insufficient", name, errs)
			}
		}
		ssn.Close()
	}
}
