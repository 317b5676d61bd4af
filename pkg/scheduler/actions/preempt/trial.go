// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	vcmetrics "volcano.sh/volcano/pkg/scheduler/metrics"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/feasible"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/search"
	allocatetrial "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/trial"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// maxPlacings limits how often the members of a gang are placed to find out which units need not be evicted. Beyond it, the
// plan fails, since it may evict pods that need not go.
const maxPlacings = 100

// maxListed limits how many victims' gangs a message lists.
const maxListed = 4

// trial evicts units in the session and places the gang's members on the released resources. It is committed or undone
// as a whole.
type trial struct {
	of      *preemption // the run of the action
	planner *planner
	where   place
	// evicted has, for each evicted unit, the statement that can undo its eviction. order lists the units as they were
	// evicted, including those put back since.
	evicted map[*unit]*vcframework.Statement
	order   []*unit
	placed  allocatetrial.Result
	// placings counts how often the members were placed.
	placings int
	// stale reports whether filter results of all nodes are out of date (noteRules).
	stale bool
}

// try evicts the plan's units and places the members. Then it puts back the units that are not needed after all. If the
// members do not fit, it returns nil, and the session is as before. refused are then the nodes of the place that have room,
// but that plugins refuse.
func (s *planner) try(p *plan) (t *trial, refused map[int32]bool) {
	t = &trial{of: s.of, planner: s, where: p.place, evicted: map[*unit]*vcframework.Statement{}}
	for _, u := range p.units {
		t.evict(u)
	}
	if !t.place() {
		refused = s.refusing(p.place)
		t.undo()
		return nil, refused
	}
	if !t.putBack() {
		t.undo()
		return nil, nil
	}
	if t.correctsQueue() {
		t.undo()
		s.refuseByQueue(nil)
		return nil, nil
	}
	evicted, _ := t.units()
	t.of.sent = append(t.of.sent, tasksOf(evicted)...)
	if slices.ContainsFunc(evicted, func(u *unit) bool { return u.extra() }) {
		clear(t.of.candidates.known) // other pods of these gangs are no longer spare
	}
	return t, nil
}

// units returns the evicted units in the order of their evictions, and those that were evicted and put back.
func (t *trial) units() (evicted, back []*unit) {
	seen := map[*unit]bool{}
	for _, u := range t.order { // has units that were put back and evicted again more than once
		switch {
		case seen[u]:
		case t.evicted[u] != nil:
			evicted = append(evicted, u)
		default:
			back = append(back, u)
		}
		seen[u] = true
	}
	return evicted, back
}

func (t *trial) evict(u *unit) {
	if t.evicted[u] != nil || u.isEvicted() {
		return
	}
	t.of.run.Failed.NotePlaced() // gangs that fitted nowhere may fit now
	stmt := vcframework.NewStatement(t.of.ssn.Session)
	for _, task := range u.tasks {
		if err := stmt.Evict(task, t.reason(task)); err != nil {
			klog.ErrorS(err, "Evicting a pod in the session failed", "pod", klog.KObj(task.Pod))
		}
		t.of.run.Finder.TakenBack(task)
	}
	t.evicted[u] = stmt
	t.order = append(t.order, u)
	t.noteRules(u)
}

// noteRules notes that a unit was evicted or put back, if one of its pods keeps others off other nodes, too.
func (t *trial) noteRules(u *unit) {
	t.stale = t.stale || slices.ContainsFunc(u.tasks, func(task *api.TaskInfo) bool {
		return len(k8sframework.GetPodAntiAffinityTerms(task.Pod.Spec.Affinity)) > 0
	})
}

// refresh drops the filter results of all nodes if they are stale.
func (t *trial) refresh() {
	if t.stale {
		t.of.run.Index.NoteAllChanged()
		t.stale = false
	}
}

// reason names the gang to the victim, if both are in one namespace.
func (t *trial) reason(victim *api.TaskInfo) string {
	job := t.planner.attempt.Job
	if victim.Namespace != job.Namespace {
		return fmt.Sprintf("%s for a gang of another namespace (priority %d)", t.of.candidates.action, job.Priority)
	}
	return fmt.Sprintf("%s for gang %s (priority %d)", t.of.candidates.action, job.Name, job.Priority)
}

// place places the members on resources that are idle or being released. It reports whether they suffice for the gang.
func (t *trial) place() bool {
	t.placings++
	r, err := t.of.newAttempt(t.planner.attempt.Job, t.planner.attempt.Pending)
	if err != nil {
		return false
	}
	if t.placings > maxPlacings || t.placings > 1 && t.planner.exhausted() {
		t.planner.gaveUp = true
		return false
	}
	t.countLooks()
	t.refresh()
	for _, class := range t.planner.demand.Classes { // renews what plugins know of the pods on nodes, such as those with anti-affinity
		if err := t.of.run.Finder.PrePredicate(class.Task()); err != nil {
			return false
		}
	}
	t.placed = search.Solve(r)
	t.of.run.Finder.ForgetJob()
	return t.placed.Outcome != allocatetrial.NotPlaced
}

// countLooks counts the looks of placing the members once.
func (t *trial) countLooks() {
	d, nodes := t.planner.demand, len(t.where.set.Nodes)
	looks := nodes + d.Needed
	if t.stale || slices.ContainsFunc(d.Classes, func(class *feasible.ClassResults) bool { return seesPods(class.Task().Pod) }) {
		looks = nodes * d.Needed
	}
	t.planner.looks += looks
	t.of.memory.pace.looks += looks
}

// restore undoes the eviction of the unit, if it is evicted.
func (t *trial) restore(u *unit) {
	if stmt := t.evicted[u]; stmt != nil {
		t.of.run.Failed.NotePlaced() // gangs that fitted nowhere may fit now
		stmt.Discard()
		delete(t.evicted, u)
		t.noteRules(u)
		for _, task := range u.tasks {
			if task.Pod.Status.Phase != v1.PodRunning { // upstream takes it for a running pod
				framework.Unevict(t.of.ssn.Session, task)
			}
		}
	}
}

// undo takes back the placements, and then the evictions, the last one first.
func (t *trial) undo() {
	t.placed.Discard(t.planner.attempt.Job)
	for _, u := range slices.Backward(t.order) {
		t.restore(u)
	}
	t.refresh()
}

// putBack puts back the units that are not needed, first those whose eviction breaks a PodDisruptionBudget. It reports false if the
// members can no longer be placed, or if that takes too many trials.
func (t *trial) putBack() bool {
	evicted, _ := t.units()
	left := t.planner.budgets.dearLast(evicted)
	slices.Reverse(left)
	for {
		back := t.restoreSpare(left)
		switch {
		case len(back) == 0:
			return true
		case t.placeAgain():
		case !t.evictAgain(back) || !t.putBackHalves(back):
			return false
		default: // the others had no room beside them
			left = slices.DeleteFunc(left, func(u *unit) bool { return slices.Contains(back, u) })
		}
	}
}

// putBackHalves puts back those of the units that are not needed. They are evicted now, and cannot all be put back.
func (t *trial) putBackHalves(units []*unit) bool {
	if len(units) == 1 {
		return true
	}
	for _, half := range [][]*unit{units[:len(units)/2], units[len(units)/2:]} {
		back := t.restoreSpare(half)
		if len(back) == 0 || t.placeAgain() {
			continue
		}
		if !t.evictAgain(back) || !t.putBackHalves(back) {
			return false
		}
	}
	return true
}

// evictAgain evicts the units again, since the members cannot be placed beside them.
func (t *trial) evictAgain(units []*unit) bool {
	for _, u := range units {
		t.evict(u)
	}
	return t.placeAgain()
}

func (t *trial) placeAgain() bool {
	t.placed.Discard(t.planner.attempt.Job)
	return t.place()
}

// restoreSpare undoes the evictions of those units, in their order, that fit on their nodes beside the placed members. It
// returns these units.
func (t *trial) restoreSpare(units []*unit) (back []*unit) {
	for _, u := range units {
		if t.evicted[u] != nil && t.hasRoomFor(u) && t.queueAdmits(u) {
			t.restore(u)
			back = append(back, u)
		}
	}
	return back
}

// hasRoomFor reports whether the evicted pods of the unit may be put back: they fit on their nodes beside the placed
// members, need no host ports of these, and their gang has its minimum.
func (t *trial) hasRoomFor(u *unit) bool {
	if t.evicted[u.core] != nil || slices.ContainsFunc(u.tasks, t.lostPorts) {
		return false
	}
	free := map[string]*api.Resource{}
	for _, task := range u.tasks {
		room := free[task.NodeName]
		if room == nil {
			room = t.of.ssn.Nodes[task.NodeName].FutureIdle()
			free[task.NodeName] = room
		}
		if !task.Resreq.LessEqual(room, api.Zero) {
			return false
		}
		room.Sub(task.Resreq)
	}
	return true
}

// lostPorts reports whether a placed member has a host port that the evicted pod needs on its node. The pod must not be put back
// beside the member: once the member is removed, upstream would count the port as free.
func (t *trial) lostPorts(task *api.TaskInfo) bool {
	needs := schedutil.GetHostPorts(task.Pod)
	if len(needs) == 0 {
		return false
	}
	used := fwk.HostPortInfo{}
	for _, member := range t.placed.Tasks() {
		if member.NodeName == task.NodeName {
			for _, port := range schedutil.GetHostPorts(member.Pod) {
				used.Add(port.HostIP, string(port.Protocol), port.HostPort)
			}
		}
	}
	return slices.ContainsFunc(needs, func(port v1.ContainerPort) bool {
		return used.CheckConflict(port.HostIP, string(port.Protocol), port.HostPort)
	})
}

// evictions returns the evictions to be sent, and the work that they lose. left are the budgets beside the evictions that
// were sent before.
func (t *trial) evictions(left *tally) (all []framework.Eviction, lost time.Duration) {
	job := t.planner.attempt.Job
	for _, task := range t.placed.Tasks() {
		task.EvictionOccurred = true
	}
	evicted, _ := t.units()
	for _, u := range evicted {
		lost += time.Duration(u.cost.lost * float64(time.Second))
		for _, task := range u.tasks {
			all = append(all, framework.Eviction{
				Task: task, Action: t.of.candidates.action, Reason: t.reason(task), For: job, Protected: left.protects(task),
			})
		}
	}
	return all, lost
}

// report reports that the evictions were sent. The members stay pipelined until the session ends, and are placed first in later
// sessions (plugin evictionbackoff).
func (t *trial) report(evictions []framework.Eviction, lost time.Duration) {
	if len(evictions) == 0 { // another gang of its gang group needs evictions
		return
	}
	job, action := t.planner.attempt.Job, t.of.candidates.action
	message := fmt.Sprintf("action %s evicts %s in %s: %s", action, brief.Count(len(evictions), "pod"), t.where.name, t.whose(evictions))
	t.of.ssn.RecordPodGroupEvent(job.PodGroup, v1.EventTypeNormal, "PodsEvicted", message)
	klog.InfoS("Evicting pods for a gang", "action", action, "podGroup", klog.KRef(job.Namespace, job.Name), "pods", len(evictions), "place", t.where.name, "lost", lost)
	vcmetrics.UpdatePreemptionVictimsCount(len(evictions))
	vcmetrics.RegisterPreemptionAttempts()
}

// whose lists the gangs of the evicted pods with the number of pods of each, the most first. It names no gangs of other
// namespaces.
func (t *trial) whose(evictions []framework.Eviction) string {
	pods := map[string]int{}
	for _, e := range evictions {
		whose := "of other namespaces"
		if victim := t.of.ssn.Jobs[e.Task.Job]; victim.Namespace == t.planner.attempt.Job.Namespace {
			whose = fmt.Sprintf("of gang %s (priority %d)", victim.Name, victim.Priority)
		}
		pods[whose]++
	}
	names := slices.SortedFunc(maps.Keys(pods), func(l, r string) int { return cmp.Or(cmp.Compare(pods[r], pods[l]), cmp.Compare(l, r)) })
	var parts []string
	for _, whose := range names[:min(len(names), maxListed)] {
		parts = append(parts, fmt.Sprintf("%d %s", pods[whose], whose))
	}
	if more := len(names) - maxListed; more > 0 {
		parts = append(parts, "and pods of "+brief.Count(more, "more gang"))
	}
	return strings.Join(parts, ", ")
}

// refusing returns the nodes of the place that have room for a member of some class, but are refused for all such
// classes.
func (s *planner) refusing(where place) map[int32]bool {
	room, takes := map[int32]bool{}, map[int32]bool{}
	for _, class := range s.demand.Classes {
		task := class.Task()
		cache, err := s.of.run.Finder.Cache(task)
		if err != nil || s.of.run.Finder.PrePredicate(task) != nil {
			continue
		}
		for _, node := range where.set.Nodes {
			if takes[node] || class.NeverTakes(node) || copies(task.InitResreq, s.of.run.Index.Nodes[node].FutureIdle()) == 0 {
				continue
			}
			room[node] = true
			_, takes[node] = s.of.run.Finder.Accepts(task, cache, feasible.Where{Set: where.set, ChosenBy: chosenBy(s.attempt)}, node, false)
		}
	}
	maps.DeleteFunc(room, func(node int32, _ bool) bool { return takes[node] })
	return room
}
