// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/volcano/cmd/scheduler/app/options"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestRecover checks that a new leader withdraws the writes for pods that were not bound, and nothing else.
func TestRecover(t *testing.T) {
	before := options.ServerOpts
	defer func() { options.ServerOpts = before }()
	options.ServerOpts = &options.ServerOption{SchedulerNames: []string{"volcano"}}
	pod := func(name string) *schedtest.PodBuilder {
		return schedtest.MakePod().Name(name).UID(name).Scheduler("volcano")
	}
	cases := map[string]struct {
		pod       *v1.Pod
		mark      string
		users     []string
		allocated bool
		multi     bool
		want      []string
		kept      bool
	}{
		"a pod without a node":                             {pod: pod("p").Obj(), mark: "volcano", users: []string{"p"}, allocated: true},
		"a bound pod":                                      {pod: pod("p").Node("n").Obj(), mark: "volcano", users: []string{"p"}, allocated: true, want: []string{"p"}, kept: true},
		"a finished pod":                                   {pod: pod("p").Phase(v1.PodFailed).Obj(), mark: "volcano", users: []string{"p"}, allocated: true, want: []string{"p"}, kept: true},
		"a pod of another scheduler":                       {pod: pod("p").Scheduler("other").Obj(), mark: "volcano", users: []string{"p"}, allocated: true, want: []string{"p"}, kept: true},
		"a pod that is gone":                               {pod: pod("q").Obj(), mark: "volcano", users: []string{"p"}, allocated: true, want: []string{"p"}, kept: true},
		"one beside another user":                          {pod: pod("p").Obj(), mark: "volcano", users: []string{"p", "x"}, allocated: true, want: []string{"x"}, kept: true},
		"a claim that another scheduler allocated":         {pod: pod("p").Obj(), mark: "other", users: []string{"p"}, allocated: true, kept: true},
		"a claim without a mark":                           {pod: pod("p").Obj(), users: []string{"p"}, allocated: true, kept: true},
		"a claim without a mark, the name is shared":       {pod: pod("p").Obj(), users: []string{"p"}, allocated: true, multi: true, want: []string{"p"}, kept: true},
		"a claim that no pod uses":                         {pod: pod("p").Obj(), mark: "volcano", allocated: true},
		"one that no pod uses, and is another's":           {pod: pod("p").Obj(), mark: "other", allocated: true, kept: true},
		"a claim that is only protected":                   {pod: pod("p").Obj(), mark: "volcano"},
		"one whose name does not distinguish it from ours": {pod: pod("p").Obj(), mark: "volcano", users: []string{"p"}, allocated: true, multi: true, want: []string{"p"}, kept: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.multi {
				t.Setenv("MULTI_SCHEDULER_ENABLE", "true")
				t.Setenv("SCHEDULER_POD_NAME", "me")
			}
			claim := schedtest.DeviceClaim("c", one())
			claim.Finalizers = []string{resourceapi.Finalizer}
			if tc.mark != "" {
				claim.Annotations = map[string]string{SchedulerAnnotation: tc.mark}
			}
			for _, user := range tc.users {
				claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: user, UID: types.UID(user)})
			}
			if tc.allocated {
				claim.Status.Allocation = allocationOf("n", "gpu-0")
			}
			run(t, append(gpus("n"), claim, tc.pod), func(w *testCluster) {
				if err := w.plugin.Recover(w.t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, action := range w.kube.Actions() {
					if list, ok := action.(clienttesting.ListAction); ok && action.GetResource().Resource == "pods" && list.GetListRestrictions().Fields.String() != "spec.nodeName=" {
						t.Errorf("all pods of the namespace are listed: %v", action)
					}
				}
				if diff := cmp.Diff(tc.want, w.users("c")); diff != "" {
					t.Errorf("users (-want +got):\n%s", diff)
				}
				if live := w.claim("c"); tc.kept && (live.Status.Allocation == nil || len(live.Finalizers) == 0) {
					t.Errorf("recovery changed the claim: %v", live)
				} else if !tc.kept {
					w.untouched("c")
				}
				w.kube.ClearActions()
				if err := w.plugin.Recover(w.t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, call := range w.calls() {
					if call != "get " && call != "list " {
						t.Errorf("a second recovery calls %q", call)
					}
				}
			})
		})
	}
}
