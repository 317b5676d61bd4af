// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/coscheduling"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// These tests follow gangs with settings, and gang groups, over several sessions and binds on one node with 8 GPUs.

func gangWith(name string, minimum int32, pairs ...string) *v1beta1.PodGroup {
	pg := schedtest.MakePodGroup().Name(name).MinMember(minimum)
	for i := 0; i < len(pairs); i += 2 {
		pg.Annotation(pairs[i], pairs[i+1])
	}
	return pg.Obj()
}

func completed(pg *v1beta1.PodGroup) *v1beta1.PodGroup {
	pg.Status.Phase = v1beta1.PodGroupCompleted
	return pg
}

func memberOf(gang string, i int, gpus string) *schedtest.PodBuilder {
	return schedtest.MakePod().Name(fmt.Sprintf("%s-%d", gang, i)).Group(gang).Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": gpus})
}

func withoutRequests(gang string, i int) *schedtest.PodBuilder {
	return schedtest.MakePod().Name(fmt.Sprintf("%s-%d", gang, i)).Group(gang)
}

// bound changes the pod to one that was bound and runs.
func bound(pod *schedtest.PodBuilder, minimum string) *schedtest.PodBuilder {
	return pod.Node("n00").Phase(v1.PodRunning).Annotation(binding.MinimumAnnotation, minimum)
}

// failingStep is a plugin whose pre-bind step fails for these pods.
type failingStep []string

func (failingStep) Name() string { return "failing" }

func (f failingStep) OnSessionOpen(ssn *framework.Session) {
	ssn.AddPreBindFn("failing", func(task *api.TaskInfo, _ string) error {
		if slices.Contains(f, task.Name) {
			return errors.New("no")
		}
		return nil
	})
}

func (failingStep) OnSessionClose(*framework.Session) {}

// boundAfter adds the node and the objects, runs the given number of cycles, and returns the number of bound,
// unfinished pods of each gang. The pre-bind of the failing pods fails.
func boundAfter(w *harness, cycles int, objects []runtime.Object, failing ...string) map[string]int {
	w.t.Helper()
	w.add(nodeOf8(0).Obj())
	w.add(objects...)
	s := newSessions(w, explainConf("coscheduling", "failing"), coscheduling.Spec(), framework.PluginSpec{
		Name: "failing", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
			return failingStep(failing), nil
		}),
	})
	for range cycles {
		s.cycle()
		for _, object := range objects {
			if pg, ok := object.(*v1beta1.PodGroup); ok {
				w.deliver(w.cluster.PodGroup(pg.Name))
			}
		}
	}
	count := map[string]int{}
	for _, object := range objects {
		if pod, ok := object.(*v1.Pod); ok && pod.Status.Phase != v1.PodSucceeded && w.cluster.Pod(pod.Name).Spec.NodeName != "" {
			count[pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]]++
		}
	}
	return count
}

const xAndY = `["ns/x","ns/y"]`

func TestGangGroupsFromSessionToSession(t *testing.T) {
	group, policy, mode := gangs.GroupsAnnotation, gangs.MatchPolicyAnnotation, gangs.ModeAnnotation
	nowhere := func(p *schedtest.PodBuilder) *v1.Pod { return p.NodeSelector("no", "where").Obj() }
	// groups returns two gangs of 6 GPUs for a node with 8 GPUs: gang z, which is in no group, and gang y, which forms
	// a group with gang x. The test adds the pods of gang x.
	groups := func(policyOfBoth, modeOfBoth string) []runtime.Object {
		return []runtime.Object{
			gangWith("x", 2, group, xAndY, policy, policyOfBoth, mode, modeOfBoth), gangWith("y", 2, group, xAndY, policy, policyOfBoth, mode, modeOfBoth),
			memberOf("y", 0, "3").Obj(), memberOf("y", 1, "3").Obj(), gangWith("z", 1), memberOf("z", 0, "6").Obj(),
		}
	}
	type test struct {
		objects []runtime.Object
		want    map[string]int
	}
	tests := map[string]test{
		"only-waiting: a member above the minimum goes with the others, whoever else there is": {[]runtime.Object{
			gangWith("x", 2, policy, "only-waiting"), memberOf("x", 0, "1").Obj(), memberOf("x", 1, "1").Obj(), memberOf("x", 2, "1").Obj(),
			gangWith("y", 1), memberOf("y", 0, "1").Obj(), memberOf("y", 1, "1").Obj(), gangWith("z", 1), memberOf("z", 0, "1").Obj(), memberOf("z", 1, "1").Obj(),
		}, map[string]int{"x": 3, "y": 2, "z": 2}},
		"strict: no member is bound without one that requests nothing and fits nowhere": {[]runtime.Object{
			gangWith("x", 2, mode, "Strict"), memberOf("x", 0, "1").Obj(), memberOf("x", 1, "1").Obj(), nowhere(withoutRequests("x", 2)),
		}, map[string]int{}},
		"strict: a gang that has ended and is recreated is a gang again": {[]runtime.Object{
			completed(gangWith("x", 2, mode, "Strict")), bound(memberOf("x", 0, "5"), "2").Phase(v1.PodSucceeded).Obj(),
			bound(memberOf("x", 1, "5"), "2").Phase(v1.PodSucceeded).Obj(), memberOf("x", 2, "5").Obj(), memberOf("x", 3, "5").Obj(),
		}, map[string]int{}},
	}
	for _, m := range []string{"NonStrict", "Strict"} {
		free := func(own func(*schedtest.PodBuilder) *schedtest.PodBuilder) []runtime.Object {
			return append(groups("once-satisfied", m), own(withoutRequests("x", 0)).Obj(), own(withoutRequests("x", 1)).Obj())
		}
		tests[m+": a group of which one gang asks for nothing and fits nowhere keeps no room"] = test{
			free(func(p *schedtest.PodBuilder) *schedtest.PodBuilder { return p.NodeSelector("no", "where") }), map[string]int{"z": 1},
		}
		tests[m+": a group of which one gang is held by gates keeps no room"] = test{
			free(func(p *schedtest.PodBuilder) *schedtest.PodBuilder { return p.Gate("example.com/quota") }), map[string]int{"z": 1},
		}
	}
	for _, p := range []string{"only-waiting", "waiting-and-running", "once-satisfied"} {
		crashed := groups(p, "NonStrict")
		for i := range 2 {
			crashed = append(crashed, bound(memberOf("x", i, "1"), "2").Annotation(gangs.BindGroupAnnotation, "ns/x,ns/y").Obj())
		}
		tests[p+": a group that a crash left bound in part is completed"] = test{crashed, map[string]int{"x": 2, "y": 2}}
		var refused []runtime.Object
		for i := range 3 {
			pod := memberOf("x", i, "1")
			if i < 2 {
				bound(pod, "3")
			}
			refused = append(refused, pod.Obj())
		}
		tests[p+": a gang of which one Binding was refused is completed"] = test{
			append(refused, gangWith("x", 3, policy, p)), map[string]int{"x": 3},
		}
	}
	whole := groups("only-waiting", "NonStrict")
	whole[0].(*v1beta1.PodGroup).Status.Conditions = []v1beta1.PodGroupCondition{{Type: gangs.WholeCondition, Status: v1.ConditionTrue, Reason: gangs.WholeOnlyWaiting}}
	for i := range 2 {
		whole = append(whole, bound(memberOf("x", i, "1"), "2").Annotation(gangs.BindGroupAnnotation, "ns/x,ns/y").Obj())
	}
	tests["only-waiting: a group of which one gang runs and was whole before waits, and keeps no room"] = test{whole, map[string]int{"x": 2, "z": 1}}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				if diff := cmp.Diff(c.want, boundAfter(w, 20, c.objects)); diff != "" {
					t.Errorf("pods on nodes after 20 sessions (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestWhichMembersAreBoundWithoutAFailingOne checks which members are bound when the pre-bind of one member fails. This
// depends on the minimum, mode and match policy of its gang, and on whether the gang is in a group.
func TestWhichMembersAreBoundWithoutAFailingOne(t *testing.T) {
	group, policy, mode := gangs.GroupsAnnotation, gangs.MatchPolicyAnnotation, gangs.ModeAnnotation
	// gangsOf returns gang x with three members, and gang y with two.
	gangsOf := func(minimumOfX int32, pairs ...string) []runtime.Object {
		objects := []runtime.Object{gangWith("x", minimumOfX, pairs...), gangWith("y", 2, pairs...)}
		for i := range 3 {
			objects = append(objects, memberOf("x", i, "1").Obj())
		}
		return append(objects, memberOf("y", 0, "1").Obj(), memberOf("y", 1, "1").Obj())
	}
	for name, c := range map[string]struct {
		objects []runtime.Object
		failing string
		want    map[string]int
	}{
		"G46: not strict, above the minimum":                        {gangsOf(2, mode, "NonStrict"), "x-1", map[string]int{"x": 2, "y": 2}},
		"G46: strict, above the minimum":                            {gangsOf(2, mode, "Strict"), "x-1", map[string]int{"y": 2}},
		"G47: of a group, one gang is short":                        {gangsOf(2, group, xAndY), "y-1", map[string]int{}},
		"G47: of a group, the first gang is short":                  {gangsOf(3, group, xAndY), "x-1", map[string]int{}},
		"of a group, above the minimum":                             {gangsOf(2, group, xAndY, mode, "NonStrict"), "x-1", map[string]int{"x": 2, "y": 2}},
		"of a group that is strict, above the minimum":              {gangsOf(2, group, xAndY, mode, "Strict"), "x-1", map[string]int{}},
		"of an only-waiting group, above the minimum":               {gangsOf(2, group, xAndY, policy, "only-waiting", mode, "NonStrict"), "x-1", map[string]int{"x": 2, "y": 2}},
		"of a group, no member fails":                               {gangsOf(3, group, xAndY, mode, "Strict"), "", map[string]int{"x": 3, "y": 2}},
		"two gangs that are no group, since one lists itself alone": {append(gangsOf(3, mode, "Strict"), gangWith("z", 1, group, `["ns/x","ns/z"]`), memberOf("z", 0, "1").Obj()), "", map[string]int{"x": 3, "y": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				if diff := cmp.Diff(c.want, boundAfter(w, 4, c.objects, c.failing)); diff != "" {
					t.Errorf("pods on nodes (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestAnnotationsOfBoundMembersOfAGangGroup checks that bound members have the minimum of their own gang as an
// annotation, and that all of them have the gang group.
func TestAnnotationsOfBoundMembersOfAGangGroup(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		objects := []runtime.Object{gangWith("x", 3, gangs.GroupsAnnotation, xAndY), gangWith("y", 2, gangs.GroupsAnnotation, xAndY)}
		for i := range 3 {
			objects = append(objects, memberOf("x", i, "1").Obj())
		}
		objects = append(objects, memberOf("y", 0, "1").Obj(), memberOf("y", 1, "1").Obj())
		boundAfter(w, 2, objects)
		for pod, minimum := range map[string]string{"x-0": "3", "x-1": "3", "x-2": "3", "y-0": "2", "y-1": "2"} {
			want := map[string]string{
				binding.MinimumAnnotation: minimum, gangs.BindGroupAnnotation: "ns/x,ns/y", gangs.OldBindGroupAnnotation: "ns/x,ns/y",
				gangs.BindMembersAnnotation: "5", gangs.OldBindMembersAnnotation: "5",
			}
			got := map[string]string{}
			for key := range want {
				got[key] = w.cluster.Pod(pod).Annotations[key]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("annotations of %s (-want +got):\n%s", pod, diff)
			}
		}
	})
}

// TestForgedGroupIsOverwritten checks that a forged gang group annotation is overwritten: a pod that is bound alone
// does not keep an annotation of a group.
func TestForgedGroupIsOverwritten(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		forged := memberOf("x", 0, "1").Annotation(gangs.BindGroupAnnotation, "ns/x,ns/y").Annotation(gangs.OldBindMembersAnnotation, "9").Obj()
		if diff := cmp.Diff(map[string]int{"x": 1}, boundAfter(w, 2, []runtime.Object{gangWith("x", 1), forged})); diff != "" {
			t.Fatalf("pods on nodes (-want +got):\n%s", diff)
		}
		pod := w.cluster.Pod("x-0")
		if group, members := pod.Annotations[gangs.BindGroupAnnotation], pod.Annotations[gangs.OldBindMembersAnnotation]; group != "" || members != "" {
			t.Errorf("bound alone, with the annotations of group %q and %q members", group, members)
		}
	})
}
