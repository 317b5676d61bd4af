// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// promiseTest has a cluster with one node of 8 cpus, and gangs of queue q.
type promiseTest struct {
	start time.Time
	node  *api.NodeInfo
	jobs  map[api.JobID]*api.JobInfo
	// asks has the minResources of each gang.
	asks map[api.JobID]v1.ResourceList
	p    promises
}

func newPromiseTest() *promiseTest {
	return &promiseTest{
		start: time.Now(), node: api.NewNodeInfo(schedtest.MakeNode().Name("n").Obj()),
		jobs: map[api.JobID]*api.JobInfo{}, asks: map[api.JobID]v1.ResourceList{}, p: newPromises(),
	}
}

func cpus(amount string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
}

// add makes a gang that asks for admission. Its ID has the form NAMESPACE/NAME.
func (c *promiseTest) add(namespace, name string, asks v1.ResourceList) *api.JobInfo {
	job := api.NewJobInfo(api.JobID(namespace + "/" + name))
	job.SetPodGroup(&api.PodGroup{PodGroup: scheduling.PodGroup{Spec: scheduling.PodGroupSpec{Queue: "q"}}})
	job.Namespace = namespace
	job.PodGroup.Spec.MinResources, job.PodGroup.Status.Phase = &asks, scheduling.PodGroupPending
	c.jobs[job.UID], c.asks[job.UID] = job, asks
	return job
}

// admit makes the gang ns/NAME, if it does not exist, and admits it.
func (c *promiseTest) admit(name, cpu string) *api.JobInfo {
	job := c.jobs[api.JobID("ns/"+name)]
	if job == nil {
		job = c.add("ns", name, cpus(cpu))
	}
	c.p.recordAdmitted(c.session(), job, c.start)
	job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
	return job
}

func (c *promiseTest) session() *framework.Session {
	return &framework.Session{Session: &vcframework.Session{Jobs: c.jobs, Nodes: map[string]*api.NodeInfo{"n": c.node}, TotalResource: c.node.Allocatable}}
}

// open opens a session, as long after the start.
func (c *promiseTest) open(after time.Duration) {
	for uid, job := range c.jobs {
		asks := c.asks[uid]
		job.PodGroup.Spec.MinResources = &asks
	}
	c.p.limit(c.session(), c.start.Add(after))
}

// promised opens a session, and returns the cpus that are promised to gangs of the namespace ns.
func (c *promiseTest) promised(after time.Duration) float64 {
	c.open(after)
	if sum := c.p.sums[promisedIn{"ns", ""}]; sum != nil {
		return sum.MilliCPU / 1000
	}
	return 0
}

func (c *promiseTest) addPod(job *api.JobInfo, cpu string, status api.TaskStatus, changes ...func(*schedtest.PodBuilder)) *api.TaskInfo {
	pod := schedtest.MakePod().Name(fmt.Sprint(job.Name, len(job.Tasks))).Req(schedtest.Resources{"cpu": cpu})
	for _, change := range changes {
		change(pod)
	}
	task := api.NewTaskInfo(pod.Obj())
	task.Status = status
	job.AddTaskInfo(task)
	return task
}

// TestAPromiseLimitsItsNamespaceOnly: upstream's plugins count an admitted gang with what it holds. The gangs of a namespace that wait
// for resources ask together for no more than the cluster has.
func TestAPromiseLimitsItsNamespaceOnly(t *testing.T) {
	two := resource.MustParse("2")
	quota := v1.ResourceList{"cpu": two, "limits.example.com/gpu": two}
	const full = "admitted gangs of namespace ns already wait for cpu 6 of 8 in the cluster, and minResources asks for 3"
	tests := map[string]struct {
		namespace string
		asks      v1.ResourceList
		want      string
	}{
		"up to the cluster":                   {"ns", cpus("2"), ""},
		"a quota that no node has":            {"ns", quota, ""},
		"more than the cluster":               {"ns", cpus("3"), full},
		"other namespace":                     {"others", cpus("3"), ""},
		"resources that no gang waits for":    {"ns", v1.ResourceList{"memory": resource.MustParse("1Gi")}, ""},
		"a resource that is not enough alone": {"ns", v1.ResourceList{"nvidia.com/gpu": two}, ""},
		"nothing":                             {"ns", v1.ResourceList{}, ""},
	}
	for name, tt := range tests {
		for when, opened := range map[string]bool{"in the same session": false, "later": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				c := newPromiseTest()
				c.node.Allocatable.SetScalar("nvidia.com/gpu", 1000)
				admitted := c.add("ns", "g", cpus("8"))
				c.addPod(admitted, "2", api.Running)
				c.admit("g", "8")
				job := c.add(tt.namespace, "w", tt.asks)
				if opened {
					c.open(time.Hour)
				}
				if got := c.p.refuse(c.session(), job); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				if got := admitted.GetMinResources(); got.MilliCPU != 2000 {
					t.Errorf("for upstream's plugins the admitted gang counts with %s, it holds 2 cpus", got)
				}
			})
		}
	}
}

// TestAPromiseLastsForAWhile unless it is fulfilled: capacity and proportion count an admitted gang against its queue within the
// session, so that a tenant which has another gang admitted in each session keeps others out.
func TestAPromiseLastsForAWhile(t *testing.T) {
	gone := func(c *promiseTest) { clear(c.jobs) }
	pod := func(cpu string, status api.TaskStatus) func(c *promiseTest) {
		return func(c *promiseTest) { c.addPod(c.jobs["ns/g"], cpu, status) }
	}
	tests := map[string]struct {
		before, do  func(c *promiseTest)
		soon, later float64
	}{
		"it waits":          {do: func(*promiseTest) {}, soon: 4, later: 4},
		"deleted":           {do: gone, soon: 4},
		"sent back":         {do: func(c *promiseTest) { c.jobs["ns/g"].PodGroup.Status.Phase = scheduling.PodGroupPending }, soon: 4},
		"moved":             {do: func(c *promiseTest) { c.jobs["ns/g"].Queue = "other" }, soon: 4},
		"made anew":         {do: func(c *promiseTest) { c.jobs["ns/g"].PodGroup.UID = "new" }, soon: 4},
		"made smaller":      {do: func(c *promiseTest) { c.asks["ns/g"] = cpus("1") }, soon: 4, later: 1},
		"it runs":           {before: pod("4", api.Running), do: gone},
		"it is being bound": {before: pod("4", api.Binding), do: gone},
		"a pod runs":        {before: pod("1", api.Running), do: gone, soon: 4},
		"a pod waits":       {before: pod("1", api.Pending), do: gone, soon: 4},
		"it ran and is to be placed again": {before: func(c *promiseTest) {
			pod("4", api.Binding)(c)
			c.open(0)
			for _, task := range maps.Clone(c.jobs["ns/g"].Tasks) {
				_ = c.jobs["ns/g"].UpdateTaskStatus(task, api.Pending)
			}
		}, do: gone},
		"a pod has ended": {before: func(c *promiseTest) {
			pod("2", api.Succeeded)(c)
			pod("2", api.Running)(c)
		}, do: gone},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newPromiseTest()
			c.admit("g", "4")
			if tt.before != nil {
				tt.before(c)
			}
			c.open(time.Second)
			tt.do(c)
			got := []float64{c.promised(2 * time.Second), c.promised(shortestPromise - 1), c.promised(shortestPromise)}
			if diff := cmp.Diff([]float64{tt.soon, tt.soon, tt.later}, got); diff != "" {
				t.Errorf("promised cpus (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnAmountThatWasGivenUpIsNotPromised: otherwise a tenant has one gang after the other admitted to the same resources.
func TestAnAmountThatWasGivenUpIsNotPromised(t *testing.T) {
	gate := func(pod *schedtest.PodBuilder) { pod.Gate("example.com/g") }
	tests := map[string]struct {
		do   func(c *promiseTest, job *api.JobInfo)
		want []float64
	}{
		"minResources are lowered and raised": {func(c *promiseTest, _ *api.JobInfo) { c.asks["ns/g"] = cpus("2") }, []float64{8, 2, 2}},
		"minResources are lowered to nothing": {func(c *promiseTest, _ *api.JobInfo) { c.asks["ns/g"] = cpus("0") }, []float64{8, 0, 0}},
		"pods are gated for a while":          {func(c *promiseTest, job *api.JobInfo) { c.addPod(job, "6", api.Pending, gate) }, []float64{8, 2, 2}},
		"the queue is another for a while":    {func(_ *promiseTest, job *api.JobInfo) { job.Queue = "other" }, []float64{8, 0, 0}},
		"the phase is pending for a while":    {func(_ *promiseTest, job *api.JobInfo) { job.PodGroup.Status.Phase = scheduling.PodGroupPending }, []float64{8, 0, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newPromiseTest()
			job := c.admit("g", "8")
			got := []float64{c.promised(time.Minute)}
			tt.do(c, job)
			got = append(got, c.promised(2*time.Minute))
			for _, task := range maps.Clone(job.Tasks) {
				if err := job.DeleteTaskInfo(task); err != nil {
					t.Fatal(err)
				}
			}
			c.asks["ns/g"], job.Queue, job.PodGroup.Status.Phase = cpus("8"), "q", scheduling.PodGroupInqueue
			if diff := cmp.Diff(tt.want, append(got, c.promised(3*time.Minute))); diff != "" {
				t.Errorf("reserved cpus before, meanwhile and after (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAGatedGangIsPromisedItsOtherPods: upstream counts no pods with scheduling gates, and admits others to their resources.
func TestAGatedGangIsPromisedItsOtherPods(t *testing.T) {
	c := newPromiseTest()
	job := c.admit("g", "8")
	c.addPod(job, "6", api.Pending, func(pod *schedtest.PodBuilder) { pod.Gate("example.com/g") })
	got := []float64{c.promised(time.Minute)}
	c.addPod(job, "2", api.Pending)
	if diff := cmp.Diff([]float64{2, 2}, append(got, c.promised(time.Hour))); diff != "" {
		t.Errorf("reserved cpus (-want +got):\n%s", diff)
	}
}

// TestAPromiseOutlastsANode with all devices of the cluster, which is away for a moment.
func TestAPromiseOutlastsANode(t *testing.T) {
	c := newPromiseTest()
	c.node.Allocatable.SetScalar("nvidia.com/gpu", 8000)
	c.p.recordAdmitted(c.session(), c.add("ns", "g", v1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}), c.start)
	c.jobs["ns/g"].PodGroup.Status.Phase = scheduling.PodGroupInqueue
	for _, has := range []float64{8000, 0, 8000} {
		c.node.Allocatable.SetScalar("nvidia.com/gpu", has)
		c.open(time.Second)
		if got := c.p.sums[promisedIn{"ns", ""}].Get("nvidia.com/gpu"); got != 8000 {
			t.Errorf("%g thousandths of a GPU are promised while the cluster has %g", got, has)
		}
	}
}

// TestAPromiseIsFulfilledByHeldResources of members that are bound: a bind may fail, and then the gang needs the resources again.
func TestAPromiseIsFulfilledByHeldResources(t *testing.T) {
	for status, want := range map[api.TaskStatus]float64{api.Binding: 8, api.Bound: 0, api.Running: 0} {
		t.Run(status.String(), func(t *testing.T) {
			c := newPromiseTest()
			job := c.admit("g", "8")
			task := c.addPod(job, "8", status)
			if got := c.promised(time.Second); got != 0 {
				t.Errorf("%v cpus are promised beside those that the gang holds", got)
			}
			if err := job.UpdateTaskStatus(task, api.Pending); err != nil {
				t.Fatal(err)
			}
			if got := c.promised(2 * time.Second); got != want {
				t.Errorf("%v cpus are promised when the member waits again, want %v", got, want)
			}
		})
	}
}

// TestAForgedPhasePromisesNothing: a gang that this process did not admit counts with the resources that it holds. The cache limits
// these to what the node has.
func TestAForgedPhasePromisesNothing(t *testing.T) {
	c := newPromiseTest()
	job := c.add("ns", "g", cpus("8"))
	job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
	c.addPod(job, "2", api.Running)
	c.addPod(job, "6", api.Pending)
	if got, held := c.promised(time.Hour), job.GetMinResources().MilliCPU; got != 0 || held != 2000 {
		t.Errorf("%g cpus are promised, and the gang counts with %g thousandths; it holds 2", got, held)
	}
}

// TestAPromiseFollowsTheAdmission: a gang that is sent back, moved and admitted again has a promise in its new queue, of the new amount.
func TestAPromiseFollowsTheAdmission(t *testing.T) {
	c := newPromiseTest()
	job := c.admit("g", "8")
	job.Queue, c.asks["ns/g"] = "other", cpus("4")
	asks := c.asks["ns/g"]
	job.PodGroup.Spec.MinResources = &asks
	c.admit("g", "4")
	c.asks["ns/g"] = cpus("8")
	if got := c.promised(2 * time.Second); got != 4 || c.p.admitted["ns/g"].queue != "other" {
		t.Errorf("%g cpus are promised in queue %s, want 4 in the new one", got, c.p.admitted["ns/g"].queue)
	}
}

// TestNothingIsRememberedForGood about gangs and namespaces that are gone.
func TestNothingIsRememberedForGood(t *testing.T) {
	c := newPromiseTest()
	c.admit("g", "8")
	c.open(time.Second)
	clear(c.jobs)
	if c.open(2 * time.Second); len(c.p.admitted) != 1 {
		t.Fatalf("nothing was recorded: %+v", c.p)
	}
	c.open(shortestPromise)
	if len(c.p.admitted)+len(c.p.sums) != 0 {
		t.Errorf("remembered: %+v", c.p)
	}
}

// TestAGangThatIsPendingAgain is admitted at once while the session does not see the new phase. After that somebody has written the old
// phase, and it waits; as does a PodGroup that takes the place of an admitted one.
func TestAGangThatIsPendingAgain(t *testing.T) {
	const text = "a gang of this name was admitted, and deleted, moved or returned to Pending before it was placed; it can be admitted again 10s after that admission"
	type verdict struct {
		Admitted bool
		Refused  string
	}
	yes, no, asked := verdict{Admitted: true}, verdict{Refused: text}, verdict{}
	tests := map[string]struct {
		do    func(c *promiseTest, job *api.JobInfo)
		want  verdict
		later verdict
	}{
		"the phase is not written yet": {func(*promiseTest, *api.JobInfo) {}, yes, asked},
		"it was admitted again": {func(c *promiseTest, job *api.JobInfo) {
			c.p.recordAdmitted(c.session(), job, c.start.Add(time.Second))
			if got := c.p.sums[promisedIn{"ns", ""}].MilliCPU; got != 8000 {
				t.Errorf("%g thousandths of a cpu are promised, want 8 cpus", got)
			}
		}, yes, asked},
		"the old phase was written": {func(c *promiseTest, job *api.JobInfo) {
			job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
			c.open(time.Second)
			job.PodGroup.Status.Phase = scheduling.PodGroupPending
		}, no, asked},
		"another PodGroup": {func(_ *promiseTest, job *api.JobInfo) { job.PodGroup.UID = "new" }, no, asked},
		"another queue":    {func(_ *promiseTest, job *api.JobInfo) { job.Queue = "other" }, no, asked},
		"it was placed": {func(c *promiseTest, job *api.JobInfo) {
			job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
			c.addPod(job, "8", api.Binding)
			c.open(time.Second)
			job.PodGroup.Status.Phase = scheduling.PodGroupPending
		}, asked, asked},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newPromiseTest()
			job := c.admit("g", "8")
			job.PodGroup.Status.Phase = scheduling.PodGroupPending
			c.open(time.Second)
			tt.do(c, job)
			var got []verdict
			for _, after := range []time.Duration{shortestPromise - 1, shortestPromise} {
				c.open(after)
				admitted := c.p.admits(job)
				refused := ""
				if !admitted {
					refused = c.p.refuse(c.session(), job)
				}
				got = append(got, verdict{admitted, refused})
			}
			if diff := cmp.Diff([]verdict{tt.want, tt.later}, got); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}
