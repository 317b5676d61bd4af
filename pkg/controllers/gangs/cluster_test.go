// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcfake "volcano.sh/apis/pkg/client/clientset/versioned/fake"
	vcinformers "volcano.sh/apis/pkg/client/informers/externalversions"
	"volcano.sh/volcano/pkg/controllers/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
	ourfake "github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned/fake"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

const ns = "a"

// settleTime is long enough for every wait of the controller, on synctest's clock.
const settleTime = 2 * time.Minute

// resync is the resync period of informers. With 0, informers wait on a channel from outside the synctest bubble.
const resync = 24 * time.Hour

// harness is a running controller with fake clients in place of an API server.
type harness struct {
	t       *testing.T
	kube    *fake.Clientset
	volcano *vcfake.Clientset
	ours    *ourfake.Clientset
	plugins *ourfake.Clientset
	events  *record.FakeRecorder
	stop    func()
	created int
	// schedulers are the scheduler names that the method start gives to the controller.
	schedulers []string
	// pluginsServed reports whether scheduler-plugins' CRD is served.
	pluginsServed atomic.Bool
}

// withController runs the test in its own synctest bubble, with the controller running.
func withController(t *testing.T, test func(w *harness), objects ...runtime.Object) {
	synctest.Test(t, func(t *testing.T) {
		w := &harness{t: t, kube: fake.NewClientset(objects...), volcano: vcfake.NewSimpleClientset(), ours: ourfake.NewSimpleClientset(), plugins: ourfake.NewSimpleClientset(), schedulers: []string{"volcano"}}
		serve(w.ours, v1alpha1.SchemeGroupVersion.String())
		serve(w.plugins, v1alpha1.PluginsGroupVersion.String())
		w.plugins.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
			if w.pluginsServed.Load() {
				return false, nil, nil
			}
			return true, nil, apierrors.NewNotFound(v1alpha1.Resource("podgroups"), "")
		})
		defer func() { w.stop() }()
		w.start()
		test(w)
	})
}

func serve(client *ourfake.Clientset, version string) {
	client.Resources = append(client.Resources, &metav1.APIResourceList{GroupVersion: version, APIResources: []metav1.APIResource{{Name: "podgroups"}}})
}

// start starts the controller on the objects that exist.
func (w *harness) start() {
	w.t.Helper()
	w.events = record.NewFakeRecorder(100_000)
	c := &controller{recorder: w.events}
	opt := &framework.ControllerOption{
		KubeClient: w.kube, VolcanoClient: w.volcano, SchedulerNames: w.schedulers,
		SharedInformerFactory: informers.NewSharedInformerFactory(w.kube, resync), VCSharedInformerFactory: vcinformers.NewSharedInformerFactory(w.volcano, resync),
	}
	err := c.initialize(opt,
		&source{version: v1alpha1.SchemeGroupVersion, client: w.ours, resync: resync},
		&source{version: v1alpha1.PluginsGroupVersion, client: w.plugins, hasStatus: true, resync: resync},
	)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx.Done())
	}()
	w.stop = func() {
		cancel()
		<-done
		opt.SharedInformerFactory.Shutdown()
		opt.VCSharedInformerFactory.Shutdown()
	}
	synctest.Wait()
}

// settle waits until the controller has no work left.
func (w *harness) settle() {
	time.Sleep(settleTime)
	synctest.Wait()
}

// member adds a pod that declares its gang in annotations and is younger than all earlier pods.
func (w *harness) member(name string, said map[string]string, change ...func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	annotations := map[string]string{gangs.NameAnnotation: "g"}
	maps.Copy(annotations, said)
	return w.pod(name, func(pod *corev1.Pod) {
		pod.Annotations = annotations
		for _, c := range change {
			c(pod)
		}
	})
}

func (w *harness) pod(name string, change func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	w.created++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: name, UID: types.UID("uid-" + name),
			CreationTimestamp: metav1.NewTime(time.Now().Add(time.Duration(w.created) * time.Second)),
		},
		Spec: corev1.PodSpec{SchedulerName: "volcano", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	change(pod)
	made, err := w.kube.CoreV1().Pods(pod.Namespace).Create(w.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

// labelled adds a pod that names a PodGroup object in a label.
func (w *harness) labelled(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	return w.pod(name, func(pod *corev1.Pod) {
		pod.Labels = map[string]string{gangs.PodGroupLabel: "g"}
		for _, c := range change {
			c(pod)
		}
	})
}

func (w *harness) object(minMember int32, change ...func(*v1alpha1.PodGroup)) {
	w.t.Helper()
	group := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "g", UID: "uid-object"}, Spec: v1alpha1.PodGroupSpec{MinMember: minMember}}
	for _, c := range change {
		c(group)
	}
	if _, err := w.ours.CoschedulingV1alpha1().PodGroups(ns).Create(w.t.Context(), group, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// changePod changes a pod as a user, the scheduler or the kubelet does.
func (w *harness) changePod(name string, change func(*corev1.Pod)) {
	w.t.Helper()
	pod := w.getPod(name)
	change(pod)
	if _, err := w.kube.CoreV1().Pods(ns).Update(w.t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *harness) changeObject(change func(*v1alpha1.PodGroup)) {
	w.t.Helper()
	group := w.getObject()
	change(group)
	if _, err := w.ours.CoschedulingV1alpha1().PodGroups(ns).Update(w.t.Context(), group, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *harness) deletePod(name string) {
	w.t.Helper()
	if err := w.kube.CoreV1().Pods(ns).Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *harness) getPod(name string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.kube.CoreV1().Pods(ns).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

func (w *harness) getObject() *v1alpha1.PodGroup {
	w.t.Helper()
	group, err := w.ours.CoschedulingV1alpha1().PodGroups(ns).Get(w.t.Context(), "g", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return group
}

// group returns the Volcano PodGroup of that name, or nil.
func (w *harness) group(name string) *v1beta1.PodGroup {
	w.t.Helper()
	group, err := w.volcano.SchedulingV1beta1().PodGroups(ns).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return group
}

// in returns the name of the PodGroup that the pod belongs to.
func (w *harness) in(name string) string {
	w.t.Helper()
	return w.getPod(name).Annotations[v1beta1.KubeGroupNameAnnotationKey]
}

// messageOf returns the controller's message on the pod, from its annotation.
func (w *harness) messageOf(name string) string {
	w.t.Helper()
	return w.getPod(name).Annotations[messageAnnotation]
}

// writes returns the writes of the controller and of the test since the last call.
func (w *harness) writes() []string {
	var all []string
	for _, client := range []interface {
		Actions() []clienttesting.Action
		ClearActions()
	}{w.kube, w.volcano, w.ours, w.plugins} {
		for _, action := range client.Actions() {
			if verb := action.GetVerb(); verb != "get" && verb != "list" && verb != "watch" {
				all = append(all, fmt.Sprintf("%s %s", verb, action.GetResource().Resource))
			}
		}
		client.ClearActions()
	}
	return all
}

// expectTold checks that the message contains all these words.
func expectTold(t *testing.T, message string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(message, word) {
			t.Errorf("the message is %q, want %q in it", message, word)
		}
	}
}

// minimum returns the annotation that declares the minimum n. The method member adds the annotation with the gang's
// name.
func minimum(n int) map[string]string {
	return map[string]string{gangs.MinAvailableAnnotation: fmt.Sprint(n)}
}
