// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// bare is a session without a snapshot.
func bare() *framework.Session {
	return &framework.Session{Session: &vcframework.Session{Jobs: map[api.JobID]*api.JobInfo{}}}
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
		"one is being bound, others are to come": {statuses: []api.TaskStatus{binding}, reason: framework.NotEnoughPods},
		"one runs, others are to come":           {statuses: []api.TaskStatus{running}, want: true, reason: framework.NotEnoughPods},
		"one has succeeded":                      {statuses: []api.TaskStatus{succeeded, pending}, want: true},
		"one has failed":                         {statuses: []api.TaskStatus{api.Failed, pending}, want: true, reason: framework.NotEnoughPods},
		"one has a scheduling gate":              {gated: 1, statuses: []api.TaskStatus{pending, pending}, want: true, reason: framework.SchedulingGated},
		"one beyond the minimum has a gate":      {gated: 1, statuses: []api.TaskStatus{pending, pending, pending}, want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := jobOf(t, 2, tt.gated, tt.statuses...)
			if got := hasPending(job); got != tt.want {
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
		ssn.SetPendingReason(job.UID, framework.PendingReason{Reason: framework.NotEnoughResources, Message: "no room"})
	}
	p := NewPendingGangs(nil)
	decided := p.Decide(ssn)
	want := map[api.JobID]framework.PendingReason{"ns/w": {Reason: framework.NotEnoughPods, Message: "minMember is 3 and there is 1 pod"}}
	if diff := cmp.Diff(want, decided); diff != "" {
		t.Errorf("explanations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, p.PendingReasons()); diff != "" {
		t.Errorf("explanations that can be read afterwards (-want +got):\n%s", diff)
	}
	if len(waiting.NodesFitErrors) > 0 {
		t.Error("filter results of nodes remain beside the explanation")
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
			show(framework.PendingReason{Reason: framework.NotEnoughResources, Message: "no room"}, job, "session")
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
	want := framework.PendingReason{Reason: framework.NotEnoughPodsOfTask, Message: `sub-group policy "ns/g/racks" requires 3 complete sub-groups and has 2`}
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
	want := framework.PendingReason{Reason: framework.SchedulingGated, Message: `1 of 4 pods waits for scheduling gates: quota; sub-group policy "ns/g/racks" requires 2 complete sub-groups and has 1 without gated pods`}
	reason, _ := lacksPods(job)
	if diff := cmp.Diff(want, reason); diff != "" {
		t.Errorf("reason of the gang (-want +got):\n%s", diff)
	}
}

// TestMessagesOfWaitingGangs compares the messages that users read on waiting gangs, except messages of actions and
// plugins.
func TestMessagesOfWaitingGangs(t *testing.T) {
	const pending, failed = api.Pending, api.Failed
	lacks := func(group *schedtest.PodGroupBuilder, pods ...*schedtest.PodBuilder) string {
		job := api.NewJobInfo("ns/g")
		converted := &api.PodGroup{Version: api.PodGroupVersionV1Beta1}
		if err := scheme.Scheme.Convert(group.Name("g").Obj(), &converted.PodGroup, nil); err != nil {
			t.Fatal(err)
		}
		job.SetPodGroup(converted)
		for i, pod := range pods {
			job.AddTaskInfo(api.NewTaskInfo(pod.Name(fmt.Sprint("p", i)).Group("g").Obj()))
		}
		reason, _ := lacksPods(job)
		return reason.Reason + ": " + reason.Message
	}
	pod, group := schedtest.MakePod, func(minMember int32) *schedtest.PodGroupBuilder { return schedtest.MakePodGroup().MinMember(minMember) }
	withFailed, _ := lacksPods(jobOf(t, 3, 0, pending, failed))
	released := jobOf(t, 2, 0, api.Pipelined, api.Pipelined)
	releases, _ := awaitsRelease(released)
	untried, unadmitted := jobOf(t, 1, 0, pending), jobOf(t, 1, 0, pending)
	untried.PodGroup.Status.Phase, unadmitted.PodGroup.Status.Phase = scheduling.PodGroupInqueue, scheduling.PodGroupPending
	ssn, tried := bare(), bare()
	gatedFurther := jobOf(t, 1, 2, pending, pending, api.Running)
	gatedFurther.PodGroup.Status.Phase = scheduling.PodGroupRunning
	satisfied := jobOf(t, 4, 0, pending, api.Running, api.Running)
	satisfied.MinAvailable = 2
	tried.SetPendingReason(satisfied.UID, framework.PendingReason{Reason: framework.NotEnoughResources, Message: "0/1 members fit"})
	satisfied.PodGroup.Status.Phase = scheduling.PodGroupRunning
	satisfiedReason := pendingReasonOf(tried, satisfied)
	gatedOfPending := jobOf(t, 2, 1, pending, pending, api.Running, api.Running)
	gatedOfPending.MinAvailable = 4
	gatedOfPending.PodGroup.Status.Phase = scheduling.PodGroupRunning
	furtherReason, pendingReason := pendingReasonOf(ssn, gatedFurther), pendingReasonOf(ssn, gatedOfPending)
	untriedReason, unadmittedReason := unexplained(untried), unexplained(unadmitted)
	got := map[string]string{
		"pods are missing":               lacks(group(4), pod(), pod()),
		"no pod exists":                  lacks(group(4)),
		"a pod failed":                   withFailed.Reason + ": " + withFailed.Message,
		"pods of a role are missing":     lacks(group(2).MinTaskMember("worker", 1).MinTaskMember("launcher", 1), pod().Role("worker"), pod().Role("worker")),
		"pods of five roles are missing": lacks(group(6).MinTaskMember("a", 1).MinTaskMember("b", 2).MinTaskMember("c", 1).MinTaskMember("d", 1).MinTaskMember("e", 1)),
		"sub-groups are missing":         lacks(group(2).SubGroups("racks", "sub", 3, 2), pod().Label("sub", "a"), pod().Label("sub", "a"), pod().Label("sub", "b")),
		"sub-groups of four policies are missing": lacks(group(2).SubGroups("a", "sub", 3, 2).SubGroups("b", "sub", 3, 2).SubGroups("c", "sub", 3, 2).SubGroups("d", "sub", 3, 2),
			pod().Label("sub", "a"), pod().Label("sub", "a"), pod().Label("sub", "b")),
		"pods have gates":                   lacks(group(3), pod(), pod().Gate("example.com/quota"), pod().Gate("example.com/quota")),
		"a pod of a role has a gate":        lacks(group(1).MinTaskMember("launcher", 1), pod().Role("worker"), pod().Role("launcher").Gate("quota")),
		"a pod of a sub-group has a gate":   lacks(group(2).SubGroups("racks", "sub", 2, 1), pod().Label("sub", "a"), pod().Label("sub", "a"), pod().Label("sub", "b").Gate("quota")),
		"room is being made":                releases.Reason + ": " + releases.Message,
		"members are bound one by one":      satisfiedReason.Reason + ": " + satisfiedReason.Message,
		"only gated pods wait":              furtherReason.Reason + ": " + furtherReason.Message,
		"too few pending pods have no gate": pendingReason.Reason + ": " + pendingReason.Message,
		"no action tried it":                untriedReason.Reason + ": " + untriedReason.Message,
		"enqueue did not admit it yet":      unadmittedReason.Reason + ": " + unadmittedReason.Message,
	}
	want := map[string]string{
		"pods are missing":               "NotEnoughTasks: minMember is 4 and there are 2 pods",
		"no pod exists":                  "NotEnoughTasks: minMember is 4 and there is no pod",
		"a pod failed":                   "NotEnoughTasks: minMember is 3 and there is 1 pod (and 1 failed)",
		"pods of a role are missing":     `NotEnoughPodsOfTask: minTaskMember of "launcher" is 1 and there is no such pod`,
		"pods of five roles are missing": `NotEnoughTasks: minMember is 6 and there is no pod; minTaskMember of "a" is 1 and there is no such pod; minTaskMember of "b" is 2 and there is no such pod; minTaskMember of "c" is 1 and there is no such pod; 2 more roles without enough pods`,
		"sub-groups are missing":         `NotEnoughPodsOfTask: sub-group policy "ns/g/racks" requires 3 complete sub-groups and has 1`,
		"sub-groups of four policies are missing": `NotEnoughPodsOfTask: sub-group policy "ns/g/a" requires 3 complete sub-groups and has 1; sub-group policy "ns/g/b" requires 3 complete sub-groups and has 0; ` +
			`sub-group policy "ns/g/c" requires 3 complete sub-groups and has 0; 1 more sub-group policy without enough complete sub-groups`,
		"pods have gates":                   "SchedulingGated: 2 of 3 pods wait for scheduling gates: example.com/quota; minMember is 3",
		"a pod of a role has a gate":        `SchedulingGated: 1 of 1 pod of role "launcher" waits for scheduling gates: quota; minTaskMember of "launcher" is 1`,
		"a pod of a sub-group has a gate":   `SchedulingGated: 1 of 3 pods waits for scheduling gates: quota; sub-group policy "ns/g/racks" requires 2 complete sub-groups and has 1 without gated pods`,
		"room is being made":                "NotEnoughResources: 2 of its members wait for resources that are being released",
		"members are bound one by one":      "NotEnoughResources: 0/1 members fit",
		"only gated pods wait":              "SchedulingGated: 2 of 2 pending pods wait for scheduling gates: quota",
		"too few pending pods have no gate": "SchedulingGated: 1 of 2 pending pods waits for scheduling gates: quota; only pending pods count for the minimum, by the gang's match policy or because earlier pods have ended",
		"no action tried it":                "NotEnoughResources: not tried by any action yet; if this lasts, check that the scheduler's configuration has action allocate",
		"enqueue did not admit it yet":      "NotEnqueued: not admitted by action enqueue yet; if this lasts, check that the scheduler's configuration has actions enqueue and allocate",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
