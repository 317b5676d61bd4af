// SPDX-License-Identifier: Apache-2.0

package books

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// reference is the expected state in its simplest form: the objects that the watch shows, and the actions of
// transactions and evictions. The test computes all expected sums from it each time.
type reference struct {
	pods    map[string]*v1.Pod
	nodes   map[string]*v1.Node
	numa    map[string]bool
	groups  map[string]*v1beta1.PodGroup
	queues  map[string]bool
	classes map[string]int32
	// claims are the claims that exist.
	claims map[string]bool
	// read has the pods whose claims could be read at least once, and unread those whose claims could not be read the
	// last time.
	read    map[types.UID]bool
	unread  map[types.UID]bool
	holds   map[string]*heldPod
	victims map[types.UID]bool
	// evicted has the eviction time of each victim.
	evicted map[types.UID]time.Time
	now     time.Time
	// gangs has the gang of each pod, and inQueue the queue of each gang in the last session.
	gangs   map[types.UID]string
	inQueue map[string]string
}

type heldPod struct {
	uid   types.UID
	node  string
	cpu   float64
	bound bool
}

func newReference() *reference {
	return &reference{
		pods: map[string]*v1.Pod{}, nodes: map[string]*v1.Node{}, numa: map[string]bool{}, groups: map[string]*v1beta1.PodGroup{}, queues: map[string]bool{},
		classes: map[string]int32{}, claims: map[string]bool{}, read: map[types.UID]bool{}, unread: map[types.UID]bool{},
		holds: map[string]*heldPod{}, victims: map[types.UID]bool{}, evicted: map[types.UID]time.Time{}, now: schedtest.Created.Time,
		gangs: map[types.UID]string{}, inQueue: map[string]string{},
	}
}

// where returns the node and the status that the pod has in the books.
func (r *reference) where(pod *v1.Pod) (node string, status api.TaskStatus) {
	node, deleted := pod.Spec.NodeName, pod.DeletionTimestamp != nil
	switch held := r.holds[pod.Name]; {
	case node == "" && held != nil && held.uid == pod.UID && held.bound:
		return held.node, api.Bound
	case node == "" && held != nil && held.uid == pod.UID:
		return held.node, api.Binding
	case pod.Status.Phase == v1.PodSucceeded:
		return node, api.Succeeded
	case pod.Status.Phase == v1.PodFailed:
		return node, api.Failed
	case deleted || node != "" && r.victims[pod.UID]:
		return node, api.Releasing
	case node == "":
		return "", api.Pending
	case pod.Status.Phase == v1.PodRunning:
		return node, api.Running
	default:
		return node, api.Bound
	}
}

// onNode returns the status that the pod has on its node. A deleted pod does not count as releasing unless its grace
// period is about to end or it was evicted a moment ago.
func (r *reference) onNode(pod *v1.Pod) api.TaskStatus {
	_, status := r.where(pod)
	due := pod.DeletionTimestamp
	switch {
	case status != api.Releasing:
		return status
	case r.victims[pod.UID] && r.now.Sub(r.evicted[pod.UID]) < 11*time.Minute:
	case due == nil, due.Sub(r.now) > 2*time.Minute, r.now.Sub(due.Time) >= time.Minute:
		return api.Unknown
	}
	return api.Releasing
}

func (r *reference) holdsNode(pod *v1.Pod) bool {
	node, status := r.where(pod)
	return node != "" && status != api.Succeeded && status != api.Failed
}

// settle reads the claim of the pod and decides on its gang, as the books do for each change of the pod except
// evictions and reservations. placed reports whether the pod had a node before.
func (r *reference) settle(pod *v1.Pod, placed bool) {
	if len(pod.Spec.Volumes) > 0 {
		exists := r.claims[pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName]
		r.read[pod.UID], r.unread[pod.UID] = r.read[pod.UID] || exists, !exists
	}
	r.regroup(pod, placed)
}

// regroup moves the pod to the gang that it names, unless it holds a node and that gang is in another queue.
func (r *reference) regroup(pod *v1.Pod, placed bool) {
	former, named := r.gangs[pod.UID], pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]
	if node, _ := r.where(pod); node == "" || !placed || former == "" || r.inQueue[former] == r.inQueue[named] {
		r.gangs[pod.UID] = named
	}
}

// settleGangs forgets the queue of each gang that has neither a PodGroup nor pods. For each PodGroup without a queue it
// records the queue that the PodGroup names, or else the default queue.
func (r *reference) settleGangs() {
	there := map[string]bool{}
	for _, pod := range r.pods {
		there[r.gangs[pod.UID]] = true
	}
	maps.DeleteFunc(r.inQueue, func(name, _ string) bool { return r.groups[name] == nil && !there[name] })
	for name, group := range r.groups {
		r.inQueue[name] = cmp.Or(r.inQueue[name], group.Spec.Queue, "default")
	}
}

// requeue does the work of a session: gangs without a pod that holds resources move to the queue that their PodGroup
// names, as do gangs whose queue does not exist.
func (r *reference) requeue() {
	placed := map[string]bool{}
	for _, pod := range r.pods {
		if r.holdsNode(pod) {
			placed[r.gangs[pod.UID]] = true
		}
	}
	for name, group := range r.groups {
		if !placed[name] || !r.queues[r.inQueue[name]] {
			r.inQueue[name] = cmp.Or(group.Spec.Queue, "default")
		}
	}
}

// used returns the CPU of the pods on the node in milli-CPU, and the part of it that is releasing.
func (r *reference) used(node string) (used, releasing float64) {
	for _, pod := range r.sortedPods() {
		on, _ := r.where(pod)
		if on != node || !r.holdsNode(pod) {
			continue
		}
		used += r.cpuOf(pod)
		if r.onNode(pod) == api.Releasing {
			releasing += r.cpuOf(pod)
		}
	}
	return used, releasing
}

// sortedPods returns the pods sorted by request, smallest first, so that sums are as exact as possible.
func (r *reference) sortedPods() []*v1.Pod {
	return slices.SortedFunc(maps.Values(r.pods), func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(r.cpuOf(a), r.cpuOf(b)), cmp.Compare(a.Name, b.Name))
	})
}

// cpuOf returns the CPU with which the pod counts, in milli-CPU. Until the watch shows a reserved pod on a node, this
// is the reserved amount; otherwise, it is the pod's request.
func (r *reference) cpuOf(pod *v1.Pod) float64 {
	if held := r.holds[pod.Name]; pod.Spec.NodeName == "" && held != nil && held.uid == pod.UID {
		return held.cpu
	}
	return cpuOf(pod)
}

func cpuOf(pod *v1.Pod) float64 {
	cpu := pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU]
	return float64(cpu.MilliValue())
}

func (r *reference) attached(pod *v1.Pod) int {
	if len(pod.Spec.Volumes) > 0 && r.read[pod.UID] {
		return 1
	}
	return 0
}

// line describes a task in the same way for both sides.
func line(uid api.TaskID, status api.TaskStatus, node string, attached int) string {
	return fmt.Sprintf("%s %s on %q attaches %d", uid, status, node, attached)
}

// amount returns the sum as text. All sums above 2^50 are "huge", because a float64 that large loses small addends.
func amount(milliCPU float64) string {
	if math.Abs(milliCPU) > 1<<50 {
		return "huge"
	}
	return fmt.Sprint(milliCPU)
}

// view returns the expected contents of the books as lines about jobs and nodes. With session set, it returns only
// the jobs and nodes that sessions see.
func (r *reference) view(session bool) []string {
	var lines []string
	jobs := map[string][]string{}
	allocated := map[string]float64{}
	for _, pod := range r.sortedPods() {
		group := r.gangs[pod.UID]
		if group == "" {
			continue
		}
		node, status := r.where(pod)
		jobs[group] = append(jobs[group], line(api.TaskID(pod.UID), status, node, r.attached(pod)))
		if api.AllocatedStatus(status) {
			allocated[group] += r.cpuOf(pod)
		}
	}
	for name := range r.groups {
		jobs[name] = append(jobs[name], "PodGroup")
	}
	for name, tasks := range jobs {
		group := r.groups[name]
		if session && (group == nil || !r.queues[r.inQueue[name]]) {
			continue
		}
		head := "job " + name
		if session { // An entry of the books keeps no sums.
			head += " allocated " + amount(allocated[name])
		}
		if group != nil {
			head += fmt.Sprintf(" minMember %d", group.Spec.MinMember)
		}
		if session {
			head += " queue " + r.inQueue[name]
			priority, known := r.classes[group.Spec.PriorityClassName]
			if !known {
				priority = r.classes["default"]
			}
			head += fmt.Sprintf(" priority %d phase %s", priority, group.Status.Phase)
		}
		lines = append(lines, head)
		for _, task := range tasks {
			if task != "PodGroup" {
				lines = append(lines, "job "+name+" "+task)
			}
		}
	}
	return sorted(append(lines, r.nodeLines(session)...))
}

func (r *reference) nodeLines(session bool) (lines []string) {
	names := map[string]bool{}
	for name := range r.nodes {
		names[name] = true
	}
	for name := range r.numa {
		names[name] = true
	}
	for _, pod := range r.pods {
		if r.holdsNode(pod) {
			name, _ := r.where(pod)
			names[name] = true
			if !session || r.nodes[name] != nil {
				lines = append(lines, "node "+name+" "+line(api.TaskID(pod.UID), r.onNode(pod), name, r.attached(pod)))
			}
		}
	}
	for name := range names {
		node := r.nodes[name]
		if node == nil {
			if !session {
				lines = append(lines, "node "+name+" is not registered")
			}
			continue
		}
		used, releasing := r.used(name)
		cpu := node.Status.Allocatable[v1.ResourceCPU]
		lines = append(lines, fmt.Sprintf("node %s idle %s used %s releasing %s of %s", name, amount(float64(cpu.MilliValue())-used), amount(used), amount(releasing), node.Labels["zone"]))
	}
	return lines
}

// viewOf describes the jobs and nodes in the same form as the reference, and their inconsistencies.
func viewOf(jobs map[api.JobID]*api.JobInfo, nodes map[string]*api.NodeInfo, session bool) []string {
	var lines []string
	for id, job := range jobs {
		name := strings.TrimPrefix(string(id), schedtest.Namespace+"/")
		head := "job " + name
		if session {
			head += " allocated " + amount(job.Allocated.MilliCPU)
		}
		if job.PodGroup != nil {
			head += fmt.Sprintf(" minMember %d", job.MinAvailable)
		}
		if session {
			head += " queue " + string(job.Queue)
			head += fmt.Sprintf(" priority %d phase %s", job.Priority, job.PodGroup.Status.Phase)
		}
		lines = append(lines, head)
		indexed, inSubJobs := 0, 0
		for status, tasks := range job.TaskStatusIndex {
			indexed += len(tasks)
			for uid, task := range tasks {
				if task.Status != status || job.Tasks[uid] != task {
					lines = append(lines, "job "+name+" has "+string(uid)+" in the wrong place of its index")
				}
			}
		}
		for _, sub := range job.SubJobs {
			inSubJobs += len(sub.Tasks)
		}
		if indexed != len(job.Tasks) || inSubJobs != len(job.Tasks) || len(job.NodesFitErrors) > 0 {
			lines = append(lines, fmt.Sprintf("job %s has %d tasks, %d in its index, %d in sub-jobs, %d fit errors", name, len(job.Tasks), indexed, inSubJobs, len(job.NodesFitErrors)))
		}
		for _, task := range job.Tasks {
			lines = append(lines, "job "+name+" "+lineOf(task))
		}
	}
	for name, node := range nodes {
		for _, task := range node.Tasks {
			lines = append(lines, "node "+name+" "+lineOf(task))
		}
		if node.Node == nil {
			lines = append(lines, "node "+name+" is not registered")
			continue
		}
		lines = append(lines, fmt.Sprintf("node %s idle %s used %s releasing %s of %s", name, amount(node.Idle.MilliCPU), amount(node.Used.MilliCPU), amount(node.Releasing.MilliCPU), node.Node.Labels["zone"]))
		if len(node.Others) > 0 || node.Pipelined.MilliCPU != 0 {
			lines = append(lines, "node "+name+" has what a session left on it")
		}
	}
	return sorted(lines)
}

func lineOf(task *api.TaskInfo) string {
	return line(task.UID, task.Status, task.NodeName, int(task.Resreq.ScalarResources[AttachLimit("csi")]))
}

func sorted(lines []string) []string {
	slices.Sort(lines)
	return lines
}
