// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var podsResource = v1.SchemeGroupVersion.WithResource("pods")

// liveHarness is a cache that follows its cluster by watches, with all its workers running, as in a scheduler.
type liveHarness struct {
	cache   *Cache
	t       *testing.T
	cluster *schedtest.Cluster
	watch   *gappyWatch
}

// startLive starts a cache on the cluster. It is stopped at the end of the test.
func startLive(t *testing.T, cluster *schedtest.Cluster, observer Observer) *liveHarness {
	t.Helper()
	w := &liveHarness{t: t, cluster: cluster, watch: &gappyWatch{tracker: cluster.Kube.Tracker()}}
	cluster.Kube.PrependWatchReactor("pods", w.watch.react)
	w.cache = mustWrap(t, cluster, observer, func(Urgency) {})
	ctx, cancel := context.WithCancel(context.Background())
	if err := w.cache.Start(ctx, ctx); err != nil {
		t.Fatal(err)
	}
	// client-go's fake loses objects that are created between an informer's list and its watch.
	eventually(t, "pods and what their volumes depend on are watched", func() bool {
		watched := map[string]bool{}
		for _, action := range cluster.Kube.Actions() {
			if action.GetVerb() == "watch" {
				watched[action.GetResource().Resource] = true
			}
		}
		w.watch.mu.Lock()
		defer w.watch.mu.Unlock()
		return w.watch.out != nil && watched["nodes"] && watched["persistentvolumeclaims"] && watched["storageclasses"]
	})
	t.Cleanup(func() {
		w.cache.Abort()
		cancel()
		w.cache.reports.Status().Stop(ctx)
	})
	return w
}

// eventually waits until the condition holds, for workers that do not report their progress.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("timed out: %s", what)
		}
	}
}

// claim creates the claim that a pod waits for.
func (w *liveHarness) claim(name string) {
	w.t.Helper()
	if err := w.cluster.Kube.Tracker().Add(schedtest.UnboundClaim(name, "late")); err != nil {
		w.t.Fatal(err)
	}
}

// taskOf returns the cache's task of the pod, or nil.
func (w *liveHarness) taskOf(name string) *api.TaskInfo {
	w.cache.books.Lock()
	defer w.cache.books.Unlock()
	for _, job := range w.cache.books.Jobs.All() {
		for _, task := range job.Tasks {
			if task.Name == name {
				return task.Clone()
			}
		}
	}
	return nil
}

// gappyWatch shows events of pods and hides them during a gap. At the end of the gap it shows the differences, like
// an informer that lists again.
type gappyWatch struct {
	tracker clienttesting.ObjectTracker

	mu    sync.Mutex
	under watch.Interface
	out   chan watch.Event
	shown map[string]*v1.Pod
	floor int
	gap   bool
}

func (g *gappyWatch) react(clienttesting.Action) (bool, watch.Interface, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	under, err := g.tracker.Watch(podsResource, "")
	if err != nil {
		return true, nil, err
	}
	g.under, g.out, g.shown = under, make(chan watch.Event, 10000), map[string]*v1.Pod{}
	for _, pod := range g.list() {
		g.shown[pod.Name] = pod
	}
	go func() {
		for event := range under.ResultChan() {
			g.mu.Lock()
			if pod := event.Object.(*v1.Pod); !g.gap {
				g.show(pod, event.Type == watch.Deleted)
			}
			g.mu.Unlock()
		}
	}()
	return true, g, nil
}

func (g *gappyWatch) ResultChan() <-chan watch.Event { return g.out }
func (g *gappyWatch) Stop()                          { g.under.Stop() }

func (g *gappyWatch) list() []*v1.Pod {
	list, err := g.tracker.List(podsResource, v1.SchemeGroupVersion.WithKind("Pod"), "")
	if err != nil {
		panic(err)
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		panic(err)
	}
	var pods []*v1.Pod
	for _, object := range objects {
		pods = append(pods, object.(*v1.Pod))
	}
	return pods
}

func versionOf(pod *v1.Pod) int {
	version, err := strconv.Atoi(pod.ResourceVersion)
	if err != nil {
		panic(err)
	}
	return version
}

// show notifies the informer of the pod, unless a list has already shown this or a later version. As a watch does, it
// passes a copy of the object.
func (g *gappyWatch) show(pod *v1.Pod, deleted bool) {
	last := g.shown[pod.Name]
	switch {
	case deleted && last != nil && last.UID == pod.UID:
		delete(g.shown, pod.Name)
		g.out <- watch.Event{Type: watch.Deleted, Object: last.DeepCopy()}
	case deleted || versionOf(pod) <= g.floor:
	case last == nil:
		g.floor, g.shown[pod.Name] = versionOf(pod), pod
		g.out <- watch.Event{Type: watch.Added, Object: pod.DeepCopy()}
	default:
		g.floor, g.shown[pod.Name] = versionOf(pod), pod
		g.out <- watch.Event{Type: watch.Modified, Object: pod.DeepCopy()}
	}
}

func (g *gappyWatch) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gap = true
}

func (g *gappyWatch) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gap = false
	there := map[string]*v1.Pod{}
	pods := g.list()
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return versionOf(a) - versionOf(b) })
	for _, pod := range pods {
		there[pod.Name] = pod
	}
	for name, pod := range g.shown {
		if there[name] == nil {
			delete(g.shown, name)
			g.out <- watch.Event{Type: watch.Deleted, Object: pod.DeepCopy()}
		}
	}
	for _, pod := range pods {
		g.show(pod, false)
	}
}

// TestALateClaimDoesNotTakeItsPodOutOfItsTransaction checks that a late claim does not take its pod out of its
// transaction. The arrival of a claim rebuilds the tasks of its pods. A pod that is being bound must not become Pending
// by that, and the volumes of a waiting pod are counted.
func TestALateClaimDoesNotTakeItsPodOutOfItsTransaction(t *testing.T) {
	cluster := schedtest.NewCluster(
		schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj(),
		schedtest.MakeNode().Name("n").Obj(), schedtest.MakePodGroup().Name("g").Obj(), schedtest.MakePodGroup().Name("h").Obj(),
		pod(0).Volume("claim-p0").Obj(), pod(1).Group("h").Volume("claim-p1").Obj(),
		pod(2).Group("h").Volume("claim-p2").Obj(),
	)
	if err := cluster.Kube.Tracker().Add(schedtest.LateClass("late", "csi.example")); err != nil {
		t.Fatal(err)
	}
	w := startLive(t, cluster, quiet{})
	goOn := make(chan struct{})
	defer close(goOn)
	task := w.cache.Snapshot().Jobs[gang].Tasks["ns-p0"]
	task.NodeName = "n"
	if err := w.cache.AddToTransaction(&vccache.BindContext{TaskInfo: task}, nil, nil, []binding.Step{waiting("slow", goOn)}); err != nil {
		t.Fatal(err)
	}
	w.cache.SealTransactions()
	w.claim("claim-p0")
	w.claim("claim-p1")
	eventually(t, "the volume of the pod that waits is counted", func() bool {
		return len(w.taskOf("p1").Resreq.ScalarResources) > 0
	})
	w.claim("claim-p2") // The claim's pod is read again as often as the others, and after them.
	eventually(t, "the volume of another pod that waits is counted", func() bool {
		return len(w.taskOf("p2").Resreq.ScalarResources) > 0
	})
	if got := w.taskOf("p0"); got == nil || got.Status != api.Binding || got.NodeName != "n" {
		t.Errorf("the task being bound is %v", got)
	}
	if got := w.cache.Snapshot().Nodes["n"].Idle.MilliCPU; got != 7000 {
		t.Errorf("%v milli-cpu are idle, want 7000", got)
	}
}
