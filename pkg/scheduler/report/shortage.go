// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// maxNamed bounds how many roles, sub-group policies, scheduling gates or other names a message lists.
const maxNamed = 3

// lacksPods reports whether pods that the gang's minimum needs do not exist or have scheduling gates. The reason names
// the missing or gated pods.
func lacksPods(job *api.JobInfo) (framework.PendingReason, bool) {
	spec := &job.PodGroup.Spec
	if binding.ShortOf(job, spec, func(task *api.TaskInfo) bool { return exists(task) && !gated(task) }) == nil {
		return framework.PendingReason{}, false
	}
	if binding.ShortOf(job, spec, exists) != nil {
		return missingPods(job), true
	}
	return framework.PendingReason{Reason: framework.SchedulingGated, Message: gatesText(job)}, true
}

// exists reports whether the task can count for the gang's minimum, now or once the task is placed.
func exists(task *api.TaskInfo) bool {
	switch task.Status {
	case api.Pending, api.Pipelined, api.Succeeded:
		return true
	default:
		return api.AllocatedStatus(task.Status)
	}
}

func gated(task *api.TaskInfo) bool { return task.Status == api.Pending && task.SchGated }

// missingPods lists the minima that the gang has too few pods for.
func missingPods(job *api.JobInfo) framework.PendingReason {
	var total, failed int32
	roles := map[string]int32{}
	for _, task := range job.Tasks {
		switch {
		case exists(task):
			total++
			roles[task.TaskRole]++
		case task.Status == api.Failed:
			failed++
		}
	}
	spec := &job.PodGroup.Spec
	reason := framework.PendingReason{Reason: framework.NotEnoughPodsOfTask}
	var parts []string
	if total < spec.MinMember {
		reason.Reason = framework.NotEnoughPods
		part := fmt.Sprintf("minMember is %d and there %s", spec.MinMember, number(total, "pod"))
		if failed > 0 {
			part += fmt.Sprintf(" (and %d failed)", failed)
		}
		parts = append(parts, part)
	}
	minima := binding.RoleMinima(spec)
	names, more := belowMinimum(minima, roles, maxNamed)
	for _, role := range names {
		parts = append(parts, fmt.Sprintf("minTaskMember of %s is %d and there %s", brief.Value(role), minima[role], number(roles[role], "such pod")))
	}
	if more > 0 {
		parts = append(parts, brief.Count(more, "more role")+" without enough pods")
	}
	if len(parts) == 0 {
		parts, more = subGroupTexts(job, exists, maxNamed, "")
		if more > 0 {
			policies := map[bool]string{true: "policy", false: "policies"}[more == 1]
			parts = append(parts, fmt.Sprintf("%d more sub-group %s without enough complete sub-groups", more, policies))
		}
	}
	reason.Message = strings.Join(parts, "; ")
	return reason
}

// belowMinimum returns the first names, sorted, whose count is below its minimum, and the number of other such names.
func belowMinimum[K ~string](minima, counts map[K]int32, first int) (names []string, more int) {
	short := brief.List{First: first}
	for name, least := range minima {
		if counts[name] < least {
			short.Add(string(name))
			more++
		}
	}
	return short.Items(), more - len(short.Items())
}

// subGroupTexts names the first sub-group policies that have too few sub-groups which are complete with the pods that
// count, and returns the number of other such policies.
func subGroupTexts(job *api.JobInfo, counts func(*api.TaskInfo) bool, first int, suffix string) (texts []string, more int) {
	whole := binding.WholeSubGroups(job.SubJobs, counts)
	names, more := belowMinimum(job.MinSubJobs, whole, first)
	for _, name := range names {
		gid := api.SubJobGID(name)
		texts = append(texts, fmt.Sprintf("sub-group policy %s requires %d complete sub-groups and has %d%s", brief.Value(name), job.MinSubJobs[gid], whole[gid], suffix))
	}
	return texts, more
}

// gatesText describes the number of gated pods and their gates. It counts pods of the whole gang if the gang has too
// few pods without gates. Otherwise it counts pods of the first role that has too few pods without gates. If there is
// no such role, it names the first sub-group policy that has too few complete sub-groups.
func gatesText(job *api.JobInfo) string {
	var pods, free int32 // free pods have no gates
	podsOf, freeOf := map[string]int32{}, map[string]int32{}
	gates := map[string]bool{}
	for _, task := range job.Tasks {
		if !exists(task) {
			continue
		}
		pods++
		podsOf[task.TaskRole]++
		if !gated(task) {
			free++
			freeOf[task.TaskRole]++
			continue
		}
		for _, gate := range task.Pod.Spec.SchedulingGates {
			gates[gate.Name] = true
		}
	}
	spec := &job.PodGroup.Spec
	of, minimum := "", fmt.Sprintf("minMember is %d", spec.MinMember)
	if free >= spec.MinMember {
		minima := binding.RoleMinima(spec)
		if roles, _ := belowMinimum(minima, freeOf, 1); len(roles) > 0 {
			role := roles[0]
			pods, free, of = podsOf[role], freeOf[role], " of role "+brief.Value(role)
			minimum = fmt.Sprintf("minTaskMember of %s is %d", brief.Value(role), minima[role])
		} else if texts, _ := subGroupTexts(job, func(task *api.TaskInfo) bool { return exists(task) && !gated(task) }, 1, " without gated pods"); len(texts) > 0 {
			minimum = texts[0]
		}
	}
	waiting := int(pods - free)
	return fmt.Sprintf("%d of %s%s %s for scheduling gates: %s; %s", waiting, brief.Count(int(pods), "pod"), of, wait(waiting), gateNames(gates), minimum)
}

func wait(n int) string {
	if n == 1 {
		return "waits"
	}
	return "wait"
}

// pendingCount says which pods count for the minimum of a gang whose MinAvailable a plugin has raised.
const pendingCount = "only pending pods count for the minimum, by the gang's match policy or because earlier pods have ended"

// gatedPods returns how many pending pods have scheduling gates.
func gatedPods(job *api.JobInfo) (n int) {
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if gated(task) {
			n++
		}
	}
	return n
}

// furtherGatesText names the gates of the pending pods.
func furtherGatesText(job *api.JobInfo) string {
	gates := map[string]bool{}
	for _, task := range job.TaskStatusIndex[api.Pending] {
		for _, gate := range task.Pod.Spec.SchedulingGates {
			gates[gate.Name] = true
		}
	}
	gated := gatedPods(job)
	return fmt.Sprintf("%d of %s %s for scheduling gates: %s", gated, brief.Count(countPending(job), "pending pod"), wait(gated), gateNames(gates))
}

func gateNames(gates map[string]bool) string {
	names := brief.List{First: maxNamed}
	for gate := range gates {
		names.Add(brief.Part(gate))
	}
	return strings.Join(names.Items(), ", ") + names.More()
}

// lacksPendingPods returns why a gang that has all its pods waits, if pods that have nodes do not count for its minimum.
func lacksPendingPods(job *api.JobInfo, reason string) framework.PendingReason {
	least, pending := job.PodGroup.Spec.MinMember, int32(countPending(job))
	text := fmt.Sprintf("minMember is %d and there %s", least, number(pending, "pending pod"))
	if pending >= least {
		text = "the minima of roles need more pending pods"
	}
	return framework.PendingReason{Reason: reason, Message: text + "; " + pendingCount}
}

// awaitsRelease reports whether the gang's minimum will fit once the resources that are being released are free.
func awaitsRelease(job *api.JobInfo) (framework.PendingReason, bool) {
	pipelined := len(job.TaskStatusIndex[api.Pipelined])
	if pipelined == 0 || !job.IsPipelined() {
		return framework.PendingReason{}, false
	}
	return framework.PendingReason{Reason: framework.NotEnoughResources, Message: fmt.Sprintf("%d of its members %s for resources that are being released", pipelined, wait(pipelined))}, true
}

func number(n int32, noun string) string {
	switch n {
	case 0:
		return "is no " + noun
	case 1:
		return "is 1 " + noun
	default:
		return fmt.Sprintf("are %d %ss", n, noun)
	}
}
