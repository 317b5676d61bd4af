// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
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

// jobOf returns the gang with a task of each status, and this number of tasks with a scheduling gate.
func jobOf(t *testing.T, minMember int32, gated int, statuses ...api.TaskStatus) *api.JobInfo {
	t.Helper()
	job := api.NewJobInfo("ns/g")
	group := &api.PodGroup{Version: api.PodGroupVersionV1Beta1}
	if err := scheme.Scheme.Convert(schedtest.MakePodGroup().Name("g").MinMember(minMember).Obj(), &group.PodGroup, nil); err != nil {
		t.Fatal(err)
	}
	job.SetPodGroup(group)
	for i, status := range statuses {
		pod := schedtest.MakePod().Name(fmt.Sprintf("p%d", i)).Group("g")
		if i < gated {
			pod.Gate("quota")
		}
		task := api.NewTaskInfo(pod.Obj())
		task.Status = status
		job.AddTaskInfo(task)
	}
	return job
}

func TestWhichGangsWait(t *testing.T) {
	const pending, binding, running, succeeded = api.Pending, api.Binding, api.Running, api.Succeeded
	tests := map[string]struct {
		gated    int
		statuses []api.TaskStatus
		want     bool
		// reason is the pending reason of a gang that lacks pods.
		reason string
	}{
		"all wait":                               {statuses: []api.TaskStatus{pending, pending}, want: true},
		"all run":                                {statuses: []api.TaskStatus{running, running}},
		"one is being bound, others are to come": {statuses: []api.TaskStatus{binding}, reason: NotEnoughPods},
		"one runs, others are to come":           {statuses: []api.TaskStatus{running}, want: true, reason: NotEnoughPods},
		"one has succeeded":                      {statuses: []api.TaskStatus{succeeded, pending}, want: true},
		"one has failed":                         {statuses: []api.TaskStatus{api.Failed, pending}, want: true, reason: NotEnoughPods},
		"one has a scheduling gate":              {gated: 1, statuses: []api.TaskStatus{pending, pending}, want: true, reason: SchedulingGated},
		"one beyond the minimum has a gate":      {gated: 1, statuses: []api.TaskStatus{pending, pending, pending}, want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := jobOf(t, 2, tt.gated, tt.statuses...)
			if got := HasPending(job); got != tt.want {
				t.Errorf("the gang waits: %t, want %t", got, tt.want)
			}
			reason, lacks := lacksPods(job)
			if lacks != (tt.reason != "") || reason.Reason != tt.reason {
				t.Errorf("the gang lacks pods: %q %q, want %q", reason.Reason, reason.Message, tt.reason)
			}
		})
	}
}

// TestExplanationsAreOfGangsThatWait checks that explanations belong to gangs that wait. An action's explanation from
// before the gang was placed is not reported, and a waiting gang has one message.
func TestExplanationsAreOfGangsThatWait(t *testing.T) {
	ssn := bare()
	placed, waiting := jobOf(t, 2, 0, api.Binding, api.Binding), jobOf(t, 3, 0, api.Pending)
	waiting.UID = "ns/w"
	waiting.NodesFitErrors["p0"] = api.NewFitErrors()
	for _, job := range []*api.JobInfo{placed, waiting} {
		job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
		ssn.Jobs[job.UID] = job
		ssn.SetPendingReason(job.UID, PendingReason{NotEnoughResources, "no room"})
	}
	explainPending(ssn, lastReports{})
	want := map[api.JobID]PendingReason{"ns/w": {NotEnoughPods, "minMember is 3 and there is 1 pod"}}
	if diff := cmp.Diff(want, ssn.pendingReasons); diff != "" {
		t.Errorf("explanations (-want +got):\n%s", diff)
	}
	if len(waiting.NodesFitErrors) > 0 {
		t.Error("filter results of nodes remain beside the explanation")
	}
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
		job := jobOf(t, 2, 0)
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

// TestWhereAnExplanationIsShown checks that an explanation is not reported while the gang's minimum is being bound:
// its transaction reports then.
func TestWhereAnExplanationIsShown(t *testing.T) {
	const pending, binding, running = api.Pending, api.Binding, api.Running
	tests := map[string]struct {
		statuses []api.TaskStatus
		// unready omits the condition that upstream sets if the gang is ready.
		unready bool
		want    []string
	}{
		"nothing of it is placed":                              {statuses: []api.TaskStatus{pending, pending}, want: []string{"Scheduled: ready", "Unschedulable: no room"}},
		"its minimum is being bound, and another waits":        {statuses: []api.TaskStatus{binding, binding, pending}, want: []string{"Scheduled: ready"}},
		"its minimum is bound, and another waits":              {statuses: []api.TaskStatus{running, running, pending}, want: []string{"Scheduled: no room"}},
		"its minimum is bound, others must be placed together": {statuses: []api.TaskStatus{running, running, pending}, unready: true, want: []string{"Scheduled: no room"}},
		"its minimum is bound, and others are on the way":      {statuses: []api.TaskStatus{running, running, binding, pending}, want: []string{"Scheduled: ready"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := jobOf(t, 2, 0, tt.statuses...)
			if tt.unready {
				job.MinAvailable = int32(len(tt.statuses)) + 1 // Pending pods without requests count as ready.
			} else {
				job.PodGroup.Status.Conditions = []scheduling.PodGroupCondition{{Type: scheduling.PodGroupScheduled, Status: v1.ConditionTrue, Message: "ready"}}
			}
			PendingReason{NotEnoughResources, "no room"}.show(job, "session")
			var got []string
			for _, c := range job.PodGroup.Status.Conditions {
				got = append(got, string(c.Type)+": "+c.Message)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTooFewSubGroups checks the reason of a gang that has too few complete sub-groups. A sub-group with exactly its
// number of pods is complete.
func TestTooFewSubGroups(t *testing.T) {
	job := api.NewJobInfo("ns/g")
	group := &api.PodGroup{Version: api.PodGroupVersionV1Beta1}
	object := schedtest.MakePodGroup().Name("g").MinMember(2).SubGroups("racks", "sub", 3, 2).Obj()
	if err := scheme.Scheme.Convert(object, &group.PodGroup, nil); err != nil {
		t.Fatal(err)
	}
	job.SetPodGroup(group)
	for i, sub := range []string{"a", "a", "b", "b", "b", "c"} {
		job.AddTaskInfo(api.NewTaskInfo(schedtest.MakePod().Name(fmt.Sprintf("p%d", i)).Group("g").Label("sub", sub).Obj()))
	}
	want := PendingReason{NotEnoughPodsOfTask, `sub-group policy "ns/g/racks" requires 3 complete sub-groups and has 2`}
	reason, _ := lacksPods(job)
	if diff := cmp.Diff(want, reason); diff != "" {
		t.Errorf("reason of the gang (-want +got):\n%s", diff)
	}
}

// TestASubGroupThatWaitsForGates checks the reason of a gang with a sub-group that a scheduling gate makes incomplete.
// The gang reaches minMember without that sub-group, and no role has a minimum.
func TestASubGroupThatWaitsForGates(t *testing.T) {
	job := api.NewJobInfo("ns/g")
	group := &api.PodGroup{Version: api.PodGroupVersionV1Beta1}
	object := schedtest.MakePodGroup().Name("g").MinMember(2).SubGroups("racks", "sub", 2, 2).Obj()
	if err := scheme.Scheme.Convert(object, &group.PodGroup, nil); err != nil {
		t.Fatal(err)
	}
	job.SetPodGroup(group)
	for i, sub := range []string{"a", "a", "b", "b"} {
		pod := schedtest.MakePod().Name(fmt.Sprintf("p%d", i)).Group("g").Label("sub", sub)
		if i == 3 {
			pod.Gate("quota")
		}
		job.AddTaskInfo(api.NewTaskInfo(pod.Obj()))
	}
	want := PendingReason{SchedulingGated, `1 of 4 pods waits for scheduling gates: quota; sub-group policy "ns/g/racks" requires 2 complete sub-groups and has 1 without gated pods`}
	reason, _ := lacksPods(job)
	if diff := cmp.Diff(want, reason); diff != "" {
		t.Errorf("reason of the gang (-want +got):\n%s", diff)
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
	job := jobOf(t, 1, 0)
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
	r, k := NewRegistry(), newRecordingCache(t)
	ssn := open(t, r, k, ProfileInput{})
	for _, gang := range []string{"g", "other"} {
		ssn.Explain(api.JobID("ns/"+gang), GangExplanation{PodGroup: gang})
		ssn.SetPendingReason(api.JobID("ns/"+gang), PendingReason{NotEnoughResources, "no room"})
	}
	ssn.Placed("ns/g")
	if _, waits := ssn.PendingReason("ns/g"); waits {
		t.Error("the placed gang is reported as waiting")
	}
	r.CloseSession(ssn)
	if list := r.Explanations().List(); len(list) != 1 || list[0].PodGroup != "other" {
		t.Errorf("explained are %v, want the gang that was not placed", list)
	}
}
