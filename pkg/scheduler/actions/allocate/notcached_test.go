// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/dynamicresources"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/volumebinding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// refuser is a plugin that reports a gang as not ready if waits returns true. If fails is set, it cannot score node
// groups.
type refuser struct {
	waits func(name string) bool
	fails bool
}

func (*refuser) Name() string { return "refuser" }
func (p *refuser) OnSessionOpen(ssn *framework.Session) {
	ssn.Session.AddJobReadyFn("refuser", func(job any) bool { return !p.waits(job.(*api.JobInfo).Name) })
}
func (*refuser) OnSessionClose(*framework.Session) {}
func (*refuser) BeforeTrial() bool                 { return false }
func (p *refuser) ScoreNodeGroup(*api.JobInfo, *framework.NodeGroupTrial) (float64, error) {
	if p.fails {
		return 0, errors.New("no score today")
	}
	return 0, nil
}

// TestFailuresWithOtherCausesThanResourcesAreNotCached checks that failures with other causes than resources are not
// cached. Gang b fits two nodes of 4 CPUs by resources. If another cause prevented its placement, or that of an equal
// gang, in former sessions, b is placed when that cause ends.
func TestFailuresWithOtherCausesThanResourcesAreNotCached(t *testing.T) {
	nodes := []*v1.Node{node("n1", "ib-a", "4"), node("n2", "ib-a", "4")} // The objects are shared, since a changed node is another object.
	nobody := func(string) bool { return false }
	plugin := &refuser{waits: nobody}
	tests := map[string]struct {
		// before applies the cause that keeps gangs waiting, and after removes it. boundBefore is the number of pods
		// that are bound in the first session.
		before, after func(w *sessiontest.ClusterSpec)
		boundBefore   int
	}{
		"a gang like it has a member with a gate": {before: func(w *sessiontest.ClusterSpec) {
			pods, a := gang("a", "3", "2", "2", "1")
			pods[3].Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "x"}}
			w.PodGroups[0].DeepCopy().Spec.DeepCopyInto(&a.Spec)
			a.Spec.MinMember, a.Annotations = 4, w.PodGroups[0].Annotations
			w.Pods, w.PodGroups = append(pods, w.Pods...), append([]*v1beta1.PodGroup{a}, w.PodGroups...)
		}, boundBefore: 3},
		"a sub-group like it is not complete": {before: func(w *sessiontest.ClusterSpec) {
			pods, a := gang("a", "3", "3", "3", "3", "3", "2", "2")
			w.PodGroups[0].DeepCopy().Spec.DeepCopyInto(&a.Spec)
			a.Spec.MinMember, a.Annotations = 4, w.PodGroups[0].Annotations
			a.Spec.SubGroupPolicy = schedtest.MakePodGroup().SubGroups("cells", "cell", 1, 4).Obj().Spec.SubGroupPolicy
			for i, pod := range pods {
				pod.Labels = map[string]string{"cell": fmt.Sprint(i / 4)}
			}
			w.Pods, w.PodGroups = append(pods, w.Pods...), append([]*v1beta1.PodGroup{a}, w.PodGroups...)
		}, boundBefore: 3},
		"a node is another scheduler's": {before: func(w *sessiontest.ClusterSpec) {
			w.Shard = &sessiontest.Shard{Mode: "hard", Nodes: []string{"n1"}}
		}, after: func(w *sessiontest.ClusterSpec) {
			w.Shard = &sessiontest.Shard{Mode: "hard", Nodes: []string{"n1", "n2"}}
		}},
		"another plugin does not call it ready": {
			before: func(*sessiontest.ClusterSpec) { plugin.waits = func(name string) bool { return name == "b" } }, after: func(*sessiontest.ClusterSpec) { plugin.waits = nobody },
		},
		"another plugin does not call one like it ready": {before: func(w *sessiontest.ClusterSpec) {
			pods, a := gang("a", "3", "2", "2")
			w.PodGroups[0].DeepCopy().Spec.DeepCopyInto(&a.Spec)
			a.Annotations = w.PodGroups[0].Annotations
			w.Pods, w.PodGroups = append(pods, w.Pods...), append([]*v1beta1.PodGroup{a}, w.PodGroups...)
			plugin.waits = func(name string) bool { return name == "a" }
		}, boundBefore: 3},
		"no group has a score": {before: func(*sessiontest.ClusterSpec) { plugin.fails = true }, after: func(*sessiontest.ClusterSpec) { plugin.fails = false }},
	}
	for name, tc := range tests {
		for where, lies := range map[string]func(*v1beta1.PodGroup){"HyperNode": inOneHyperNode, "cluster": inOneCluster} {
			t.Run(name+", "+where, func(t *testing.T) {
				world := func(change func(*sessiontest.ClusterSpec)) sessiontest.ClusterSpec {
					pods, b := gang("b", "3", "2", "2")
					lies(b)
					w := sessiontest.ClusterSpec{Nodes: nodes, Pods: pods, PodGroups: []*v1beta1.PodGroup{b}}
					w.HyperNodes = append(w.HyperNodes, schedtest.MakeHyperNode().Name("rack").Nodes("n1", "n2").Obj())
					if change != nil {
						change(&w)
					}
					return w
				}
				c := newCounting(t, world(tc.before))
				c.registry.RegisterPlugin(framework.PluginSpec{Name: "refuser", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) { return plugin, nil })})
				c.conf += "  - name: refuser\n    enablePredicate: false\n    enableNodeOrder: false\n    enableBestNode: false\n"
				before := tc.boundBefore
				if plugin.fails && where == "HyperNode" { // Sessions with HyperNodes have no scores of node groups.
					before = 3
				}
				for range 2 {
					if _, bound := c.session(); bound != before {
						t.Errorf("%d members were bound before, want %d", bound, before)
					}
				}
				c.world = world(tc.after)
				if _, bound := c.session(); bound != 3 {
					t.Errorf("%d members were bound after, want all 3: %s", bound, c.says)
				}
			})
		}
	}
}

// TestFailuresForLackOfARoleAreNotCached checks that failures for lack of a role are not cached. Members that
// allocate does not place count for the minima of roles, and may be replaced by members of another role.
func TestFailuresForLackOfARoleAreNotCached(t *testing.T) {
	nodes := []*v1.Node{node("n1", "ib-a", "4")}
	tests := map[string]*schedtest.PodBuilder{
		"a best-effort member": schedtest.MakePod(),
		"one that succeeded":   schedtest.MakePod().Req(schedtest.Resources{"cpu": "1"}).Node("n1").Phase(v1.PodSucceeded),
	}
	for name, member := range tests {
		t.Run(name, func(t *testing.T) {
			world := func(role string) sessiontest.ClusterSpec {
				pods, podGroup := gang("g", "1", "9")
				inOneCluster(podGroup)
				podGroup.Spec.MinMember, podGroup.Spec.MinTaskMember = 2, map[string]int32{"a": 1, "b": 1}
				pods[0].Annotations["volcano.sh/task-spec"], pods[1].Annotations["volcano.sh/task-spec"] = "a", "b"
				other := member.Name("other-" + role).Group("g").Role(role).Obj().DeepCopy()
				return sessiontest.ClusterSpec{Nodes: nodes[:1], Pods: append(pods, other), PodGroups: []*v1beta1.PodGroup{podGroup}}
			}
			c := newCounting(t, world("a"))
			for range 2 {
				if _, bound := c.session(); bound != 0 {
					t.Errorf("%d members were bound without one of role b", bound)
				}
			}
			c.world = world("b")
			if _, bound := c.session(); bound != 1 {
				t.Errorf("%d members were bound beside one of role b, want that of role a: %s", bound, c.says)
			}
		})
	}
}

// TestIgnoredPortsSeparateNoPods checks that host ports do not keep members apart if the configuration disables the
// check of ports: arithmetic must not exclude a gang that a trial would place.
func TestIgnoredPortsSeparateNoPods(t *testing.T) {
	for where, lies := range map[string]func(*v1beta1.PodGroup){"HyperNode": inOneHyperNode, "cluster": inOneCluster} {
		t.Run(where, func(t *testing.T) {
			w, podGroup := rackWorld([]string{"4"}, "2", "1", "1")
			lies(podGroup)
			for _, pod := range w.Pods {
				pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
			}
			c := newCounting(t, w)
			c.conf = strings.Replace(c.conf, "- name: predicates\n", "- name: predicates\n    arguments:\n      predicate.NodePortsEnable: false\n", 1)
			if _, bound := c.session(); bound != len(w.Pods) {
				t.Errorf("%d members were bound, want all: %s", bound, c.says)
			}
		})
	}
}

// TestTimeDependentResultsAreNotCached checks that time-dependent results are not cached. Plugin tdm refuses nodes by
// the time of day, and usage by the age of its measurements. With either of them, a waiting gang is tried again in
// each session. volumebinding and dynamicresources have their own caches, and only filter for pods with claims.
func TestTimeDependentResultsAreNotCached(t *testing.T) {
	for plugin, again := range map[string]bool{"binpack": false, volumebinding.Name: false, dynamicresources.Name: false, "tdm": true, "usage": true} {
		t.Run(plugin, func(t *testing.T) {
			pods, podGroup := gang("g", "5", "3", "3")
			inOneCluster(podGroup)
			w := sessiontest.ClusterSpec{Nodes: []*v1.Node{node("a1", "ib-a", "4"), node("a2", "ib-a", "6"), node("a3", "ib-a", "9")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
			w.Nodes[2].Spec.Unschedulable = true
			c := newCounting(t, w)
			trials := 0
			c.action = counted(c.registry, &trials)
			c.registry.RegisterPlugin(volumebinding.Spec())
			c.registry.RegisterPlugin(dynamicresources.Spec())
			c.cluster.Kube().Resources = []*metav1.APIResourceList{{GroupVersion: resourcev1.SchemeGroupVersion.String()}}
			c.conf = withClusters + "  - name: " + plugin + "\n"
			c.session()
			first := trials
			c.session()
			if first == 0 || trials > first != again {
				t.Errorf("%d trials in the first session and %d in the second, want some in the second: %t", first, trials-first, again)
			}
		})
	}
}

// TestResultsOfCustomPluginsAreNotCached checks that results of custom plugins are not cached. The state of a custom
// plugin is not part of the snapshot. The same holds for a plugin ported from upstream, which signs nothing and adds
// its predicate through the embedded session.
func TestResultsOfCustomPluginsAreNotCached(t *testing.T) {
	reserved := ""
	predicate := func(task *api.TaskInfo, node *api.NodeInfo) error {
		if node.Name == reserved {
			return api.NewFitErrWithStatus(task, node, &api.Status{Code: api.Unschedulable, Reason: "reserved"})
		}
		return nil
	}
	plugins := map[string]framework.Plugin{
		"a Signer": helper{open: func(ssn *framework.Session) { ssn.AddPredicateFn("helper", predicate) }},
		"a plugin ported from upstream": &sessiontest.Plugin{Called: "helper", Open: func(ssn *framework.Session) {
			ssn.Session.AddPredicateFn("helper", predicate)
		}},
	}
	for where, lies := range map[string]func(*v1beta1.PodGroup){"HyperNode": inOneHyperNode, "cluster": inOneCluster} {
		for of, plugin := range plugins {
			t.Run(where+" "+of, func(t *testing.T) {
				w, podGroup := rackWorld([]string{"6", "6"}, "5", "3", "3")
				lies(podGroup)
				w.Nodes, w.HyperNodes = w.Nodes[:2], w.HyperNodes[:1]
				c := newCounting(t, w)
				c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) { return plugin, nil })})
				c.conf += "  - name: helper\n"
				for _, reserved = range []string{"n0-1", "n0-1", ""} {
					want := 0
					if reserved == "" {
						want = len(w.Pods)
					}
					if _, bound := c.session(); bound != want {
						t.Errorf("with node %q reserved %d members were bound, want %d: %s", reserved, bound, want, c.says)
					}
				}
			})
		}
	}
}

// TestAnotherPodOfTheSameNameIsAnother checks that a pod with the same name but another UID is another pod. A pod is
// replaced between two sessions, and its replacement has no host port.
func TestAnotherPodOfTheSameNameIsAnother(t *testing.T) {
	for where, lies := range map[string]func(*v1beta1.PodGroup){"HyperNode": inOneHyperNode, "cluster": inOneCluster} {
		t.Run(where, func(t *testing.T) {
			w, podGroup := rackWorld([]string{"6", "6", "6"}, "5", "3", "3")
			lies(podGroup)
			w.Nodes, w.HyperNodes = w.Nodes[:3], w.HyperNodes[:1]
			port := []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
			for _, pod := range w.Pods {
				pod.Spec.Containers[0].Ports = port
			}
			runs := schedtest.MakePod().Name("runs").UID("first").Node("n0-1").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "1"}).Obj()
			runs.Spec.Containers[0].Ports = port
			w.Pods = append(w.Pods, runs)
			c := newCounting(t, w)
			for range 2 {
				if _, bound := c.session(); bound != 0 {
					t.Errorf("%d members were bound beside a pod with their host port", bound)
				}
			}
			runs = runs.DeepCopy()
			runs.UID, runs.Spec.Containers[0].Ports = "second", nil
			c.world.Pods[3] = runs
			if _, bound := c.session(); bound != 3 {
				t.Errorf("%d members were bound beside one without, want 3: %s", bound, c.says)
			}
		})
	}
}

// TestResultsThatDependOnVolumesAreNotCached checks that a gang with claims is placed when volumes for its nodes are
// created, although nothing else changed.
func TestResultsThatDependOnVolumesAreNotCached(t *testing.T) {
	for where, lies := range map[string]func(*v1beta1.PodGroup){"HyperNode": inOneHyperNode, "cluster": inOneCluster} {
		t.Run(where, func(t *testing.T) {
			w, podGroup := rackWorld([]string{"6", "6"}, "5", "3")
			lies(podGroup)
			w.Nodes, w.HyperNodes = w.Nodes[:2], w.HyperNodes[:1]
			objects := []runtime.Object{schedtest.LateClass("late", "kubernetes.io/no-provisioner")}
			for i, pod := range w.Pods {
				claim := fmt.Sprint("c", i)
				pod.Spec.Volumes = schedtest.MakePod().Volume(claim).Obj().Spec.Volumes
				objects = append(objects, schedtest.UnboundClaim(claim, "late"))
			}
			c := newCounting(t, w)
			c.cluster = sessiontest.New(sessiontest.ClusterSpec{Objects: objects})
			t.Cleanup(c.cluster.Close)
			c.registry.RegisterPlugin(volumebinding.Spec())
			c.conf = strings.Replace(c.conf, "- name: predicates\n", "- name: predicates\n    arguments: {predicate.VolumeBindingEnable: false}\n  - name: volumebinding\n", 1)
			for range 2 {
				if _, bound := c.session(); bound != 0 {
					t.Errorf("%d members were bound without volumes", bound)
				}
			}
			for _, n := range w.Nodes {
				if err := c.cluster.Kube().Tracker().Add(schedtest.FreeVolume("on-"+n.Name, "late", n.Name)); err != nil {
					t.Fatal(err)
				}
			}
			bound := 0
			err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
				_, bound = c.session() // The plugin gets volumes from informers.
				return bound > 0, nil
			})
			if bound != len(w.Pods) {
				t.Errorf("%d members were bound with a volume for each, want all: %v, %s", bound, err, c.says)
			}
		})
	}
}

// TestEvictionsOfAnEarlierActionCount checks that evictions by an earlier action count. A gang fitted no node in the
// last session, and nothing has changed since. When an action before allocate evicts a task, the gang may wait for
// the task's resources.
func TestEvictionsOfAnEarlierActionCount(t *testing.T) {
	pods, podGroup := gang("g", "3", "3")
	running, other := gang("r", "4")
	running[0].Spec.NodeName, running[0].Status.Phase = "n1", v1.PodRunning
	cluster := sessiontest.New(sessiontest.ClusterSpec{})
	defer cluster.Close()
	cluster.UseBooks(true)
	cluster.Load(sessiontest.ClusterSpec{
		Nodes: []*v1.Node{node("n1", "", "4"), node("n2", "", "4")}, Pods: append(pods, running...), PodGroups: []*v1beta1.PodGroup{podGroup, other},
	})
	registry, trials := framework.NewRegistry(), 0
	action := counted(registry, &trials)
	scheduler := cluster.Scheduler(registry, "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n")
	defer scheduler.Close()
	var n1 *api.NodeInfo
	for range 3 {
		ssn := scheduler.Open()
		again := n1 == ssn.Nodes["n1"]
		n1, trials = ssn.Nodes["n1"], 0
		ssn.Run(action)
		if again && trials > 0 {
			t.Errorf("the gang was tried %d times though nothing changed, want none", trials)
		}
		ssn.Close()
	}
	ssn := scheduler.Open()
	defer ssn.Close()
	if ssn.Nodes["n1"] != n1 {
		t.Error("the session has another copy of n1, so this test is not valid")
	}
	for _, task := range ssn.Jobs["ns/r"].Tasks {
		if err := ssn.Evict(task, "test"); err != nil {
			t.Fatal(err)
		}
	}
	ssn.Run(action)
	if waiting := len(ssn.Jobs["ns/g"].TaskStatusIndex[api.Pipelined]); waiting == 0 {
		t.Errorf("no member waits for the releasing resources: %s", ssn.Jobs["ns/g"].JobFitErrors)
	}
}
