// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcallocate "volcano.sh/volcano/pkg/scheduler/actions/allocate"
	vcbackfill "volcano.sh/volcano/pkg/scheduler/actions/backfill"
	vcpreempt "volcano.sh/volcano/pkg/scheduler/actions/preempt"
	vcreclaim "volcano.sh/volcano/pkg/scheduler/actions/reclaim"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

func TestMalformedAnnotations(t *testing.T) {
	const prefix = "annotation ibcluster.volcano-prebind.io/"
	tests := map[string]struct {
		wishes []string
		want   string
	}{
		"mode":           {wishes: []string{"mode=hard"}, want: prefix + `mode: found "hard", want "required" or "preferred" or "none"`},
		"empty mode":     {wishes: []string{"mode="}, want: prefix + `mode: found "", want "required" or "preferred" or "none"`},
		"level":          {wishes: []string{"level=rack"}, want: prefix + `level: found "rack", want the name of a level: "ibcluster" or "spine" or "leaf"`},
		"clusters":       {wishes: []string{"clusters=ib-a,,ib-b"}, want: prefix + `clusters: found "" in "ib-a,,ib-b", want names of clusters separated by commas, such as "ib-a,ib-b"`},
		"path":           {wishes: []string{"clusters=ib-a/s1"}, want: prefix + `clusters: found "ib-a/s1" in "ib-a/s1", want names of clusters separated by commas, such as "ib-a,ib-b"`},
		"many clusters":  {wishes: []string{"clusters=" + strings.Repeat("a,", 1000) + "a"}, want: prefix + "clusters: found 1001 names, want at most 1000"},
		"affinity group": {wishes: []string{"affinity-group=a b"}, want: prefix + `affinity-group: found "a b", want a name of letters, digits, '-', '_' and '.', at most 63 of them`},
		"misspelt": {wishes: []string{"cluster=ib-a"}, want: prefix + "cluster: unknown annotation, want ibcluster.volcano-prebind.io/mode, " +
			"ibcluster.volcano-prebind.io/level, ibcluster.volcano-prebind.io/clusters or ibcluster.volcano-prebind.io/affinity-group"},
		"a long value": {wishes: []string{"level=" + strings.Repeat("x", 200_000)}, want: prefix + `level: found "` + strings.Repeat("x", 64) +
			`"... (and 199936 bytes more), want the name of a level: "ibcluster" or "spine" or "leaf"`},
		"a percent sign":          {wishes: []string{"level=50%off"}, want: prefix + `level: found "50%off", want the name of a level: "ibcluster" or "spine" or "leaf"`},
		"company, but only if":    {wishes: []string{"mode=preferred", "affinity-group=ring"}, want: notWithCompany("preferred")},
		"company, and yet none":   {wishes: []string{"mode=none", "affinity-group=ring"}, want: notWithCompany("none")},
		"none, and yet something": {wishes: []string{"mode=none", "clusters=ib-a"}, want: prefix + `mode: found "none" beside other annotations of ibcluster, want "required" or "preferred" with them`},
		"two":                     {wishes: []string{"mode=x", "level=y"}, want: prefix + `level: found "y", want the name of a level: "ibcluster" or "spine" or "leaf"` + "\n" + prefix + `mode: found "x", want "required" or "preferred" or "none"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := open(t, sessiontest.World{
				Nodes: two(), PodGroups: []*v1beta1.PodGroup{gang("g", 1, tt.wishes...).Obj()}, Pods: members("g/0"),
			})
			if diff := cmp.Diff([]string{"Warning IBClusterAnnotationInvalid g: " + tt.want}, f.events.Take()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, f.job("g").JobFitErrors); diff != "" {
				t.Errorf("explanation (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMalformedGangIsLeftOut: no action places, or evicts for, a gang of which it is not known where it may go.
func TestMalformedGangIsLeftOut(t *testing.T) {
	f := open(t, sessiontest.World{
		Nodes:           two(),
		PriorityClasses: nil,
		PodGroups: []*v1beta1.PodGroup{
			gang("g", 1, "mode=hard").Obj(), gang("best-effort", 1, "mode=hard").Obj(), gang("sound", 1).Obj(),
		},
		Pods: append(members("g/0", "sound/0"), member("best-effort/0", "").Req(nil).Obj()),
	})
	f.Run(vcallocate.New(), vcbackfill.New(), vcpreempt.New(), vcreclaim.New())
	var bound []string
	for pod := range f.Binds() {
		bound = append(bound, pod)
	}
	if diff := cmp.Diff([]string{"ns/sound-0"}, bound); diff != "" {
		t.Errorf("bound (-want +got):\n%s", diff)
	}
}

// TestRunningGangIsNotBothered: annotations that nobody acts on are nobody's problem.
func TestRunningGangIsNotBothered(t *testing.T) {
	f := open(t, sessiontest.World{
		Nodes: two(), PodGroups: []*v1beta1.PodGroup{gang("g", 1, "mode=hard", "affinity-group=ring").Obj()}, Pods: members("g/0@a1"),
	})
	if diff := cmp.Diff([]string(nil), f.events.Take()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestForeignAnnotations: only those with the plugin's prefix are its business.
func TestForeignAnnotations(t *testing.T) {
	f := open(t, sessiontest.World{
		Nodes:     two(),
		PodGroups: []*v1beta1.PodGroup{gang("g", 1).Annotation("mode", "hard").Annotation("example.com/clusters", ",").Obj()},
		Pods:      []*v1.Pod{member("g/0", "").Annotation("mode", "hard").Obj()},
	})
	if diff := cmp.Diff([]string{"no wish"}, f.groups("g")); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string(nil), f.events.Take()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
