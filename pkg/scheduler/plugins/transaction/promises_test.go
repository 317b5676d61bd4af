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

// promiseTest has a cluster with one node of 8 cpus, and gangs that ask for some of them.
type promiseTest struct {
	start time.Time
	node  *api.NodeInfo
	jobs  map[api.JobID]*api.JobInfo
	// asks has the minResources of each gang.
	asks map[api.JobID]v1.ResourceList
	p    promises
}

func newPromiseTest() *promiseTest {
	c := &promiseTest{
		start: time.Now(), node: api.NewNodeInfo(schedtest.MakeNode().Name("n").Obj()),
		jobs: map[api.JobID]*api.JobInfo{}, asks: map[api.JobID]v1.ResourceList{}, p: newPromises(),
	}
	c.setIdle("8")
	return c
}

func cpus(amount string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
}

func (c *promiseTest) setIdle(cpu string) {
	c.node.Idle = api.NewResource(cpus(cpu))
	c.node.Idle.Memory = c.node.Allocatable.Memory
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
	c.p.recordAdmitted(c.session(), job)
	job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
	return job
}

// refuse makes a gang that the previous session did not admit.
func (c *promiseTest) refuse(namespace, name string, asks v1.ResourceList) {
	c.p.refused[c.add(namespace, name, asks).UID] = true
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

// reserved opens a session, and returns the cpus that upstream's plugins reserve for the gang ns/NAME in it.
func (c *promiseTest) reserved(name string, after time.Duration) float64 {
	c.open(after)
	job := c.jobs[api.JobID("ns/"+name)]
	return job.DeductSchGatedResources(job.GetMinResources()).MilliCPU / 1000
}

// step is the time between two sessions.
const step = promiseFor / 6

// reservedAfter opens sessions for as long as given, and returns the cpus that are reserved in the last one.
func (c *promiseTest) reservedAfter(name string, from, to time.Duration) (cpus float64) {
	for after := from; after <= to; after += step {
		cpus = c.reserved(name, after)
	}
	return cpus
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

// TestAPromiseDoesNotKeepOthersFromIdleResources: a tenant has a gang admitted that asks for all that the cluster has. It never
// creates pods, creates pods that fit nowhere, or waits for a pod that never ends.
func TestAPromiseDoesNotKeepOthersFromIdleResources(t *testing.T) {
	two := cpus("2")
	quota := v1.ResourceList{"cpu": resource.MustParse("2"), "limits.example.com/gpu": resource.MustParse("1")}
	tests := map[string]struct {
		do   func(c *promiseTest)
		want float64
	}{
		"no other gang waits":                      {func(*promiseTest) {}, 8},
		"a gang of another namespace waits":        {func(c *promiseTest) { c.refuse("others", "w", two) }, 0},
		"it asks for a quota that no node has":     {func(c *promiseTest) { c.refuse("others", "w", quota) }, 0},
		"gangs of two other namespaces wait":       {func(c *promiseTest) { c.refuse("others", "w", two); c.refuse("more", "w", two) }, 0},
		"one waits in its namespace, another not":  {func(c *promiseTest) { c.refuse("ns", "w", two); c.refuse("others", "w", two) }, 0},
		"a gang of its own namespace waits":        {func(c *promiseTest) { c.refuse("ns", "w", two) }, 8},
		"the idle resources do not suffice for it": {func(c *promiseTest) { c.setIdle("1"); c.refuse("others", "w", two) }, 8},
		"a pod that never ends keeps both out":     {func(c *promiseTest) { c.setIdle("7"); c.refuse("others", "w", cpus("7500m")) }, 8},
		"a pod that never ends keeps one out":      {func(c *promiseTest) { c.setIdle("7"); c.refuse("others", "w", two) }, 0},
		"the gang was not refused before":          {func(c *promiseTest) { c.add("others", "w", two) }, 8},
		"the gang was admitted since": {func(c *promiseTest) {
			c.refuse("others", "w", two)
			c.jobs["others/w"].PodGroup.Status.Phase = scheduling.PodGroupInqueue
		}, 8},
		"the gang asks for no resources any more": {func(c *promiseTest) { c.refuse("others", "w", nil); c.asks["others/w"] = nil }, 0},
		"the gang is gone":                        {func(c *promiseTest) { c.p.refused["others/gone"] = true }, 8},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newPromiseTest()
			c.admit("g", "8")
			tt.do(c)
			got := []float64{c.reserved("g", 0), c.reservedAfter("g", step, promiseFor-step), c.reservedAfter("g", promiseFor, 10*promiseFor)}
			if diff := cmp.Diff([]float64{8, 8, tt.want}, got); diff != "" {
				t.Errorf("cpus reserved at once, after nearly %s, and later (-want +got):\n%s", promiseFor, diff)
			}
		})
	}
}

// TestResourcesThatBecameIdleKeepNobodyOut: the session that sees them idle for the first time may admit the gang.
func TestResourcesThatBecameIdleKeepNobodyOut(t *testing.T) {
	c := newPromiseTest()
	c.admit("g", "8")
	c.refuse("others", "w", cpus("2"))
	for i := range 100 {
		c.setIdle([]string{"1", "8"}[i%2])
		if got := c.reserved("g", time.Duration(i)*step); got != 8 {
			t.Fatalf("%g cpus are reserved in session %d", got, i)
		}
	}
}

// TestANamespaceHasItsTimeOnceAnHour: a tenant makes one gang after the other, and deletes each.
func TestANamespaceHasItsTimeOnceAnHour(t *testing.T) {
	for each := range map[time.Duration]bool{step: true, 3 * step: true} {
		t.Run(each.String(), func(t *testing.T) {
			c := newPromiseTest()
			c.refuse("others", "w", cpus("2"))
			var reserved time.Duration
			for after := time.Duration(0); after < 2*noPromisesFor; after += step {
				name := fmt.Sprint("g", int(after/each))
				if c.jobs[api.JobID("ns/"+name)] == nil {
					maps.DeleteFunc(c.jobs, func(_ api.JobID, job *api.JobInfo) bool { return job.Namespace == "ns" })
					c.admit(name, "8")
				}
				if c.reserved(name, after) > 0 {
					reserved += step
				}
			}
			if most := 2 * (promiseFor + step); reserved > most || reserved < 2*promiseFor {
				t.Errorf("resources are reserved for %s of %s, want %s to %s", reserved, 2*noPromisesFor, 2*promiseFor, most)
			}
		})
	}
}

// TestAPauseOfTheSchedulerCostsLittle: no session could admit a gang or place one meanwhile.
func TestAPauseOfTheSchedulerCostsLittle(t *testing.T) {
	c := newPromiseTest()
	c.admit("g", "8")
	c.refuse("others", "w", cpus("2"))
	got := []float64{c.reserved("g", 0), c.reserved("g", time.Second), c.reserved("g", time.Hour), c.reserved("g", time.Hour+time.Second)}
	if diff := cmp.Diff([]float64{8, 8, 8, 8}, got); diff != "" {
		t.Errorf("reserved cpus (-want +got):\n%s", diff)
	}
}

// uncounted is a cluster in which the promises of namespace ns count no longer.
func uncounted() *promiseTest {
	c := newPromiseTest()
	c.p.inTheWay["ns"] = inTheWay{promiseFor, c.start}
	return c
}

// TestAnUncountedPromiseReservesNothingAtOnce: upstream's plugins add up minResources in the session that admits the gang, too.
// Otherwise the oldest of a thousand gangs is admitted in each session, and another tenant's gang never.
func TestAnUncountedPromiseReservesNothingAtOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		c    *promiseTest
		want float64
	}{"counted": {newPromiseTest(), 8}, "uncounted": {uncounted(), 0}} {
		if got := tt.c.admit("g", "8").GetMinResources().MilliCPU / 1000; got != tt.want {
			t.Errorf("%s: %g cpus are reserved in the session that admits the gang, want %g", name, got, tt.want)
		}
	}
}

// TestUncountedPromisesAreLimited: otherwise the pods of all waiting Volcano Jobs of a namespace would be created.
func TestUncountedPromisesAreLimited(t *testing.T) {
	tests := map[string]struct {
		c    *promiseTest
		do   func(c *promiseTest)
		asks string
		want string
	}{
		"the first gang":    {uncounted(), func(*promiseTest) {}, "9", ""},
		"up to the cluster": {uncounted(), func(c *promiseTest) { c.admit("a", "3"); c.admit("b", "2") }, "3", ""},
		"more than the cluster": {
			uncounted(), func(c *promiseTest) { c.admit("a", "3"); c.admit("b", "2") }, "4",
			"admitted gangs of namespace ns already wait for as much as the cluster has; this one is admitted when enough of them are placed or deleted",
		},
		"beside gangs that hold their resources": {uncounted(), func(c *promiseTest) {
			c.addPod(c.admit("a", "8"), "8", api.Running)
			c.open(time.Second)
		}, "4", ""},
		"while promises count": {newPromiseTest(), func(c *promiseTest) { c.admit("a", "8") }, "8", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.do(tt.c)
			if got := tt.c.p.refuse(tt.c.session(), tt.c.add("ns", "w", cpus(tt.asks))); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
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
		"the phase is pending for a while":    {func(_ *promiseTest, job *api.JobInfo) { job.PodGroup.Status.Phase = scheduling.PodGroupPending }, []float64{8, 8, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := newPromiseTest()
			job := c.admit("g", "8")
			got := []float64{c.reserved("g", time.Second)}
			tt.do(c, job)
			got = append(got, c.reserved("g", 2*time.Second)) // a pending gang asks for its minResources, and reserves nothing
			for _, task := range maps.Clone(job.Tasks) {
				if err := job.DeleteTaskInfo(task); err != nil {
					t.Fatal(err)
				}
			}
			c.asks["ns/g"], job.Queue, job.PodGroup.Status.Phase = cpus("8"), "q", scheduling.PodGroupInqueue
			if diff := cmp.Diff(tt.want, append(got, c.reserved("g", 3*time.Second))); diff != "" {
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
	got := []float64{c.reserved("g", time.Second)}
	c.addPod(job, "2", api.Pending)
	if diff := cmp.Diff([]float64{2, 2}, append(got, c.reserved("g", time.Hour))); diff != "" {
		t.Errorf("reserved cpus (-want +got):\n%s", diff)
	}
}

// TestAPromiseIsFulfilledByHeldResources of members that are bound: a bind may fail, and then the gang needs the resources again.
// A gang that is being bound keeps nobody out.
func TestAPromiseIsFulfilledByHeldResources(t *testing.T) {
	for status, want := range map[api.TaskStatus]float64{api.Binding: 8, api.Bound: 0, api.Running: 0} {
		t.Run(status.String(), func(t *testing.T) {
			c := newPromiseTest()
			job := c.admit("g", "8")
			c.refuse("others", "w", cpus("2"))
			task := c.addPod(job, "8", status)
			c.reservedAfter("g", 0, 3*promiseFor)
			if err := job.UpdateTaskStatus(task, api.Pending); err != nil {
				t.Fatal(err)
			}
			if got := c.reserved("g", 3*promiseFor+time.Second); got != want {
				t.Errorf("%v cpus are reserved when the member waits again, want %v", got, want)
			}
		})
	}
}

// TestAHeldAmountIsNoPromise: a gang that this process did not admit counts with the resources that it holds. The cache limits these to what the node has.
func TestAHeldAmountIsNoPromise(t *testing.T) {
	c := newPromiseTest()
	job := c.admit("g", "8")
	delete(c.p.admitted, "ns/g") // the tenant wrote the phase
	c.addPod(job, "2", api.Running)
	c.addPod(job, "6", api.Pending)
	if got := c.reserved("g", time.Hour); got != 2 {
		t.Errorf("%v cpus are reserved for a gang whose pod holds 2", got)
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
	if c.asks["ns/g"] = cpus("8"); c.reserved("g", 2*time.Second) != 4 {
		t.Errorf("%g cpus are reserved, want 4", job.GetMinResources().MilliCPU/1000)
	}
}

// TestNothingIsRememberedForGood about gangs and namespaces that are gone.
func TestNothingIsRememberedForGood(t *testing.T) {
	c := newPromiseTest()
	c.admit("g", "8")
	c.refuse("others", "w", cpus("2"))
	c.reservedAfter("g", 0, 2*promiseFor)
	if len(c.p.inTheWay) != 1 || len(c.p.sums) != 1 {
		t.Fatalf("nothing was recorded: %+v", c.p)
	}
	clear(c.jobs)
	c.p.recordRefused(c.session())
	c.open(noPromisesFor + 2*promiseFor)
	if len(c.p.admitted)+len(c.p.inTheWay)+len(c.p.sums)+len(c.p.refused) != 0 || c.p.idle != nil {
		t.Errorf("remembered: %+v", c.p)
	}
}
