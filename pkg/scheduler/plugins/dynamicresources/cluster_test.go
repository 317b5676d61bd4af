// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// testCluster is an API server in memory, the plugin with its informers, and an open session. The API server counts
// versions, rejects updates of an older version, and changes only the status in an update of the status.
type testCluster struct {
	t       *testing.T
	kube    *kubefake.Clientset
	factory informers.SharedInformerFactory
	plugin  *plugin
	session *session
	nodes   map[string]*api.NodeInfo
	// jobs are the jobs of the sessions that are opened.
	jobs map[api.JobID]*api.JobInfo
	// tasks are the placed tasks, by name.
	tasks map[string]*api.TaskInfo

	// woken counts the sessions that the plugin requested.
	woken atomic.Int64

	writes  sync.Mutex
	version int

	// delivered is closed while informers receive events of claims. missed is true while these events are lost. expired
	// ends a watch.
	delivered atomic.Pointer[chan struct{}]
	missed    atomic.Bool
	expired   chan struct{}
}

// run calls act with a new cluster, in a synctest bubble.
func run(t *testing.T, objects []runtime.Object, act func(w *testCluster)) {
	t.Helper()
	runWith(t, nil, objects, act)
}

func runWith(t *testing.T, args framework.Arguments, objects []runtime.Object, act func(w *testCluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &testCluster{t: t, kube: kubefake.NewClientset(), version: 1000, tasks: map[string]*api.TaskInfo{}, expired: make(chan struct{})}
		w.kube.Resources = []*metav1.APIResourceList{{GroupVersion: resourceapi.SchemeGroupVersion.String()}}
		w.kube.PrependReactor("update", "*", w.update)
		w.kube.PrependWatchReactor("resourceclaims", w.watchClaims)
		w.lag()()
		for _, object := range objects {
			if err := w.kube.Tracker().Add(object); err != nil {
				t.Fatal(err)
			}
		}
		ctx, end := context.WithCancel(t.Context())
		// A resync would wait on a channel from outside of the bubble.
		w.factory = informers.NewSharedInformerFactory(w.kube, time.Hour)
		w.plugin = w.build(Spec(), args)
		w.factory.Start(ctx.Done())
		synctest.Wait()
		defer func() {
			w.plugin.Close()
			end()
			w.factory.Shutdown()
		}()
		w.open()
		act(w)
	})
}

func (w *testCluster) build(spec framework.PluginSpec, args framework.Arguments) *plugin {
	w.t.Helper()
	made, err := spec.New(args, handle{kube: w.kube, factory: w.factory, woken: &w.woken})
	if err != nil {
		w.t.Fatal(err)
	}
	return made.(*plugin)
}

// waitsNever says that no task waits for pods that leave its node.
func waitsNever(*api.TaskInfo, *api.NodeInfo) bool { return false }

// open opens another session.
func (w *testCluster) open() {
	w.t.Helper()
	nodes, err := w.kube.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.nodes = map[string]*api.NodeInfo{}
	for i := range nodes.Items {
		w.nodes[nodes.Items[i].Name] = api.NewNodeInfo(&nodes.Items[i])
	}
	w.session = newSession(w.plugin, nil, w.jobs, waitsNever)
}

type handle struct {
	framework.Handle
	kube    kubernetes.Interface
	factory informers.SharedInformerFactory
	woken   *atomic.Int64
}

func (h handle) Wake()                                                       { h.woken.Add(1) }
func (h handle) KubeClient() kubernetes.Interface                            { return h.kube }
func (h handle) InformerFactory() informers.SharedInformerFactory            { return h.factory }
func (h handle) StartInformers(informers ...cache.SharedIndexInformer) error { return nil }

func (w *testCluster) update(action clienttesting.Action) (bool, runtime.Object, error) {
	a := action.(clienttesting.UpdateActionImpl)
	w.writes.Lock()
	defer w.writes.Unlock()
	object := a.Object.DeepCopyObject()
	wanted, _ := meta.Accessor(object)
	current, err := w.kube.Tracker().Get(a.Resource, a.Namespace, wanted.GetName())
	if err != nil {
		return true, nil, err
	}
	if stored, _ := meta.Accessor(current); stored.GetResourceVersion() != wanted.GetResourceVersion() {
		return true, nil, apierrors.NewConflict(a.Resource.GroupResource(), wanted.GetName(), errors.New("another version"))
	}
	if claim, ok := object.(*resourceapi.ResourceClaim); ok {
		stored := current.(*resourceapi.ResourceClaim).DeepCopy()
		if a.Subresource == "status" {
			stored.Status = claim.Status
			object = stored
		} else {
			claim.Status = stored.Status
		}
	}
	w.version++
	wanted, _ = meta.Accessor(object)
	wanted.SetResourceVersion(strconv.Itoa(w.version))
	return true, object, w.kube.Tracker().Update(a.Resource, object, a.Namespace)
}

func (w *testCluster) claim(name string) *resourceapi.ResourceClaim {
	w.t.Helper()
	claim, err := w.kube.ResourceV1().ResourceClaims(schedtest.Namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return claim
}

// change writes the claim's metadata and status, as another client would.
func (w *testCluster) change(name string, mutate func(*resourceapi.ResourceClaim)) {
	w.t.Helper()
	claim := w.claim(name)
	mutate(claim)
	status := claim.Status
	claim, err := w.kube.ResourceV1().ResourceClaims(schedtest.Namespace).Update(w.t.Context(), claim, metav1.UpdateOptions{})
	if err == nil {
		claim.Status = status
		_, err = w.kube.ResourceV1().ResourceClaims(schedtest.Namespace).UpdateStatus(w.t.Context(), claim, metav1.UpdateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// member returns a pod of the gang. A claim "made t" was created for the pod from template t; other claims are named in
// the pod.
func member(name string, claims ...string) *api.TaskInfo {
	pod := schedtest.MakePod().Group("g").Name(name)
	for _, claim := range claims {
		if template, made := strings.CutPrefix(claim, "made "); made {
			pod = pod.MadeClaim(template)
		} else {
			pod = pod.ResourceClaim(claim)
		}
	}
	return api.NewTaskInfo(pod.Obj())
}

// made returns the claim that was created for the member from the template.
func made(of *api.TaskInfo, template string, requests ...resourceapi.DeviceRequest) *resourceapi.ResourceClaim {
	return schedtest.DeviceClaimFor(of.Pod, template, requests...)
}

// fits returns "" if the session's filter accepts the task on the node, or the reason of the refusal.
func (w *testCluster) fits(task *api.TaskInfo, node string) string {
	w.t.Helper()
	if err := w.session.prePredicate(task); err != nil {
		return err.Error()
	}
	if err := w.session.predicate(task, w.nodes[node]); err != nil {
		var refused *api.FitError
		if !errors.As(err, &refused) {
			w.t.Fatalf("the filter returned an error of type %T: %v", err, err)
		}
		return refused.Reasons()[0]
	}
	return ""
}

// place places the task as a session does, and take releases it.
func (w *testCluster) place(task *api.TaskInfo, node string) error {
	task.Status, task.NodeName = api.Allocated, node
	w.tasks[task.Name] = task
	return w.session.Reserve(task, w.nodes[node])
}

func (w *testCluster) take(task *api.TaskInfo) { w.session.Unreserve(task) }

func (w *testCluster) mustPlace(task *api.TaskInfo, node string) {
	w.t.Helper()
	if refused := w.fits(task, node); refused != "" {
		w.t.Fatalf("%s does not fit on %s: %s", task.Name, node, refused)
	}
	if err := w.place(task, node); err != nil {
		w.t.Fatalf("%s is not placed on %s: %v", task.Name, node, err)
	}
	if err := w.kube.Tracker().Add(task.Pod); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// preBind runs the pre-bind step concurrently. The returned function waits for its end.
func (w *testCluster) preBind(task *api.TaskInfo) (end func() error) {
	done := make(chan error, 1)
	own := *task
	own.Pod = task.Pod.DeepCopy()
	go func() { done <- w.plugin.PreBind(w.t.Context(), &own, task.NodeName) }()
	synctest.Wait()
	return func() error { return <-done }
}

func (w *testCluster) mustPreBind(task *api.TaskInfo) {
	w.t.Helper()
	if err := w.preBind(task)(); err != nil {
		w.t.Fatalf("pre-bind of %s: %v", task.Name, err)
	}
	synctest.Wait()
}

func (w *testCluster) rollBack(task *api.TaskInfo) {
	w.t.Helper()
	if err := w.plugin.Rollback(w.t.Context(), task, task.NodeName); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// devicesOf returns the claim's assumed devices, or else those stored in the API server, sorted.
func (w *testCluster) devicesOf(claim string) []string {
	w.t.Helper()
	live := w.claim(claim)
	allocation := live.Status.Allocation
	w.plugin.devices.mu.Lock()
	if held := w.plugin.devices.held[live.UID]; held != nil && held.allocation != nil {
		allocation = held.allocation
	}
	w.plugin.devices.mu.Unlock()
	var names []string
	if allocation != nil {
		for _, result := range allocation.Devices.Results {
			names = append(names, result.Device)
		}
	}
	slices.Sort(names)
	return names
}

// users returns the pods for which the claim is reserved.
func (w *testCluster) users(claim string) []string {
	w.t.Helper()
	var names []string
	for _, user := range w.claim(claim).Status.ReservedFor {
		names = append(names, user.Name)
	}
	return names
}

// untouched fails the test if a claim has an allocation, a reservation, a finalizer or the annotation of the scheduler.
func (w *testCluster) untouched(claims ...string) {
	w.t.Helper()
	for _, name := range claims {
		claim := w.claim(name)
		if claim.Status.Allocation != nil || len(claim.Status.ReservedFor) > 0 || len(claim.Finalizers) > 0 || claim.Annotations[SchedulerAnnotation] != "" {
			w.t.Errorf("claim %s still has allocation %v, reservations %v, finalizers %v, annotations %v", name, claim.Status.Allocation,
				claim.Status.ReservedFor, claim.Finalizers, claim.Annotations)
		}
	}
}

// nothingAssumed fails the test if a pod still holds claims, or if a device without a user is not free.
func (w *testCluster) nothingAssumed() {
	w.t.Helper()
	d := w.plugin.devices
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.assumed)+len(d.held)+len(d.chosen) > 0 {
		w.t.Errorf("%d pods hold %d claims on %d nodes, want none", len(d.assumed), len(d.held), len(d.chosen))
	}
	stored := false
	for uid, e := range d.ledger.claims {
		stored = stored || e.stored != nil
		if e.assumed != nil {
			w.t.Errorf("claim %s is still assumed to have %v", uid, e.assumed)
		}
	}
	if !stored && len(d.ledger.users)+len(d.ledger.shares) > 0 {
		w.t.Errorf("no claim has devices, but %v are used, and %v are shared", d.ledger.users, d.ledger.shares)
	}
}

func someNodes(names ...string) []runtime.Object {
	var nodes []runtime.Object
	for _, name := range names {
		nodes = append(nodes, schedtest.MakeNode().Name(name).Obj())
	}
	return nodes
}

// gpus returns the nodes with two devices each, and the device class gpu, which selects all devices.
func gpus(nodes ...string) []runtime.Object {
	objects := append(someNodes(nodes...), schedtest.DeviceClass("gpu"))
	for _, node := range nodes {
		objects = append(objects, schedtest.NodeDevices(node, "gpu-0 model=a", "gpu-1 model=b"))
	}
	return objects
}

func one(expressions ...string) resourceapi.DeviceRequest {
	return schedtest.DeviceRequest("r", "gpu", 1, expressions...)
}

const (
	modelA = `device.attributes["dra.example.com"].model == "a"`
	modelB = `device.attributes["dra.example.com"].model == "b"`
)
