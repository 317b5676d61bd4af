// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var (
	booksSeeds = rounds.Flag("books.seeds", 1, 10, "how many random sequences TestBooksAreTrue plays")
	booksSeed  = flag.Uint64("books.seed", 0, "play only the sequence of this seed")
	booksSteps = flag.Int("books.steps", 200, "how much happens in each sequence of TestBooksAreTrue")
)

// TestBooksAreTrue plays random events of pods, nodes, claims and the watch while sessions place pods, and binds
// succeed or fail, with the cache's own workers running. It then compares the result with the API server:
//
//   - no node has more pods on it than fit,
//   - at most one transaction at a time has a pod of a given name,
//   - no step of a bound pod is rolled back, and no pod is bound whose steps are not done,
//   - without pending work, the books equal the books of a newly started cache.
//
// The seed determines the events, but not when the workers see them.
func TestBooksAreTrue(t *testing.T) {
	play := func(seed uint64) {
		t.Run(fmt.Sprint("books.seed=", seed), func(t *testing.T) { newTruth(t, seed).play(*booksSteps) })
	}
	if *booksSeed > 0 {
		play(*booksSeed)
		return
	}
	for seed := range uint64(booksSeeds.Of(t)) {
		play(seed + 1)
	}
}

// truth plays the events of the cluster and records violations of its invariants.
type truth struct {
	quiet
	*liveHarness
	rng  *rand.Rand
	born int
	// away are the nodes that are deleted at the moment, and late the claims that do not exist yet.
	away []string
	late []string

	mu         sync.Mutex
	prepared   map[string]*prepared
	violations []string
}

// prepared records the effects of a transaction's steps on the pod of one name.
type prepared struct {
	uid         api.TaskID
	node        string
	done, bound bool
}

const (
	truthNodes = 4
	truthCPU   = 4000
)

func newTruth(t *testing.T, seed uint64) *truth {
	t.Helper()
	tr := &truth{rng: rand.New(rand.NewPCG(seed, 1)), prepared: map[string]*prepared{}}
	cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj())
	for i := range 3 {
		cluster.Put(schedtest.MakePodGroup().Name(fmt.Sprintf("g%d", i)).MinMember(int32(1 + i)).Obj())
	}
	for i := range truthNodes {
		node := fmt.Sprintf("n%d", i)
		cluster.Put(truthNode(node))
		cluster.Put(schedtest.MakePod().Name("daemon-" + node).Scheduler("other").Node(node).Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "1"}).Obj())
	}
	if err := cluster.Kube.Tracker().Add(schedtest.LateClass("late", "csi.example")); err != nil {
		t.Fatal(err)
	}
	cluster.Kube.PrependReactor("create", "pods/binding", tr.bind)
	tr.liveHarness = startLive(t, cluster, tr)
	return tr
}

func truthNode(name string) *v1.Node {
	return schedtest.MakeNode().Name(name).Capacity(schedtest.Resources{"cpu": "4", "pods": "99", "attachable-volumes-csi-csi.example": "99"}).Obj()
}

// play plays the given number of events, and checks the result.
func (tr *truth) play(steps int) {
	ctx, cancel := context.WithCancel(context.Background())
	var sessions sync.WaitGroup
	rng := rand.New(rand.NewPCG(tr.rng.Uint64(), 2))
	sessions.Go(func() { tr.schedule(ctx, rng) })
	for range steps {
		tr.happen()
		for range tr.rng.IntN(3) {
			tr.pause()
		}
	}
	cancel()
	sessions.Wait()
	tr.settle()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, violation := range tr.violations {
		tr.t.Error(violation)
	}
}

// pause waits for a moment between two events.
func (tr *truth) pause() { <-time.After(time.Duration(tr.rng.IntN(2000)) * time.Microsecond) }

func (tr *truth) happen() {
	events := []func(){
		tr.newPod, tr.newPod, tr.newPod, tr.newPod, tr.runPod, tr.runPod, tr.runPod, tr.endPod, tr.endPod, tr.deletePod, tr.replacePod, tr.replacePod,
		tr.moveToAnotherGang, tr.touchPod, tr.makeClaim, tr.makeClaim, tr.makeClaim, tr.deleteNode, tr.registerNode, tr.registerNode, tr.beginGap, tr.endGap, tr.endGap,
	}
	events[tr.rng.IntN(len(events))]()
}

func (tr *truth) newPod() {
	if tr.born++; len(tr.watch.list()) > 40 {
		return
	}
	tr.put(fmt.Sprintf("p%d", tr.born))
}

// put creates a pod. Half of the pods have a claim that is created later.
func (tr *truth) put(name string) {
	b := schedtest.MakePod().Name(name).UID(fmt.Sprintf("%s-%d", name, tr.born)).Group(fmt.Sprintf("g%d", tr.rng.IntN(3))).
		Req(schedtest.Resources{"cpu": fmt.Sprint(1 + tr.rng.IntN(2))})
	if tr.rng.IntN(2) == 0 {
		claim := fmt.Sprintf("claim-%s-%d", name, tr.born)
		b.Volume(claim)
		tr.late = append(tr.late, claim)
	}
	tr.cluster.Put(b.Obj())
}

// change changes one of the pods that sessions place.
func (tr *truth) change(which func(*v1.Pod) bool, change func(*v1.Pod)) {
	pods := slices.DeleteFunc(tr.watch.list(), func(pod *v1.Pod) bool {
		return pod.Spec.SchedulerName != schedtest.SchedulerName || !which(pod)
	})
	if len(pods) == 0 {
		return
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return versionOf(a) - versionOf(b) })
	pod := pods[tr.rng.IntN(len(pods))].DeepCopy()
	change(pod)
	_, _ = tr.cluster.Kube.CoreV1().Pods(pod.Namespace).Update(tr.t.Context(), pod, metav1.UpdateOptions{}) // The pod may have changed in the meantime.
}

func onNode(pod *v1.Pod) bool  { return pod.Spec.NodeName != "" && !finished(pod) }
func offNode(pod *v1.Pod) bool { return pod.Spec.NodeName == "" }
func anyPod(*v1.Pod) bool      { return true }

func (tr *truth) runPod() {
	tr.change(onNode, func(pod *v1.Pod) { pod.Status.Phase = v1.PodRunning })
}

func (tr *truth) endPod() {
	tr.change(onNode, func(pod *v1.Pod) { pod.Status.Phase = v1.PodSucceeded })
}

func (tr *truth) touchPod() {
	tr.change(anyPod, func(pod *v1.Pod) { pod.Labels["touched"] = fmt.Sprint(tr.rng.IntN(100)) })
}

func (tr *truth) moveToAnotherGang() {
	tr.change(offNode, func(pod *v1.Pod) {
		pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] = fmt.Sprintf("g%d", tr.rng.IntN(3))
	})
}

func (tr *truth) deletePod() {
	tr.change(anyPod, func(pod *v1.Pod) { tr.cluster.Remove(pod) })
}

// replacePod deletes a pod and creates another one with its name, as a StatefulSet does.
func (tr *truth) replacePod() {
	var name string
	tr.change(anyPod, func(pod *v1.Pod) {
		name = pod.Name
		tr.cluster.Remove(pod)
	})
	if name != "" {
		tr.born++
		tr.put(name)
	}
}

func (tr *truth) makeClaim() {
	if len(tr.late) > 0 {
		tr.claim(tr.late[0])
		tr.late = tr.late[1:]
	}
}

func (tr *truth) deleteNode() {
	name := fmt.Sprintf("n%d", tr.rng.IntN(truthNodes))
	if !slices.Contains(tr.away, name) && len(tr.away) < 2 {
		tr.away = append(tr.away, name)
		tr.cluster.Remove(truthNode(name))
	}
}

func (tr *truth) registerNode() {
	if len(tr.away) > 0 {
		tr.cluster.Put(truthNode(tr.away[0]))
		tr.away = tr.away[1:]
	}
}

func (tr *truth) beginGap() { tr.watch.begin() }
func (tr *truth) endGap()   { tr.watch.end() }

// schedule opens sessions until the context ends.
func (tr *truth) schedule(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		tr.cache.RetryAll()
		snapshot, _, _ := tr.cache.SessionSnapshot()
		for _, job := range snapshot.Jobs {
			if _, blocked := tr.cache.Blocked(job.UID); blocked {
				continue
			}
			for _, task := range job.TaskStatusIndex[api.Pending] {
				tr.place(snapshot, task, rng)
			}
		}
		tr.cache.SealTransactions()
		<-time.After(time.Millisecond)
	}
}

// place places the task on some node that has room for it.
func (tr *truth) place(snapshot *api.ClusterInfo, task *api.TaskInfo, rng *rand.Rand) {
	for _, node := range snapshot.Nodes {
		if task.Resreq.MilliCPU > node.Idle.MilliCPU || node.AddTask(task) != nil {
			continue
		}
		_ = tr.cache.AddToTransaction(&vccache.BindContext{TaskInfo: task}, nil, map[string]string{"decided": node.Name},
			tr.steps(rng.IntN(8) == 0, time.Duration(rng.IntN(3000))*time.Microsecond))
		return
	}
}

func (tr *truth) steps(fails bool, takes time.Duration) []binding.Step {
	return []binding.Step{{
		Plugin: "prepare",
		PreBind: func(ctx context.Context, task *api.TaskInfo, node string) error {
			tr.begin(task, node)
			select {
			case <-time.After(takes):
			case <-ctx.Done():
				return ctx.Err()
			}
			if fails {
				return errBroken
			}
			tr.mu.Lock()
			defer tr.mu.Unlock()
			tr.prepared[task.Name].done = true
			return nil
		},
		Rollback: func(_ context.Context, task *api.TaskInfo, node string) error {
			<-time.After(takes)
			tr.undo(task, node)
			return nil
		},
	}}
}

func (tr *truth) violated(format string, args ...any) {
	tr.violations = append(tr.violations, fmt.Sprintf(format, args...))
}

func (tr *truth) begin(task *api.TaskInfo, node string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if other := tr.prepared[task.Name]; other != nil && !other.bound {
		tr.violated("%s is prepared for %s, and is in the transaction of %s on %s", task.UID, node, other.uid, other.node)
	}
	tr.prepared[task.Name] = &prepared{uid: task.UID, node: node}
}

func (tr *truth) undo(task *api.TaskInfo, node string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	object, err := tr.cluster.Kube.Tracker().Get(podsResource, task.Namespace, task.Name)
	if err == nil {
		if pod := object.(*v1.Pod); api.TaskID(pod.UID) == task.UID && pod.Spec.NodeName == node {
			tr.violated("%s is on %s, and its step is rolled back", task.UID, node)
		}
	}
	if p := tr.prepared[task.Name]; p != nil && p.uid == task.UID {
		delete(tr.prepared, task.Name)
	}
}

// TransactionDone is called once the results of the members are in the books.
func (tr *truth) TransactionDone(result binding.Result) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, m := range result.Bound {
		if p := tr.prepared[m.Task.Name]; p != nil && p.uid == m.Task.UID {
			delete(tr.prepared, m.Task.Name)
		}
	}
}

// bind checks a Binding before the API server applies it.
func (tr *truth) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	bound := action.(clienttesting.CreateActionImpl).Object.(*v1.Binding)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	p := tr.prepared[bound.Name]
	if p == nil || !p.done || p.uid != api.TaskID(bound.UID) || p.node != bound.Target.Name {
		tr.violated("%s is bound to %s, and prepared was %+v", bound.UID, bound.Target.Name, p)
		return false, nil, nil
	}
	var used int64
	for _, pod := range tr.watch.list() {
		taken := pod.UID == bound.UID && pod.Spec.NodeName == ""
		p.bound = p.bound || taken
		if taken || pod.Spec.NodeName == bound.Target.Name && !finished(pod) {
			used += pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
	}
	if used > truthCPU {
		tr.violated("%d milli-cpu are used on %s with %s, which has %d", used, bound.Target.Name, bound.UID, truthCPU)
	}
	return false, nil, nil
}
