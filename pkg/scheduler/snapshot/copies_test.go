// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// oneJob is a JobSource with one job. hidden reports whether sessions do not see it.
type oneJob struct {
	info       *api.JobInfo
	generation uint64
	hidden     bool
}

func (o *oneJob) Visible(api.JobID) (*api.JobInfo, uint64) {
	if o.hidden {
		return nil, 0
	}
	return o.info, o.generation
}

func (o *oneJob) Changed(after uint64) ([]api.JobID, uint64) {
	if o.generation > after {
		return []api.JobID{o.info.UID}, o.generation
	}
	return nil, o.generation
}

// newJob returns a job with these tasks, whose PodGroup has the phase.
func newJob(phase scheduling.PodGroupPhase, tasks ...*api.TaskInfo) *oneJob {
	job := api.NewJobInfo(schedtest.Namespace+"/g", tasks...)
	group := &api.PodGroup{}
	group.Namespace, group.Name, group.Spec.MinMember, group.Status.Phase = schedtest.Namespace, "g", 1, phase
	job.SetPodGroup(group)
	return &oneJob{info: job, generation: 1}
}

// jobOf returns the copy of the job for the next session, with this priority.
func jobOf(copies *Copies, source *oneJob, priority int32) *api.JobInfo {
	return copies.Jobs(source, func(*api.JobInfo) int32 { return priority })[source.info.UID]
}

// oneNode is a NodeSource with one node, "n". A nil info means that sessions do not see the node.
type oneNode struct {
	info       *api.NodeInfo
	generation uint64
}

func (o *oneNode) Ready(string) (*api.NodeInfo, uint64) { return o.info, o.generation }
func (o *oneNode) Registered() []string                 { return []string{"n"} }
func (o *oneNode) Changed(after uint64) ([]string, uint64) {
	if o.generation > after {
		return []string{"n"}, o.generation
	}
	return nil, o.generation
}

// nodeOf returns the copy of the node for the next session.
func nodeOf(copies *Copies, source NodeSource) *api.NodeInfo {
	nodes, _ := copies.Nodes(source)
	return nodes["n"]
}

// waiting returns a pod that requests a CPU and a GPU.
func waiting(name string) *schedtest.PodBuilder {
	return schedtest.MakePod().Name(name).UID(name).Group("g").Req(schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "1"})
}

func newNode() *api.NodeInfo {
	return api.NewNodeInfo(schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "2", "nvidia.com/gpu": "2", "pods": "10"}).Obj())
}

// TestNodesAreGivenAgain checks that the copy of a node is reused as long as neither the node in the books nor the copy
// has changed.
func TestNodesAreGivenAgain(t *testing.T) {
	tests := map[string]struct {
		change func(source, given *api.NodeInfo, generation *uint64)
		again  bool
	}{
		"nothing has changed": {change: func(_, _ *api.NodeInfo, _ *uint64) {}, again: true},
		"the entry has":       {change: func(_, _ *api.NodeInfo, generation *uint64) { *generation++ }},
		"a session has placed a task": {change: func(_, given *api.NodeInfo, _ *uint64) {
			if err := given.AddTask(api.NewTaskInfo(waiting("p").Obj())); err != nil {
				panic(err)
			}
		}},
		"a session has placed one and taken it back": {change: func(_, given *api.NodeInfo, _ *uint64) {
			task := api.NewTaskInfo(waiting("p").Obj())
			if err := given.AddTask(task); err != nil {
				panic(err)
			}
			if err := given.RemoveTask(task); err != nil {
				panic(err)
			}
		}, again: true},
		"upstream counts another device": {change: func(_, _ *api.NodeInfo, _ *uint64) { api.IgnoredDevicesList.Set([]string{"example.com/other"}) }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ignored := api.IgnoredDevicesList.List()
			defer api.IgnoredDevicesList.Set(ignored)
			copies, source := NewCopies(), &oneNode{newNode(), 1}
			first := nodeOf(copies, source)
			if first == source.info {
				t.Fatal("the session has the entry itself")
			}
			if copies.NoteFits(source.info); len(copies.Unfit()) == 0 {
				t.Error("it is recorded of the copy that its tasks fit, but they were counted on the entry")
			}
			copies.NoteFits(first)
			tt.change(source.info, first, &source.generation)
			second := nodeOf(copies, source)
			if (second == first) != tt.again {
				t.Errorf("the copy is given again: %t, want %t", second == first, tt.again)
			}
			if got := len(copies.Unfit()) == 0; got != tt.again {
				t.Errorf("its tasks are recorded as fitting: %t, want %t", got, tt.again)
			}
			if len(second.Tasks) != 0 || second.Idle.MilliCPU != 2000 {
				t.Errorf("the next session has %d tasks on the node and %v idle", len(second.Tasks), second.Idle)
			}
		})
	}
}

// TestJobsAreGivenAgain checks that the copies of jobs are reused like the copies of nodes. Their priority and status
// are always the current ones.
func TestJobsAreGivenAgain(t *testing.T) {
	tests := map[string]struct {
		change func(given *api.JobInfo, generation *uint64)
		again  bool
	}{
		"nothing has changed": {change: func(*api.JobInfo, *uint64) {}, again: true},
		"the entry has":       {change: func(_ *api.JobInfo, generation *uint64) { *generation++ }},
		"a session has written its status": {change: func(given *api.JobInfo, _ *uint64) {
			given.PodGroup.Status.Phase = scheduling.PodGroupInqueue
		}, again: true},
		"a session has placed a task": {change: func(given *api.JobInfo, _ *uint64) {
			for _, task := range given.Tasks {
				if err := given.UpdateTaskStatus(task, api.Allocated); err != nil {
					panic(err)
				}
			}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			copies, source := NewCopies(), newJob("", api.NewTaskInfo(waiting("p").Obj()))
			first := jobOf(copies, source, 1)
			copies.NoteWithinBounds(source.info.UID, first)
			tt.change(first, &source.generation)
			second := jobOf(copies, source, 2)
			if (second == first) != tt.again {
				t.Errorf("the copy is given again: %t, want %t", second == first, tt.again)
			}
			if got := copies.WithinBounds(source.info.UID, second); got != tt.again {
				t.Errorf("its bounds are recorded: %t, want %t", got, tt.again)
			}
			if second.Priority != 2 || second.PodGroup.Status.Phase != "" || len(second.TaskStatusIndex[api.Pending]) != 1 {
				t.Errorf("the next session has priority %d, phase %q and %d tasks that wait", second.Priority, second.PodGroup.Status.Phase, len(second.TaskStatusIndex[api.Pending]))
			}
		})
	}
}

// TestATrustedSessionLeavesLessToCompare checks that fewer comparisons are made after a trusted session. A change to
// a field of a placed task, which no method of a job or a node makes, is found at once after a session that is not
// trusted, and late after a trusted one. Changes of sums or counts are always found.
func TestATrustedSessionLeavesLessToCompare(t *testing.T) {
	running := func() *api.TaskInfo { return api.NewTaskInfo(waiting("p").Node("n").Phase(v1.PodRunning).Obj()) }
	tests := map[string]struct {
		trusted bool
		change  func(*api.TaskInfo, *api.JobInfo, *api.NodeInfo)
		late    bool
	}{
		"a field, not trusted": {change: func(task *api.TaskInfo, _ *api.JobInfo, _ *api.NodeInfo) { task.Priority = 7 }},
		"a field, trusted":     {change: func(task *api.TaskInfo, _ *api.JobInfo, _ *api.NodeInfo) { task.Priority = 7 }, trusted: true, late: true},
		"what a node has, not trusted": {change: func(_ *api.TaskInfo, job *api.JobInfo, node *api.NodeInfo) {
			node.Capacity.MilliCPU, node.Allocatable.MilliCPU, job.TotalRequest.MilliCPU = 0, 0, 0
		}},
		"other objects for it, trusted": {trusted: true, change: func(_ *api.TaskInfo, job *api.JobInfo, node *api.NodeInfo) {
			node.Allocatable, job.TotalRequest.MilliCPU = api.EmptyResource(), 0
		}},
		"an eviction, trusted": {trusted: true, change: func(task *api.TaskInfo, job *api.JobInfo, node *api.NodeInfo) {
			victim := task.Clone()
			if err := job.UpdateTaskStatus(victim, api.Releasing); err != nil {
				panic(err)
			}
			if err := node.UpdateTask(victim); err != nil {
				panic(err)
			}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sourceNode, sourceJob := newNode(), newJob("", running())
			if err := sourceNode.AddTask(running()); err != nil {
				t.Fatal(err)
			}
			copies := NewCopies()
			give := func() (*api.NodeInfo, *api.JobInfo) {
				defer copies.Distrust()
				return nodeOf(copies, &oneNode{sourceNode, 1}), jobOf(copies, sourceJob, 1)
			}
			node, job := give()
			for _, task := range job.Tasks {
				tt.change(task, job, node)
			}
			for _, task := range node.Tasks {
				if tt.late || !tt.trusted {
					task.Priority = 7
				}
			}
			given := 0
			for again := true; again && given <= wholeEvery; given++ {
				if tt.trusted {
					copies.Trust(Touched{Nodes: map[string]bool{"n": true}})
				}
				nextNode, nextJob := give()
				again = nextNode == node || nextJob == job
			}
			if (given > 1) != tt.late || given > wholeEvery {
				t.Errorf("both copies are renewed with snapshot %d, want late: %t, and at most %d", given, tt.late, wholeEvery)
			}
		})
	}
}

// TestOnlyNodesThatMayHaveChangedAreLookedAt checks that, after a trusted session, a change of a copy is found if the
// session touched the node, if the node in the books has changed, or if the tasks on the node request more than it has.
// A change to any other copy is found in one of wholeEvery snapshots.
func TestOnlyNodesThatMayHaveChangedAreLookedAt(t *testing.T) {
	tests := map[string]struct {
		touched map[string]bool
		note    func(*Copies, *oneNode, *api.NodeInfo)
		late    bool
	}{
		"an untouched node":       {late: true},
		"a touched node":          {touched: map[string]bool{"n": true}},
		"a changed node":          {note: func(_ *Copies, source *oneNode, _ *api.NodeInfo) { source.generation++ }},
		"a node that is too full": {note: func(copies *Copies, _ *oneNode, given *api.NodeInfo) { copies.unfit[given.Name] = true }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			copies, source := NewCopies(), &oneNode{newNode(), 1}
			first := nodeOf(copies, source)
			copies.NoteFits(first)
			if tt.note != nil {
				tt.note(copies, source, first)
			}
			if err := first.AddTask(api.NewTaskInfo(waiting("p").Obj())); err != nil {
				t.Fatal(err)
			}
			given := 0
			for again := true; again && given <= wholeEvery; given++ {
				copies.Trust(Touched{Nodes: tt.touched})
				again = nodeOf(copies, source) == first
			}
			if (given > 1) != tt.late || given > wholeEvery {
				t.Errorf("the copy is renewed with snapshot %d, want late: %t, and at most %d", given, tt.late, wholeEvery)
			}
		})
	}
}

// TestOnlyJobsThatMayHaveChangedAreLookedAt checks that, after a trusted session, a change of a copy is found if the
// session touched the job, if the job in the books has changed, or if the job does not simply run. In a job that runs and
// was not touched, changes of some fields are found, too. Any other change is found in one of wholeEvery snapshots.
func TestOnlyJobsThatMayHaveChangedAreLookedAt(t *testing.T) {
	evict := func(_ *oneJob, given *api.JobInfo) {
		for _, task := range given.Tasks {
			if err := given.UpdateTaskStatus(task, api.Releasing); err != nil {
				panic(err)
			}
		}
	}
	tests := map[string]struct {
		phase   scheduling.PodGroupPhase
		pending bool
		touched map[api.JobID]bool
		change  func(source *oneJob, given *api.JobInfo)
		late    bool
	}{
		"a job that runs":                      {phase: scheduling.PodGroupRunning, late: true},
		"a job that has ended":                 {phase: scheduling.PodGroupCompleted, late: true},
		"a touched job":                        {phase: scheduling.PodGroupRunning, touched: map[api.JobID]bool{schedtest.Namespace + "/g": true}},
		"a changed job":                        {phase: scheduling.PodGroupRunning, change: func(source *oneJob, _ *api.JobInfo) { source.generation++ }},
		"a job with a pending task":            {phase: scheduling.PodGroupRunning, pending: true},
		"a job that is not running yet":        {phase: scheduling.PodGroupInqueue},
		"a task that was evicted without note": {phase: scheduling.PodGroupRunning, change: evict},
		"a job in another queue":               {phase: scheduling.PodGroupRunning, change: func(_ *oneJob, given *api.JobInfo) { given.Queue = "other" }},
		"another minimum":                      {phase: scheduling.PodGroupRunning, change: func(_ *oneJob, given *api.JobInfo) { given.MinAvailable++ }},
		"another HyperNode":                    {phase: scheduling.PodGroupRunning, change: func(_ *oneJob, given *api.JobInfo) { given.AllocatedHyperNode = "h" }},
		"another PodGroup":                     {phase: scheduling.PodGroupRunning, change: func(_ *oneJob, given *api.JobInfo) { given.PodGroup = given.PodGroup.Clone() }},
		"other resources that its tasks hold":  {phase: scheduling.PodGroupRunning, change: func(_ *oneJob, given *api.JobInfo) { given.Allocated = api.EmptyResource() }},
		"other minResources":                   {phase: scheduling.PodGroupRunning, change: func(_ *oneJob, given *api.JobInfo) { given.PodGroup.Spec.MinResources = &v1.ResourceList{} }},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tasks := []*api.TaskInfo{api.NewTaskInfo(waiting("p").Node("n").Phase(v1.PodRunning).Obj())}
			if tt.pending {
				tasks = append(tasks, api.NewTaskInfo(waiting("q").Obj()))
			}
			copies, source := NewCopies(), newJob(tt.phase, tasks...)
			first := jobOf(copies, source, 1)
			if tt.change != nil {
				tt.change(source, first)
			}
			first.TotalRequest.MilliCPU++
			given := 0
			for again := true; again && given <= wholeEvery; given++ {
				copies.Trust(Touched{Jobs: tt.touched})
				again = jobOf(copies, source, 1) == first
			}
			if (given > 1) != tt.late || given > wholeEvery {
				t.Errorf("the copy is renewed with snapshot %d, want late: %t, and at most %d", given, tt.late, wholeEvery)
			}
		})
	}
}

// TestAJobThatSessionsDoNotSeeIsDropped checks that a job that was deleted, or that sessions no longer see, has no copy.
func TestAJobThatSessionsDoNotSeeIsDropped(t *testing.T) {
	tests := map[string]func(*oneJob){
		"deleted": func(source *oneJob) { source.info.UnsetPodGroup() }, // JobSource.Changed does not return it
		"hidden":  func(source *oneJob) { source.hidden, source.generation = true, source.generation+1 },
	}
	for name, drop := range tests {
		for _, trusted := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, after a trusted session: %t", name, trusted), func(t *testing.T) {
				copies, source := NewCopies(), newJob(scheduling.PodGroupRunning)
				jobOf(copies, source, 1)
				if trusted {
					copies.Trust(Touched{})
				}
				drop(source)
				if job := jobOf(copies, source, 1); job != nil || len(copies.jobs) > 0 {
					t.Errorf("the job is given: %v; %d copies are kept", job, len(copies.jobs))
				}
			})
		}
	}
}

// TestADroppedNodeIsDropped checks that a node that sessions no longer see has no copy, in any form.
func TestADroppedNodeIsDropped(t *testing.T) {
	copies, source := NewCopies(), &oneNode{newNode(), 1}
	nodeOf(copies, source)
	for _, trusted := range []bool{true, false} {
		source.info, source.generation = nil, source.generation+1
		if trusted {
			copies.Trust(Touched{})
		}
		if node := nodeOf(copies, source); node != nil || len(copies.kube)+len(copies.Unfit())+len(copies.nodes) > 0 {
			t.Errorf("after a session, trusted: %t, the dropped node is given: %v, %d in the form of Kubernetes", trusted, node, len(copies.kube))
		}
		copies.Distrust()
		source.info, source.generation = newNode(), source.generation+1
		nodeOf(copies, source)
	}
}

// TestTheTotalFollowsTheNodes checks that the sum of what nodes have to allocate is current when a node changes, comes or
// goes, and leaves out nodes that the caller has removed.
func TestTheTotalFollowsTheNodes(t *testing.T) {
	copies, source := NewCopies(), &oneNode{newNode(), 1}
	total := func() float64 {
		copies.Trust(Touched{})
		nodes, _ := copies.Nodes(source)
		return copies.Forms(nodes).Total.MilliCPU
	}
	if got := total(); got != 2000 {
		t.Errorf("the total is %v mCPU, want 2000", got)
	}
	source.info = api.NewNodeInfo(schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "3", "pods": "10"}).Obj())
	source.generation++
	if got := total(); got != 3000 {
		t.Errorf("the total is %v mCPU after the node has grown, want 3000", got)
	}
	if forms := copies.Forms(nil); forms.Total.MilliCPU != 0 || len(forms.Kube) != 0 {
		t.Errorf("without the node the total is %v mCPU, of %d nodes", forms.Total.MilliCPU, len(forms.Kube))
	}
	source.info, source.generation = nil, source.generation+1
	if got := total(); got != 0 {
		t.Errorf("the total is %v mCPU after the node has gone, want 0", got)
	}
}
