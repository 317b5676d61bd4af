// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/state"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// queueOf returns a queue of n jobs with random priorities, each job's place in the order, and a counter of the
// comparisons.
func queueOf(n int, random *rand.Rand) (q *jobQueue, place map[api.JobID]int32, asked *int) {
	place, asked = map[api.JobID]int32{}, new(int)
	q = &jobQueue{first: func(l, r any) bool {
		*asked++
		left, right := l.(*api.JobInfo).UID, r.(*api.JobInfo).UID
		return place[left] < place[right] || place[left] == place[right] && left < right
	}, ask: func(_ []*api.JobInfo, sort func()) { sort() }}
	for i := range n {
		job := &api.JobInfo{UID: api.JobID(fmt.Sprintf("job-%04d", i)), Priority: random.Int32N(4)}
		place[job.UID] = -job.Priority
		q.push(job)
	}
	return q, place, asked
}

// TestJobsAreAskedAboutOnce checks that jobs in the usual order are compared about once each, since 10,000 waiting
// gangs are scheduled in each session.
func TestJobsAreAskedAboutOnce(t *testing.T) {
	const n = 2000
	q, _, asked := queueOf(n, rand.New(rand.NewPCG(1, 1)))
	for !q.empty() {
		q.pop()
	}
	if *asked > n+100 {
		t.Errorf("%d questions which of two jobs goes first, for %d jobs in the usual order", *asked, n)
	}
}

// TestTheFirstJobHasTheTurn checks that the first job in the plugins' order is scheduled next, even after a job whose
// place has changed returns to the queue.
func TestTheFirstJobHasTheTurn(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		q, place, _ := queueOf(1+random.IntN(60), random)
		for uid := range place {
			if seed%2 == 0 {
				place[uid] = random.Int32N(10)
			}
		}
		for !q.empty() {
			job := q.pop()
			for _, other := range q.jobs {
				if q.first(other, job) {
					t.Fatalf("seed %d: %s has its turn before %s", seed, job.UID, other.UID)
				}
			}
			if place[job.UID] < 20 && random.IntN(2) == 0 {
				place[job.UID] += random.Int32N(10) // Its share has grown.
				q.push(job)
			}
		}
	}
}

// TestReturnedJobKeepsTheQueueOrder checks that a job that returns to the queue does not come before jobs that now
// precede it. The order of the queue changes when jobs are placed with their gang group.
func TestReturnedJobKeepsTheQueueOrder(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 4))
		q, place, _ := queueOf(30, random)
		for !q.empty() {
			job := q.pop()
			for _, other := range q.jobs {
				if q.first(other, job) {
					t.Fatalf("seed %d: %s has its turn before %s", seed, job.UID, other.UID)
				}
			}
			if random.IntN(3) == 0 {
				var gangGroup []*api.JobInfo
				for _, other := range q.jobs {
					if random.IntN(5) == 0 {
						place[other.UID] += 10
						gangGroup = append(gangGroup, other)
					}
				}
				q.reorder(gangGroup)
			}
			if place[job.UID] < 20 {
				place[job.UID] += random.Int32N(10)
				q.push(job)
			}
		}
	}
}

// TestPluginsAreAskedForTheOrderOfJobsThatTheyMayOrder checks that plugins that treat the given jobs as equal are not
// asked for their order: gang if all jobs are below their minimum, drf if all their tasks are pending. If only upstream's
// priority is left, no plugin is asked, because the jobs already have its order.
func TestPluginsAreAskedForTheOrderOfJobsThatTheyMayOrder(t *testing.T) {
	const gangAndDRF = "tiers:\n- plugins:\n  - name: priority\n  - name: gang\n- plugins:\n  - name: drf\n"
	tests := map[string]struct {
		conf    string
		running int
		want    string
	}{
		"none has a member that runs":    {conf: gangAndDRF, want: "not asked"},
		"one has a member that runs":     {conf: gangAndDRF, running: 1, want: "asked: [priority drf]"},
		"one has its minimum":            {conf: gangAndDRF, running: 2, want: "asked: [priority gang drf]"},
		"without priority":               {conf: "tiers:\n- plugins:\n  - name: gang\n", want: "asked: []"},
		"with a plugin that asks for it": {conf: gangAndDRF + "  - name: sla\n", want: "asked: [priority sla]"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := sessiontest.ClusterSpec{Nodes: []*v1.Node{schedulertesting.MakeNode().Name("n").Capacity(schedulertesting.Resources{"cpu": "32", "pods": "10"}).Obj()}}
			for _, gang := range []string{"a", "b"} {
				w.PodGroups = append(w.PodGroups, schedulertesting.MakePodGroup().Name(gang).MinMember(2).Obj())
				for i := range 3 {
					pod := schedulertesting.MakePod().Name(fmt.Sprintf("%s-%d", gang, i)).Group(gang).Req(schedulertesting.Resources{"cpu": "1"})
					if gang == "a" && i < tt.running {
						pod.Node("n").Phase(v1.PodRunning)
					}
					w.Pods = append(w.Pods, pod.Obj())
				}
			}
			cluster := sessiontest.New(w)
			defer cluster.Close()
			ssn := cluster.Open(framework.NewRegistry(), "actions: allocate\n"+tt.conf)
			defer ssn.Close()
			action := New()
			run := state.NewRun(ssn.Session, action.crossSession, action.defaults, action.observe)
			got, jobs := "not asked", []*api.JobInfo{ssn.Jobs["ns/a"], ssn.Jobs["ns/b"]}
			newJobQueues(run).askJobOrder(run, jobs, func() {
				names := []string{}
				for _, option := range ssn.Tiers[0].Plugins {
					names = append(names, option.Name)
				}
				got = fmt.Sprint("asked: ", names)
			})
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestUsersPluginsOrderJobs checks that a user's plugin orders jobs, even if it replaces a plugin of upstream. The
// plugin orders the last name first, and the node has room for one pod.
func TestUsersPluginsOrderJobs(t *testing.T) {
	last := func(l, r any) int { return strings.Compare(r.(*api.JobInfo).Name, l.(*api.JobInfo).Name) }
	for _, name := range []string{"mine", "priority", "gang", "drf", "binpack"} {
		t.Run(name, func(t *testing.T) {
			w := sessiontest.ClusterSpec{Nodes: []*v1.Node{schedulertesting.MakeNode().Name("n").Capacity(schedulertesting.Resources{"cpu": "1", "pods": "10"}).Obj()}}
			for _, gang := range []string{"a", "b"} {
				w.PodGroups = append(w.PodGroups, schedulertesting.MakePodGroup().Name(gang).Obj())
				w.Pods = append(w.Pods, schedulertesting.MakePod().Name(gang).Group(gang).Req(schedulertesting.Resources{"cpu": "1"}).Obj())
			}
			cluster := sessiontest.New(w)
			defer cluster.Close()
			ssn := openReplacing(t, cluster, name, func(ssn *framework.Session) { ssn.AddJobOrderFn(name, last) })
			defer ssn.Close()
			New().Execute(ssn.Session)
			if diff := cmp.Diff(map[string]string{"ns/b": "n"}, ssn.Binds()); diff != "" {
				t.Errorf("bound (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUsersPluginsHavePrePredicates checks that the pre-predicate of a user's plugin can refuse a pod, even if the
// plugin replaces a plugin of upstream whose pre-predicate is skipped.
func TestUsersPluginsHavePrePredicates(t *testing.T) {
	for _, name := range []string{"mine", "capacity", "proportion"} {
		t.Run(name, func(t *testing.T) {
			cluster := sessiontest.New(sessiontest.ClusterSpec{
				Nodes:     []*v1.Node{schedulertesting.MakeNode().Name("n").Capacity(schedulertesting.Resources{"cpu": "1", "pods": "10"}).Obj()},
				PodGroups: []*v1beta1.PodGroup{schedulertesting.MakePodGroup().Name("a").Obj()},
				Pods:      []*v1.Pod{schedulertesting.MakePod().Name("a").Group("a").Req(schedulertesting.Resources{"cpu": "1"}).Obj()},
			})
			defer cluster.Close()
			refuse := func(*api.TaskInfo) error { return errors.New("refused") }
			ssn := openReplacing(t, cluster, name, func(ssn *framework.Session) { ssn.AddPrePredicateFn(name, refuse) })
			defer ssn.Close()
			New().Execute(ssn.Session)
			if binds := ssn.Binds(); len(binds) > 0 {
				t.Errorf("bound %v", binds)
			}
		})
	}
}

// openReplacing opens a session with a user's plugin of this name. If upstream has a plugin of this name, the user's
// plugin replaces it until the test ends.
func openReplacing(t *testing.T, cluster *sessiontest.Cluster, name string, open func(*framework.Session)) *sessiontest.Session {
	t.Helper()
	if upstreams, ok := vcframework.GetPluginBuilder(name); ok {
		t.Cleanup(func() { vcframework.RegisterPluginBuilder(name, upstreams) })
	}
	r := framework.NewRegistry()
	r.RegisterAction(New())
	r.RegisterPlugin(framework.PluginSpec{Name: name, Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return sessiontest.Signed{Plugin: &sessiontest.Plugin{Called: name, Open: open}}, nil
	})})
	return cluster.Open(r, "actions: allocate\ntiers:\n- plugins:\n  - name: "+name+"\n  - name: predicates\n")
}
