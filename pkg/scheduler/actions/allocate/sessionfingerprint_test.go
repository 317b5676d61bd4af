// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/api/devices/nvidia/vgpu"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// fingerprint returns, as lines, all parts of a session that change when tasks are placed. These are the contents of
// nodes as seen by Volcano, by the Kubernetes predicates and by devices; tasks with their pods; and the results of
// plugins about queues and about the order of jobs, which depends on their shares. It omits the reasons why a gang
// does not fit.
func fingerprint(ssn *sessiontest.Session) []string {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(ssn.Nodes)) {
		sayNode(say, ssn.Nodes[name])
		sayKubeNode(say, ssn, name)
	}
	for _, uid := range slices.Sorted(maps.Keys(ssn.Jobs)) {
		sayJob(say, ssn, ssn.Jobs[uid])
	}
	for _, uid := range slices.Sorted(maps.Keys(ssn.Queues)) {
		queue := ssn.Queues[uid]
		say("queue %s overused %v", uid, ssn.Overused(queue))
		for _, other := range slices.Sorted(maps.Keys(ssn.Queues)) {
			say("queue %s before %s %v", uid, other, ssn.QueueOrderFn(queue, ssn.Queues[other]))
		}
	}
	listed := slices.Sorted(maps.Keys(ssn.PodLister.Tasks))
	say("listed pods %v, with affinity %v", listed, slices.Sorted(maps.Keys(ssn.PodLister.TaskWithAffinity)))
	return lines
}

func sayNode(say func(string, ...any), node *api.NodeInfo) {
	var tasks []string
	for _, task := range node.Tasks {
		tasks = append(tasks, fmt.Sprintf("%s:%s", task.Name, task.Status))
	}
	slices.Sort(tasks)
	say("node %s idle %v used %v releasing %v pipelined %v tasks %v", node.Name, amounts(node.Idle), amounts(node.Used),
		amounts(node.Releasing), amounts(node.Pipelined), tasks)
	if gpus, ok := node.Others[vgpu.DeviceName].(*vgpu.GPUDevices); ok && gpus != nil {
		for _, id := range slices.Sorted(maps.Keys(gpus.Device)) {
			gpu := gpus.Device[id]
			say("node %s gpu %d shared by %d, memory %d, cores %d", node.Name, id, gpu.UsedNum, gpu.UsedMem, gpu.UsedCore)
		}
	}
}

func sayKubeNode(say func(string, ...any), ssn *sessiontest.Session, name string) {
	info := ssn.NodeMap[name]
	var pods []string
	for _, pod := range info.GetPods() {
		pods = append(pods, pod.GetPod().Name)
	}
	slices.Sort(pods)
	say("kube node %s pods %v affinity %d anti-affinity %d ports %v cpu %d memory %d", name, pods,
		len(info.GetPodsWithAffinity()), len(info.GetPodsWithRequiredAntiAffinity()), info.GetUsedPorts(),
		info.GetRequested().GetMilliCPU(), info.GetRequested().GetMemory())
}

func sayJob(say func(string, ...any), ssn *sessiontest.Session, job *api.JobInfo) {
	say("job %s phase %s in %q allocated %v ready %v pipelined %v", job.UID, job.PodGroup.Status.Phase, job.AllocatedHyperNode,
		amounts(job.Allocated), ssn.JobReady(job), ssn.JobPipelined(job))
	for _, other := range slices.Sorted(maps.Keys(ssn.Jobs)) {
		say("job %s before %s %v", job.UID, other, ssn.JobOrderFn(job, ssn.Jobs[other]))
	}
	for _, uid := range slices.Sorted(maps.Keys(job.SubJobs)) {
		sub := job.SubJobs[uid]
		say("sub-job %s in %q ready %d waiting %d", uid, sub.AllocatedHyperNode, sub.ReadyTaskNum(), sub.WaitingTaskNum())
	}
	for _, uid := range slices.Sorted(maps.Keys(job.Tasks)) {
		task := job.Tasks[uid]
		_, indexed := job.TaskStatusIndex[task.Status][uid]
		say("task %s %s (indexed %v) node %q of pod %q in %q allocatable %v annotations %v", task.Name, task.Status, indexed, task.NodeName,
			task.Pod.Spec.NodeName, task.JobAllocatedHyperNode, ssn.Allocatable(ssn.Queues[job.Queue], task), ordered(task.Pod.Annotations))
	}
}

// ordered returns the annotations sorted by key.
func ordered(annotations map[string]string) string {
	var list []string
	for key, value := range annotations {
		list = append(list, key+"="+value)
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

// amounts returns the amount of each resource. An amount of 0 equals a missing resource.
func amounts(r *api.Resource) string {
	var list []string
	for _, name := range r.ResourceNames() {
		if amount := r.Get(name); amount != 0 {
			list = append(list, fmt.Sprintf("%s=%v", name, amount))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}
