// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// sayingMember returns a pod with annotations "key=value" of the plugin, as the template of a workload would have.
func sayingMember(name string, wishes ...string) *v1.Pod {
	name, node, _ := strings.Cut(name, "@")
	pod := member(name, node)
	for _, wish := range wishes {
		key, value, _ := strings.Cut(wish, "=")
		pod.Annotation(annotationPrefix+key, value)
	}
	return pod.Obj()
}

// bound makes the pod a bound pod that does not run yet.
func bound(pod *v1.Pod) *v1.Pod {
	pod.Status.Phase = v1.PodPending
	return pod
}

// TestAnnotationsOfPodsAndPodGroups checks whether the annotations of the PodGroup or of the pods apply. Upstream's
// controllers create the PodGroups of Deployments, StatefulSets and Jobs without the annotations of their templates, so
// twelve pods with `mode: required` were once spread over two clusters.
func TestAnnotationsOfPodsAndPodGroups(t *testing.T) {
	const a, b = "ib-a", "ib-b"
	tests := map[string]struct {
		podGroup []string
		pods     []*v1.Pod
		want     []string
		events   []string
	}{
		"the pods', when the PodGroup has none": {
			pods: []*v1.Pod{sayingMember("g/0", "mode=required"), sayingMember("g/1", "mode=required")},
			want: []string{"required true", a, b},
		},
		"one pod's, when the others have none": {
			pods: []*v1.Pod{sayingMember("g/0"), sayingMember("g/1", "mode=required"), sayingMember("g/2")},
			want: []string{"required true", a, b},
		},
		"the PodGroup's, when the pods' are the same": {
			podGroup: []string{"mode=required", "clusters=ib-b"},
			pods:     []*v1.Pod{sayingMember("g/0", "clusters=ib-b", "mode=required"), sayingMember("g/1")},
			want:     []string{"required true", b, "ib-a not: not listed in annotation ibcluster.volcano-prebind.io/clusters"},
		},
		"the PodGroup's, when the pods' differ, which is reported": {
			podGroup: []string{"mode=required"},
			pods:     []*v1.Pod{sayingMember("g/0", "mode=preferred"), sayingMember("g/1", "mode=none")},
			want:     []string{"required true", a, b},
			events: []string{`Warning IBClusterAnnotationIgnored g: annotation ibcluster.volcano-prebind.io/mode: value "preferred" on pod g-0 is ignored: ` +
				`annotations of the PodGroup take precedence, which has "required"; remove it from the pod, or annotate the PodGroup`},
		},
		"the PodGroup's, when a pod has more, which is reported": {
			podGroup: []string{"mode=required"},
			pods:     []*v1.Pod{sayingMember("g/0", "mode=required"), sayingMember("g/1", "mode=required", "level=leaf")},
			want:     []string{"required true", a, b},
			events: []string{`Warning IBClusterAnnotationIgnored g: annotation ibcluster.volcano-prebind.io/level: value "leaf" on pod g-1 is ignored: ` +
				`annotations of the PodGroup take precedence, which has nothing; remove it from the pod, or annotate the PodGroup`},
		},
		"none, when pods disagree": {
			pods: []*v1.Pod{sayingMember("g/2", "mode=required"), sayingMember("g/0", "mode=required"), sayingMember("g/1", "mode=preferred")},
			want: []string{"no wish"},
			events: []string{`Warning IBClusterAnnotationInvalid g: annotation ibcluster.volcano-prebind.io/mode differs: "required" on pod g-0, "preferred" on pod g-1; ` +
				`set the same value on all pods of the gang, or annotate the PodGroup`},
		},
		"none, when a pod lacks what another says beside the rest": {
			pods: []*v1.Pod{sayingMember("g/0", "mode=required", "level=leaf"), sayingMember("g/1", "mode=required")},
			want: []string{"no wish"},
			events: []string{`Warning IBClusterAnnotationInvalid g: annotation ibcluster.volcano-prebind.io/level differs: "leaf" on pod g-0, nothing on pod g-1; ` +
				`set the same value on all pods of the gang, or annotate the PodGroup`},
		},
		"those of pods that are to be placed, when a StatefulSet is being updated": {
			pods: []*v1.Pod{sayingMember("g/0@a1", "mode=preferred"), sayingMember("g/1", "mode=required")},
			want: []string{"required true", a, "ib-b not: the gang's pods are in ib-a"},
		},
		"those of the placed, when pods that come have none: a launcher behind its workers": {
			pods: []*v1.Pod{sayingMember("g/0@a1", "mode=required"), sayingMember("g/1@a2", "mode=required"), sayingMember("g/2")},
			want: []string{"required true", a, "ib-b not: the gang's pods are in ib-a"},
		},
		"none, when new pods have none and the placed disagree": {
			pods: []*v1.Pod{sayingMember("g/0@a1", "mode=required"), sayingMember("g/1@a2", "mode=preferred"), sayingMember("g/2")},
			want: []string{"no wish"},
		},
		"none, when new pods have none and a bound one disagrees with a running one": {
			pods: []*v1.Pod{sayingMember("g/0@a1", "mode=required"), bound(sayingMember("g/1@a2", "mode=preferred")), sayingMember("g/2")},
			want: []string{"no wish"},
		},
		"a malformed one of a pod names the pod": {
			pods:   []*v1.Pod{sayingMember("g/0", "mode=hard")},
			want:   []string{"no wish"},
			events: []string{`Warning IBClusterAnnotationInvalid g: annotation ibcluster.volcano-prebind.io/mode of pod g-0: invalid value "hard", must be "required" or "preferred" or "none"`},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.ClusterSpec{
				Nodes: two(), PodGroups: []*v1beta1.PodGroup{gang("g", 1, tt.podGroup...).Obj()}, Pods: tt.pods,
			})
			if diff := cmp.Diff(tt.want, f.groups("g")); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.events, f.events.Take()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAffinityGroupsOfPods checks that annotations of pods may name affinity groups, for pending and for placed gangs.
func TestAffinityGroupsOfPods(t *testing.T) {
	f := open(t, sessiontest.ClusterSpec{
		Nodes:     two(),
		PodGroups: []*v1beta1.PodGroup{gang("placed", 1).Obj(), gang("other", 1).Obj(), gang("g", 1).Obj()},
		Pods: []*v1.Pod{
			sayingMember("placed/0@b1", "affinity-group=ring"), sayingMember("other/0@a1", "affinity-group=bell"),
			sayingMember("g/0", "affinity-group=ring"),
		},
	})
	want := []string{"required true", "ib-b", "ib-a not: affinity group ring is in ib-b"}
	if diff := cmp.Diff(want, f.groups("g")); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

// TestGangsWithUnlikePodsShareNoVerdict: annotations of pods distinguish gangs whose PodGroups are equal.
func TestGangsWithUnlikePodsShareNoVerdict(t *testing.T) {
	f := open(t, sessiontest.ClusterSpec{
		Nodes:     two(),
		PodGroups: []*v1beta1.PodGroup{gang("free", 1).Obj(), gang("equal", 1).Obj(), gang("a", 1).Obj(), gang("b", 1).Obj()},
		Pods: []*v1.Pod{
			sayingMember("free/0"), sayingMember("equal/0"), sayingMember("a/0", "clusters=ib-a"), sayingMember("b/0", "clusters=ib-b"),
		},
	})
	key := func(name string) string { return f.session.Signers.JobKey(Name, f.job(name)) }
	if key("free") != key("equal") {
		t.Error("gangs without annotations do not share cached results")
	}
	if key("a") == key("b") || key("a") == key("free") {
		t.Errorf("gangs with unlike pods share cached results: keys %q, %q and %q", key("a"), key("b"), key("free"))
	}
	if got := f.admitted("a/0") + ", " + f.admitted("b/0"); got != "a1 a2, b1 b2" {
		t.Errorf("accepted nodes: %s", got)
	}
}

// TestMessagesAreBounded checks that messages about annotations are short, whatever a tenant writes.
func TestMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("x,", 50_000)
	many := make([]string, 2000)
	for i := range many {
		many[i] = fmt.Sprintf("unknown-%04d=", i)
	}
	tests := map[string]struct{ podGroup, first, second []string }{
		"a long value":            {podGroup: []string{"clusters=" + long + ","}},
		"many invalid":            {podGroup: many},
		"long values that differ": {first: []string{"clusters=" + long}, second: []string{"clusters=" + long + "y"}},
		"a long value overruled":  {podGroup: []string{"mode=required"}, first: []string{"clusters=" + long}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.ClusterSpec{
				Nodes: two(), PodGroups: []*v1beta1.PodGroup{gang("g", 1, tt.podGroup...).Obj()},
				Pods: []*v1.Pod{sayingMember("g/0", tt.first...), sayingMember("g/1", tt.second...)},
			})
			events := f.events.Take()
			if len(events) != 1 || len(events[0]) > 1024+len("Warning IBClusterAnnotationInvalid g: ") {
				t.Errorf("%d events with %d bytes, want one with at most 1,024 bytes", len(events), len(strings.Join(events, "\n")))
			}
		})
	}
}
