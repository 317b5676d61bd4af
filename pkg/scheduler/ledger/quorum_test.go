// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var podGroupResource = schema.GroupResource{Group: "scheduling.volcano.sh", Resource: "podgroups"}

func TestQuorum(t *testing.T) {
	answer := func(err error) clienttesting.ReactionFunc {
		return func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err }
	}
	tests := map[string]struct {
		pods int
		// group is the PodGroup in the cache, and live the one in the API server. Nil means the same as in the cache.
		group, live *schedtest.PodGroupBuilder
		get         clienttesting.ReactionFunc
		before      func(w *harness)
		// want is a part of the error. If it is empty, there must be no error.
		want  string
		reads int
	}{
		"enough by the live minimum": {pods: 2, reads: 1},
		"the PodGroup of a pod that stands alone is not read": {
			pods: 1, group: schedtest.MakePodGroup().OwnedByPod("p0"), get: answer(errBroken),
		},
		"the PodGroup of another pod that is gone is read": {
			pods: 1, group: schedtest.MakePodGroup().OwnedByPod("former"), get: answer(errBroken), want: "reading PodGroup ns/g", reads: 1,
		},
		"a pod's own PodGroup that was made larger is read": {
			pods: 1, group: schedtest.MakePodGroup().MinMember(2).OwnedByPod("p0"), want: "only 1 of minMember 2 can be bound", reads: 1,
		},
		"of a gang that was made larger the cache knows one pod": {
			pods: 1, group: schedtest.MakePodGroup().MinMember(1), live: schedtest.MakePodGroup().MinMember(8),
			want: "only 1 of minMember 8 can be bound", reads: 1,
		},
		"a role's minimum was raised": {
			pods: 2, group: schedtest.MakePodGroup().MinMember(1), live: schedtest.MakePodGroup().MinMember(1).MinTaskMember("worker", 1),
			want: `only 0 of minTaskMember 1 of "worker" can be bound`, reads: 1,
		},
		"more sub-groups are needed than before": {
			pods: 2, group: schedtest.MakePodGroup().SubGroups("racks", "rack", 1, 1), live: schedtest.MakePodGroup().SubGroups("racks", "rack", 2, 1),
			want: `only 1 of 2 sub-groups of policy "ns/g/racks" can be bound`, reads: 1,
		},
		"sub-groups are larger than before": {
			pods: 2, group: schedtest.MakePodGroup().SubGroups("racks", "rack", 1, 1), live: schedtest.MakePodGroup().SubGroups("racks", "rack", 1, 2),
			want: `only 0 of 1 sub-groups of policy "ns/g/racks" can be bound`, reads: 1,
		},
		"fewer sub-groups are needed than before": {
			pods: 2, group: schedtest.MakePodGroup().SubGroups("racks", "rack", 2, 1), live: schedtest.MakePodGroup().SubGroups("racks", "rack", 1, 1), reads: 1,
		},
		"a role without the right to read falls back": {pods: 2, get: answer(apierrors.NewForbidden(podGroupResource, "g", errBroken)), reads: 1},
		"a PodGroup that is not there":                {pods: 2, get: answer(apierrors.NewNotFound(podGroupResource, "g")), want: "PodGroup ns/g does not exist", reads: 1},
		"a PodGroup gone from the cache": {pods: 2, before: func(w *harness) {
			w.books.Jobs.HideGroup(gang)
		}, want: "PodGroup ns/g does not exist", reads: 1},
		"an error that may pass is handed on": {pods: 2, get: answer(apierrors.NewTimeoutError("slow", 1)), want: "reading PodGroup ns/g", reads: 1},
		"a gang that is short by what is known does not wait for an answer": {
			pods: 1, group: schedtest.MakePodGroup().MinMember(2), get: answer(apierrors.NewTimeoutError("slow", 1)),
			want: "only 1 of minMember 2 can be bound", reads: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(0, 1)
				if tt.group != nil {
					w.add(tt.group.Name("g").Obj())
				}
				for i := range tt.pods {
					w.add(pod(i).Label("rack", fmt.Sprint(i)).Obj())
				}
				if tt.live != nil {
					w.cluster.Put(tt.live.Name("g").Obj()) // The watch is late.
				}
				m := w.reserved()
				if tt.get != nil {
					w.cluster.Volcano.PrependReactor("get", "podgroups", tt.get)
				}
				if tt.before != nil {
					tt.before(w)
				}
				w.cluster.Volcano.ClearActions()
				err := (&quorum{w.books, w.cluster.Volcano}).Quorum(t.Context(), &binding.Transaction{Gang: gang}, []*binding.Member{m})
				switch {
				case tt.want == "" && err != nil:
					t.Errorf("unexpected error: %v", err)
				case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
					t.Errorf("error is %v, want an error with %q", err, tt.want)
				}
				if got := len(w.cluster.Volcano.Actions()); got != tt.reads {
					t.Errorf("%d calls were made, want %d", got, tt.reads)
				}
			})
		})
	}
}
