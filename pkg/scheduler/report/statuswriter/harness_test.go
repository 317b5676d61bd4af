// SPDX-License-Identifier: Apache-2.0

package statuswriter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vclisters "volcano.sh/apis/pkg/client/listers/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var errBroken = errors.New("it is broken")

var podGroupResource = schema.GroupResource{Group: "scheduling.volcano.sh", Resource: "podgroups"}

// testWriter is a writer on a cluster in memory. The test decides when the watch shows events of the cluster.
type testWriter struct {
	*Writer
	t       *testing.T
	cluster *schedtest.Cluster
	// seen are the objects that the watch shows.
	seen struct{ pods, podGroups, queues cache.Indexer }
	// placed are pods that are being bound.
	placed sync.Map
}

// inCluster runs f with a running writer, under a fake clock.
func inCluster(t *testing.T, f func(t *testing.T, w *testWriter)) {
	t.Helper()
	cluster := schedtest.NewCluster()
	synctest.Test(t, func(t *testing.T) {
		w := &testWriter{t: t, cluster: cluster}
		for _, store := range []*cache.Indexer{&w.seen.pods, &w.seen.podGroups, &w.seen.queues} {
			*store = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		}
		w.Writer = New(Dependencies{
			Kube: cluster.Kube, Volcano: cluster.Volcano,
			Pods: corelisters.NewPodLister(w.seen.pods), PodGroups: vclisters.NewPodGroupLister(w.seen.podGroups), Queues: vclisters.NewQueueLister(w.seen.queues),
			Reports: func(_ api.JobID, pod types.UID) bool {
				_, placed := w.placed.Load(pod)
				return !placed
			},
			OwnPod:   (*v1.Pod).DeepCopy,
			Outdated: func() {},
			Rejected: func(_ string, object runtime.Object, message string) {
				cluster.Events.Event(object, v1.EventTypeWarning, "StatusRejected", message)
			},
		})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w.Start(ctx)
		w.add(schedtest.MakeQueue().Name(schedtest.Queue).Obj())
		f(t, w)
		w.Abort()
		cancel()
		w.Stop(ctx)
	})
}

// storeOf returns the store of the watch for objects of this type.
func (w *testWriter) storeOf(object runtime.Object) cache.Indexer {
	switch object.(type) {
	case *v1.Pod:
		return w.seen.pods
	case *v1beta1.PodGroup:
		return w.seen.podGroups
	default:
		return w.seen.queues
	}
}

// add adds or updates the objects in the cluster, and the watch shows them.
func (w *testWriter) add(objects ...runtime.Object) {
	w.t.Helper()
	for _, object := range objects {
		w.deliver(w.cluster.Put(object))
	}
}

// deliver shows the object.
func (w *testWriter) deliver(object runtime.Object) {
	w.t.Helper()
	if err := w.storeOf(object).Add(object.DeepCopyObject()); err != nil {
		w.t.Fatal(err)
	}
}

// remove deletes the object and shows the deletion.
func (w *testWriter) remove(object runtime.Object) {
	w.t.Helper()
	w.cluster.Remove(object)
	if err := w.storeOf(object).Delete(object); err != nil {
		w.t.Fatal(err)
	}
	if pg, ok := object.(*v1beta1.PodGroup); ok {
		w.ForgetPodGroup(pg.Namespace, pg.Name)
	}
}

func pod(i int) *schedtest.PodBuilder {
	return schedtest.MakePod().Name(fmt.Sprintf("p%d", i)).Group("g")
}

// gangOf1 creates PodGroup g and its pod p0.
func (w *testWriter) gangOf1() {
	w.t.Helper()
	w.add(schedtest.MakePodGroup().Name("g").MinMember(1).Obj(), pod(0).Obj())
	w.cluster.Writes()
}

// podGroup returns PodGroup g as a session sees it.
func (w *testWriter) podGroup() *api.PodGroup {
	w.t.Helper()
	shown, err := w.deps.PodGroups.PodGroups(schedtest.Namespace).Get("g")
	if err != nil {
		w.t.Fatal(err)
	}
	pg := &api.PodGroup{Version: api.PodGroupVersionV1Beta1}
	if err := scheme.Scheme.Convert(shown, &pg.PodGroup, nil); err != nil {
		w.t.Fatal(err)
	}
	pg = pg.Clone()
	if status, ok := w.Decided(&api.JobInfo{Namespace: pg.Namespace, Name: pg.Name, PodGroup: pg}); ok {
		pg.Status = *status.DeepCopy()
	}
	return pg
}

// desire requests a changed status of PodGroup g.
func (w *testWriter) desire(change func(status *scheduling.PodGroupStatus)) {
	w.t.Helper()
	pg := w.podGroup()
	change(&pg.Status)
	if _, err := w.UpdatePodGroup(pg); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func unschedulable(reason, message string) func(*scheduling.PodGroupStatus) {
	return func(status *scheduling.PodGroupStatus) {
		status.Conditions = []scheduling.PodGroupCondition{{
			Type: scheduling.PodGroupUnschedulableType, Status: v1.ConditionTrue, Reason: reason, Message: message,
			LastTransitionTime: metav1.Now(), TransitionID: string(uuid.NewUUID()),
		}}
	}
}

// conditionOf returns PodGroup g's condition of this type in the API server.
func conditionOf(cluster *schedtest.Cluster, kind v1beta1.PodGroupConditionType) string {
	for _, c := range cluster.PodGroup("g").Status.Conditions {
		if c.Type == kind {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

// podScheduled returns the pod's condition in the API server.
func podScheduled(cluster *schedtest.Cluster, name string) string {
	_, c := podutil.GetPodCondition(&cluster.Pod(name).Status, v1.PodScheduled)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// rejectAll makes all calls fail for that long.
func rejectAll(cluster *schedtest.Cluster, during time.Duration) {
	back := time.Now().Add(during)
	for _, client := range []*clienttesting.Fake{&cluster.Kube.Fake, &cluster.Volcano.Fake} {
		client.PrependReactor("*", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
			return time.Now().Before(back), nil, syscall.ECONNREFUSED
		})
	}
}
