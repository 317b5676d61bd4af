// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
)

func TestPhases(t *testing.T) {
	const (
		pending = "pending" // not bound
		bound   = "bound"   // bound, but not running
		running = "running"
		succ    = "succeeded"
		failed  = "failed"
	)
	pods := func(states ...string) []*corev1.Pod {
		var all []*corev1.Pod
		for _, state := range states {
			pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}}
			switch state {
			case pending:
				pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending
			case bound:
				pod.Status.Phase = corev1.PodPending
			case running:
				pod.Status.Phase = corev1.PodRunning
			case succ:
				pod.Status.Phase = corev1.PodSucceeded
			case failed:
				pod.Status.Phase = corev1.PodFailed
			}
			all = append(all, pod)
		}
		return all
	}
	tests := map[string]struct {
		was  v1alpha1.PodGroupPhase
		pods []*corev1.Pod
		kept bool // Not all members are in the Volcano PodGroup.
		want v1alpha1.PodGroupPhase
	}{
		"too few":                                     {"", pods(pending, pending), false, v1alpha1.PodGroupPending},
		"enough, not in the PodGroup":                 {"", pods(pending, pending, pending), true, v1alpha1.PodGroupPreScheduling},
		"G22 none of 3 is bound":                      {v1alpha1.PodGroupPending, pods(pending, pending, pending), false, v1alpha1.PodGroupScheduling},
		"G22 one of 3":                                {v1alpha1.PodGroupScheduling, pods(bound, pending, pending), false, v1alpha1.PodGroupScheduling},
		"G23 3 are bound, 2 run":                      {v1alpha1.PodGroupScheduling, pods(running, running, bound), false, v1alpha1.PodGroupScheduled},
		"3 run":                                       {v1alpha1.PodGroupScheduled, pods(running, running, running), false, v1alpha1.PodGroupRunning},
		"2 run, one has succeeded":                    {v1alpha1.PodGroupRunning, pods(running, running, succ), false, v1alpha1.PodGroupRunning},
		"G25 one has failed, 2 run":                   {v1alpha1.PodGroupRunning, pods(failed, running, running), false, v1alpha1.PodGroupFailed},
		"G26 one has failed, one runs":                {v1alpha1.PodGroupRunning, pods(failed, running), false, v1alpha1.PodGroupScheduling},
		"3 have succeeded":                            {v1alpha1.PodGroupRunning, pods(succ, succ, succ), false, v1alpha1.PodGroupFinished},
		"3 have succeeded, a fourth has failed":       {v1alpha1.PodGroupRunning, pods(succ, succ, succ, failed), false, v1alpha1.PodGroupFinished},
		"G28 all are deleted":                         {v1alpha1.PodGroupRunning, nil, false, v1alpha1.PodGroupPending},
		"finished ones are deleted":                   {v1alpha1.PodGroupFinished, pods(succ), false, v1alpha1.PodGroupFinished},
		"all finished ones are deleted":               {v1alpha1.PodGroupFinished, nil, false, v1alpha1.PodGroupFinished},
		"new ones come after those that finished":     {v1alpha1.PodGroupFinished, pods(pending, pending, pending), false, v1alpha1.PodGroupScheduling},
		"the failed one is replaced":                  {v1alpha1.PodGroupFailed, pods(running, running, pending), false, v1alpha1.PodGroupScheduling},
		"one that had failed, and now the rest ended": {v1alpha1.PodGroupFailed, pods(failed, succ, succ), false, v1alpha1.PodGroupFailed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := statusOf(v1alpha1.PodGroupStatus{Phase: test.was}, test.pods, 3, !test.kept, metav1.Unix(1000, 0))
			if got.Phase != test.want {
				t.Errorf("phase %s, want %s", got.Phase, test.want)
			}
		})
	}
}

func TestStatusCounts(t *testing.T) {
	pod := func(node string, phase corev1.PodPhase) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", OwnerReferences: []metav1.OwnerReference{{Name: "job"}}},
			Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
		}
	}
	members := []*corev1.Pod{pod("n", corev1.PodRunning), pod("n", corev1.PodRunning), pod("n", corev1.PodSucceeded), pod("n", corev1.PodPending), pod("", corev1.PodPending)}
	first, later := metav1.Unix(1000, 0), metav1.Unix(2000, 0)
	got := statusOf(v1alpha1.PodGroupStatus{}, members, 5, true, first)
	want := v1alpha1.PodGroupStatus{Phase: v1alpha1.PodGroupScheduling, OccupiedBy: "a/job", Scheduled: 4, Running: 2, Succeeded: 1, ScheduleStartTime: &first}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Rule G22: the schedule start time is set once.
	if again := statusOf(got, members, 5, true, later); !again.ScheduleStartTime.Equal(&first) {
		t.Errorf("it begins again at %s", again.ScheduleStartTime)
	}
}

// TestStatusFollowsThePods checks that the status follows the pods, and that the phase of a gang without pods is
// Pending again.
func TestStatusFollowsThePods(t *testing.T) {
	withController(t, func(w *harness) {
		w.object(2)
		w.settle()
		if phase := w.getObject().Status.Phase; phase != "" {
			t.Errorf("without a pod, which might be another scheduler's, the phase is %s", phase)
		}
		names := []string{"p0", "p1"}
		expect := func(want v1alpha1.PodGroupPhase) {
			t.Helper()
			w.settle()
			if phase := w.getObject().Status.Phase; phase != want {
				t.Errorf("phase %s, want %s", phase, want)
			}
		}
		w.labelled(names[0])
		expect(v1alpha1.PodGroupPending)
		w.labelled(names[1])
		expect(v1alpha1.PodGroupScheduling)
		began := w.getObject().Status.ScheduleStartTime
		for _, name := range names {
			w.changePod(name, func(pod *corev1.Pod) { pod.Spec.NodeName = "n" })
		}
		expect(v1alpha1.PodGroupScheduled)
		for _, name := range names {
			w.changePod(name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning })
		}
		expect(v1alpha1.PodGroupRunning)
		if now := w.getObject().Status.ScheduleStartTime; began == nil || !now.Equal(began) {
			t.Errorf("it began at %v, now at %v", began, now)
		}
		for _, name := range names {
			w.deletePod(name)
		}
		expect(v1alpha1.PodGroupPending)
		if group := w.group("g"); group == nil || group.Spec.MinResources != nil {
			t.Errorf("the PodGroup without pods is %v: it must not keep room in the queue", group)
		}
	})
}

// TestPluginsPodGroups checks that scheduler-plugins' PodGroups get their status through the status subresource,
// without the number of scheduled pods, even if their CRD is installed late.
func TestPluginsPodGroups(t *testing.T) {
	withController(t, func(w *harness) {
		for i := range 2 {
			w.pod(fmt.Sprintf("p%d", i), func(pod *corev1.Pod) {
				pod.Labels, pod.Spec.NodeName = map[string]string{pluginsLabel: "g"}, ""
			})
		}
		w.settle()
		w.pod("lost", func(pod *corev1.Pod) { pod.Labels = map[string]string{pluginsLabel: "lost"} })
		w.settle()
		expectTold(t, w.messageOf("p0"), "does not serve PodGroup.scheduling.x-k8s.io", "scheduling.x-k8s.io/pod-group", "CRD", "a/g")
		_, err := w.plugins.CoschedulingV1alpha1().PodGroups(ns).Create(t.Context(), &v1alpha1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "g", UID: "uid-object"}, Spec: v1alpha1.PodGroupSpec{MinMember: 2, ScheduleTimeoutSeconds: new(int32(5))},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookAgain / 2) // between two checks for the CRD
		w.pluginsServed.Store(true)
		time.Sleep(grace)
		synctest.Wait()
		expectTold(t, w.messageOf("lost"), "PodGroup.scheduling.x-k8s.io a/lost", "scheduling.x-k8s.io/pod-group", "does not exist")
		group := w.group("g")
		if group == nil || w.in("p0") != "g" {
			t.Fatalf("PodGroup %v, p0 is in %q", group, w.in("p0"))
		}
		if group.OwnerReferences[0].APIVersion != "scheduling.x-k8s.io/v1alpha1" || group.Annotations["gang.scheduling.koordinator.sh/waiting-time"] != "5s" {
			t.Errorf("owners %v, annotations %v", group.OwnerReferences, group.Annotations)
		}
		for i := range 2 {
			w.changePod(fmt.Sprintf("p%d", i), func(pod *corev1.Pod) { pod.Spec.NodeName, pod.Status.Phase = "n", corev1.PodRunning })
		}
		w.settle()
		object, err := w.plugins.CoschedulingV1alpha1().PodGroups(ns).Get(t.Context(), "g", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if object.Status.Phase != v1alpha1.PodGroupRunning || object.Status.Running != 2 || object.Status.Scheduled != 0 {
			t.Errorf("status %+v", object.Status)
		}
		var subresources []string
		for _, action := range w.plugins.Actions() {
			if action.GetVerb() == "patch" {
				subresources = append(subresources, action.GetSubresource())
			}
		}
		for _, subresource := range subresources {
			if subresource != "status" {
				t.Errorf("patches of %q", subresources)
			}
		}
	})
}
