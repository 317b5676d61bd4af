// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

func TestGangOfAnnotations(t *testing.T) {
	withController(t, func(w *harness) {
		said := minimum(3)
		said[gangs.WaitingTimeAnnotation], said[v1beta1.QueueNameAnnotationKey] = "90s", "q"
		for i := range 3 {
			w.member(fmt.Sprintf("p%d", i), said, func(pod *corev1.Pod) { pod.Spec.PriorityClassName = "high" })
		}
		w.settle()
		group := w.group("g")
		if group == nil {
			t.Fatal("there is no PodGroup")
		}
		want := v1beta1.PodGroupSpec{
			MinMember: 3, Queue: "q", PriorityClassName: "high",
			MinResources: &corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")},
		}
		if diff := cmp.Diff(want, group.Spec); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}
		annotations := map[string]string{gangs.ModeAnnotation: "Strict", gangs.WaitingTimeAnnotation: "90s", gangs.SourceAnnotation: "annotations", schedulerAnnotation: "volcano"}
		if diff := cmp.Diff(annotations, group.Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		if n := len(group.OwnerReferences); n != 3 {
			t.Errorf("%d pods own it, want all 3", n)
		}
		for i := range 3 {
			if in := w.in(fmt.Sprintf("p%d", i)); in != "g" {
				t.Errorf("pod %d is in PodGroup %q", i, in)
			}
		}
		if len(w.events.Events) > 0 {
			t.Errorf("the message is %s", <-w.events.Events)
		}
		w.writes()
		w.stop()
		w.start() // The next leader starts.
		w.settle()
		if written := w.writes(); len(written) > 0 {
			t.Errorf("another leader writes %v", written)
		}
		for i := range 3 {
			w.deletePod(fmt.Sprintf("p%d", i))
		}
		w.settle()
		if w.group("g") != nil {
			t.Error("the PodGroup still exists after the last pod was deleted")
		}
	})
}

func TestNotOurPodsAreLeftAlone(t *testing.T) {
	withController(t, func(w *harness) {
		w.member("other", minimum(1), func(pod *corev1.Pod) { pod.Spec.SchedulerName = "default-scheduler" })
		w.pod("plain", func(*corev1.Pod) {})
		w.object(1)
		w.writes()
		w.settle()
		if written := w.writes(); len(written) > 0 {
			t.Errorf("written: %v", written)
		}
	})
}

func TestOwners(t *testing.T) {
	controlled := func(uid string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "job", UID: types.UID(uid), Controller: new(true)}}
		}
	}
	withController(t, func(w *harness) {
		w.member("p0", minimum(2), controlled("1"))
		w.member("p1", minimum(2), controlled("1"))
		w.settle()
		if owners := w.group("g").OwnerReferences; len(owners) != 1 || owners[0].Kind != "Job" || owners[0].BlockOwnerDeletion != nil {
			t.Errorf("with one job, the owners are %v", owners)
		}
		w.member("p2", minimum(2), controlled("2"))
		w.settle()
		if owners := w.group("g").OwnerReferences; len(owners) != 3 || owners[0].Kind != "Pod" {
			t.Errorf("of two jobs, the owners are %v", owners)
		}
		for i := 3; i < 40; i++ {
			w.member(fmt.Sprintf("p%d", i), minimum(2))
		}
		for i := range 3 {
			w.deletePod(fmt.Sprintf("p%d", i))
		}
		w.settle()
		owners := w.group("g").OwnerReferences
		if len(owners) != maxOwners {
			t.Fatalf("%d pods own it, want %d", len(owners), maxOwners)
		}
		w.writes()
		w.deletePod(owners[0].Name)
		w.settle()
		if diff := cmp.Diff([]string{"delete pods"}, w.writes()); diff != "" {
			t.Errorf("one of many owners is deleted (-want +got):\n%s", diff)
		}
		for _, owner := range owners[1:] {
			w.deletePod(owner.Name)
		}
		w.settle()
		for _, owner := range w.group("g").OwnerReferences {
			w.getPod(owner.Name)
		}
	})
}

func TestMembershipAndSettingsChange(t *testing.T) {
	withController(t, func(w *harness) {
		for i := range 2 {
			w.member(fmt.Sprintf("p%d", i), minimum(2))
		}
		w.settle()
		w.changePod("p0", func(pod *corev1.Pod) {
			pod.Annotations[gangs.MinAvailableAnnotation], pod.Annotations[gangs.ModeAnnotation] = "1", "NonStrict"
		})
		w.settle()
		if g := w.group("g"); g.Spec.MinMember != 1 || g.Annotations[gangs.ModeAnnotation] != "NonStrict" {
			t.Errorf("minimum %d, mode %s", g.Spec.MinMember, g.Annotations[gangs.ModeAnnotation])
		}
		expectTold(t, w.messageOf("p1"), gangs.MinAvailableAnnotation, `"2"`, "Pod p0")
		expectTold(t, w.group("g").Annotations[messageAnnotation], "conflicting settings: Pod p0 overrides p1")
		w.deletePod("p0")
		w.settle()
		if g := w.group("g"); g.Spec.MinMember != 2 || g.Annotations[messageAnnotation] != "" {
			t.Errorf("minimum %d, message %q, once the next pod decides", g.Spec.MinMember, g.Annotations[messageAnnotation])
		}
		if message := w.messageOf("p1"); message != "" {
			t.Errorf("the message was not removed: %s", message)
		}
		w.changePod("p1", func(pod *corev1.Pod) { pod.Annotations[gangs.NameAnnotation] = "h" })
		w.settle()
		if w.in("p1") != "h" || w.group("h") == nil || w.group("g") != nil {
			t.Errorf("a pod that names another gang is in %q; PodGroup h %v, g %v", w.in("p1"), w.group("h") != nil, w.group("g") != nil)
		}
	})
}

// TestUpstreamWasThereFirst checks that the controller moves pods into the gang's PodGroup although upstream's
// controller has already created a PodGroup for each of them. A pod that has a node stays in its PodGroup.
func TestUpstreamWasThereFirst(t *testing.T) {
	withController(t, func(w *harness) {
		own := func(pod *corev1.Pod) {
			pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] = "podgroup-" + string(pod.UID)
		}
		for _, name := range []string{"p0", "p1", "bound"} {
			_, err := w.volcano.SchedulingV1beta1().PodGroups(ns).Create(t.Context(), &v1beta1.PodGroup{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "podgroup-uid-" + name, UID: types.UID(name)},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
		}
		w.member("p0", minimum(2), own)
		w.member("p1", minimum(2), own)
		w.member("bound", minimum(2), own, func(pod *corev1.Pod) { pod.Spec.NodeName = "n" })
		w.settle()
		for _, name := range []string{"p0", "p1"} {
			if w.in(name) != "g" || w.group("podgroup-uid-"+name) != nil {
				t.Errorf("%s is in %q; its own PodGroup exists: %v", name, w.in(name), w.group("podgroup-uid-"+name) != nil)
			}
		}
		if w.in("bound") != "podgroup-uid-bound" || w.group("podgroup-uid-bound") == nil {
			t.Errorf("the bound pod is in %q", w.in("bound"))
		}
		// Upstream's controller may also be late: it creates the PodGroup before it annotates the pod.
		w.member("late", minimum(2))
		_, _ = w.volcano.SchedulingV1beta1().PodGroups(ns).Create(t.Context(), &v1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "podgroup-uid-late", UID: "late"},
		}, metav1.CreateOptions{})
		w.changePod("late", own)
		w.settle()
		if w.in("late") != "g" || w.group("podgroup-uid-late") != nil {
			t.Errorf("late is in %q; its own PodGroup exists: %v", w.in("late"), w.group("podgroup-uid-late") != nil)
		}
	})
}

func TestGangOfAnObject(t *testing.T) {
	withController(t, func(w *harness) {
		w.labelled("p0")
		w.settle()
		expectTold(t, w.messageOf("p0"), "PodGroup.scheduling.sigs.k8s.io a/g", "does not exist")
		w.object(2, func(group *v1alpha1.PodGroup) {
			group.Annotations = map[string]string{"ibcluster.volcano-prebind.io/mode": "required", v1beta1.QueueNameAnnotationKey: "q"}
			group.Spec.ScheduleTimeoutSeconds = new(int32(90))
		})
		w.labelled("p1", func(pod *corev1.Pod) { pod.Annotations = map[string]string{gangs.ModeAnnotation: "NonStrict"} })
		w.settle()
		group := w.group("g")
		if group == nil {
			t.Fatal("there is no PodGroup")
		}
		annotations := map[string]string{
			gangs.ModeAnnotation: "Strict", gangs.WaitingTimeAnnotation: "1m30s", gangs.SourceAnnotation: v1alpha1.GroupName, schedulerAnnotation: "volcano",
			"ibcluster.volcano-prebind.io/mode": "required", messageAnnotation: "conflicting settings: PodGroup.scheduling.sigs.k8s.io g overrides p1",
		}
		if diff := cmp.Diff(annotations, group.Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		if owners := group.OwnerReferences; len(owners) != 1 || owners[0].APIVersion != "scheduling.sigs.k8s.io/v1alpha1" || owners[0].UID != "uid-object" {
			t.Errorf("owners %v", owners)
		}
		if group.Spec.MinMember != 2 || group.Spec.Queue != "q" {
			t.Errorf("spec %+v", group.Spec)
		}
		if w.messageOf("p0") != "" {
			t.Errorf("p0 still has the message %s", w.messageOf("p0"))
		}
		expectTold(t, w.messageOf("p1"), gangs.ModeAnnotation, `value "NonStrict" conflicts`, `using "Strict"`)
		expectTold(t, w.getObject().Annotations[messageAnnotation], "g overrides p1")
		w.changeObject(func(group *v1alpha1.PodGroup) {
			group.Spec.MinMember = 1
			delete(group.Annotations, "ibcluster.volcano-prebind.io/mode")
		})
		w.settle()
		if g := w.group("g"); g.Spec.MinMember != 1 || g.Annotations["ibcluster.volcano-prebind.io/mode"] != "" {
			t.Errorf("after the object has changed: minimum %d, annotations %v", g.Spec.MinMember, g.Annotations)
		}
		w.writes()
		w.stop()
		w.start()
		w.settle()
		if written := w.writes(); len(written) > 0 {
			t.Errorf("another leader writes %v", written)
		}
		if err := w.ours.CoschedulingV1alpha1().PodGroups(ns).Delete(t.Context(), "g", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.settle()
		if w.group("g") != nil {
			t.Error("the Volcano PodGroup still exists after the object was deleted")
		}
	})
}

// unschedulable sets a condition with the scheduler's message on the Volcano PodGroup.
func (w *harness) unschedulable(message string) {
	w.t.Helper()
	group := w.group("g")
	group.Status.Conditions = []v1beta1.PodGroupCondition{{Type: v1beta1.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Reason: "NotEnoughResources", Message: message}}
	if _, err := w.volcano.SchedulingV1beta1().PodGroups(ns).Update(w.t.Context(), group, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.settle()
}

// recorded returns the events since the last call.
func (w *harness) recorded() (all []string) {
	for len(w.events.Events) > 0 {
		all = append(all, <-w.events.Events)
	}
	return all
}

// TestWhyItWaitsIsOnTheObject checks that the reason why a gang waits is on the object that the user created: in its
// annotation and its events.
func TestWhyItWaitsIsOnTheObject(t *testing.T) {
	withController(t, func(w *harness) {
		w.object(2)
		w.labelled("p0")
		w.labelled("p1")
		w.settle()
		long := "0/2 members fit: " + strings.Repeat("n", 900) + " culprit"
		for _, message := range []string{"2 of 2 do not fit", long} {
			w.unschedulable(message)
			if diff := cmp.Diff("NotEnoughResources: "+message, w.getObject().Annotations[messageAnnotation]); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"Warning Unschedulable NotEnoughResources: " + message}, w.recorded()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		}
		w.labelled("p2")
		w.settle()
		w.stop()
		w.start()
		w.settle()
		if again := w.recorded(); len(again) > 0 {
			t.Errorf("events of a reason that has not changed, also by another leader: %q", again)
		}
		w.changeObject(func(group *v1alpha1.PodGroup) { group.Annotations[messageAnnotation] = "edited by a user" })
		w.settle()
		if message, again := w.getObject().Annotations[messageAnnotation], w.recorded(); message != "NotEnoughResources: "+long || len(again) > 0 {
			t.Errorf("after a user edited the message it is %q, and there are events %q", message, again)
		}
		w.changeObject(func(group *v1alpha1.PodGroup) {
			metav1.SetMetaDataAnnotation(&group.ObjectMeta, gangs.ModeAnnotation, strings.Repeat("strict", 20))
		})
		w.settle()
		if message := w.getObject().Annotations[messageAnnotation]; !strings.HasPrefix(message, gangs.ModeAnnotation) || !strings.HasSuffix(message, long) {
			t.Errorf("an invalid setting beside the reason: the message is %q", message)
		}
		w.recorded()
		w.changeObject(func(group *v1alpha1.PodGroup) { delete(group.Annotations, gangs.ModeAnnotation) })
		w.unschedulable(strings.Repeat("n", 5000))
		if message := w.getObject().Annotations[messageAnnotation]; len(message) > brief.Most {
			t.Errorf("the annotation has %d bytes of any condition", len(message))
		}
		for i := range 2 {
			w.changePod(fmt.Sprintf("p%d", i), func(pod *corev1.Pod) { pod.Spec.NodeName = "n" })
		}
		w.settle()
		if message := w.getObject().Annotations[messageAnnotation]; message != "" {
			t.Errorf("the message is %q once it is placed", message)
		}
	})
}

// TestTroubleOfTheAPIServer checks that the controller reaches the desired state although every second create or patch
// fails with a conflict.
func TestTroubleOfTheAPIServer(t *testing.T) {
	withController(t, func(w *harness) {
		var failures atomic.Int32
		fail := func(action clienttesting.Action) (bool, runtime.Object, error) {
			if failures.Add(1)%2 == 0 {
				return false, nil, nil
			}
			return true, nil, apierrors.NewConflict(corev1.Resource("pods"), "p", errors.New("changed"))
		}
		for _, verb := range []string{"create", "patch"} {
			w.volcano.PrependReactor(verb, "*", fail)
		}
		w.kube.PrependReactor("patch", "*", fail)
		w.ours.PrependReactor("patch", "*", fail)
		w.object(3)
		for i := range 3 {
			w.labelled(fmt.Sprintf("p%d", i))
		}
		w.settle()
		for i := range 3 {
			if in := w.in(fmt.Sprintf("p%d", i)); in != "g" {
				t.Errorf("p%d is in %q", i, in)
			}
		}
		if phase := w.getObject().Status.Phase; phase != v1alpha1.PodGroupScheduling {
			t.Errorf("phase %s", phase)
		}
	})
}

func TestANamespaceThatEnds(t *testing.T) {
	withController(t, func(w *harness) {
		w.volcano.PrependReactor("create", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
			err := apierrors.NewForbidden(v1beta1.Resource("podgroups"), "g", errors.New("because it is being terminated"))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return true, nil, err
		})
		w.member("p", minimum(1))
		w.writes()
		w.settle()
		if written := w.writes(); len(written) > 1 {
			t.Errorf("it goes on trying: %v", written)
		}
	})
}

func TestPodsThatAreOver(t *testing.T) {
	withController(t, func(w *harness) {
		for name, change := range map[string]func(*corev1.Pod){
			"finished": func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded },
			"deleted": func(pod *corev1.Pod) {
				pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: pod.CreationTimestamp.Time}, []string{"test"}
			},
		} {
			w.member(name, minimum(1), change)
		}
		w.settle()
		for _, name := range []string{"finished", "deleted"} {
			if in := w.in(name); in != "" {
				t.Errorf("%s is put in %q", name, in)
			}
		}
	})
}

func TestQueueOfTheNamespace(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Annotations: map[string]string{v1beta1.QueueNameAnnotationKey: "of-namespace"}}}
	withController(t, func(w *harness) {
		w.member("p", minimum(1))
		w.settle()
		if queue := w.group("g").Spec.Queue; queue != "of-namespace" {
			t.Errorf("queue %q", queue)
		}
		w.changePod("p", func(pod *corev1.Pod) { pod.Annotations[v1beta1.QueueNameAnnotationKey] = "of-pod" })
		w.settle()
		if queue := w.group("g").Spec.Queue; queue != "of-pod" {
			t.Errorf("queue %q", queue)
		}
	}, namespace)
}

// TestALargeGang checks that the pods of a large gang are assigned in batches, that the number of writes is the
// number of pods and one for the PodGroup, and that only a few pods own the PodGroup.
func TestALargeGang(t *testing.T) {
	const size = 2*turn + 1
	withController(t, func(w *harness) {
		w.stop()
		for i := range size {
			w.member(fmt.Sprintf("p%05d", i), minimum(size))
		}
		w.writes()
		w.start()
		w.settle()
		written := w.writes()
		if len(written) != size+1 {
			t.Errorf("%d writes, want %d", len(written), size+1)
		}
		if n := len(w.group("g").OwnerReferences); n != maxOwners {
			t.Errorf("%d owners", n)
		}
		if cpu := (*w.group("g").Spec.MinResources)[corev1.ResourceCPU]; cpu.Value() != size {
			t.Errorf("%s CPUs are requested", cpu.String())
		}
	})
}

// TestAMinimumOfBillions checks that a minimum of billions costs no more than a small one.
func TestAMinimumOfBillions(t *testing.T) {
	withController(t, func(w *harness) {
		w.member("p", minimum(2_147_483_647))
		w.settle()
		if cpu := (*w.group("g").Spec.MinResources)[corev1.ResourceCPU]; cpu.Value() != 2_147_483_647 {
			t.Errorf("%s CPUs are requested", cpu.String())
		}
	})
}

// TestAMinimumOfBillionsThatAskForTerabytes checks that a minimum of billions of pods that request terabytes is
// written once. The sum exceeds the range of a quantity. It was read back as less than was written, so each sync
// wrote the PodGroup again.
func TestAMinimumOfBillionsThatAskForTerabytes(t *testing.T) {
	for name, request := range map[corev1.ResourceName]string{corev1.ResourceMemory: "1Ti", corev1.ResourceCPU: "8E", "nvidia.com/gpu": "5G"} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{name: resource.MustParse(request)},
		}}}}}
		w := &desired{minMember: math.MaxInt32, minResources: askedFor([]*corev1.Pod{pod}, math.MaxInt32), annotations: map[string]string{}}
		text, err := json.Marshal(w.apply(&v1beta1.PodGroup{}, nil))
		if err != nil {
			t.Fatal(err)
		}
		var back v1beta1.PodGroup
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !w.settled(&back) {
			t.Errorf("%s: written %s, and read back %v: it is written again in every sync", name, text, back.Spec.MinResources)
		}
		if sum := (*back.Spec.MinResources)[name]; sum.MilliValue() < math.MaxInt64-1000 {
			t.Errorf("%s: %s requested, which counts as %d thousandths", name, sum.String(), sum.MilliValue())
		}
	}
}

// TestControllersOfTwoSchedulers checks that a controller does not change the gangs of another scheduler, whose pods it
// does not see: a cluster may have one release per scheduler. The controller used to take the PodGroups of these gangs
// for PodGroups of deleted gangs. So it deleted them, and wrote the statuses of the users' objects.
func TestControllersOfTwoSchedulers(t *testing.T) {
	withController(t, func(w *harness) {
		w.object(1)
		w.labelled("labelled")
		w.member("p", minimum(1), func(pod *corev1.Pod) { pod.Annotations[gangs.NameAnnotation] = "h" })
		w.settle()
		w.writes()
		w.stop()
		w.schedulers = []string{"second"}
		w.start()
		w.settle()
		if written := w.writes(); len(written) > 0 {
			t.Errorf("another scheduler's controller writes %v", written)
		}
		w.member("q", minimum(1), func(pod *corev1.Pod) { pod.Annotations[gangs.NameAnnotation], pod.Spec.SchedulerName = "h", "second" })
		w.settle()
		if w.in("q") != "" {
			t.Errorf("a pod of the second scheduler is in %q", w.in("q"))
		}
		expectTold(t, w.messageOf("q"), `belongs to scheduler "volcano" already`)
	})
}
