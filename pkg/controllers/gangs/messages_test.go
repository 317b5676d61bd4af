// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// others adds n pods that are older than the pods added later.
func (w *harness) others(n int, said map[string]string, change ...func(*corev1.Pod)) {
	for i := range n {
		w.member(fmt.Sprintf("other-%d", i), said, change...)
	}
}

// TestMessages compares the messages that users read on pods and PodGroups of gangs that are not defined by a Volcano
// PodGroup.
func TestMessages(t *testing.T) {
	// messageIn returns the message on pod p.
	messageIn := func(scenario func(w *harness)) (text string) {
		withController(t, func(w *harness) {
			scenario(w)
			w.settle()
			text = w.messageOf("p")
		})
		return text
	}
	named := func(name string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Annotations[gangs.NameAnnotation] = name }
	}
	job := metav1.OwnerReference{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "job", UID: "1", Controller: new(true)}
	conflict := ""
	got := map[string]string{
		"an invalid setting": messageIn(func(w *harness) {
			w.member("p", map[string]string{gangs.MinAvailableAnnotation: "3", gangs.ModeAnnotation: "strict"})
		}),
		"no minimum":      messageIn(func(w *harness) { w.member("p", nil) }),
		"a minimum of 0":  messageIn(func(w *harness) { w.member("p", map[string]string{gangs.MinAvailableAnnotation: "0"}) }),
		"an invalid name": messageIn(func(w *harness) { w.member("p", minimum(1), named("Upper")) }),
		"an invalid name, on the last of many pods": messageIn(func(w *harness) {
			w.others(reportingMembers, nil, named("Upper"))
			w.member("p", nil, named("Upper"))
		}),
		"no minimum, on the last of many pods": messageIn(func(w *harness) {
			w.others(reportingMembers, nil)
			w.member("p", nil)
		}),
		"no such PodGroup": messageIn(func(w *harness) { w.labelled("p") }),
		"the API server does not serve PodGroups": messageIn(func(w *harness) {
			w.pod("p", func(pod *corev1.Pod) { pod.Labels = map[string]string{pluginsLabel: "g"} })
		}),
		"the name is taken": messageIn(func(w *harness) {
			w.podGroup("g", func(g *v1beta1.PodGroup) { g.OwnerReferences = []metav1.OwnerReference{job} })
			w.member("p", minimum(1))
		}),
		"another scheduler's": messageIn(func(w *harness) {
			w.member("other", minimum(1))
			w.settle()
			w.stop()
			w.schedulers = []string{"second"}
			w.start()
			w.member("p", minimum(1), func(pod *corev1.Pod) { pod.Spec.SchedulerName = "second" })
		}),
		"an own PodGroup": messageIn(func(w *harness) {
			w.member("p", minimum(1), func(pod *corev1.Pod) { pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] = "mine" })
		}),
		"a label and an annotation": messageIn(func(w *harness) {
			w.member("p", minimum(1), func(pod *corev1.Pod) { pod.Labels = map[string]string{gangs.PodGroupLabel: "h"} })
		}),
		"a setting of another pod": messageIn(func(w *harness) {
			w.member("first", minimum(1))
			w.member("p", minimum(2))
			w.settle()
			conflict = w.group("g").Annotations[messageAnnotation]
		}),
	}
	got["a setting of another pod, on the PodGroup"] = conflict
	got["a setting that the first pod does not have"] = messageIn(func(w *harness) {
		w.member("first", minimum(1))
		said := minimum(1)
		said[gangs.MatchPolicyAnnotation] = string(gangs.OnlyWaiting)
		w.member("p", said)
	})
	got["an invalid time"] = messageIn(func(w *harness) {
		said := minimum(1)
		said[gangs.WaitingTimeAnnotation] = "soon"
		w.member("p", said)
	})
	withController(t, func(w *harness) {
		w.object(0)
		w.labelled("p")
		w.settle()
		got["an invalid minimum of a PodGroup"] = w.getObject().Annotations[messageAnnotation]
	})
	withController(t, func(w *harness) {
		w.object(1, func(g *v1alpha1.PodGroup) { g.Spec.ScheduleTimeoutSeconds = new(int32(-1)) })
		w.labelled("p")
		w.settle()
		got["an invalid time of a PodGroup"] = w.getObject().Annotations[messageAnnotation]
	})
	withController(t, func(w *harness) {
		w.volcano.PrependReactor("create", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(v1beta1.Resource("podgroups"), "g", errors.New("queue q is closed"))
		})
		w.member("p", minimum(1))
		w.settle()
		got["the API server refuses the PodGroup"] = w.messageOf("p")
	})
	withController(t, func(w *harness) {
		w.podGroup("g", func(*v1beta1.PodGroup) {})
		w.object(1)
		w.labelled("p")
		w.settle()
		got["a PodGroup of Volcano's defines the gang"] = w.getObject().Annotations[messageAnnotation]
	})
	// Messages about invalid names come from Kubernetes.
	for _, name := range []string{"an invalid name", "an invalid name, on the last of many pods"} {
		got[name] = regexp.MustCompile("a lowercase RFC 1123 subdomain.*; correct").ReplaceAllString(got[name], "...; correct")
	}
	want := map[string]string{
		"a setting that the first pod does not have": `gang.scheduling.koordinator.sh/match-policy: value "only-waiting" conflicts with Pod first, which does not set it; using the default`,
		"an invalid time":                          `gang.scheduling.koordinator.sh/waiting-time: invalid value "soon", must be a positive duration such as 90s; using the default of the scheduler configuration`,
		"an invalid minimum of a PodGroup":         `spec.minMember: invalid value 0, must be a positive number; using 1`,
		"an invalid time of a PodGroup":            `spec.scheduleTimeoutSeconds: invalid value -1, must be a positive number of seconds; using the default of the scheduler configuration`,
		"an invalid setting":                       `gang.scheduling.koordinator.sh/mode: invalid value "strict", must be Strict or NonStrict; using Strict`,
		"the API server refuses the PodGroup":      `Volcano PodGroup of the gang cannot be created: podgroups.scheduling.volcano.sh "g" is forbidden: queue q is closed`,
		"a PodGroup of Volcano's defines the gang": "ignored: Volcano's PodGroup g defines the gang",
		"the API server does not serve PodGroups":  "the API server does not serve PodGroup.scheduling.x-k8s.io, which label scheduling.x-k8s.io/pod-group refers to; install its CRD and create PodGroup a/g to have the pod scheduled",
		"no minimum":      "no pod of gang a/g sets gang.scheduling.koordinator.sh/min-available; set a positive number on at least one pod to have the gang scheduled",
		"a minimum of 0":  `gang.scheduling.koordinator.sh/min-available: invalid value "0", must be a positive number on at least one pod; the gang is not scheduled until one sets it`,
		"an invalid name": `gang name "Upper" is not a valid PodGroup name: ...; correct the name to have the pod scheduled`,
		"an invalid name, on the last of many pods": `gang name "Upper" is not a valid PodGroup name: ...; correct the name to have the pod scheduled`,
		"no minimum, on the last of many pods":      "the pod waits because gang a/g cannot be scheduled; the reason is in annotation coscheduling.volcano-prebind.io/message of the gang's 10 oldest pods",
		"no such PodGroup":                          "PodGroup.scheduling.sigs.k8s.io a/g does not exist; create it, or correct label pod-group.scheduling.sigs.k8s.io, to have the pod scheduled",
		"the name is taken":                         "gang name a/g is taken by the Volcano PodGroup of Job job; name another gang to have the pod scheduled",
		"another scheduler's":                       `gang a/g belongs to scheduler "volcano" already; name another gang to have the pod scheduled`,
		"an own PodGroup":                           `gang.scheduling.koordinator.sh/name: value "g" conflicts with "mine" in scheduling.k8s.io/group-name; using "mine"`,
		"a label and an annotation":                 `gang.scheduling.koordinator.sh/name: value "g" conflicts with "h" in pod-group.scheduling.sigs.k8s.io; using "h"; PodGroup.scheduling.sigs.k8s.io a/h does not exist; create it, or correct label pod-group.scheduling.sigs.k8s.io, to have the pod scheduled`,
		"a setting of another pod":                  `gang.scheduling.koordinator.sh/min-available: value "2" conflicts with "1" in Pod first; using "1"`,
		"a setting of another pod, on the PodGroup": "conflicting settings: Pod first overrides p",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

func TestInvalidSettingsAreReported(t *testing.T) {
	withController(t, func(w *harness) {
		said := minimum(3)
		said[gangs.ModeAnnotation] = "strict"
		w.member("p", said)
		w.settle()
		expectTold(t, w.messageOf("p"), gangs.ModeAnnotation, `"strict"`, "using Strict")
		expectTold(t, w.group("g").Annotations[messageAnnotation], gangs.ModeAnnotation)
		if n := len(w.events.Events); n != 1 {
			t.Fatalf("%d events, want 1", n)
		}
		expectTold(t, <-w.events.Events, "Warning InvalidGangSettings", gangs.ModeAnnotation)
		w.stop()
		w.start()
		w.settle()
		if n := len(w.events.Events); n != 0 {
			t.Errorf("%d events of another leader", n)
		}
	})
}

func TestAGangWithoutAMinimumIsReported(t *testing.T) {
	withController(t, func(w *harness) {
		w.member("p", map[string]string{gangs.MinAvailableAnnotation: "0"})
		w.settle()
		expectTold(t, w.messageOf("p"), gangs.MinAvailableAnnotation, `invalid value "0"`, "not scheduled")
		if w.group("g") != nil || w.in("p") != "" {
			t.Error("the pod is in the gang's PodGroup")
		}
		w.member("late", minimum(1))
		w.settle()
		if w.in("p") != "g" || w.in("late") != "g" {
			t.Error("the pods are not in the gang's PodGroup once one declares the minimum")
		}
	})
}

func TestNamesThatCannotBe(t *testing.T) {
	for _, name := range []string{"Upper", "a/b", strings.Repeat("x", 300), "../etc", "g "} {
		t.Run(name[:min(len(name), 10)], func(t *testing.T) {
			withController(t, func(w *harness) {
				w.member("p", minimum(1), func(pod *corev1.Pod) { pod.Annotations[gangs.NameAnnotation] = name })
				w.settle()
				expectTold(t, w.messageOf("p"), "is not a valid PodGroup name")
				if w.in("p") != "" || len(w.events.Events) != 1 || len(w.messageOf("p")) > 1024 {
					t.Errorf("in %q, %d events, a message of %d bytes", w.in("p"), len(w.events.Events), len(w.messageOf("p")))
				}
			})
		})
	}
}

// TestTwoWaysAtOnce checks pods that name their gang in two ways. Volcano's own annotation takes precedence over
// Koordinator's annotation, and so does the label that names a PodGroup object.
func TestTwoWaysAtOnce(t *testing.T) {
	withController(t, func(w *harness) {
		w.member("explicit", minimum(1), func(pod *corev1.Pod) { pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] = "mine" })
		w.member("both", minimum(1), func(pod *corev1.Pod) { pod.Labels = map[string]string{gangs.PodGroupLabel: "p"} })
		w.member("same", minimum(1), func(pod *corev1.Pod) { pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] = "g" })
		w.changePod("explicit", func(pod *corev1.Pod) { pod.Spec.NodeName = "n" }) // The scheduler may be faster than the controller.
		w.settle()
		if w.in("explicit") != "mine" || w.in("same") != "g" || w.in("both") != "" {
			t.Errorf("explicit is in %q, same in %q, both in %q", w.in("explicit"), w.in("same"), w.in("both"))
		}
		expectTold(t, w.messageOf("explicit"), gangs.NameAnnotation, `value "g" conflicts with "mine"`, `using "mine"`)
		expectTold(t, w.messageOf("both"), `conflicts with "p"`, "PodGroup.scheduling.sigs.k8s.io a/p", "does not exist")
		if messageIn := w.messageOf("same"); messageIn != "" {
			t.Errorf("the message is %s", messageIn)
		}
	})
}

func TestNameThatIsTaken(t *testing.T) {
	foreign := func(w *harness, owners ...metav1.OwnerReference) {
		_, err := w.volcano.SchedulingV1beta1().PodGroups(ns).Create(w.t.Context(), &v1beta1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "g", OwnerReferences: owners}, Spec: v1beta1.PodGroupSpec{MinMember: 5},
		}, metav1.CreateOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	t.Run("by a PodGroup of the user's, which says what the gang is", func(t *testing.T) {
		withController(t, func(w *harness) {
			foreign(w)
			w.member("p", minimum(2))
			w.settle()
			if w.in("p") != "g" || w.group("g").Spec.MinMember != 5 {
				t.Errorf("in %q, minimum %d", w.in("p"), w.group("g").Spec.MinMember)
			}
			expectTold(t, w.messageOf("p"), gangs.MinAvailableAnnotation, `"5"`, "Volcano's PodGroup g")
			w.deletePod("p")
			w.settle()
			if w.group("g") == nil {
				t.Error("the user's PodGroup was deleted")
			}
		})
	})
	t.Run("by a job's, which no other pod may join", func(t *testing.T) {
		withController(t, func(w *harness) {
			foreign(w, metav1.OwnerReference{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "job", UID: "1", Controller: new(true)})
			w.member("p", minimum(2))
			w.settle()
			if w.in("p") != "" {
				t.Errorf("in %q", w.in("p"))
			}
			expectTold(t, w.messageOf("p"), "PodGroup of Job job", "to have the pod scheduled")
		})
	})
}

func TestRejectedWritesAreReported(t *testing.T) {
	withController(t, func(w *harness) {
		var open atomic.Bool
		w.volcano.PrependReactor("create", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
			if !open.Load() {
				return true, nil, apierrors.NewForbidden(v1beta1.Resource("podgroups"), "g", errors.New("queue q is closed"))
			}
			return false, nil, nil
		})
		w.member("p", minimum(1))
		w.settle()
		expectTold(t, w.messageOf("p"), "cannot be created", "queue q is closed")
		open.Store(true)
		w.settle()
		if w.in("p") != "g" || w.messageOf("p") != "" {
			t.Errorf("in %q, message %q, once it is admitted", w.in("p"), w.messageOf("p"))
		}
	})
}

// TestInvalidSettingsNameTheUsedValue checks that messages about invalid settings name the value that is used, in
// words that a user can act on.
func TestInvalidSettingsNameTheUsedValue(t *testing.T) {
	first := podSaying("first", 0, map[string]string{gangs.MinAvailableAnnotation: "3", gangs.WaitingTimeAnnotation: (90 * time.Second).String()})
	other := podSaying("other", 1, map[string]string{gangs.MinAvailableAnnotation: "4"})
	s, _ := fromPods(gangs.Name{Namespace: "a", Name: "x"}, []*corev1.Pod{first, other})
	const want = `gang.scheduling.koordinator.sh/min-available: value "4" conflicts with "3" in Pod first; using "3"`
	if got := s.disagreements(other); len(got) != 1 || got[0].String() != want {
		t.Errorf("the message is %v, want %s", got, want)
	}
	both := podSaying("both", 2, nil)
	both.Labels = map[string]string{gangs.PodGroupLabel: "p"}
	const named = `gang.scheduling.koordinator.sh/name: value "x" conflicts with "p" in pod-group.scheduling.sigs.k8s.io; using "p"`
	if got := misnamed(both); nameOf(both) != "p" || len(got) != 1 || got[0].String() != named {
		t.Errorf("G11: gang %q, message %v, want %s", nameOf(both), got, named)
	}
}
