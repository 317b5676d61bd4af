// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestMessages compares the messages of this package that users read on waiting gangs.
func TestMessages(t *testing.T) {
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

	ssn := bare()
	queue := func(name string, spec scheduling.QueueSpec, state scheduling.QueueState) *api.QueueInfo {
		info := api.NewQueueInfo(&scheduling.Queue{Spec: spec, Status: scheduling.QueueStatus{State: state}})
		info.UID, info.Name = api.QueueID(name), name
		ssn.Queues[info.UID] = info
		return info
	}
	eight := v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")}
	closed := queue("closed", scheduling.QueueSpec{}, scheduling.QueueStateClosed)
	capped := queue("capped", scheduling.QueueSpec{Capability: eight}, "")
	deserves := queue("deserves", scheduling.QueueSpec{Deserved: eight}, "")
	ssn.TotalResource = &api.Resource{MilliCPU: 64_000}
	ssn.QueueUse.count()
	ssn.QueueUse.add("capped", &api.Resource{MilliCPU: 4000})
	ssn.QueueUse.add("deserves", &api.Resource{MilliCPU: 4000})
	refused := func() bool { return true }
	asks := &api.Resource{MilliCPU: 5000}
	notOpenText, _ := ssn.QueueUse.notOpen(closed)
	counted := bare()
	counted.Tiers = []conf.Tier{{Plugins: []conf.PluginOption{{Name: "gang"}}}, {Plugins: []conf.PluginOption{{Name: "proportion"}}}}
	noState, _ := counted.QueueUse.notOpen(capped)
	if reason, is := ssn.QueueUse.notOpen(capped); is {
		t.Errorf("without plugins that require the state, a queue without a state is not open: %v", reason)
	}

	gatedFurther := jobOf(t, 1, 2, pending, pending, api.Running)
	gatedFurther.PodGroup.Status.Phase = scheduling.PodGroupRunning
	satisfied := jobOf(t, 4, 0, pending, api.Running, api.Running)
	satisfied.MinAvailable = 2
	ssn.SetPendingReason(satisfied.UID, PendingReason{NotEnoughResources, "0/1 members fit"})
	satisfied.PodGroup.Status.Phase = scheduling.PodGroupRunning
	satisfiedReason := pendingReasonOf(ssn, satisfied)
	delete(ssn.pendingReasons, satisfied.UID)
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
		"pods have gates":                    lacks(group(3), pod(), pod().Gate("example.com/quota"), pod().Gate("example.com/quota")),
		"a pod of a role has a gate":         lacks(group(1).MinTaskMember("launcher", 1), pod().Role("worker"), pod().Role("launcher").Gate("quota")),
		"a pod of a sub-group has a gate":    lacks(group(2).SubGroups("racks", "sub", 2, 1), pod().Label("sub", "a"), pod().Label("sub", "a"), pod().Label("sub", "b").Gate("quota")),
		"room is being made":                 releases.Reason + ": " + releases.Message,
		"members are bound one by one":       satisfiedReason.Reason + ": " + satisfiedReason.Message,
		"only gated pods wait":               furtherReason.Reason + ": " + furtherReason.Message,
		"too few pending pods have no gate":  pendingReason.Reason + ": " + pendingReason.Message,
		"no action tried it":                 untriedReason.Reason + ": " + untriedReason.Message,
		"enqueue did not admit it yet":       unadmittedReason.Reason + ": " + unadmittedReason.Message,
		"the queue is closed":                notOpenText.Reason + ": " + notOpenText.Message,
		"the queue has no state":             noState.Reason + ": " + noState.Message,
		"the queue is at its capability":     ssn.QueueUse.PendingReason(capped, asks, refused).Message,
		"the queue has no room in its share": ssn.QueueUse.PendingReason(deserves, asks, refused).Message,
		"a reservation exceeds the share":    fmt.Sprint(ssn.QueueUse.FitsShare(deserves, asks)),
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
		"pods have gates":                    "SchedulingGated: 2 of 3 pods wait for scheduling gates: example.com/quota; minMember is 3",
		"a pod of a role has a gate":         `SchedulingGated: 1 of 1 pod of role "launcher" waits for scheduling gates: quota; minTaskMember of "launcher" is 1`,
		"a pod of a sub-group has a gate":    `SchedulingGated: 1 of 3 pods waits for scheduling gates: quota; sub-group policy "ns/g/racks" requires 2 complete sub-groups and has 1 without gated pods`,
		"room is being made":                 "NotEnoughResources: 2 of its members wait for resources that are being released",
		"members are bound one by one":       "NotEnoughResources: 0/1 members fit",
		"only gated pods wait":               "SchedulingGated: 2 of 2 pending pods wait for scheduling gates: quota",
		"too few pending pods have no gate":  "SchedulingGated: 1 of 2 pending pods waits for scheduling gates: quota; only pending pods count for the minimum, by the gang's match policy or because earlier pods have ended",
		"no action tried it":                 "NotEnoughResources: not tried by any action yet; if this lasts, check that the scheduler's configuration has action allocate",
		"enqueue did not admit it yet":       "NotEnqueued: not admitted by action enqueue yet; if this lasts, check that the scheduler's configuration has actions enqueue and allocate",
		"the queue is closed":                "QueueNotOpen: queue closed is Closed and accepts no pods; have it opened, or use another queue",
		"the queue has no state":             "QueueNotOpen: queue capped has no state yet, and plugin proportion accepts no pods until it is Open; if this lasts, check that Volcano's controller manager runs, which sets the state",
		"the queue is at its capability":     "queue capped has reached its capability: cpu 4 of 8 in use, 5 requested",
		"the queue has no room in its share": "queue deserves has no room in its share of the cluster for cpu 5: the queue uses cpu 4, the cluster has cpu 64, spec.deserved is cpu 8",
		"a reservation exceeds the share":    "queue deserves would use cpu 9, its share is 8",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestMessagesOfReservations compares the errors of pods whose reservation fails because earlier reservations are not
// released yet.
func TestMessagesOfReservations(t *testing.T) {
	got := map[string]string{}
	_, registry, _, ssn := reserving(t, &reserver{}, &reserver{refuses: "p1"}, nil)
	defer registry.CloseSession(ssn)
	reserve := func(pod string) error { return ssn.reservers.reserve(taskNamed(ssn, pod), ssn.Nodes["n"]) }
	if err := reserve("p0"); err != nil {
		t.Fatal(err)
	}
	got["reserved twice"] = fmt.Sprint(reserve("p0"))
	got["refused by a plugin"] = fmt.Sprint(reserve("p1"))
	withUnrecovered(t, func(t *testing.T, u *Unrecovered, w *withdrawals) {
		claim := claimNamed("ns", "c")
		err := u.Recover(func(pass *RecoveryPass) error {
			pass.Visit(t.Context(), Leftover{Claim: claim, Volume: "v"}, func(context.Context, sets.Set[string]) error { return errors.New("refused") })
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		got["a volume that is not recovered yet"] = fmt.Sprint(u.Check(claim))
		u.newPass(0, 0).Visit(t.Context(), Leftover{Claim: claimNamed("ns", "d"), Volume: "v"}, nil)
		got["a volume for which time ran out"] = fmt.Sprint(u.Check(claimNamed("ns", "d")))
	})
	want := map[string]string{
		"reserved twice":                     "resources reserved for pod ns/p0 are not released yet",
		"refused by a plugin":                "plugin b: reserving for pod ns/p1 on node n: there is none left",
		"a volume that is not recovered yet": `the reservation of volume "v" by a former scheduler leader could not be withdrawn yet; the scheduler retries it; last error: refused`,
		"a volume for which time ran out":    `the reservation of volume "v" by a former scheduler leader is not withdrawn yet: time ran out at the start of this leader; the scheduler retries it`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
