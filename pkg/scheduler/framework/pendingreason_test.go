// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// bare is a session without a snapshot.
func bare() *Session {
	ssn := newSession(nil)
	ssn.attach(&vcframework.Session{Jobs: map[api.JobID]*api.JobInfo{}, Queues: map[api.QueueID]*api.QueueInfo{}})
	return ssn
}

// gangOf returns a gang without tasks.
func gangOf(minMember int32) *api.JobInfo {
	job := api.NewJobInfo("ns/g")
	job.SetPodGroup(&api.PodGroup{PodGroup: scheduling.PodGroup{Spec: scheduling.PodGroupSpec{MinMember: minMember}}})
	return job
}

func TestHasClaims(t *testing.T) {
	ephemeral := schedtest.MakePod().Obj()
	ephemeral.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
	empty := schedtest.MakePod().Obj()
	empty.Spec.Volumes = []v1.Volume{{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	tests := map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"none":                    {pod: schedtest.MakePod().Obj()},
		"a volume of the node":    {pod: empty},
		"a claim":                 {pod: schedtest.MakePod().Volume("data").Obj(), want: true},
		"a claim made for it":     {pod: ephemeral, want: true},
		"devices that it claims":  {pod: schedtest.MakePod().ResourceClaim("gpu").Obj(), want: true},
		"a volume before a claim": {pod: schedtest.MakePod().Volume("data").Volume("more").Obj(), want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := HasClaims(tt.pod); got != tt.want {
				t.Errorf("the pod has claims: %t, want %t", got, tt.want)
			}
		})
	}
}

// TestQueuesThatAreInEachOther checks that a cycle of parent queues, which the API server accepts, does not make the
// scheduler hang.
func TestQueuesThatAreInEachOther(t *testing.T) {
	ssn := bare()
	for name, parent := range map[string]string{"a": "b", "b": "c", "c": "b"} {
		ssn.Queues[api.QueueID(name)] = api.NewQueueInfo(&scheduling.Queue{Spec: scheduling.QueueSpec{Parent: parent}})
	}
	if diff := cmp.Diff([]api.QueueID{"a", "b", "c"}, ssn.QueueUse.Path("a")); diff != "" {
		t.Errorf("path (-want +got):\n%s", diff)
	}
}

// TestQueueUse checks that placed pods, including nominated pods, count in the queue and in its parents. An admitted
// gang without a placed pod does not count.
func TestQueueUse(t *testing.T) {
	ssn := bare()
	for name, parent := range map[string]string{"inner": "outer", "outer": ""} {
		ssn.Queues[api.QueueID(name)] = api.NewQueueInfo(&scheduling.Queue{Spec: scheduling.QueueSpec{Parent: parent}})
	}
	minimum := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}
	gang := func(uid api.JobID, queue api.QueueID, phase scheduling.PodGroupPhase, statuses ...api.TaskStatus) *api.JobInfo {
		job := gangOf(2)
		job.UID, job.Queue = uid, queue
		job.PodGroup.Spec.MinResources, job.PodGroup.Status.Phase = &minimum, phase
		for i, status := range statuses {
			task := api.NewTaskInfo(schedtest.MakePod().Name(fmt.Sprintf("%s-%d", uid, i)).Group("g").Req(schedtest.Resources{"cpu": "1"}).Obj())
			task.Job, task.Status = uid, status
			job.AddTaskInfo(task)
		}
		ssn.Jobs[uid] = job
		return job
	}
	gang("runs", "inner", scheduling.PodGroupRunning, api.Running, api.Running)
	gang("is half placed", "outer", scheduling.PodGroupInqueue, api.Allocated, api.Pending)
	gang("gets room that is being made", "inner", scheduling.PodGroupRunning, api.Pipelined, api.Pipelined)
	gang("was let in", "inner", scheduling.PodGroupInqueue, api.Pending, api.Pending)
	gang("was not", "inner", scheduling.PodGroupPending, api.Pending, api.Pending)
	use := &ssn.QueueUse
	use.count()
	got := map[string]float64{"inner": use.of("inner").MilliCPU, "outer": use.of("outer").MilliCPU, "all": use.all.MilliCPU}
	want := map[string]float64{"inner": 4000, "outer": 5000, "all": 5000}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("thousandths of cpu (-want +got):\n%s", diff)
	}
}

// TestAQueueIsFullBeyondItsCapability checks that a request is reported as too large only if it exceeds the capability
// that the queue and its parent have left. The text names the queue that is full, here the parent.
func TestAQueueIsFullBeyondItsCapability(t *testing.T) {
	ssn := bare()
	for name, spec := range map[string]scheduling.QueueSpec{
		"inner": {Parent: "outer"}, "outer": {Capability: v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")}},
	} {
		queue := api.NewQueueInfo(&scheduling.Queue{Spec: spec})
		queue.UID, queue.Name = api.QueueID(name), name
		ssn.Queues[queue.UID] = queue
	}
	ssn.QueueUse.count()
	ssn.QueueUse.add("inner", &api.Resource{MilliCPU: 4000})
	for cpu, want := range map[float64]string{
		3000: "", 4000: "", 4001: "queue outer has reached its capability: cpu 4 of 8 in use, 4001m requested",
	} {
		if diff := cmp.Diff(want, ssn.QueueUse.overCapability(ssn.Queues["inner"], &api.Resource{MilliCPU: cpu})); diff != "" {
			t.Errorf("limits that %g milli-CPU exceed (-want +got):\n%s", cpu, diff)
		}
	}
}

// TestRefusingPluginIsFoundByCallingEachAlone checks that the refusing plugin is found by calling each plugin alone,
// and that the tiers are complete again afterwards.
func TestRefusingPluginIsFoundByCallingEachAlone(t *testing.T) {
	ssn := bare()
	tiers := []conf.Tier{tier("a", "extender"), tier("b", "c")}
	ssn.Tiers = tiers
	refuses := func(who string) func() bool {
		return func() bool { return len(ssn.Tiers) == 1 && ssn.Tiers[0].Plugins[0].Name == who }
	}
	for who, want := range map[string]string{"a": "a", "c": "c", "nobody": "extender"} {
		if got := ssn.QueueUse.refuser(refuses(who)); got != want {
			t.Errorf("when %s refuses, the plugin is reported as %q, want %q", who, got, want)
		}
		if diff := cmp.Diff(tiers, ssn.Tiers); diff != "" {
			t.Errorf("tiers afterwards (-want +got):\n%s", diff)
		}
	}
}

type placeFirst func(*api.JobInfo) bool

func (fn placeFirst) PlaceFirst(job *api.JobInfo) (map[api.TaskID]bool, bool) { return nil, fn(job) }

// TestAGangIsPlacedFirstIfAnyPluginSaysSo checks that a gang is placed first if any plugin (Prioritizer) says so. A
// plugin that panics is ignored.
func TestAGangIsPlacedFirstIfAnyPluginSaysSo(t *testing.T) {
	ssn := bare()
	job := gangOf(1)
	ssn.Placements.add("a", placeFirst(func(*api.JobInfo) bool { panic("oh no") }), nil)
	if ssn.Placements.IsPlacedFirst(job) {
		t.Error("a job is placed first although no plugin says so")
	}
	ssn.Placements.add("b", placeFirst(func(*api.JobInfo) bool { return true }), nil)
	if !ssn.Placements.IsPlacedFirst(job) {
		t.Error("a job is not placed first although a plugin says so")
	}
}

// TestAChangedAnnotationIsDecided checks that a changed or a new annotation is staged. An unchanged annotation is
// not, unless a plugin stages it.
func TestAChangedAnnotationIsDecided(t *testing.T) {
	task := api.NewTaskInfo(schedtest.MakePod().Name("p").Annotation("old", "1").Annotation("changed", "2").Annotation("new", "3").Annotation("same", "4").Obj())
	before := map[string]string{"old": "1", "changed": "1", "same": "4"}
	c := &sessionCache{session: bare(), annotations: map[api.TaskID]map[string]string{task.UID: before}}
	c.session.StageAnnotation(task, "same", "4")
	c.session.StageAnnotation(task, "own", "5")
	if diff := cmp.Diff(map[string]string{"changed": "2", "new": "3", "same": "4", "own": "5"}, c.decided(task)); diff != "" {
		t.Errorf("decided (-want +got):\n%s", diff)
	}
	c.session.StageAnnotation(task, "own", "6")
	c.session.UnstageAnnotation(task, "own")
	c.session.UnstageAnnotation(task, "same")
	c.session.UnstageAnnotation(task, "never")
	if diff := cmp.Diff(map[string]string{"changed": "2", "new": "3"}, c.decided(task)); diff != "" {
		t.Errorf("taken back, decided (-want +got):\n%s", diff)
	}
	if got := task.Pod.Annotations["same"]; got != "4" {
		t.Errorf("after the revert the pod has %q, want its former annotations", got)
	}
}

// TestAGangThatIsPlacedAfterAllIsNotExplained checks that a gang that is placed later in the session has no
// explanation, although an earlier action had no room for it.
func TestAGangThatIsPlacedAfterAllIsNotExplained(t *testing.T) {
	ssn := bare()
	for _, gang := range []string{"g", "other"} {
		ssn.Explain(api.JobID("ns/"+gang), GangExplanation{PodGroup: gang})
		ssn.SetPendingReason(api.JobID("ns/"+gang), PendingReason{NotEnoughResources, "no room"})
	}
	ssn.Placed("ns/g")
	if _, waits := ssn.PendingReason("ns/g"); waits {
		t.Error("the placed gang is reported as waiting")
	}
	if list := ssn.Explanations(); len(list) != 1 || list[0].PodGroup != "other" {
		t.Errorf("explained are %v, want the gang that was not placed", list)
	}
}
