// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vclisters "volcano.sh/apis/pkg/client/listers/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const gang = api.JobID(schedtest.Namespace + "/g")

var errBroken = errors.New("it is broken")

// harness is a ledger on a cluster in memory. Its books and listers have the objects that the test adds.
type harness struct {
	*Ledger
	t       *testing.T
	cluster *schedtest.Cluster
	books   *books.Books
	reports *report.Reporter
	shown   map[string]cache.Indexer
	// at is the version up to which PodGroups were watched.
	at string
}

// withHarness runs f with a harness and a node, under a fake clock.
func withHarness(t *testing.T, f func(t *testing.T, w *harness)) {
	t.Helper()
	cluster := schedtest.NewCluster()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, cluster)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w.reports.Start(ctx)
		f(t, w)
		w.Abort()
		w.reports.Status().Abort()
		cancel()
		w.reports.Stop(ctx)
	})
}

func newWorld(t *testing.T, cluster *schedtest.Cluster) *harness {
	w := &harness{t: t, cluster: cluster, books: books.New(books.Config{DefaultQueue: schedtest.Queue}), shown: map[string]cache.Indexer{}}
	for _, kind := range []string{"*v1.Pod", "*v1.Node", "*v1beta1.PodGroup", "*v1beta1.Queue"} {
		w.shown[kind] = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	pods, nodes := corelisters.NewPodLister(w.shown["*v1.Pod"]), corelisters.NewNodeLister(w.shown["*v1.Node"])
	groups, queues := vclisters.NewPodGroupLister(w.shown["*v1beta1.PodGroup"]), vclisters.NewQueueLister(w.shown["*v1beta1.Queue"])
	none := func() {}
	w.reports = report.New(report.Config{
		Kube: cluster.Kube, Volcano: cluster.Volcano, Books: w.books, Pods: pods, PodGroups: groups, Queues: queues,
		Events: cluster.Events, OwnPod: (*v1.Pod).DeepCopy, StatusRejected: func(string) {}, WakeSoon: none,
	})
	w.Ledger = New(Config{
		Kube: cluster.Kube, Volcano: cluster.Volcano, Books: w.books, Reports: w.reports, Pods: pods, Nodes: nodes, PodGroups: groups,
		PodGroupsAt: func() string { return w.at }, Observer: quiet{}, WakeNow: none, WakeSoon: none,
	})
	w.add(schedtest.MakeNode().Name("n").Obj())
	return w
}

// add adds or updates objects in the cluster, in the listers and in the books.
func (w *harness) add(objects ...runtime.Object) {
	w.t.Helper()
	for _, object := range objects {
		object = w.cluster.Put(object).DeepCopyObject()
		if err := w.shown[fmt.Sprintf("%T", object)].Add(object); err != nil {
			w.t.Fatal(err)
		}
		switch object := object.(type) {
		case *v1.Pod:
			w.books.Pods.Show(object)
		case *v1.Node:
			w.books.Nodes.Show(object)
		case *v1beta1.PodGroup:
			w.at = object.ResourceVersion
			if err := w.books.Jobs.ShowGroup(object); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// remove deletes the object from the cluster, the listers and the books.
func (w *harness) remove(object runtime.Object) {
	w.t.Helper()
	w.cluster.Remove(object)
	if err := w.shown[fmt.Sprintf("%T", object)].Delete(object); err != nil {
		w.t.Fatal(err)
	}
	switch object := object.(type) {
	case *v1.Pod:
		w.books.Pods.Hide(object)
	case *v1.Node:
		w.books.Nodes.Hide(object.Name)
	case *v1beta1.PodGroup:
		w.books.Jobs.HideGroup(api.JobID(object.Namespace + "/" + object.Name))
	}
}

// task returns a copy of the pod's task in the books, or nil.
func (w *harness) task(pod string) *api.TaskInfo {
	w.books.Lock()
	defer w.books.Unlock()
	for _, job := range w.books.Jobs.All() {
		for _, task := range job.Tasks {
			if task.Name == pod {
				return task.Clone()
			}
		}
	}
	return nil
}

// booked returns the state of the pod in the books, as "Pending" or "Binding on n".
func (w *harness) booked(pod string) string {
	task := w.task(pod)
	switch {
	case task == nil:
		return "unknown"
	case task.NodeName == "":
		return task.Status.String()
	}
	return task.Status.String() + " on " + task.NodeName
}

// idleCPU returns the idle CPU of the node in the books, in milli-CPU.
func (w *harness) idleCPU(node string) float64 {
	w.books.Lock()
	defer w.books.Unlock()
	return w.books.Nodes.Get(node).Idle.MilliCPU
}

// gangOf adds PodGroup g with pods p0, p1, ... of 1 CPU.
func (w *harness) gangOf(members int, minMember int32) {
	w.t.Helper()
	w.add(schedtest.MakePodGroup().Name("g").MinMember(minMember).Obj())
	for i := range members {
		w.add(pod(i).Obj())
	}
}

func pod(i int) *schedtest.PodBuilder {
	return schedtest.MakePod().Name(fmt.Sprintf("p%d", i)).Group("g").Req(schedtest.Resources{"cpu": "1"})
}

// decided returns the task of pod p0 as a session placed it on node n.
func (w *harness) decided() *api.TaskInfo {
	w.books.Lock()
	defer w.books.Unlock()
	task := w.books.Pods.Task(schedtest.Namespace+"/p0", pod(0).Obj().UID).Clone()
	task.NodeName = "n"
	return task
}

// reserved returns the member for pod p0, reserved on node n.
func (w *harness) reserved() *binding.Member {
	w.t.Helper()
	m, err := w.Reserve(w.decided(), nil, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

type quiet struct{}

func (quiet) StepDone(string, error, time.Duration)  {}
func (quiet) RollbackDone(string, error)             {}
func (quiet) Delayed(*binding.Member, binding.Delay) {}
func (quiet) DelayEnded(*binding.Member, error)      {}
func (quiet) TransactionDone(binding.Result)         {}
func (quiet) InFlight(int)                           {}
