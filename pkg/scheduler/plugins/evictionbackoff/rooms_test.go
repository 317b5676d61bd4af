// SPDX-License-Identifier: Apache-2.0

package evictionbackoff

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// gpus returns a request of GPUs.
func gpus(n float64) *api.Resource {
	return &api.Resource{MilliCPU: 1000 * n, ScalarResources: map[v1.ResourceName]float64{"gpu": n}}
}

// gangOf returns a gang of queue q with tasks of one GPU each, named gang-0 and so on, in these statuses.
func gangOf(name api.JobID, statuses ...api.TaskStatus) *api.JobInfo {
	job := api.NewJobInfo(name)
	job.Queue = "q"
	for i, status := range statuses {
		uid := api.TaskID(fmt.Sprintf("%s-%d", name, i))
		job.Tasks[uid] = &api.TaskInfo{UID: uid, Job: name, Resreq: gpus(1), TransactionContext: api.TransactionContext{Status: status}}
	}
	return job
}

// roomOf returns a room for the gang with victims of this number of GPUs. The nominees are all of the gang's tasks and
// a deleted one.
func roomOf(victims float64, gang *api.JobInfo) (*rooms, *room) {
	own := newRoom()
	sumOf(own.victims, "q").Add(gpus(victims))
	r := &rooms{
		ssn: &framework.Session{Session: &vcframework.Session{Jobs: map[api.JobID]*api.JobInfo{gang.UID: gang}}},
		of:  map[api.JobID]*room{gang.UID: own}, nominees: map[api.TaskID]bool{}, taken: map[api.QueueID]*api.Resource{},
	}
	c := newClaim()
	c.nominees["deleted"] = nominee{}
	for uid := range gang.Tasks {
		c.nominees[uid] = nominee{}
	}
	r.fill(own, gang, c, nil)
	r.recount(own)
	return r, own
}

// TestVictimsCountBeyondWhatTheirGangHolds: each placed nominee uses the room of one victim, whether this session or an
// earlier one placed it, until its placement is reverted. Pods of other gangs, and pods that are no nominees, use no
// room.
func TestVictimsCountBeyondWhatTheirGangHolds(t *testing.T) {
	gang := gangOf("g", api.Running, api.Pending, api.Releasing)
	r, own := roomOf(3, gang)
	want := func(n float64, when string) {
		t.Helper()
		if !r.taken["q"].Equal(gpus(n), api.Zero) || !own.taken["q"].Equal(gpus(n), api.Zero) {
			t.Errorf("%s: the victims count with %v (their room with %v) in addition to the gang, want %v", when, r.taken["q"], own.taken["q"], gpus(n))
		}
	}
	want(2, "at open")
	r.updateRoom(gang.Tasks["g-1"], (*api.Resource).Add)
	want(1, "a nominee is placed")
	r.updateRoom(&api.TaskInfo{UID: "g-9", Job: "g", Resreq: gpus(1)}, (*api.Resource).Add)
	want(1, "a pod that is no nominee is placed")
	r.updateRoom(&api.TaskInfo{UID: "g-1", Job: "other", Resreq: gpus(1)}, (*api.Resource).Add)
	want(1, "a pod of a gang without a room is placed")
	r.updateRoom(gang.Tasks["g-1"], (*api.Resource).SubWithoutAssert)
	want(2, "the nominee is taken back")
	if !r.allocatable(&api.QueueInfo{UID: "q"}, &api.TaskInfo{Job: "gone"}) {
		t.Error("a pod whose gang no longer exists is rejected")
	}
}

// TestGangsWithACommonVictimShareARoom checks that gangs share a room if they have a common victim, also through other
// gangs, whatever the order in which they are added.
func TestGangsWithACommonVictimShareARoom(t *testing.T) {
	victims := map[api.JobID][]api.TaskID{"a": {"1"}, "b": {"1", "2"}, "c": {"2", "3"}, "d": {"3"}, "e": {"4"}}
	for _, order := range [][]api.JobID{{"a", "b", "c", "d", "e"}, {"a", "d", "e", "b", "c"}, {"e", "d", "a", "c", "b"}} {
		var s sharers
		for _, gang := range order {
			c := newClaim()
			for _, victim := range victims[gang] {
				c.victims[victim] = "lends"
			}
			s.add(gang, c)
		}
		for _, gang := range []api.JobID{"b", "c", "d"} {
			if s.first(gang) != s.first("a") {
				t.Errorf("added in order %v, gangs a and %s have no common room", order, gang)
			}
		}
		if s.first("e") != "e" {
			t.Errorf("added in order %v, a gang without common victims shares the room of %s", order, s.first("e"))
		}
	}
}

// TestACommonVictimCountsOnce: two gangs evicted the same pod.
func TestACommonVictimCountsOnce(t *testing.T) {
	a, b := gangOf("a", api.Pending), gangOf("b", api.Pending)
	victims := gangOf(framework.DeletedJob("lends"))
	victims.SetPodGroup(&api.PodGroup{})
	victims.Queue = "q"
	victims.AddTaskInfo(&api.TaskInfo{UID: "victim", Job: victims.UID, Resreq: gpus(1), TransactionContext: api.TransactionContext{Status: api.Bound}})
	c := newClaim()
	c.victims["victim"] = "lends"
	ssn := &framework.Session{Session: &vcframework.Session{Jobs: map[api.JobID]*api.JobInfo{a.UID: a, b.UID: b, victims.UID: victims}}}
	r, own := &rooms{ssn: ssn, nominees: map[api.TaskID]bool{}, taken: map[api.QueueID]*api.Resource{}}, newRoom()
	for _, gang := range []*api.JobInfo{a, b} {
		r.fill(own, gang, c, map[api.TaskID]api.JobID{"victim": "b"})
	}
	if !own.victims["q"].Equal(gpus(1), api.Zero) || len(own.leaving) != 1 {
		t.Errorf("the room has %v of %d victims, want %v of one victim", own.victims["q"], len(own.leaving), gpus(1))
	}
}

// TestGangsOfAGroupCountTheirCommonRoomOnce checks that the gangs of a group have one common room, so that their
// victims count only once.
func TestGangsOfAGroupCountTheirCommonRoomOnce(t *testing.T) {
	s := newGroupEvictions(t)
	ssn := s.cluster.Open(s.registry, s.conf)
	defer ssn.Close()
	shared := newRoom()
	shared.leaving = []*api.TaskInfo{{UID: "victim"}}
	r := &rooms{ssn: ssn.Session, of: map[api.JobID]*room{"ns/gang": shared, "ns/y": shared}}
	if own := r.own(ssn.Jobs["ns/gang"]); len(own) != 1 || own[0] != shared {
		t.Errorf("the gang has %d rooms, want one, which it shares with its group", len(own))
	}
	for _, r.binding = range []bool{false, true} {
		if victims := r.leaving(&api.TaskInfo{Job: "ns/gang"}); (len(victims) == 0) != r.binding {
			t.Errorf("during the check whether the gang may be bound: %t; ignored victims: %v", r.binding, victims)
		}
	}
}

// besideARoom opens a session in which two gangs of one queue are pending: gang, whose victim lends-0 of 4 cpus is
// terminating, and other of 2 cpus. The queue admits a task if the task and the resources that count with it are at
// most limit cpus. The test may change limit.
func besideARoom(t *testing.T, limit *float64) *sessiontest.Session {
	t.Helper()
	w := evicting(map[string]string{"n1": "4", "n2": "8"}, []runs{{node: "n1", job: "lends", priority: 1, cpu: "4"}}, 100, []wants{{"", "4"}})
	w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("other").MinMember(1).PriorityClass("p1").Obj())
	w.Pods = append(w.Pods, schedtest.MakePod().Name("other-0").Group("other").Priority(1).Req(schedtest.Resources{"cpu": "2"}).Obj())
	s := newRepeatedEvictions(t, w, strings.Replace(fmt.Sprintf(tiers, Name, true), "- name: nodeorder", "- name: nodeorder\n  - name: helper", 1))
	s.registry.RegisterPlugin(helper{Open: func(ssn *framework.Session) {
		ssn.AddAllocatableFn("helper", func(_ *api.QueueInfo, task *api.TaskInfo) bool { return task.Resreq.MilliCPU <= 1000**limit })
	}}.spec())
	c := newClaim()
	c.until, c.open = time.Now().Add(time.Hour), true
	c.victims[api.TaskID(w.Pods[0].UID)], c.nodes["n1"] = "ns/lends", true
	c.nominees[api.TaskID(w.Pods[1].UID)] = nomineeOf(api.NewTaskInfo(w.Pods[1]))
	s.plugin.claims = map[api.JobID]*claim{"ns/gang": c}
	cache := s.cluster.Cache()
	lends, standIn := cache.Jobs["ns/lends"], api.NewJobInfo(framework.DeletedJob("ns/lends"))
	standIn.Queue = lends.Queue
	for _, task := range lends.Tasks {
		own := task.Clone()
		own.Job, own.Status = standIn.UID, api.Bound
		standIn.AddTaskInfo(own)
	}
	standIn.SetPodGroup(&api.PodGroup{Version: lends.PodGroup.Version, PodGroup: *lends.PodGroup.PodGroup.DeepCopy()})
	delete(cache.Jobs, lends.UID)
	cache.Jobs[standIn.UID] = standIn
	ssn := s.cluster.Open(s.registry, s.conf)
	t.Cleanup(ssn.Close)
	return ssn
}

// first returns a task of the gang.
func first(ssn *sessiontest.Session, gang api.JobID) *api.TaskInfo {
	for _, task := range ssn.Jobs[gang].Tasks {
		return task
	}
	return nil
}

// TestARoomCountsAgainstOtherGangs: a queue admits another gang only if it fits beside the running victims, or beside
// the gang that holds their resources. The gang itself is admitted as if its victims had terminated.
func TestARoomCountsAgainstOtherGangs(t *testing.T) {
	limit := 6.0
	ssn := besideARoom(t, &limit)
	gang, other := first(ssn, "ns/gang"), first(ssn, "ns/other")
	queue := ssn.Queues[ssn.Jobs["ns/gang"].Queue]
	admits := func(of *api.TaskInfo, cpus float64, want bool, when string) {
		t.Helper()
		if limit = cpus; ssn.Allocatable(queue, of) != want {
			t.Errorf("%s: the queue, with a limit of %v cpus, admits %s: %t, want %t", when, cpus, of.Name, !want, want)
		}
	}
	admits(other, 6, true, "while the victim runs")
	admits(other, 5.9, false, "while the victim runs")
	admits(gang, 4, true, "while the victim runs")
	// Plugins that count devices ignore the victims only for the gang.
	for of, want := range map[*api.TaskInfo]int{gang: 1, other: 0} {
		if _, gone := ssn.QueueUse.Asked(of); len(gone) != want || want == 1 && gone[0].Name != "lends-0" {
			t.Errorf("plugins ignore victims %[2]v for %[1]s, want %[3]d victims", of.Name, gone, want)
		}
	}
	if err := ssn.PrePredicateFn(gang); err != nil {
		t.Fatal(err)
	}
	statement := vcframework.NewStatement(ssn.Session.Session)
	if err := statement.Allocate(gang, ssn.Nodes["n2"]); err != nil {
		t.Fatal(err)
	}
	admits(other, 2, true, "the gang has as much as its victim")
	for _, limit = range []float64{0, -1} { // the queue counts the gang's task already, so 0 more cpus are requested
		if ready := ssn.JobReady(ssn.Jobs["ns/gang"]); ready == (limit < 0) {
			t.Errorf("with %v more cpus permitted in the queue, the gang may be bound while its victim runs: %t", limit, ready)
		}
	}
	limit = 0
	for capability, want := range map[string]bool{"8": true, "7.9": false} { // 4 of the victim and 4 of the gang
		queue.Queue.Spec.Capability = v1.ResourceList{v1.ResourceCPU: resource.MustParse(capability)}
		if ready := ssn.JobReady(ssn.Jobs["ns/gang"]); ready != want {
			t.Errorf("with a capability of %s cpus, the gang may be bound while its victim runs: %t, want %t", capability, ready, want)
		}
	}
	queue.Queue.Spec.Capability = nil
	statement.Discard()
	admits(other, 5.9, false, "the gang is taken back")
	admits(other, 6, true, "the gang is taken back")
}

// TestPluginsDecideWhetherAGangIsBoundBesideItsVictims: a plugin that rejects the placed tasks of a gang, such as
// deviceshare for the devices of its queue, keeps the gang from being bound while its victims run.
func TestPluginsDecideWhetherAGangIsBoundBesideItsVictims(t *testing.T) {
	w := evicting(map[string]string{"n1": "4"}, nil, 100, []wants{{"n1", "4"}})
	s := newRepeatedEvictions(t, w, strings.Replace(fmt.Sprintf(tiers, Name, true), "- name: nodeorder", "- name: nodeorder\n  - name: helper", 1))
	full, asked := false, 0
	s.registry.RegisterPlugin(helper{Open: func(ssn *framework.Session) {
		ssn.AddAllocatableFn("helper", func(_ *api.QueueInfo, task *api.TaskInfo) bool {
			if _, gone := ssn.QueueUse.Asked(task); slices.ContainsFunc(gone, func(of *api.TaskInfo) bool { return of.UID == "victim" }) {
				t.Error("the plugin is called without a victim that still runs")
			}
			asked++
			return !full
		})
	}}.spec())
	ssn := s.cluster.Open(s.registry, s.conf)
	defer ssn.Close()
	gang := ssn.Jobs["ns/gang"]
	own := newRoom()
	own.leaving = []*api.TaskInfo{{UID: "victim"}}
	r := &rooms{ssn: ssn.Session, of: map[api.JobID]*room{gang.UID: own}, tiers: ssn.Tiers}
	s.plugin.rooms = r
	if !r.ready(gang) {
		t.Error("a gang without placements of this session is not ready")
	}
	for _, task := range gang.Tasks {
		if err := gang.UpdateTaskStatus(task, api.Allocated); err != nil {
			t.Fatal(err)
		}
	}
	for _, full = range []bool{false, true} {
		if got := r.ready(gang); got == full {
			t.Errorf("with a plugin that rejects the gang: %t, the gang may be bound: %t", full, got)
		}
	}
	if asked != 2 {
		t.Errorf("the plugin was called %d times, want 2", asked)
	}
}
