// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcallocate "volcano.sh/volcano/pkg/scheduler/actions/allocate"
	vcbackfill "volcano.sh/volcano/pkg/scheduler/actions/backfill"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestMalformedGangIsLeftOut checks that no action places, or evicts for, a gang whose annotations are invalid.
func TestMalformedGangIsLeftOut(t *testing.T) {
	f := open(t, sessiontest.ClusterSpec{
		Nodes:           two(),
		PriorityClasses: nil,
		PodGroups: []*v1beta1.PodGroup{
			gang("g", 1, "mode=hard").Obj(), gang("best-effort", 1, "mode=hard").Obj(), gang("sound", 1).Obj(),
		},
		Pods: append(members("g/0", "sound/0"), member("best-effort/0", "").Req(nil).Obj()),
	})
	f.session.Run(vcallocate.New(), vcbackfill.New(), f.action("preempt"), f.action("reclaim"))
	var bound []string
	for pod := range f.session.Binds() {
		bound = append(bound, pod)
	}
	if diff := cmp.Diff([]string{"ns/sound-0"}, bound); diff != "" {
		t.Errorf("bound (-want +got):\n%s", diff)
	}
}

// TestRunningGangIsNotBothered checks that invalid annotations without an effect are not reported.
func TestRunningGangIsNotBothered(t *testing.T) {
	f := open(t, sessiontest.ClusterSpec{
		Nodes: two(), PodGroups: []*v1beta1.PodGroup{gang("g", 1, "mode=hard", "affinity-group=ring").Obj()}, Pods: members("g/0@a1"),
	})
	if diff := cmp.Diff([]string(nil), f.events.Take()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestForeignAnnotations checks that the plugin ignores annotations without its prefix.
func TestForeignAnnotations(t *testing.T) {
	f := open(t, sessiontest.ClusterSpec{
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
