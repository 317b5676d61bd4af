// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// startSlack is how much later a pod may begin to run than it is placed: its activeDeadlineSeconds count from then.
const startSlack = time.Minute

// keeper keeps the nodes of guards in one session.
type keeper struct {
	*session
	now    time.Time
	guards []*keeping
	byNode map[string]*keeping
	// keys are of jobs, by the guards that refuse them their nodes. mu guards them, because upstream's actions ask predicates from several
	// goroutines.
	mu   sync.Mutex
	keys map[api.JobID]string
	// asking is true while queues are asked about a gang and something else.
	asking bool
}

// keeping is a guard in one session.
type keeping struct {
	*guard
	number int
	jobs   map[api.JobID]bool
	// horizon is when the last of those on the nodes ends who were there before the guard and say when they end; zero when none does.
	horizon  time.Time
	priority int32
	// requests are what the gang, with its group, asks of each queue, less what those of the queue that are to leave the nodes have.
	requests map[api.QueueID]*api.Resource
	status   []*api.Status
	// ending are the jobs that end in time, or do not, as far as that was asked.
	ending map[api.JobID]bool
}

// keepNodes has the session keep the nodes of the guards. It returns nil while there are none.
func (s *session) keepNodes(now time.Time) *keeper {
	s.restoreGuards(now)
	if len(s.plugin.guards) == 0 {
		return nil
	}
	k := &keeper{session: s, now: now, byNode: map[string]*keeping{}, keys: map[api.JobID]string{}}
	for _, g := range s.plugin.guards {
		if s.needs(g) {
			k.add(g)
		}
	}
	s.AddUrgentFn(Name, k.isGuarded)
	s.AddAllocatableFn(Name, k.allocatable)
	return k
}

func (k *keeper) add(g *guard) {
	kg := &keeping{guard: g, number: len(k.guards), jobs: map[api.JobID]bool{}, requests: k.requestsOf(g.gang), ending: map[api.JobID]bool{}}
	for _, job := range k.together(g.gang) {
		kg.jobs[job.UID] = true
		if job.IsPending() {
			job.PodGroup.Status.Phase = scheduling.PodGroupInqueue // the room that is made is its own
		}
	}
	kg.priority = priorityOf(k.Jobs[g.gang])
	kg.status = []*api.Status{{
		Code: api.UnschedulableAndUnresolvable, Plugin: Name, Reason: fmt.Sprintf("node(s) kept for gang %s, which starves", g.gang),
	}}
	for name := range g.nodes {
		node := k.Nodes[name]
		if node == nil || !healthy(node) {
			delete(g.nodes, name)
			g.short = true
			continue
		}
		k.byNode[name] = kg
		for _, task := range node.Tasks {
			if k.stays(task) || kg.jobs[task.Job] {
				continue
			}
			if end := endOf(task.Pod); task.Pod.Status.StartTime != nil && task.Pod.Status.StartTime.Time.Before(g.since) && end.After(kg.horizon) {
				kg.horizon = end
			}
			if request := kg.requests[k.Jobs[task.Job].Queue]; request != nil {
				request.SubWithoutAssert(task.Resreq)
			}
		}
	}
	k.guards = append(k.guards, kg)
	if g.cleared {
		k.sendAway(g)
	}
}

// sendAway evicts the guests for whom that can be. It is done when sessions open: plugins that have closed cannot be told.
func (s *session) sendAway(g *guard) {
	guests, _ := s.left(g)
	for _, task := range guests {
		if err := s.Evict(task, fmt.Sprintf("its node is kept for gang %s, and nothing else is left there", g.gang)); err != nil {
			klog.ErrorS(err, "Evicting a pod from a kept node", "pod", klog.KObj(task.Pod), "gang", g.gang)
		}
	}
}

func (k *keeper) isGuarded(job *api.JobInfo) bool {
	return slices.ContainsFunc(k.guards, func(g *keeping) bool { return g.jobs[job.UID] })
}

// predicate refuses kept nodes to all but the gang and its guests. No eviction helps against it.
func (k *keeper) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	if k == nil {
		return nil
	}
	g := k.byNode[node.Name]
	if g == nil || !strings.Contains(k.jobKey(k.Jobs[task.Job]), mark(g.number)) {
		return nil
	}
	return api.NewFitErrWithStatus(task, node, g.status...)
}

func mark(n int) string { return ";" + strconv.Itoa(n) + "," }

// jobKey names the guards that refuse the job their nodes.
func (k *keeper) jobKey(job *api.JobInfo) string {
	if k == nil || job == nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	key, known := k.keys[job.UID]
	if !known {
		for _, g := range k.guards {
			if !g.jobs[job.UID] && !k.isGuest(g, job) {
				key += mark(g.number)
			}
		}
		k.keys[job.UID] = key
	}
	return key
}

// isGuest is true if all members of the job that wait are gone in time, or can be sent away.
func (k *keeper) isGuest(g *keeping, job *api.JobInfo) bool {
	tasks := job.TaskStatusIndex[api.Pending]
	if len(tasks) == 0 {
		return false
	}
	goes := !g.cleared
	for _, task := range tasks {
		goes = goes && canBeSentAway(task, job, g.priority)
	}
	return goes || k.endsInTime(g, job)
}

// endsInTime is true if all members of the job that wait say that they end before the last of those that the guard's gang waits for. It
// is asked for each of them.
func (k *keeper) endsInTime(g *keeping, job *api.JobInfo) bool {
	ends, known := g.ending[job.UID]
	if !known {
		ends = k.allEnd(g, job)
		g.ending[job.UID] = ends
	}
	return ends
}

func (k *keeper) allEnd(g *keeping, job *api.JobInfo) bool {
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if task.Pod.Spec.ActiveDeadlineSeconds == nil || endAfter(task.Pod, k.now.Add(startSlack)).After(g.horizon) {
			return false
		}
	}
	return true
}

// priorityOf is the gang's, or that of its members, where these have one of their own.
func priorityOf(job *api.JobInfo) int32 {
	priority := job.Priority
	for _, task := range job.Tasks {
		priority = max(priority, task.Priority)
	}
	return priority
}

// canBeSentAway is true of a task that says itself that it may be preempted, or whose PodGroup does, and is of no higher priority than
// the gang. Upstream takes every pod for one that does not say otherwise.
func canBeSentAway(task *api.TaskInfo, job *api.JobInfo, priority int32) bool {
	if !task.Preemptable || job == nil || max(job.Priority, task.Priority) > priority {
		return false
	}
	_, annotated := task.Pod.Annotations[v1beta1.PodPreemptable]
	_, labelled := task.Pod.Labels[v1beta1.PodPreemptable]
	return job.Preemptable || annotated || labelled
}

// allocatable keeps the queue's room for the gang: others of the queue are placed only if it still has room for the gang, once those
// who are to leave its nodes have left. Who ends before them takes none of it; who can be sent away may lie elsewhere, and stay.
func (k *keeper) allocatable(queue *api.QueueInfo, task *api.TaskInfo) bool {
	if k.asking {
		return true
	}
	both, kept := *task, false
	job := k.Jobs[task.Job]
	for _, g := range k.guards {
		request := g.requests[queue.UID]
		switch {
		case g.jobs[task.Job]:
			return true
		case request == nil || job != nil && k.endsInTime(g, job):
			continue
		case !kept:
			both.Resreq, both.InitResreq, kept = both.Resreq.Clone(), both.InitResreq.Clone(), true
		}
		both.Resreq.Add(request)
		both.InitResreq.Add(request)
	}
	if !kept {
		return true
	}
	k.asking = true
	defer func() { k.asking = false }()
	return k.Allocatable(queue, &both)
}

// endOf is when the pod that runs ends at the latest, by what it says; zero when it does not.
func endOf(pod *v1.Pod) time.Time {
	if pod.Spec.ActiveDeadlineSeconds == nil || pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Add(seconds(*pod.Spec.ActiveDeadlineSeconds))
}

// endAfter is when a pod is gone at the latest that begins then, its grace period included.
func endAfter(pod *v1.Pod, start time.Time) time.Time {
	grace := int64(v1.DefaultTerminationGracePeriodSeconds)
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	return start.Add(seconds(*pod.Spec.ActiveDeadlineSeconds)).Add(seconds(grace))
}

// seconds is bounded by a century, which a duration holds.
func seconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), 100*365*24*3600)) * time.Second
}

// stays is true of a pod that does not leave its node by itself, or whose place another takes that no session is asked about.
func (s *session) stays(task *api.TaskInfo) bool {
	if s.Jobs[task.Job] == nil {
		return true
	}
	owner := metav1.GetControllerOf(task.Pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

// lasting is what the node has without those who stay.
func (s *session) lasting(node *api.NodeInfo) *api.Resource {
	room := node.Allocatable.Clone()
	for _, task := range node.Tasks {
		if s.stays(task) {
			room.SubWithoutAssert(task.Resreq)
		}
	}
	return room
}

// occupied is how much of the node those have who are to leave it for the gang, in its largest part. Who can be sent away does not
// count, and who ends as soon as gangs begin to starve counts for a hundredth.
func (s *session) occupied(node *api.NodeInfo, priority int32) (occupied float64) {
	soon := time.Now().Add(s.plugin.starvationAfter)
	for _, task := range node.Tasks {
		if s.stays(task) || canBeSentAway(task, s.Jobs[task.Job], priority) {
			continue
		}
		share := 0.0
		for _, name := range task.Resreq.ResourceNames() {
			if all := node.Allocatable.Get(name); all > 0 {
				share = max(share, task.Resreq.Get(name)/all)
			}
		}
		if end := endOf(task.Pod); !end.IsZero() && end.Before(soon) {
			share /= 100
		}
		occupied += share
	}
	return occupied
}

// left are those on the guard's nodes who can be sent away, and how many others are to leave.
func (s *session) left(g *guard) (guests []*api.TaskInfo, others int) {
	ours := map[api.JobID]bool{}
	for _, job := range s.together(g.gang) {
		ours[job.UID] = true
	}
	priority := priorityOf(s.Jobs[g.gang])
	for name := range g.nodes {
		node := s.Nodes[name]
		if node == nil {
			continue
		}
		for _, task := range node.Tasks {
			switch {
			case ours[task.Job] || s.stays(task):
			case (task.Status == api.Running || task.Status == api.Bound) && canBeSentAway(task, s.Jobs[task.Job], priority):
				if task := s.Jobs[task.Job].Tasks[task.UID]; task != nil {
					guests = append(guests, task)
				}
			default:
				others++
			}
		}
	}
	return guests, others
}
