// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/cmd/scheduler/app/options"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// addForeign adds pods of other schedulers to the cluster and to the informers' stores, without calling a handler.
func addForeign(w *harness, pods ...*v1.Pod) {
	w.t.Helper()
	for _, pod := range pods {
		w.list(w.cluster.Put(pod).DeepCopyObject())
	}
}

// serve makes the process serve the scheduler name of the tests.
func serve(t *testing.T) {
	t.Helper()
	was := options.ServerOpts
	options.ServerOpts = &options.ServerOption{SchedulerNames: []string{schedtest.SchedulerName}}
	t.Cleanup(func() { options.ServerOpts = was })
}

// TestPodsOfTheWrongSchedulerAreReported checks that pods with the wrong schedulerName are reported. Sessions do not
// see these pods, so their gang seems to lack pods.
func TestPodsOfTheWrongSchedulerAreReported(t *testing.T) {
	const right = `; this scheduler places pods with schedulerName "volcano"`
	const lacks = "Unschedulable NotEnoughTasks: minMember is 3 and "
	tests := map[string]struct {
		ours, foreign []*v1.Pod
		want          string
	}{
		"all of them": {
			foreign: []*v1.Pod{pod(0).Scheduler("default-scheduler").Obj(), pod(1).Scheduler("default-scheduler").Obj()},
			want:    lacks + `there is no pod; there are 2 pods with this PodGroup and schedulerName "default-scheduler"` + right,
		},
		"one of them": {
			ours: []*v1.Pod{pod(0).Obj(), pod(1).Obj()}, foreign: []*v1.Pod{pod(2).Scheduler("other").Obj()},
			want: lacks + `there are 2 pods; there is 1 pod with this PodGroup and schedulerName "other"` + right,
		},
		"many schedulers": {
			foreign: []*v1.Pod{
				pod(0).Scheduler("d").Obj(), pod(1).Scheduler("c").Obj(), pod(2).Scheduler("b").Obj(), pod(3).Scheduler("a").Obj(), pod(4).Scheduler("a").Obj(),
			},
			want: lacks + `there is no pod; there are 5 pods with this PodGroup and schedulerName "a", "b", "c" and 1 more` + right,
		},
		"a long name": {
			foreign: []*v1.Pod{pod(0).Scheduler(strings.Repeat("x", 5000)).Obj()},
			want:    lacks + `there is no pod; there is 1 pod with this PodGroup and schedulerName "` + strings.Repeat("x", 64) + `"... (and 4936 bytes more)` + right,
		},
		"one that has ended":        {foreign: []*v1.Pod{pod(0).Scheduler("other").Phase(v1.PodSucceeded).Obj()}, want: lacks + "there is no pod"},
		"one that is being deleted": {foreign: []*v1.Pod{pod(0).Scheduler("other").Terminating().Obj()}, want: lacks + "there is no pod"},
		"pods of another gang":      {foreign: []*v1.Pod{pod(0).Group("h").Scheduler("other").Obj()}, want: lacks + "there is no pod"},
		"pods of another namespace": {foreign: []*v1.Pod{pod(0).Namespace("far").Scheduler("other").Obj()}, want: lacks + "there is no pod"},
		"its own pods alone":        {ours: []*v1.Pod{pod(0).Obj()}, want: lacks + "there is 1 pod"},
		"one with a node is a member": {
			ours: []*v1.Pod{pod(0).Obj(), pod(1).Scheduler("other").Node("n").Obj()}, want: lacks + "there are 2 pods",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				s := newSessions(w, explainConf())
				w.gangOf(0, 3)
				serve(t)
				for _, pod := range test.ours {
					w.add(pod)
				}
				addForeign(w, test.foreign...)
				for range 3 {
					s.cycle()
				}
				if diff := cmp.Diff(test.want, s.says()); diff != "" {
					t.Errorf("the PodGroup's condition (-want +got):\n%s", diff)
				}
			})
		})
	}
}
