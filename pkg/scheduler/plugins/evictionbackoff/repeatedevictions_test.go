// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	evictions "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/transaction"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const tiers = `
actions: allocate, preempt, reclaim
tiers:
- plugins:
  - name: %s
- plugins:
  - name: priority
  - name: gang
    enableReclaimable: %t
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: nodeorder
`

// repeatedEvictions is a cluster in which sessions follow one another quickly. Evicted pods take different times to
// terminate, and are then recreated, as by their controllers.
type repeatedEvictions struct {
	cluster  *sessiontest.Cluster
	registry *framework.Registry
	conf     string
	// actions run in each session, in this order.
	actions []vcframework.Action
	plugin  *plugin
	start   time.Time
	pods    map[string]*v1.Pod
	gone    map[string]time.Time
	made    int
	// paused reports whether all gangs are paused for the actions that evict.
	paused bool
	// taken is called with a node on which an evicted pod has ended.
	taken func(node string)
	// evictions are the times of all evictions since the start. last are the pods that the last session evicted.
	evictions []time.Duration
	last      []string
}

func newRepeatedEvictions(t *testing.T, w sessiontest.ClusterSpec, conf string) *repeatedEvictions {
	t.Helper()
	s := &repeatedEvictions{cluster: sessiontest.New(w), registry: framework.NewRegistry(), conf: conf, plugin: newPlugin(), pods: map[string]*v1.Pod{}, gone: map[string]time.Time{}}
	t.Cleanup(s.cluster.Close)
	for _, pod := range w.Pods {
		s.pods[pod.Namespace+"/"+pod.Name] = pod
	}
	spec := Spec()
	spec.Load = framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) { return s.plugin, nil })
	s.registry.RegisterPlugin(spec)
	s.actions = registered(s.registry, allocate.New(), evictions.New(nil), evictions.NewReclaim(nil))
	return s
}

// action returns the action of this name.
func (s *repeatedEvictions) action(name string) vcframework.Action {
	return s.actions[slices.IndexFunc(s.actions, func(action vcframework.Action) bool { return action.Name() == name })]
}

// session runs one session and applies its decisions.
func (s *repeatedEvictions) session() {
	s.registry.RegisterAction(pausedGangs{"*": s.paused})
	ssn := s.cluster.Open(s.registry, s.conf)
	ssn.Run(s.actions...)
	binds := ssn.Binds()
	nominations := map[string]string{}
	for _, job := range ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Pipelined] {
			if task.EvictionOccurred {
				nominations[task.Namespace+"/"+task.Name] = task.NodeName
			}
		}
	}
	ssn.Close()
	s.last = ssn.Evicts()
	for name, node := range nominations {
		s.update(name, func(pod *v1.Pod) { pod.Status.NominatedNodeName = node })
	}
	for name, node := range binds {
		s.update(name, func(pod *v1.Pod) { pod.Spec.NodeName, pod.Status.Phase = node, v1.PodRunning })
	}
	slices.Sort(s.last)
	for i, name := range s.last {
		s.update(name, func(pod *v1.Pod) { now := metav1.Now(); pod.DeletionTimestamp = &now })
		s.gone[name] = time.Now().Add(time.Duration(i+1) * 150 * time.Millisecond)
		s.evictions = append(s.evictions, time.Since(s.start))
	}
}

func (s *repeatedEvictions) update(name string, change func(*v1.Pod)) {
	before := s.pods[name]
	after := before.DeepCopy()
	change(after)
	s.cluster.Cache().UpdatePod(before, after)
	s.pods[name] = after
}

// leave deletes the pods whose termination has ended, and creates their replacements.
func (s *repeatedEvictions) leave() {
	for _, name := range slices.Sorted(maps.Keys(s.gone)) {
		if time.Now().Before(s.gone[name]) {
			continue
		}
		old := s.pods[name]
		s.cluster.Cache().DeletePod(old)
		delete(s.pods, name)
		delete(s.gone, name)
		if s.taken != nil {
			s.taken(old.Spec.NodeName)
		}
		s.made++
		pod := old.DeepCopy()
		pod.Name = fmt.Sprintf("%s-%d", old.Annotations[v1beta1.KubeGroupNameAnnotationKey], 100+s.made)
		pod.UID, pod.CreationTimestamp = types.UID(pod.Namespace+"-"+pod.Name), metav1.Now()
		pod.DeletionTimestamp, pod.Spec.NodeName, pod.Status = nil, "", v1.PodStatus{Phase: v1.PodPending}
		s.cluster.Cache().AddPod(pod)
		s.pods[pod.Namespace+"/"+pod.Name] = pod
	}
}

// runFor runs sessions for this time.
func (s *repeatedEvictions) runFor(d time.Duration) {
	s.start = time.Now()
	for time.Since(s.start) < d {
		s.session()
		time.Sleep(100 * time.Millisecond)
		s.leave()
	}
}

func (s *repeatedEvictions) running(gang string) (n int) {
	for _, pod := range s.pods {
		if pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] == gang && pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// node adds a node with 2 cpus.
func (w *specBuilder) node(name string) {
	w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(name).Capacity(schedtest.Resources{"cpu": "2", "memory": "64Gi", "pods": "50"}).Obj())
}

// outsider returns a pod of another scheduler.
func outsider(name, node, cpu string) *v1.Pod {
	return schedtest.MakePod().Name(name).Scheduler("other").Node(node).Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": cpu}).Obj()
}

// specBuilder builds a cluster with queues, gangs and nodes.
type specBuilder struct{ sessiontest.ClusterSpec }

// gang adds a gang and its pods. The first pods run on the given nodes.
func (w *specBuilder) gang(name, queue, cpu string, minMember int32, pods int, nodes ...string) {
	if !slices.ContainsFunc(w.Queues, func(q *v1beta1.Queue) bool { return q.Name == queue }) {
		w.Queues = append(w.Queues, schedtest.MakeQueue().Name(queue).Obj())
	}
	w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name(name).Queue(queue).MinMember(minMember).Phase(v1beta1.PodGroupInqueue).Obj())
	for i := range pods {
		pod := schedtest.MakePod().Name(fmt.Sprintf("%s-%d", name, i)).Group(name).Req(schedtest.Resources{"cpu": cpu}).Label(v1beta1.PodPreemptable, "true")
		if i < len(nodes) {
			pod.Node(nodes[i]).Phase(v1.PodRunning)
		}
		w.Pods = append(w.Pods, pod.Obj())
	}
}

// lendersAndOwners is like upstream's "Capacity Reclaim Case 11": two queues use the whole cluster when pods of two
// other queues are created, some of which need a whole node.
func lendersAndOwners() sessiontest.ClusterSpec {
	var w specBuilder
	all := []string{"n1", "n2", "n3", "n4"}
	for _, name := range all {
		w.node(name)
	}
	w.gang("j1", "q1", "1", 1, 4, all...)
	w.gang("j2", "q2", "1", 1, 4, all...)
	w.gang("j3", "q3", "2", 1, 1)
	w.gang("j4", "q4", "2", 1, 1)
	w.gang("j5", "q4", "1", 1, 1)
	w.gang("j6", "q4", "1", 1, 1)
	return w.ClusterSpec
}

// TestRegressionEvictionsStorm counts evictions until no more occur. The new pods need 6 of 8 cpus, and all 8 are used
// by pods of 1 cpu. The queues of the victims come first for free resources, so that the recreated victims take them again.
func TestRegressionEvictionsStorm(t *testing.T) {
	t.Run("with nothing against it", func(t *testing.T) {
		s := newRepeatedEvictions(t, lendersAndOwners(), fmt.Sprintf(tiers, "conformance", true))
		synctest.Test(t, func(t *testing.T) {
			s.runFor(10 * time.Second)
			if len(s.evictions) < 50 {
				t.Errorf("only %d pods were evicted, so the scenario causes no repeated evictions", len(s.evictions))
			}
		})
	})
	for range 3 { // maps have no order
		s := newRepeatedEvictions(t, lendersAndOwners(), fmt.Sprintf(tiers, Name, true))
		synctest.Test(t, func(t *testing.T) {
			s.runFor(time.Minute)
			for _, gang := range []string{"j3", "j4", "j5", "j6"} {
				if got := s.running(gang); got != 1 {
					t.Errorf("gang %s has %d pods running, want 1", gang, got)
				}
				if _, _, blocked := s.plugin.gangs.Blocked(api.JobID(schedtest.Namespace + "/" + gang)); blocked {
					t.Errorf("gang %s waits although it was placed", gang)
				}
			}
			if len(s.evictions) > 8 {
				t.Errorf("%d pods were evicted to free 6 cpus: %v", len(s.evictions), s.evictions)
			}
			if first := s.evictions[0]; first > 0 {
				t.Errorf("the first eviction was after %s, want it in the first session", first)
			}
			if len(s.plugin.claims) > 0 {
				t.Errorf("claims remain after the last eviction: %v", s.plugin.claims)
			}
		})
	}
}

// TestWaitsOutliveTheConfiguration checks that waits and claims survive a reload, which rebuilds the plugin.
func TestWaitsOutliveTheConfiguration(t *testing.T) {
	var w specBuilder
	w.node("n")
	w.gang("a", "q1", "1", 2, 2, "n", "n")
	w.gang("b", "q2", "1", 2, 2)
	s := newRepeatedEvictions(t, w.ClusterSpec, fmt.Sprintf(tiers, Name, false))
	spec := Spec()
	reload := func() {
		built, err := spec.New(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.plugin = built.(*plugin)
	}
	synctest.Test(t, func(t *testing.T) {
		reload()
		s.start = time.Now()
		s.session()
		if s.leave(); len(s.plugin.claims) != 1 || len(s.evictions) == 0 {
			t.Fatalf("%d claims after %d evictions, want one", len(s.plugin.claims), len(s.evictions))
		}
		reload()
		if _, _, blocked := s.plugin.gangs.Blocked(schedtest.Namespace + "/b"); !blocked || len(s.plugin.claims) != 1 {
			t.Errorf("after a reload the gang that evicted waits: %t, and %d claims exist, want one", blocked, len(s.plugin.claims))
		}
		if _, _, blocked := s.plugin.queues.Blocked("q1"); !blocked {
			t.Error("after a reload the queue of the victims does not wait")
		}
	})
}

// TestToAndFro: with this configuration, two queues may reclaim all pods from each other again and again. The growing
// pauses of the queues limit how many pods are evicted.
func TestToAndFro(t *testing.T) {
	var w specBuilder
	w.node("n")
	w.gang("a", "q1", "1", 2, 2, "n", "n")
	w.gang("b", "q2", "1", 2, 2)
	s := newRepeatedEvictions(t, w.ClusterSpec, fmt.Sprintf(tiers, Name, false))
	synctest.Test(t, func(t *testing.T) {
		s.runFor(2 * time.Minute)
		if len(s.evictions) < 2 || s.evictions[1] > 0 {
			t.Errorf("evicted at %v, want both pods of a at once", s.evictions)
		}
		// A queue pauses for 1, 2, 4 ... s after each loss, so each of the two queues has lost its two pods at most 7
		// times in 2 minutes.
		if len(s.evictions) > 2*2*7 {
			t.Errorf("%d pods were evicted in 2 minutes, want at most 28: %v", len(s.evictions), s.evictions)
		}
	})
}

// TestAGangThatDidNotGetTheRoomWaits: a pod that no claim excludes takes the freed resources, so the gang waits longer
// after each eviction.
func TestAGangThatDidNotGetTheRoomWaits(t *testing.T) {
	var w specBuilder
	all := []string{"n1", "n2", "n3", "n4"}
	for _, name := range all {
		w.node(name)
	}
	w.gang("lends", "q1", "2", 0, 4, all...)
	w.gang("wants", "q2", "2", 1, 1)
	s := newRepeatedEvictions(t, w.ClusterSpec, fmt.Sprintf(tiers, Name, false))
	s.taken = func(node string) { s.cluster.Cache().AddPod(outsider("thief-"+node, node, "2")) }
	synctest.Test(t, func(t *testing.T) {
		s.runFor(time.Minute)
		var waits []time.Duration
		for i, at := range s.evictions[:len(s.evictions)-1] {
			waits = append(waits, (s.evictions[i+1] - at).Truncate(time.Second))
		}
		if diff := cmp.Diff([]time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, waits); diff != "" {
			t.Errorf("waits between evictions (-want +got):\n%s", diff)
		}
	})
}

// TestAGangThatWasTakenFromDoesNotTakeItBack: the eviction leaves a gang partially bound. Partially bound gangs are
// placed first, but not before the gang that evicted the pod.
func TestAGangThatWasTakenFromDoesNotTakeItBack(t *testing.T) {
	var w specBuilder
	all := []string{"n1", "n2", "n3"}
	for _, name := range all {
		w.node(name)
	}
	w.Nodes[0].Labels["leads"] = "yes"
	w.gang("lends", "q1", "2", 2, 3, all...)
	w.PodGroups[0].Spec.MinTaskMember = map[string]int32{"leader": 1, "worker": 1}
	for i, pod := range w.Pods {
		pod.Annotations[binding.MinimumAnnotation] = "2"
		pod.Annotations[batch.TaskSpecKey] = []string{"leader", "worker", "worker"}[i]
	}
	w.gang("wants", "q2", "2", 1, 1)
	w.Pods[len(w.Pods)-1].Spec.NodeSelector = map[string]string{"leads": "yes"}
	const second = "- plugins:\n  - name: "
	conf := strings.Replace(fmt.Sprintf(tiers, Name, false), second+"priority", second+transaction.Name+"\n"+second+"priority", 1)
	conf += "configurations:\n- name: reclaim\n  arguments: {disruption: pod}\n" // the leader alone
	s := newRepeatedEvictions(t, w.ClusterSpec, conf)
	s.registry.RegisterPlugin(transaction.Spec(free{}))
	synctest.Test(t, func(t *testing.T) {
		s.runFor(time.Minute)
		if got := s.running("wants"); got != 1 {
			t.Errorf("the gang that evicted has %d pods running, want 1", got)
		}
		if len(s.evictions) != 1 {
			t.Errorf("pods were evicted after %v, want one eviction", s.evictions)
		}
	})
}

// free is a gate that blocks no gang.
type free struct{}

func (free) Blocked(api.JobID) (string, bool) { return "", false }
func (free) Avoid(api.JobID) []string         { return nil }

// TestWaitsAfterEvictions: the wait of a gang applies to actions that evict. The wait of a queue applies to actions
// that evict from other queues.
func TestWaitsAfterEvictions(t *testing.T) {
	var w specBuilder
	w.node("n")
	w.gang("evicted", "q1", "1", 1, 1)
	w.gang("lost", "q2", "1", 1, 1)
	w.gang("neither", "q3", "1", 1, 1)
	s := newRepeatedEvictions(t, w.ClusterSpec, fmt.Sprintf(tiers, Name, true))
	synctest.Test(t, func(t *testing.T) {
		s.plugin.gangs.Failed(schedtest.Namespace+"/evicted", "it evicted")
		s.plugin.queues.Failed("q2", "its queue lost")
		waiting := func(action string) []string {
			ssn := s.cluster.Open(s.registry, s.conf)
			defer ssn.Close()
			ssn.Action = action
			names := []string{}
			for _, job := range ssn.Jobs {
				if verdict := ssn.JobValid(job); verdict != nil {
					names = append(names, job.Name+": "+verdict.Message)
				}
			}
			slices.Sort(names)
			return names
		}
		for action, want := range map[string][]string{
			"allocate": {}, "backfill": {},
			preempt: {"evicted: it evicted"},
			reclaim: {"evicted: it evicted", "lost: its queue lost"},
		} {
			if diff := cmp.Diff(want, waiting(action)); diff != "" {
				t.Errorf("gangs that %s leaves out (-want +got):\n%s", action, diff)
			}
		}
		time.Sleep(firstWait)
		if got := waiting(reclaim); len(got) > 0 {
			t.Errorf("gangs that still wait after the wait has ended: %v", got)
		}
	})
}

// TestClaim checks that a gang is placed first until its victims have terminated and it has been tried once, or until
// it is deleted.
func TestClaim(t *testing.T) {
	var w specBuilder
	w.node("n")
	w.gang("lends", "q1", "2", 0, 1, "n")
	w.gang("wants", "q2", "2", 1, 1)
	s := newRepeatedEvictions(t, w.ClusterSpec, fmt.Sprintf(tiers, Name, false))
	synctest.Test(t, func(t *testing.T) {
		urgent := func() bool {
			ssn := s.cluster.Open(s.registry, s.conf)
			defer ssn.Close()
			return ssn.Placements.IsPlacedFirst(ssn.Jobs[schedtest.Namespace+"/wants"])
		}
		if urgent() {
			t.Error("the gang is placed first before anything was evicted for it")
		}
		s.session()
		if len(s.last) != 1 {
			t.Fatalf("evicted %v, want the pod of gang lends", s.last)
		}
		for range 2 {
			if !urgent() {
				t.Error("the gang is not placed first while its victim terminates")
			}
		}
		s.cluster.Cache().DeletePod(s.pods[s.last[0]])
		if !urgent() {
			t.Error("the gang is not placed first after its victim has terminated")
		}
		if urgent() {
			t.Error("the gang is still placed first after it has been tried")
		}
		s.cluster.Cache().DeletePod(s.pods[schedtest.Namespace+"/wants-0"])
		urgent()
		if len(s.plugin.claims) > 0 {
			t.Error("the claim of a gang without pods still exists")
		}
		if reason, _, blocked := s.plugin.gangs.Blocked(schedtest.Namespace + "/wants"); blocked {
			t.Errorf("the gang whose claim is closed waits: %s", reason)
		}
	})
}

// TestClaimsAndWaitsAfterASession: claims and waits do not depend on whether the session completes. A gang that waits
// for resources being released for other reasons has evicted no pods. A queue does not wait if one of its own gangs
// evicted the pods.
func TestClaimsAndWaitsAfterASession(t *testing.T) {
	for action, taken := range map[string]bool{preempt: false, reclaim: true, "shuffle": false} {
		var w specBuilder
		w.node("n")
		w.gang("lends", "q1", "1", 0, 2, "n", "n")
		w.gang("wants", "q2", "1", 1, 1)
		w.gang("follows", "q3", "1", 1, 1)
		w.gang("idle", "q2", "1", 1, 1)
		// Predicates would accept only tasks that it filtered before.
		s := newRepeatedEvictions(t, w.ClusterSpec, strings.ReplaceAll(fmt.Sprintf(tiers, Name, false), "predicates", "binpack"))
		synctest.Test(t, func(t *testing.T) {
			ssn := s.cluster.Open(s.registry, s.conf)
			ssn.Action = action
			statement := vcframework.NewStatement(ssn.Session.Session)
			for _, task := range ssn.Jobs[schedtest.Namespace+"/lends"].Tasks {
				if err := statement.Evict(task.Clone(), "reason"); err != nil {
					t.Fatal(err)
				}
			}
			for gang, evicts := range map[api.JobID]bool{"wants": true, "follows": false, "idle": true} {
				for _, task := range ssn.Jobs[schedtest.Namespace+"/"+gang].Tasks {
					if err := statement.Pipeline(task, "n", evicts); err != nil {
						t.Fatal(err)
					}
				}
			}
			idle := ssn.Jobs[schedtest.Namespace+"/idle"]
			for _, task := range idle.Tasks { // a trial evicted pods for the gang, which fits idle resources now
				if err := idle.UpdateTaskStatus(task, api.Allocated); err != nil {
					t.Fatal(err)
				}
			}
			statement.Commit()
			if action == reclaim {
				ssn.Close() // in the other cases the session panics before it closes
			}
			if action == "shuffle" {
				if len(s.plugin.claims) > 0 {
					t.Errorf("after action %s, which is no eviction action, the claims are %v, want none", action, s.plugin.claims)
				}
			} else if len(s.plugin.claims) != 1 || s.plugin.claims[schedtest.Namespace+"/wants"] == nil {
				t.Errorf("after %s the claims are %v, want only the claim of the gang for which pods were evicted", action, s.plugin.claims)
			}
			if _, _, waits := s.plugin.queues.Blocked("q1"); waits != taken {
				t.Errorf("after %s the queue of the victims waits: %t, want %t", action, waits, taken)
			}
		})
	}
}
