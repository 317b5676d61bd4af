// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// podSaying returns a pod of gang a/x with these annotations, created age seconds after a fixed time.
func podSaying(name string, age int, said map[string]string) *corev1.Pod {
	annotations := map[string]string{gangs.NameAnnotation: "x"}
	maps.Copy(annotations, said)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: name, Annotations: annotations, CreationTimestamp: metav1.Unix(1_000_000+int64(age), 0),
	}}
}

func TestSettingsOfAnnotationGangs(t *testing.T) {
	const (
		minimum = gangs.MinAvailableAnnotation
		total   = gangs.TotalNumberAnnotation
		mode    = gangs.ModeAnnotation
		waiting = gangs.WaitingTimeAnnotation
		groups  = gangs.GroupsAnnotation
		policy  = gangs.MatchPolicyAnnotation
	)
	type texts = map[string]string
	thousands := `["a/x"` + strings.Repeat(`,"a/other-gang-0"`, 2500) + `]`
	tests := map[string]struct {
		pods []texts // the oldest first
		min  int32
		want texts
		// invalid are the invalid fields of the deciding pod, and of the other pods.
		invalid []string
	}{
		"G1 a minimum alone":           {[]texts{{minimum: "3"}}, 3, texts{mode: "Strict"}, nil},
		"G2 a total below the minimum": {[]texts{{minimum: "3", total: "2"}}, 3, texts{mode: "Strict", total: "3"}, []string{"pod-0 " + total}},
		"G2 a total that is no number": {[]texts{{minimum: "3", total: "five"}}, 3, texts{mode: "Strict", total: "3"}, []string{"pod-0 " + total}},
		"G2 a total above the minimum": {[]texts{{minimum: "3", total: "5"}}, 3, texts{mode: "Strict", total: "5"}, nil},
		"G4 strict":                    {[]texts{{minimum: "3", mode: "strict"}}, 3, texts{mode: "Strict"}, []string{"pod-0 " + mode}},
		"G4 nonstrict":                 {[]texts{{minimum: "3", mode: "nonstrict"}}, 3, texts{mode: "Strict"}, []string{"pod-0 " + mode}},
		"G4 NonStrict":                 {[]texts{{minimum: "3", mode: "NonStrict"}}, 3, texts{mode: "NonStrict"}, nil},
		"G5 90 s":                      {[]texts{{minimum: "3", waiting: "90s"}}, 3, texts{mode: "Strict", waiting: "90s"}, nil},
		"G5 0 s":                       {[]texts{{minimum: "3", waiting: "0s"}}, 3, texts{mode: "Strict"}, []string{"pod-0 " + waiting}},
		"G5 -5 s":                      {[]texts{{minimum: "3", waiting: "-5s"}}, 3, texts{mode: "Strict"}, []string{"pod-0 " + waiting}},
		"G5 5":                         {[]texts{{minimum: "3", waiting: "5"}}, 3, texts{mode: "Strict"}, []string{"pod-0 " + waiting}},
		"G7 a group":                   {[]texts{{minimum: "3", groups: `["b/y","a/x"]`}}, 3, texts{mode: "Strict", groups: `["b/y","a/x"]`}, nil},
		"G8 a group without the gang itself stays":                                {[]texts{{minimum: "3", groups: `["a/y","a/z"]`}}, 3, texts{mode: "Strict", groups: `["a/y","a/z"]`}, []string{"pod-0 " + groups}},
		"G10 a group that is no JSON stays, to be refused":                        {[]texts{{minimum: "3", groups: `[a/x]`}}, 3, texts{mode: "Strict", groups: `[a/x]`}, []string{"pod-0 " + groups}},
		"a group of thousands stays, to be refused":                               {[]texts{{minimum: "3", groups: thousands}}, 3, texts{mode: "Strict", groups: thousands}, []string{"pod-0 " + groups}},
		"a policy by its alias":                                                   {[]texts{{minimum: "3", gangs.MatchPolicyAlias: "only-waiting"}}, 3, texts{mode: "Strict", policy: "only-waiting"}, nil},
		"an unknown policy":                                                       {[]texts{{minimum: "3", policy: "ONLY"}}, 3, texts{mode: "Strict"}, []string{"pod-0 " + policy}},
		"an unknown policy by its alias":                                          {[]texts{{minimum: "3", gangs.MatchPolicyAlias: "ONLY"}}, 3, texts{mode: "Strict"}, []string{"pod-0 " + policy}},
		"topology as it is written":                                               {[]texts{{minimum: "3", gangs.TopologyAnnotation: "{}"}}, 3, texts{mode: "Strict", gangs.TopologyAnnotation: "{}"}, nil},
		"the oldest speaks":                                                       {[]texts{{minimum: "3"}, {minimum: "4"}}, 3, texts{mode: "Strict"}, []string{"pod-1 " + minimum}},
		"the oldest whose minimum can be read":                                    {[]texts{{minimum: "five"}, {minimum: "4", mode: "NonStrict"}}, 4, texts{mode: "NonStrict"}, []string{"pod-0 " + minimum}},
		"a minimum of 0 cannot be read":                                           {[]texts{{minimum: "0"}, {minimum: "4"}}, 4, texts{mode: "Strict"}, []string{"pod-0 " + minimum}},
		"a minimum below 0 cannot":                                                {[]texts{{minimum: "-2"}, {minimum: "4"}}, 4, texts{mode: "Strict"}, []string{"pod-0 " + minimum}},
		"a minimum beyond 32 bits cannot":                                         {[]texts{{minimum: "4294967299"}, {minimum: "4"}}, 4, texts{mode: "Strict"}, []string{"pod-0 " + minimum}},
		"no minimum is set":                                                       {[]texts{{mode: "NonStrict"}, {minimum: ""}}, 0, nil, nil},
		"one that says less does not contradict":                                  {[]texts{{minimum: "3", total: "4"}, {minimum: "3"}}, 3, texts{mode: "Strict", total: "4"}, nil},
		"one that says more does":                                                 {[]texts{{minimum: "3"}, {minimum: "3", total: "4"}}, 3, texts{mode: "Strict"}, []string{"pod-1 " + total}},
		"the same time written otherwise":                                         {[]texts{{minimum: "3", waiting: "90s"}, {minimum: "3", waiting: "1m30s"}}, 3, texts{mode: "Strict", waiting: "90s"}, nil},
		"the same group written otherwise":                                        {[]texts{{minimum: "3", groups: `["a/x","a/y"]`}, {minimum: "3", groups: `["a/y", "a/x"]`}}, 3, texts{mode: "Strict", groups: `["a/x","a/y"]`}, nil},
		"another mode":                                                            {[]texts{{minimum: "3"}, {minimum: "3", mode: "NonStrict"}}, 3, texts{mode: "Strict"}, []string{"pod-1 " + mode}},
		"the mode that is taken, said by one alone":                               {[]texts{{minimum: "3"}, {minimum: "3", mode: "Strict"}}, 3, texts{mode: "Strict"}, nil},
		"the same invalid setting twice is reported on the pod that decides only": {[]texts{{minimum: "3", mode: "x"}, {minimum: "3", mode: "x"}}, 3, texts{mode: "Strict"}, []string{"pod-0 " + mode}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var pods []*corev1.Pod
			for i, said := range test.pods {
				pods = append(pods, podSaying(fmt.Sprintf("pod-%d", i), i, said))
			}
			got, decider := fromPods(gangs.Name{Namespace: "a", Name: "x"}, pods)
			var invalid []string
			note := func(pod *corev1.Pod, settings []gangs.InvalidSetting) {
				for _, m := range settings {
					invalid = append(invalid, pod.Name+" "+m.Field)
				}
			}
			if decider != nil {
				note(decider, got.invalid)
				for _, pod := range pods {
					note(pod, got.disagreements(pod))
				}
			}
			if got.minMember != test.min {
				t.Errorf("the minimum is %d, want %d", got.minMember, test.min)
			}
			if diff := cmp.Diff(test.want, got.taken); diff != "" {
				t.Errorf("taken (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.invalid, invalid); diff != "" {
				t.Errorf("invalid fields (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOneThatIsStillToRunSpeaks checks that a pod that has not finished decides on the gang's settings, if one exists.
// So the settings of a job's finished pods do not apply to the pods that replaced them.
func TestOneThatIsStillToRunSpeaks(t *testing.T) {
	old, replaced := podSaying("old", 0, map[string]string{gangs.MinAvailableAnnotation: "3"}), podSaying("new", 1, map[string]string{gangs.MinAvailableAnnotation: "4"})
	name := gangs.Name{Namespace: "a", Name: "x"}
	old.DeletionTimestamp = &metav1.Time{Time: time.Unix(1_000_100, 0)}
	if _, decider := fromPods(name, []*corev1.Pod{old, replaced}); decider != replaced {
		t.Errorf("%v decides while another pod is being deleted", decider)
	}
	old.DeletionTimestamp, old.Status.Phase = nil, corev1.PodFailed
	if _, decider := fromPods(name, []*corev1.Pod{old, replaced}); decider != replaced {
		t.Errorf("%v decides", decider)
	}
	if _, decider := fromPods(name, []*corev1.Pod{old}); decider != old {
		t.Errorf("with finished pods only, %v decides", decider)
	}
}

// TestLongListsAreCheap checks that the cost of a sync of a tenant's gang grows linearly with its pods even if each
// pod lists thousands of gangs, and a different list. The test counts allocations, which do not depend on the load of
// the machine.
func TestLongListsAreCheap(t *testing.T) {
	list := func(from, n int) string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("namespace-of-a-tenant/g%05d", from+i)
		}
		return `["` + strings.Join(names, `","`) + `"]`
	}
	for name, listOf := range map[string]func(pod int) string{
		"the same list":                     func(int) string { return list(0, 8000) },
		"lists of their own":                func(pod int) string { return list(pod, 8000) },
		"lists of as many bytes as is read": func(pod int) string { return list(pod, 1000) },
		"lists that begin at another":       func(pod int) string { return list(pod, gangs.MaxGroup) },
		"names of no bytes":                 func(pod int) string { return `["a/x` + strings.Repeat(`","`, 10_000+pod) + `"]` },
	} {
		t.Run(name, func(t *testing.T) {
			sync := func(pods int) float64 {
				g := &gang{Name: gangs.Name{Namespace: "a", Name: "x"}}
				for i := range pods {
					g.members = append(g.members, podSaying(fmt.Sprint(i), i, map[string]string{gangs.MinAvailableAnnotation: "1", gangs.GroupsAnnotation: listOf(i)}))
				}
				return testing.AllocsPerRun(1, func() {
					g.settings, g.decider = fromPods(g.Name, g.members)
					_ = g.invalidSettings() // The first call is for the Volcano PodGroup.
					for _, pod := range g.members {
						_, _ = g.messageFor(pod)
					}
					_ = g.invalidSettings() // This call is for the user's PodGroup.
				})
			}
			const most = 14_000 // Each list is read about once, and quoted once in a conflict; that costs up to 130 allocations.
			if few, many := sync(10), sync(100); many > 12*few || many > most {
				t.Errorf("a sync of 100 pods makes %.0f allocations, want at most %d, and 12 times the %.0f of 10 pods", many, most, few)
			}
		})
	}
}

func TestSettingsOfObjects(t *testing.T) {
	type texts = map[string]string
	strict := texts{gangs.ModeAnnotation: "Strict"}
	tests := map[string]struct {
		object  v1alpha1.PodGroup
		min     int32
		want    texts
		invalid []string
	}{
		"a minimum alone":    {v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: 3}}, 3, strict, nil},
		"no minimum":         {v1alpha1.PodGroup{}, 1, texts{gangs.ModeAnnotation: "NonStrict"}, []string{"spec.minMember"}},
		"no minimum, Strict": {v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Annotations: texts{gangs.ModeAnnotation: "Strict"}}}, 1, strict, []string{"spec.minMember"}},
		"a minimum below 0":  {v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: -3}}, 1, texts{gangs.ModeAnnotation: "NonStrict"}, []string{"spec.minMember"}},
		"a minimum of 1":     {v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: 1}}, 1, strict, nil},
		"a timeout":          {v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: 3, ScheduleTimeoutSeconds: new(int32(90))}}, 3, texts{gangs.ModeAnnotation: "Strict", gangs.WaitingTimeAnnotation: "1m30s"}, nil},
		"a timeout of 0":     {v1alpha1.PodGroup{Spec: v1alpha1.PodGroupSpec{MinMember: 3, ScheduleTimeoutSeconds: new(int32(0))}}, 3, strict, []string{"spec.scheduleTimeoutSeconds"}},
		"annotations":        {v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Annotations: texts{gangs.ModeAnnotation: "NonStrict", gangs.TotalNumberAnnotation: "5"}}, Spec: v1alpha1.PodGroupSpec{MinMember: 3}}, 3, texts{gangs.ModeAnnotation: "NonStrict", gangs.TotalNumberAnnotation: "5"}, nil},
		"a wrong annotation": {v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Annotations: texts{gangs.ModeAnnotation: "Nonstrict"}}, Spec: v1alpha1.PodGroupSpec{MinMember: 3}}, 3, strict, []string{gangs.ModeAnnotation}},
		"the timeout counts": {v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Annotations: texts{gangs.WaitingTimeAnnotation: "5s"}}, Spec: v1alpha1.PodGroupSpec{MinMember: 3, ScheduleTimeoutSeconds: new(int32(90))}}, 3, texts{gangs.ModeAnnotation: "Strict", gangs.WaitingTimeAnnotation: "1m30s"}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := fromObject(gangs.Name{Namespace: "a", Name: "x"}, "PodGroup", &test.object)
			var invalid []string
			for _, m := range got.invalid {
				invalid = append(invalid, m.Field)
			}
			if got.minMember != test.min {
				t.Errorf("the minimum is %d, want %d", got.minMember, test.min)
			}
			if diff := cmp.Diff(test.want, got.taken); diff != "" {
				t.Errorf("taken (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.invalid, invalid); diff != "" {
				t.Errorf("invalid fields (-want +got):\n%s", diff)
			}
		})
	}
}
