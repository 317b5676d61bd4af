// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/ledger"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var errBroken = errors.New("it is broken")

// harness is a cache on a cluster in memory. The test decides when events of the cluster reach the cache.
type harness struct {
	cache   *Cache
	t       *testing.T
	cluster *schedtest.Cluster
	latest  map[string]runtime.Object

	mu    sync.Mutex
	wakes []Urgency
}

// withHarness runs f with a harness under a fake clock. Writers and transactions run.
func withHarness(t *testing.T, f func(t *testing.T, w *harness)) {
	t.Helper()
	withHarnessAndEvents(t, nil, f)
}

// withHarnessAndEvents does the same with events that go to the recorder, or to the cluster if recorder is nil.
func withHarnessAndEvents(t *testing.T, recorder func() record.EventRecorder, f func(t *testing.T, w *harness)) {
	t.Helper()
	cluster := schedtest.NewCluster()
	synctest.Test(t, func(t *testing.T) {
		w := &harness{t: t, cluster: cluster, latest: map[string]runtime.Object{}}
		var to record.EventRecorder = cluster.Events
		if recorder != nil {
			to = recorder()
		}
		w.cache = mustMake(t, cluster, to, quiet{}, w.wakened)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w.cache.reports.Start(ctx)
		w.add(schedtest.MakeQueue().Name(schedtest.Queue).Obj())
		w.woken()
		f(t, w)
		w.cache.Abort()
		cancel()
		w.cache.reports.Stop(ctx)
	})
}

// mustWrap returns a cache for the cluster.
func mustWrap(t testing.TB, cluster *schedtest.Cluster, observer Observer, wake func(Urgency)) *Cache {
	t.Helper()
	return mustMake(t, cluster, cluster.Events, observer, wake)
}

func mustMake(t testing.TB, cluster *schedtest.Cluster, to record.EventRecorder, observer Observer, wake func(Urgency)) *Cache {
	t.Helper()
	c, err := On(cluster.Kube, cluster.Volcano, Settings{
		Rest: cluster.Devices.RestConfig(), SchedulerNames: []string{schedtest.SchedulerName}, DefaultQueue: schedtest.Queue,
		Events: to,
	}, observer, wake)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// setCondition sets the condition as a session does.
func setCondition(status *scheduling.PodGroupStatus, condition scheduling.PodGroupCondition) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c scheduling.PodGroupCondition) bool { return c.Type == condition.Type })
	status.Conditions = append(status.Conditions, condition)
}

func unschedulable(reason, message string) scheduling.PodGroupCondition {
	return scheduling.PodGroupCondition{Type: scheduling.PodGroupUnschedulableType, Status: v1.ConditionTrue, Reason: reason, Message: message}
}

type quiet struct{}

func (quiet) StepDone(string, error, time.Duration)  {}
func (quiet) RollbackDone(string, error)             {}
func (quiet) Delayed(*binding.Member, binding.Delay) {}
func (quiet) DelayEnded(*binding.Member, error)      {}
func (quiet) TransactionDone(binding.Result)         {}
func (quiet) InFlight(int)                           {}
func (quiet) StatusRejected(string)                  {}
func (quiet) EventDone(string)                       {}

func (w *harness) wakened(u Urgency) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakes = append(w.wakes, u)
}

// woken returns the wake-ups since the last call.
func (w *harness) woken() []Urgency {
	w.mu.Lock()
	defer w.mu.Unlock()
	wakes := w.wakes
	w.wakes = nil
	return wakes
}

// add adds or updates the object in the cluster and notifies the cache.
func (w *harness) add(objects ...runtime.Object) {
	w.t.Helper()
	for _, object := range objects {
		w.deliver(w.cluster.Put(object).DeepCopyObject())
	}
}

// sync notifies the cache of the changes that its own calls made to the pods.
func (w *harness) sync(pods ...string) {
	w.t.Helper()
	for _, name := range pods {
		w.deliver(w.cluster.Pod(name))
	}
}

// list adds the object to the informers' stores without calling a handler.
func (w *harness) list(object runtime.Object) (old runtime.Object) {
	w.t.Helper()
	key := fmt.Sprintf("%T %s", object, keyOf(w.t, object))
	old = w.latest[key]
	w.latest[key] = object
	for _, informer := range w.informersOf(object) {
		if err := informer.GetStore().Add(object); err != nil {
			w.t.Fatal(err)
		}
	}
	return old
}

// deliver updates the informers' stores with the object and calls the handlers.
func (w *harness) deliver(object runtime.Object) {
	w.t.Helper()
	w.cache.books.Nodes.Sums.Count(object)
	if _, err := quarantine.Trimmed(object); err != nil {
		w.t.Fatal(err)
	}
	old := w.list(object)
	switch object := object.(type) {
	case *v1.Pod:
		if old == nil {
			w.cache.changes.podAdded(object)
			return
		}
		w.cache.changes.podUpdated(old, object)
	case *v1.Node:
		if old == nil {
			w.cache.changes.nodeAdded(object)
			return
		}
		w.cache.changes.nodeUpdated(old, object)
	case *v1beta1.PodGroup:
		if old == nil {
			w.cache.changes.podGroupAdded(object)
			return
		}
		w.cache.changes.podGroupUpdated(old, object)
	case *v1beta1.Queue:
		w.cache.changes.queueAdded(object)
	}
}

// remove deletes the object from the cluster and notifies the cache.
func (w *harness) remove(object runtime.Object) {
	w.t.Helper()
	key := fmt.Sprintf("%T %s", object, keyOf(w.t, object))
	last := w.latest[key]
	delete(w.latest, key)
	w.cluster.Remove(object)
	for _, informer := range w.informersOf(object) {
		if err := informer.GetStore().Delete(object); err != nil {
			w.t.Fatal(err)
		}
	}
	switch last := last.(type) {
	case *v1.Pod:
		w.cache.changes.podDeleted(last)
	case *v1.Node:
		w.cache.changes.nodeDeleted(last)
	case *v1beta1.PodGroup:
		w.cache.changes.podGroupDeleted(last)
	case *v1beta1.Queue:
		w.cache.changes.queueDeleted(last)
	}
}

func (w *harness) informersOf(object runtime.Object) []cache.SharedIndexInformer {
	switch object.(type) {
	case *v1.Pod:
		return []cache.SharedIndexInformer{w.cache.SharedInformerFactory().Core().V1().Pods().Informer()}
	case *v1.Node:
		return []cache.SharedIndexInformer{w.cache.SharedInformerFactory().Core().V1().Nodes().Informer()}
	case *v1beta1.PodGroup:
		return []cache.SharedIndexInformer{w.cache.sources.volcano.Scheduling().V1beta1().PodGroups().Informer()}
	case *v1beta1.Queue:
		return []cache.SharedIndexInformer{w.cache.sources.volcano.Scheduling().V1beta1().Queues().Informer()}
	default:
		w.t.Fatalf("no informer for %T", object)
		return nil
	}
}

func keyOf(t *testing.T, object runtime.Object) string {
	t.Helper()
	key, err := cache.MetaNamespaceKeyFunc(object)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

const firstRetry = ledger.FirstRetry

const gang = api.JobID(schedtest.Namespace + "/g")

// gangOf creates PodGroup g, its pods p0, p1 and so on of 1 CPU, and node n.
func (w *harness) gangOf(members int, minMember int32) {
	w.t.Helper()
	w.add(schedtest.MakeNode().Name("n").Obj(), schedtest.MakePodGroup().Name("g").MinMember(minMember).Obj())
	for i := range members {
		w.add(pod(i).Obj())
	}
	w.woken()
}

func pod(i int) *schedtest.PodBuilder {
	return schedtest.MakePod().Name(fmt.Sprintf("p%d", i)).Group("g").Req(schedtest.Resources{"cpu": "1"})
}

// reserve reserves a session's decision, outside a transaction.
func reserve(c *Cache, bindCtx *vccache.BindContext, decided map[string]string, steps []binding.Step) (*binding.Member, error) {
	return c.ledger.Reserve(bindCtx.TaskInfo, decided, steps)
}

// place adds the pod to its gang's transaction on the node, as a session does.
func (w *harness) place(name, node string, steps ...binding.Step) error {
	w.t.Helper()
	return w.cache.AddToTransaction(w.decided(name, node), nil, nil, steps)
}

func (w *harness) mustPlace(node string, steps []binding.Step, names ...string) {
	w.t.Helper()
	for _, name := range names {
		if err := w.place(name, node, steps...); err != nil {
			w.t.Fatal(err)
		}
	}
}

// decided returns a session's decision for the pod: a task of a snapshot with the node's name.
func (w *harness) decided(name, node string) *vccache.BindContext {
	w.t.Helper()
	for _, job := range w.cache.Snapshot().Jobs {
		for _, task := range job.Tasks {
			if task.Name == name {
				task.NodeName = node
				return &vccache.BindContext{TaskInfo: task}
			}
		}
	}
	w.t.Fatalf("no task %s in the snapshot", name)
	return nil
}

// taskNamed returns a copy of the cache's task.
func taskNamed(c *Cache, name string) *api.TaskInfo {
	c.books.Lock()
	defer c.books.Unlock()
	for _, job := range c.books.Jobs.All() {
		for _, task := range job.Tasks {
			if task.Name == name {
				return task.Clone()
			}
		}
	}
	return nil
}

// booked returns the state of the pods in the cache, as "Pending" or "Binding on n", in the order of the names.
func booked(c *Cache, names ...string) []string {
	var books []string
	for _, name := range names {
		task := taskNamed(c, name)
		switch {
		case task == nil:
			books = append(books, "unknown")
		case task.NodeName == "":
			books = append(books, task.Status.String())
		default:
			books = append(books, task.Status.String()+" on "+task.NodeName)
		}
	}
	return books
}

// idleCPU returns the idle CPU of the node in the cache, in milli-CPU.
func idleCPU(c *Cache, node string) float64 {
	c.books.Lock()
	defer c.books.Unlock()
	return c.books.Nodes.Get(node).Idle.MilliCPU
}

// nodesOf returns the nodes of the pods in the API server.
func nodesOf(cluster *schedtest.Cluster, names ...string) []string {
	var nodes []string
	for _, name := range names {
		nodes = append(nodes, cluster.Pod(name).Spec.NodeName)
	}
	return nodes
}

// failing returns a step that fails for the pods.
func failing(plugin string, pods ...string) binding.Step {
	return binding.Step{Plugin: plugin, PreBind: func(_ context.Context, task *api.TaskInfo, _ string) error {
		if slices.Contains(pods, task.Name) {
			return errBroken
		}
		return nil
	}}
}

// waiting returns a step that waits for the channel, or for the end of its context.
func waiting(plugin string, goOn <-chan struct{}) binding.Step {
	return binding.Step{Plugin: plugin, PreBind: func(ctx context.Context, _ *api.TaskInfo, _ string) error {
		select {
		case <-goOn:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
}
