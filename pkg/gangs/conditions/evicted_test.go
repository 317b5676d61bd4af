// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
)

// TestEvicted checks what a pod says of its eviction, and for whom.
func TestEvicted(t *testing.T) {
	long, now := metav1.NewTime(time.Unix(1, 0)), metav1.Now()
	evict := func(podGroup types.UID) func(*v1.PodStatus) {
		return func(status *v1.PodStatus) { conditions.SetEvicted(status, "Evict", podGroup) }
	}
	stay := func(status *v1.PodStatus) { conditions.SetNotEvicted(status, "EvictionFailed") }
	old := func(status *v1.PodStatus) { status.Conditions[0].LastTransitionTime = long }
	for name, tt := range map[string]struct {
		deleted  bool
		changes  []func(*v1.PodStatus)
		evicted  bool
		podGroup types.UID
		isOld    bool
	}{
		"a pod":                            {deleted: true},
		"it is evicted":                    {deleted: true, changes: []func(*v1.PodStatus){evict("")}, evicted: true},
		"it is evicted for a gang":         {deleted: true, changes: []func(*v1.PodStatus){evict("uid")}, evicted: true, podGroup: "uid"},
		"it is not deleted yet":            {changes: []func(*v1.PodStatus){evict("uid")}},
		"it stays":                         {deleted: true, changes: []func(*v1.PodStatus){evict("uid"), stay}},
		"it was evicted long ago":          {deleted: true, changes: []func(*v1.PodStatus){evict("uid"), old}, evicted: true, podGroup: "uid", isOld: true},
		"a first eviction failed long ago": {deleted: true, changes: []func(*v1.PodStatus){evict("one"), old, evict("two")}, evicted: true, podGroup: "two"},
		"it stayed and is evicted again":   {deleted: true, changes: []func(*v1.PodStatus){evict("one"), stay, old, evict("two")}, evicted: true, podGroup: "two"},
		"it never was to be evicted":       {deleted: true, changes: []func(*v1.PodStatus){stay}},
	} {
		pod := &v1.Pod{}
		if tt.deleted {
			pod.DeletionTimestamp = &now
		}
		for _, change := range tt.changes {
			change(&pod.Status)
		}
		at, podGroup, evicted := conditions.EvictedAt(pod)
		if evicted != tt.evicted || podGroup != tt.podGroup || evicted && at.Equal(long.Time) != tt.isOld {
			t.Errorf("%s: evicted %t at %v for %q, want %t (long ago: %t) for %q", name, evicted, at, podGroup, tt.evicted, tt.isOld, tt.podGroup)
		}
	}
}
