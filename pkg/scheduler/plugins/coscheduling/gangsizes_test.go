// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// ofSizes returns a gang with one member for each of these requests.
func ofSizes(minimum int32, sizes ...schedtest.Resources) *api.JobInfo {
	job := api.NewJobInfo("ns/g")
	job.MinAvailable, job.PodGroup = minimum, &api.PodGroup{}
	for i, size := range sizes {
		job.AddTaskInfo(api.NewTaskInfo(schedtest.MakePod().Name(fmt.Sprintf("g-%d", i)).Group("g").Req(size).Obj()))
	}
	return job
}

// TestTheLargestMembersOfAGang checks the order of members by size: devices, then cpu, then memory, then name.
func TestTheLargestMembersOfAGang(t *testing.T) {
	job := ofSizes(0,
		schedtest.Resources{"cpu": "2", "memory": "1Gi"},
		schedtest.Resources{"cpu": "2", "memory": "2Gi"},
		schedtest.Resources{"cpu": "9", "memory": "9Gi"},
		schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "2", "example.com/a": "1"},
		schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "2"},
		schedtest.Resources{"cpu": "2", "memory": "1Gi"},
		schedtest.Resources{"cpu": "100"},
	)
	for _, task := range job.Tasks {
		task.SchGated = task.Name == "g-6"
	}
	all := []string{"g-3", "g-4", "g-2", "g-1", "g-0", "g-5"}
	for _, tt := range []struct {
		minimum int32
		roles   map[string]int32
		want    []string
	}{{0, nil, all[:1]}, {1, nil, all[:1]}, {3, nil, all[:3]}, {6, nil, all}, {9, nil, all}, {1, map[string]int32{"a": 1}, all}} {
		job.MinAvailable, job.TaskMinAvailable = tt.minimum, tt.roles
		var names []string
		for _, task := range needed(job) {
			names = append(names, task.Name)
		}
		if diff := cmp.Diff(tt.want, names); diff != "" {
			t.Errorf("members for a minimum of %d and of roles %v (-want +got):\n%s", tt.minimum, tt.roles, diff)
		}
	}
	job.MinAvailable, job.TaskMinAvailable = 3, nil
	if got, want := requestOf(job), api.NewResource(v1.ResourceList{"cpu": *cpus("11"), "memory": *cpus("9Gi"), "nvidia.com/gpu": *cpus("4"), "example.com/a": *cpus("1"), "pods": *cpus("3")}); !got.Equal(want, api.Zero) {
		t.Errorf("the needed members request %s, want %s", got, want)
	}
}

// TestDemands checks that nodes are chosen again for a gang whose demand has changed, and not for one whose demand is
// equal.
func TestDemands(t *testing.T) {
	of := func(change func(job *api.JobInfo)) string {
		job := ofSizes(2, cores("1"), cores("2"), cores("3"))
		change(job)
		return demandOf(job)
	}
	before := of(func(*api.JobInfo) {})
	for name, tt := range map[string]struct {
		change func(job *api.JobInfo)
		other  bool
	}{
		"nothing":     {func(*api.JobInfo) {}, false},
		"its minimum": {func(job *api.JobInfo) { job.MinAvailable = 1 }, true},
		"its roles":   {func(job *api.JobInfo) { job.TaskMinAvailable = map[string]int32{"a": 1} }, true},
		"minResources, which sessions limit for admitted gangs": {func(job *api.JobInfo) {
			list := v1.ResourceList{"cpu": *cpus("5")}
			job.PodGroup.Spec.MinResources = &list
		}, false},
		"a member that no minimum needs": {func(job *api.JobInfo) {
			for _, task := range job.Tasks {
				if task.Name == "g-0" {
					task.InitResreq.MilliCPU = 500
				}
			}
		}, false},
		"a member that its minimum needs": {func(job *api.JobInfo) {
			for _, task := range job.Tasks {
				if task.Name == "g-2" {
					task.InitResreq.MilliCPU = 5000
				}
			}
		}, true},
		"the number of its members": {func(job *api.JobInfo) {
			job.MinAvailable = 5
			job.AddTaskInfo(api.NewTaskInfo(schedtest.MakePod().Name("g-9").Obj()))
		}, true},
	} {
		if changed := of(tt.change) != before; changed != tt.other {
			t.Errorf("%s: the demand has changed: %t, want %t", name, changed, tt.other)
		}
	}
}

// TestPrioritiesOfGangs: the priority of a gang is the lowest priority of its pending pods. A pod without priority
// counts as 0.
func TestPrioritiesOfGangs(t *testing.T) {
	for _, tt := range []struct {
		priorities []int32
		want       int32
	}{{nil, 0}, {[]int32{7}, 7}, {[]int32{9, 7, 8}, 7}, {[]int32{-3, -1}, -3}, {[]int32{5, 0, 3}, 0}} {
		job := ofSizes(0)
		for i, priority := range tt.priorities {
			pod := schedtest.MakePod().Name(fmt.Sprint(i)).Obj()
			if pod.Spec.Priority = &priority; priority == 0 {
				pod.Spec.Priority = nil
			}
			job.AddTaskInfo(api.NewTaskInfo(pod))
		}
		low := int32(-100)
		runs := schedtest.MakePod().Name("runs").Node("n").Phase(v1.PodRunning).Obj()
		runs.Spec.Priority = &low
		job.AddTaskInfo(api.NewTaskInfo(runs))
		for range 5 { // members have no order
			if got := priorityOf(job); got != tt.want {
				t.Errorf("the priority of a gang with pods of priorities %v is %d, want %d", tt.priorities, got, tt.want)
			}
		}
	}
}

// TestHowMuchOfANodeIsInUse: the occupancy of a node is the largest used share of the requested resources. Each member
// also requests a pod slot.
func TestHowMuchOfANodeIsInUse(t *testing.T) {
	node := api.NewNodeInfo(schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "4", "pods": "10"}).Obj())
	pod := schedtest.MakePod().Name("p").Node("n").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "3"}).Obj()
	if err := node.AddTask(api.NewTaskInfo(pod)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		request schedtest.Resources
		want    float64
	}{{cores("1"), 0.25}, {schedtest.Resources{"memory": "1Gi"}, 0.5}, {schedtest.Resources{"cpu": "1", "memory": "1Gi"}, 0.5},
		{schedtest.Resources{"cpu": "1", "nvidia.com/gpu": "1"}, 0.75}, {schedtest.Resources{"example.com/none": "1"}, 0.1}} {
		request := api.NewTaskInfo(schedtest.MakePod().Name("q").Req(tt.request).Obj()).InitResreq
		if got := occupancyOf(node, request); got != tt.want {
			t.Errorf("for request %v the occupancy is %v, want %v", tt.request, got, tt.want)
		}
	}
}

// TestWhichPodsLeave checks which pods leave a drained node: pods of the session's gangs that no DaemonSet and no node
// owns, and pods that are being deleted, in order.
func TestWhichPodsLeave(t *testing.T) {
	s := sessionOf(time.Now())
	node := api.NewNodeInfo(holds("64").Name("n").Obj())
	runs := ofSizes(0)
	for i, kind := range []string{"ReplicaSet", "DaemonSet", "Node", "", "Job", "stranger", "deleted"} {
		pod := schedtest.MakePod().Name(fmt.Sprint("p-", i)).Node("n").Phase(v1.PodRunning).Req(cores("1")).Obj()
		if kind != "" {
			yes := true
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: &yes}}
		}
		if now := metav1.Now(); kind == "deleted" {
			pod.DeletionTimestamp = &now
		}
		task := api.NewTaskInfo(pod)
		task.Job = "ns/runs"
		if kind == "stranger" || kind == "deleted" {
			task.Job = "ns/unknown"
		} else {
			runs.AddTaskInfo(task)
		}
		if err := node.AddTask(task); err != nil {
			t.Fatal(err)
		}
	}
	s.ssn.Jobs["ns/runs"] = runs
	var names []string
	for _, task := range toLeave(s.ssn.Jobs, node) {
		names = append(names, task.Name)
	}
	if diff := cmp.Diff([]string{"p-0", "p-3", "p-4", "p-6"}, names); diff != "" {
		t.Errorf("pods that leave (-want +got):\n%s", diff)
	}
	s.ssn.Nodes = map[string]*api.NodeInfo{"n": node}
	if diff := cmp.Diff(toLeave(s.ssn.Jobs, node), s.reservations.leaving(&reservation{nodes: map[string]bool{"n": true, "gone": true}}), cmp.Comparer(func(l, r *api.TaskInfo) bool { return l == r })); diff != "" {
		t.Errorf("pods that leave the nodes of a reservation (-want +got):\n%s", diff)
	}
	for name, want := range map[string]bool{"n": true, "gone": false} {
		if got := len(s.reservations.leaving(&reservation{nodes: map[string]bool{name: true}})) > 0; got != want {
			t.Errorf("pods leave node %s: %t, want %t", name, got, want)
		}
		if got := s.reservations.lost(&reservation{nodes: map[string]bool{name: true}}); got == want {
			t.Errorf("node %s is lost: %t, want %t", name, got, !want)
		}
	}
}

// TestNodesThatTakePods checks that only nodes that exist, are ready and are not cordoned can be reserved.
func TestNodesThatTakePods(t *testing.T) {
	ready := func() *api.NodeInfo { return api.NewNodeInfo(holds("4").Name("n").Obj()) }
	gone, cordoned, notReady := ready(), ready(), ready()
	gone.Node = nil
	cordoned.Node.Spec.Unschedulable = true
	notReady.State.Phase = api.NotReady
	for node, want := range map[*api.NodeInfo]bool{ready(): true, gone: false, cordoned: false, notReady: false} {
		if got := healthy(node); got != want {
			t.Errorf("node %v, %v can be reserved: %t, want %t", node.Node, node.State, got, want)
		}
	}
}

// TestAGangThatIsBeingBoundKeepsItsReservation checks that a reservation stays while a member of its gang is being
// bound.
func TestAGangThatIsBeingBoundKeepsItsReservation(t *testing.T) {
	now := time.Now()
	s := sessionOf(now)
	s.reservations.terms = reservationTerms{after: time.Minute, drain: time.Hour}
	job := gangIn(api.Binding, api.Pending).JobInfo
	job.UID, job.Queue = "ns/g", "q"
	s.ssn.Jobs[job.UID] = job
	r := &reservation{gang: job.UID, queue: job.Queue, since: now}
	s.reservations.known.active["q"] = r
	if s.reservations.review(r, now); s.reservations.known.active["q"] != r {
		t.Error("the reservation has ended")
	}
}

// TestWhichPodsReservationsReject checks which pods may not use reserved nodes, by the pods' own priority and by the
// owners of the job's pending pods. The job's priority, from the class of its PodGroup, does not count.
func TestWhichPodsReservationsReject(t *testing.T) {
	yes := true
	job := func(uid api.JobID, priority int32, owners ...string) *api.JobInfo {
		job := api.NewJobInfo(uid)
		job.Priority = priority
		for i, kind := range owners {
			pod := schedtest.MakePod().Name(fmt.Sprint(uid, i)).Obj()
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: &yes}}
			task := api.NewTaskInfo(pod)
			task.Job = uid
			job.AddTaskInfo(task)
		}
		return job
	}
	s := sessionOf(time.Now())
	for _, r := range []*reservation{{gang: "ns/b", queue: "b", priority: 20}, {gang: "ns/a", queue: "a", priority: 10}} {
		s.reservations.known.active[r.queue] = r
	}
	for name, tt := range map[string]struct {
		job  *api.JobInfo
		want string
	}{
		"no job":                        {nil, ""},
		"a job":                         {job("ns/c", 0, "Job"), ",a,,b,"},
		"of the lower priority":         {job("ns/c", 10, "Job"), ",a,,b,"},
		"of a priority between":         {job("ns/c", 11, "Job"), ",a,,b,"},
		"of the highest":                {job("ns/c", 21, "Job"), ",a,,b,"},
		"a gang for which nodes are":    {job("ns/a", 0, "Job"), ",b,"},
		"of a DaemonSet":                {job("ns/c", 0, "DaemonSet", "DaemonSet"), ""},
		"not all of a DaemonSet":        {job("ns/c", 0, "DaemonSet", "Job"), ",a,,b,"},
		"without pods":                  {job("ns/c", 0), ",a,,b,"},
		"the other for which nodes are": {job("ns/b", 0, "Job"), ",a,"},
	} {
		t.Run(name, func(t *testing.T) {
			k := &reservationFilter{ssn: s.ssn, known: s.reservations.known, keys: map[api.JobID]string{}}
			for range 2 {
				if got := k.jobKey(tt.job); got != tt.want {
					t.Errorf("the job's key is %q, want %q", got, tt.want)
				}
			}
			if tt.job == nil {
				return
			}
			s.ssn.Jobs[tt.job.UID] = tt.job
			k.byNode = map[string]*reservation{"n-a": s.reservations.known.active["a"], "n-b": s.reservations.known.active["b"]}
			for _, task := range tt.job.Tasks {
				for _, priority := range []int32{0, 10, 11, 20, 21} {
					task.Pod.Spec.Priority = &priority
					for _, queue := range []api.QueueID{"a", "b"} {
						r := s.reservations.known.active[queue]
						refused := k.predicate(task, &api.NodeInfo{Name: "n-" + string(queue)}) != nil
						if want := priority <= r.priority && strings.Contains(tt.want, ","+string(queue)+","); refused != want {
							t.Errorf("a pod of priority %d is rejected by the reservation of queue %s: %t, want %t", priority, queue, refused, want)
						}
					}
					if k.predicate(task, &api.NodeInfo{Name: "n-c"}) != nil {
						t.Error("a node that is not reserved rejects the pod")
					}
				}
			}
		})
	}
}
