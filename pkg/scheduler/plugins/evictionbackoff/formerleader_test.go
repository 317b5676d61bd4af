// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
)

// TestClaimsOfAFormerLeader checks which claims the first session of a process makes of pods that a former leader has
// evicted: for which gang, for which of its members, and until when. Later sessions make none.
func TestClaimsOfAFormerLeader(t *testing.T) {
	type claimed struct {
		Nominees []api.TaskID
		Victims  []api.TaskID
		Left     time.Duration
	}
	const ago = 20 * time.Second
	for name, tt := range map[string]struct {
		victim       func(*api.TaskInfo)
		status       api.TaskStatus
		evictedFor   types.UID
		otherSession bool
		want         *claimed
	}{
		"a victim":                    {nil, api.Releasing, "uid-of-wants", false, &claimed{[]api.TaskID{"wants1", "wants2"}, []api.TaskID{"lends0"}, defaultGrace + graceSlack - ago}},
		"in a later session":          {nil, api.Releasing, "uid-of-wants", true, nil},
		"the gang is not known":       {nil, api.Releasing, "", false, nil},
		"the gang was created again":  {nil, api.Releasing, "uid-of-the-former", false, nil},
		"a pod that is not deleted":   {func(task *api.TaskInfo) { task.Pod.DeletionTimestamp = nil }, api.Releasing, "uid-of-wants", false, nil},
		"a pod that its user deleted": {func(task *api.TaskInfo) { task.Pod.Status.Conditions = nil }, api.Releasing, "uid-of-wants", false, nil},
		"a pod that has ended":        {nil, api.Succeeded, "uid-of-wants", false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				wants, lends, none := jobOf("ns", "wants", api.Running, api.Pending, api.Pending), jobOf("ns", "lends", tt.status), jobOf("ns", "none", api.Pending)
				for _, job := range []*api.JobInfo{wants, lends, none} {
					job.PodGroup = &api.PodGroup{}
					job.PodGroup.UID = types.UID("uid-of-" + job.Name)
				}
				victim := lends.Tasks["lends0"]
				now := metav1.Now()
				victim.Pod.DeletionTimestamp = &now
				conditions.SetEvicted(&victim.Pod.Status, "Evict", tt.evictedFor)
				victim.Pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-ago))
				if tt.victim != nil {
					tt.victim(victim)
				}
				p := newPlugin()
				p.adopted = tt.otherSession
				p.openClaims(bare("", wants, lends, none))
				var got *claimed
				if c := p.claims[wants.UID]; c != nil {
					got = &claimed{slices.Sorted(maps.Keys(c.nominees)), slices.Sorted(maps.Keys(c.victims)), time.Until(c.until)}
				}
				if diff := cmp.Diff(tt.want, got); diff != "" || len(p.claims) > 1 {
					t.Errorf("%d claims, and that of the gang (-want +got):\n%s", len(p.claims), diff)
				}
				if promised := len(p.promised[wants.UID]); (promised > 0) != (tt.want != nil) {
					t.Errorf("%d members are placed first, want some: %t", promised, tt.want != nil)
				}
			})
		})
	}
}
