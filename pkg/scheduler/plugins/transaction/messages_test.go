// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestMessages has the texts of condition PartiallyBound and of evictions.
func TestMessages(t *testing.T) {
	one := map[api.TaskID]bool{"one": true}
	p := &plugin{first: map[api.JobID]map[api.TaskID]bool{"ns/g": one, "ns/grouped": one}, ofGroup: map[api.JobID]bool{"ns/grouped": true}}
	gang := func(name string, minMember int32) *api.JobInfo {
		c := newCache(t)
		c.AddPodGroupV1beta1(schedtest.MakePodGroup().Name(name).Queue("a").MinMember(minMember).Obj())
		c.AddPod(schedtest.MakePod().Name(name+"-0").Group(name).Node("n").Annotation(binding.MinimumAnnotation, "2").Obj())
		return c.Jobs[api.JobID(schedtest.Namespace+"/"+name)]
	}
	message := func(job *api.JobInfo) string {
		return p.messageOf(job, binding.ShortOf(job, &job.PodGroup.Spec, binding.CountsAsBound))
	}
	got := map[string]string{
		"a member is missing":    message(gang("g", 2)),
		"a member was evicted":   message(gang("evicted", 2)),
		"a gang of the group is": p.messageOf(gang("grouped", 2), errors.New("gang ns/x is bound, this gang has 0 of minMember 2")),
		"a gang is evicted":      evictionReason(false, time.Minute),
		"a gang group is":        evictionReason(true, time.Minute),
	}
	want := map[string]string{
		"a member is missing":    "Gang is partially bound (1 of minMember 2); its pods whose bind was interrupted are scheduled first",
		"a member was evicted":   "Gang is partially bound (1 of minMember 2); its pending pods are scheduled in the usual order, because pods whose bind was interrupted, with requests no larger than then, do not complete it",
		"a gang of the group is": "Gang group is partially bound (gang ns/x is bound, this gang has 0 of minMember 2); its pods whose bind was interrupted are scheduled first",
		"a gang is evicted":      "the gang was partially bound for more than 1m0s (evictPartiallyBoundAfter)",
		"a gang group is":        "the gang group was partially bound for more than 1m0s (evictPartiallyBoundAfter)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
