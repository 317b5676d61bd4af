package binding

import (
	"testing"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func TestLeastMembers(t *testing.T) {
	group := schedtest.MakePodGroup
	ofJob := func() *schedtest.PodGroupBuilder { return group().OwnedBy("batch.volcano.sh/v1alpha1", "Job") }
	tests := map[string]struct {
		group *schedtest.PodGroupBuilder
		want  int32
	}{
		"minMember alone":                                        {group: group().MinMember(3), want: 3},
		"roles that need fewer":                                  {group: group().MinMember(3).MinTaskMember("worker", 2), want: 3},
		"roles that need more":                                   {group: group().MinMember(1).MinTaskMember("leader", 1).MinTaskMember("worker", 2), want: 3},
		"roles of a Volcano Job that may run with fewer":         {group: ofJob().MinMember(1).MinTaskMember("worker", 2), want: 1},
		"roles of another kind of Job":                           {group: group().OwnedBy("batch/v1", "Job").MinMember(1).MinTaskMember("worker", 2), want: 2},
		"sub-groups that need more":                              {group: group().MinMember(1).SubGroups("racks", "rack", 2, 4), want: 8},
		"sub-groups of several policies":                         {group: group().MinMember(1).SubGroups("a", "a", 2, 4).SubGroups("b", "b", 1, 1), want: 9},
		"a negative role takes nothing from the others":          {group: group().MinMember(1).MinTaskMember("a", -5).MinTaskMember("b", 2), want: 2},
		"more than a number holds is as many as can be":          {group: group().MinTaskMember("a", 1<<31-1).MinTaskMember("b", 1<<31-1), want: 1<<31 - 1},
		"sub-groups that are more than a number holds, likewise": {group: group().SubGroups("a", "a", 1<<31-1, 1<<31-1), want: 1<<31 - 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := LeastMembers(jobOf(t, tt.group, nil).PodGroup); got != tt.want {
				t.Errorf("the gang needs %d members at the least, want %d", got, tt.want)
			}
		})
	}
}
