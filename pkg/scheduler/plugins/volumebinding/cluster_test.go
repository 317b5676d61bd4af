// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/storage/volume"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

const (
	noProvisioner = volume.NotSupportedProvisioner
	provisioner   = "disks.example.com"
)

// testCluster is an API server in memory, the plugin with its informers, and an open session. The API server counts
// versions, and rejects updates of an older version.
type testCluster struct {
	t       *testing.T
	kube    *kubefake.Clientset
	factory informers.SharedInformerFactory
	plugin  *plugin
	session *session
	// jobs are the jobs of the sessions that are opened.
	jobs map[api.JobID]*api.JobInfo

	// events are the events that the plugin recorded.
	events *schedtest.Events

	writes  sync.Mutex
	version int
	// woken counts the sessions that the plugin requested.
	woken atomic.Int64
	// gate delays the informers' events of volumes; nil delays no events.
	gate chan struct{}
}

// run calls act with a new cluster, in a synctest bubble.
func run(t *testing.T, args framework.Arguments, objects []runtime.Object, act func(w *testCluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &testCluster{t: t, kube: kubefake.NewClientset(), events: &schedtest.Events{}, version: 1000}
		w.kube.PrependReactor("update", "*", w.update)
		w.kube.PrependWatchReactor("persistentvolumes", w.gated)
		for _, object := range objects {
			if err := w.kube.Tracker().Add(object); err != nil {
				t.Fatal(err)
			}
		}
		ctx, end := context.WithCancel(t.Context())
		// A resync would wait on a channel from outside of the bubble.
		factory := informers.NewSharedInformerFactory(w.kube, time.Hour)
		w.factory = factory
		w.plugin = w.build(Spec(), args, factory)
		factory.Start(ctx.Done())
		synctest.Wait()
		defer func() {
			w.plugin.Close()
			end()
			factory.Shutdown()
		}()
		w.open()
		act(w)
	})
}

func (w *testCluster) build(spec framework.PluginSpec, args framework.Arguments, factory informers.SharedInformerFactory) *plugin {
	w.t.Helper()
	made, err := spec.New(args, handle{kube: w.kube, factory: factory, events: w.events, woken: &w.woken})
	if err != nil {
		w.t.Fatal(err)
	}
	return made.(*plugin)
}

// open opens another session.
func (w *testCluster) open() {
	w.t.Helper()
	nodes, err := w.kube.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	infos := map[string]*api.NodeInfo{}
	for i := range nodes.Items {
		infos[nodes.Items[i].Name] = api.NewNodeInfo(&nodes.Items[i])
	}
	w.session = newSession(w.plugin, infos, w.jobs)
}

type handle struct {
	framework.Handle
	kube    kubernetes.Interface
	factory informers.SharedInformerFactory
	events  *schedtest.Events
	woken   *atomic.Int64
}

func (h handle) Wake()                                                       { h.woken.Add(1) }
func (h handle) KubeClient() kubernetes.Interface                            { return h.kube }
func (h handle) EventRecorder() record.EventRecorder                         { return h.events }
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
	w.version++
	wanted.SetResourceVersion(strconv.Itoa(w.version))
	return true, object, w.kube.Tracker().Update(a.Resource, object, a.Namespace)
}

// setVolume changes the volume, as another client would.
func (w *testCluster) setVolume(name string, mutate func(*v1.PersistentVolume)) {
	w.t.Helper()
	v := w.volume(name)
	mutate(v)
	if _, err := w.kube.CoreV1().PersistentVolumes().Update(w.t.Context(), v, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// phase sets the volume's phase, as the volume controller would.
func (w *testCluster) phase(name string, phase v1.PersistentVolumePhase) {
	w.t.Helper()
	w.setVolume(name, func(v *v1.PersistentVolume) { v.Status.Phase = phase })
}

func (w *testCluster) claim(name string) *v1.PersistentVolumeClaim {
	w.t.Helper()
	claim, err := w.kube.CoreV1().PersistentVolumeClaims(schedtest.Namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return claim
}

func (w *testCluster) volume(name string) *v1.PersistentVolume {
	w.t.Helper()
	found, err := w.kube.CoreV1().PersistentVolumes().Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// change changes the claim, as another client would.
func (w *testCluster) change(name string, mutate func(*v1.PersistentVolumeClaim)) {
	w.t.Helper()
	claim := w.claim(name)
	mutate(claim)
	if _, err := w.kube.CoreV1().PersistentVolumeClaims(schedtest.Namespace).Update(w.t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// bind binds the claim to the volume that is reserved for it, as the volume controller would.
func (w *testCluster) bind(claim, name string) {
	w.t.Helper()
	w.phase(name, v1.VolumeBound)
	w.change(claim, func(c *v1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase = name, v1.ClaimBound
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnBindCompleted, "yes")
	})
}

// provision creates and binds a volume for a claim with a selected node, as a provisioner would.
func (w *testCluster) provision(claim string) {
	w.t.Helper()
	c := w.claim(claim)
	made := schedtest.FreeVolume("made-for-"+claim, *c.Spec.StorageClassName, c.Annotations[volume.AnnSelectedNode])
	made.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID}
	if _, err := w.kube.CoreV1().PersistentVolumes().Create(w.t.Context(), made, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.bind(claim, made.Name)
}

// member returns a pod of the gang with the claims.
func member(name string, claims ...string) *api.TaskInfo {
	pod := schedtest.MakePod().Group("g").Name(name)
	for _, claim := range claims {
		pod = pod.Volume(claim)
	}
	return api.NewTaskInfo(pod.Obj())
}

// fits returns "" if the session's filter accepts the task on the node, or the reason of the refusal.
func (w *testCluster) fits(task *api.TaskInfo, node string) string {
	w.t.Helper()
	if err := w.session.prePredicate(task); err != nil {
		return err.Error()
	}
	if err := w.session.predicate(task, w.session.users.nodes[node]); err != nil {
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
	return w.session.Reserve(task, w.session.users.nodes[node])
}

func (w *testCluster) take(task *api.TaskInfo) {
	task.Status = api.Pending
	w.session.Unreserve(task)
}

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

func (w *testCluster) rollBack(task *api.TaskInfo) {
	w.t.Helper()
	if err := w.plugin.Rollback(w.t.Context(), task, task.NodeName); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// written returns the updates since its last call.
func (w *testCluster) written() []string {
	var list []string
	for _, action := range w.kube.Actions() {
		if a, ok := action.(clienttesting.UpdateAction); ok {
			object, _ := meta.Accessor(a.GetObject())
			list = append(list, a.GetResource().Resource+" "+object.GetName())
		}
	}
	w.kube.ClearActions()
	slices.Sort(list)
	return list
}

// nothingAssumed fails the test if a pod still holds claims, or if a volume or capacity without a user is not free.
func (w *testCluster) nothingAssumed() {
	w.t.Helper()
	v := &w.plugin.volumes.assumptions
	if n, m := len(v.assumed), len(v.held); n+m > 0 {
		w.t.Errorf("%d pods hold %d claims, want none", n, m)
	}
	if len(v.reserved)+len(v.drawn) > 0 {
		w.t.Errorf("no pod holds a claim, but volumes %v and capacities %v are in use", v.reserved, v.drawn)
	}
}

func someNodes(names ...string) []runtime.Object {
	var nodes []runtime.Object
	for _, name := range names {
		nodes = append(nodes, schedtest.MakeNode().Name(name).Obj())
	}
	return nodes
}

// immediate returns a class whose volumes are bound at once.
func immediate(name string) *storagev1.StorageClass {
	class := schedtest.LateClass(name, provisioner)
	mode := storagev1.VolumeBindingImmediate
	class.VolumeBindingMode = &mode
	return class
}

func local(name, node string) *v1.PersistentVolume {
	v := schedtest.FreeVolume(name, "local", node)
	v.UID, v.Spec.PersistentVolumeReclaimPolicy = "uid-of-volume", v1.PersistentVolumeReclaimRetain
	return v
}
