// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func TestLeastMembers(t *testing.T) {
	group := schedtest.MakePodGroup
	tests := map[string]struct {
		group *schedtest.PodGroupBuilder
		want  int32
	}{
		"minMember alone":                                        {group: group().MinMember(3), want: 3},
		"roles that need fewer":                                  {group: group().MinMember(3).MinTaskMember("worker", 2), want: 3},
		"roles whose sum exceeds minMember are no minima":        {group: group().MinMember(2).MinTaskMember("leader", 1).MinTaskMember("worker", 2), want: 2},
		"sub-groups that need more":                              {group: group().MinMember(1).SubGroups("racks", "rack", 2, 4), want: 8},
		"sub-groups of several policies":                         {group: group().MinMember(1).SubGroups("a", "a", 2, 4).SubGroups("b", "b", 1, 1), want: 9},
		"a negative role takes nothing from the others":          {group: group().MinMember(1).MinTaskMember("a", -5).MinTaskMember("b", 2), want: 2},
		"a sum of roles that is more than a number holds":        {group: group().MinMember(3).MinTaskMember("a", 1<<31-1).MinTaskMember("b", 1<<31-1), want: 3},
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

// TestApplyMinimum checks that upstream's functions agree with ShortOf after ApplyMinimum, even if sub-groups need more
// members than minMember.
func TestApplyMinimum(t *testing.T) {
	group := func() *schedtest.PodGroupBuilder {
		return schedtest.MakePodGroup().MinTaskMember("leader", 1).MinTaskMember("worker", 1)
	}
	tests := map[string]struct {
		group *schedtest.PodGroupBuilder
		want  bool
	}{
		"the roles are minima":                      {group: group().MinMember(2)},
		"their sum exceeds minMember":               {group: group().MinMember(1), want: true},
		"their sum does not exceed the sub-groups'": {group: group().MinMember(1).SubGroups("racks", "sub", 2, 1), want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := jobOf(t, tt.group, tasks{{role: "worker", sub: "a", status: api.Bound}, {role: "worker", sub: "b", status: api.Bound}})
			if MinimumApplied(job, job.PodGroup) == tt.want {
				t.Errorf("before ApplyMinimum the job has the minima: %t", !tt.want)
			}
			ApplyMinimum(job)
			if ready := job.CheckTaskReady() && job.IsReady(); ready != tt.want || !MinimumApplied(job, job.PodGroup) {
				t.Errorf("two workers are ready: %t, want %t; minima applied: %t", ready, tt.want, MinimumApplied(job, job.PodGroup))
			}
			if err := ShortOf(job, &job.PodGroup.Spec, CountsAsBound); (err == nil) != tt.want {
				t.Errorf("ShortOf returned %v, want an error: %t", err, !tt.want)
			}
		})
	}
}

// TestShortOfDividesByTheLivePolicies checks that ShortOf divides tasks by the live policies, although the cached
// spec has other sub-groups.
func TestShortOfDividesByTheLivePolicies(t *testing.T) {
	tests := map[string]struct {
		live *schedtest.PodGroupBuilder
		want bool
	}{
		"more whole ones are needed": {live: schedtest.MakePodGroup().SubGroups("racks", "sub", 2, 2), want: true},
		"they are larger":            {live: schedtest.MakePodGroup().SubGroups("racks", "sub", 1, 3), want: true},
		"as in the cache":            {live: schedtest.MakePodGroup().SubGroups("racks", "sub", 1, 2)},
		"none is needed any more":    {live: schedtest.MakePodGroup()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := jobOf(t, schedtest.MakePodGroup().SubGroups("racks", "sub", 1, 2), tasks{
				{sub: "a", status: api.Bound}, {sub: "a", status: api.Bound}, {sub: "b", status: api.Bound},
			})
			live := jobOf(t, tt.live, nil).PodGroup
			if err := ShortOf(job, &live.Spec, CountsAsBound); (err != nil) != tt.want {
				t.Errorf("ShortOf returned %v, want an error: %t", err, tt.want)
			}
		})
	}
}

// TestBoundFor checks that only members that are bound now count.
func TestBoundFor(t *testing.T) {
	list := tasks{{status: api.Bound}, {status: api.Running}, {status: api.Pending}, {status: api.Failed}, {status: api.Bound}}
	job := jobOf(t, schedtest.MakePodGroup(), list)
	for _, task := range job.Tasks {
		minimum := map[string]string{"p0": "2", "p1": "4", "p2": "8", "p3": "16", "p4": "many"}[task.Name]
		task.Pod.Annotations[MinimumAnnotation] = minimum
	}
	for range 100 { // whichever member is checked last
		if got := BoundFor(job); got != 4 {
			t.Fatalf("the gang was bound for %d members, want the 4 of the member that runs", got)
		}
	}
}

// TestRecordMinimum checks that RecordMinimum overwrites an annotation that a user wrote, or that was copied from a
// former, bound pod.
func TestRecordMinimum(t *testing.T) {
	tests := map[string]struct {
		written string
		least   int32
		want    string
	}{
		"a gang":                             {least: 3, want: "3"},
		"a gang of one has none":             {least: 1},
		"another's is replaced":              {written: "9", least: 3, want: "3"},
		"another's is replaced, also of one": {written: "9", least: 1, want: "1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := schedtest.MakePod().Name("p")
			if tt.written != "" {
				pod.Annotation(MinimumAnnotation, tt.written)
			}
			m := NewMember(api.NewTaskInfo(pod.Obj()), "n", nil)
			m.RecordMinimum(tt.least)
			if got := m.Task.Pod.Annotations[MinimumAnnotation]; got != tt.want {
				t.Errorf("the annotation is %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRecordQueue checks that RecordQueue writes no annotation for the default queue and removes one that a user
// wrote.
func TestRecordQueue(t *testing.T) {
	tests := map[string]struct{ written, queue, want string }{
		"the default queue":             {queue: DefaultQueue},
		"another queue":                 {queue: "research", want: "research"},
		"the default queue, forged":     {written: "research", queue: DefaultQueue, want: DefaultQueue},
		"another queue, written before": {written: "sales", queue: "research", want: "research"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := schedtest.MakePod().Name("p")
			if tt.written != "" {
				pod.Annotation(QueueAnnotation, tt.written)
			}
			m := NewMember(api.NewTaskInfo(pod.Obj()), "n", nil)
			m.RecordQueue(tt.queue)
			if got := m.Task.Pod.Annotations[QueueAnnotation]; got != tt.want {
				t.Errorf("the annotation is %q, want %q", got, tt.want)
			}
		})
	}
}
