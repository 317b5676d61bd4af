// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// A large gang never finds room in a cluster that small ones fill as soon as there is some. So nodes are kept for one that has waited for
// long (keep.go): what is on them ends, and nothing new comes but guests that are gone in time or can be sent away (guests.go). There
// is one such guard per queue at a time. What is known of it is in the condition Guarded of the gang's PodGroup: another leader chooses
// nodes anew, and what was drained by then is the emptiest.

// Guarded is the type of the condition of a PodGroup for whose gang nodes are kept.
const Guarded scheduling.PodGroupConditionType = "StarvationGuard"

// The reasons of that condition. Its LastTransitionTime is since when nodes are kept.
const (
	nodesKept     = "NodesKept"
	noNodesToKeep = "NoNodesToKeep"
	guardInVain   = "GuardInVain"
)

const (
	// defaultStarvationAfter is thrice the default waiting time: nodes that are kept stand empty, and what waits for less than that is
	// mostly behind others and not starved by them.
	defaultStarvationAfter = 30 * time.Minute
	// vainAfter is how long kept nodes may be empty without their gang being placed there: then it is something else it waits for.
	vainAfter = 5 * time.Minute
	// chooseAgain is how long a gang waits that no nodes could hold before they are looked at again.
	chooseAgain = time.Minute
	// lookPause is between two looks for nodes when the first found none: a look goes over all nodes, and many gangs may find none.
	lookPause = time.Second
)

// starving is what is known of a gang that waits.
type starving struct {
	uid   types.UID
	since time.Time
	// looks is how often nodes were looked for, which none were, and next when they may be again.
	looks int
	next  time.Time
}

// guard keeps nodes for a gang, or a group of gangs.
type guard struct {
	gang  api.JobID
	uid   types.UID
	queue api.QueueID
	since time.Time
	nodes map[string]bool
	// short is true if nodes were lost, and next when others may be looked for, where there were none.
	short bool
	next  time.Time
	// cleared is true once only guests are left that can be sent away: from then on they are, and no others of their kind come.
	cleared bool
	// empty is since when nothing is left on the nodes that is to go; zero while there is.
	empty time.Time
}

// noteWaits notes since when gangs wait none of whose members has a node, and for what they do.
func (s *session) noteWaits(now time.Time) {
	waits := make(map[api.JobID]*starving, len(s.plugin.starving))
	for uid, job := range s.Jobs {
		if !waitsWhole(job) {
			continue
		}
		known := s.plugin.starving[uid]
		if known == nil || known.uid != job.PodGroup.UID || known.since.After(now) {
			known = &starving{uid: job.PodGroup.UID, since: waitsSince(job, now)}
		}
		waits[uid] = known
	}
	s.plugin.starving = waits
}

// waitsWhole is true if members of the gang wait and none has a node. Those that have one in the session alone wait for the others.
func waitsWhole(job *api.JobInfo) bool {
	return job.PodGroup != nil && len(job.TaskStatusIndex[api.Pending])+len(job.TaskStatusIndex[api.Pipelined])+len(job.TaskStatusIndex[api.Allocated]) > 0 &&
		len(job.TaskStatusIndex[api.Binding]) == 0 && (&gang{JobInfo: job}).alive() == 0
}

// noteWho has those wait anew that lack members, or gangs of their group: they could not be placed if there were room.
func (s *session) noteWho(now time.Time) {
	for uid, waits := range s.plugin.starving {
		wait, _ := s.Wait(uid)
		switch framework.ReasonOf(wait) {
		case framework.WaitIncomplete, framework.WaitGated, framework.WaitGroup:
			waits.since = now
		}
	}
}

// waitsSince is since when a gang waits that was not known to: since it and its members were made, if it never ran.
func waitsSince(job *api.JobInfo, now time.Time) time.Time {
	made := job.PodGroup.CreationTimestamp.Time
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if task.Pod.CreationTimestamp.After(made) {
			made = task.Pod.CreationTimestamp.Time
		}
	}
	for _, c := range job.PodGroup.Status.Conditions {
		switch {
		case c.Type == Guarded && c.Reason != guardInVain:
			return c.LastTransitionTime.Time
		case c.Type == Guarded, c.Type == scheduling.PodGroupScheduled:
			return now
		}
	}
	if made.After(now) || len(job.TaskStatusIndex[api.Succeeded])+len(job.TaskStatusIndex[api.Failed]) > 0 {
		return now
	}
	return made
}

// guardGangs ends guards, has them begin, and sees what has become of them.
func (s *session) guardGangs(now time.Time) {
	s.noteWaits(now)
	s.noteWho(now)
	p := s.plugin
	for _, g := range p.guards {
		if !s.needs(g) {
			s.endGuard(g, s.endOfNeed(g))
			continue
		}
		s.look(g, now)
	}
	s.noteGuarded()
	if p.starvationAfter > 0 && !now.Before(p.nextLook) {
		if job := s.mostStarved(now); job != nil {
			s.begin(job, now)
			s.noteGuarded()
		}
	}
	for uid, job := range s.Jobs {
		if job.PodGroup == nil || s.guarded[uid] {
			continue
		}
		holder := &gang{JobInfo: job}
		if c := holder.condition(Guarded); c != nil && (p.starving[uid] == nil || c.Reason == nodesKept) {
			if c.Reason == nodesKept && p.starvationAfter <= 0 {
				p.observer.GuardEnded(framework.GuardOff)
			}
			holder.dropCondition(Guarded)
		}
	}
	p.observer.Guards(len(p.guards))
}

// noteGuarded notes the gangs for which nodes are kept, with those of their groups.
func (s *session) noteGuarded() {
	s.guarded = map[api.JobID]bool{}
	for _, g := range s.plugin.guards {
		for _, job := range s.together(g.gang) {
			s.guarded[job.UID] = true
		}
	}
}

// endGuard ends the guard.
func (s *session) endGuard(g *guard, how framework.GuardEnd) {
	delete(s.plugin.guards, g.queue)
	s.plugin.observer.GuardEnded(how)
}

// endOfNeed says how the need for the guard ended.
func (s *session) endOfNeed(g *guard) framework.GuardEnd {
	job := s.Jobs[g.gang]
	if job != nil && job.PodGroup != nil && job.PodGroup.UID == g.uid && job.Queue == g.queue && (&gang{JobInfo: job}).alive() > 0 {
		return framework.GuardPlaced
	}
	return framework.GuardGone
}

// restoreGuards keeps nodes for those gangs for which another leader, or the configuration before, did. Groups may not be known before
// all plugins have opened, so nodes are chosen again when the session ends.
func (s *session) restoreGuards(now time.Time) {
	if s.plugin.guards != nil {
		return
	}
	s.plugin.guards = map[api.QueueID]*guard{}
	s.noteWaits(now)
	if s.plugin.starvationAfter <= 0 {
		return
	}
	for _, uid := range slices.Sorted(maps.Keys(s.plugin.starving)) {
		job := s.Jobs[uid]
		if c := (&gang{JobInfo: job}).condition(Guarded); c == nil || c.Reason != nodesKept || s.plugin.guards[job.Queue] != nil || s.guarded[uid] {
			continue
		}
		s.begin(job, now)
		s.noteGuarded()
		if g := s.plugin.guards[job.Queue]; g != nil {
			g.short = true
		}
	}
}

// needs is true while the guard's gang is there and no member of it has a node.
func (s *session) needs(g *guard) bool {
	job := s.Jobs[g.gang]
	return job != nil && job.PodGroup != nil && job.PodGroup.UID == g.uid && job.Queue == g.queue && len(job.Tasks) > 0 &&
		(&gang{JobInfo: job}).alive() == 0 && (waitsWhole(job) || len(job.TaskStatusIndex[api.Binding]) > 0)
}

// together are the gang and those of its group.
func (s *session) together(uid api.JobID) []*api.JobInfo {
	job := s.Jobs[uid]
	if job == nil {
		return nil
	}
	if gangs, ok := s.Companions(job); ok && len(gangs) > 0 {
		return gangs
	}
	return []*api.JobInfo{job}
}

// mostStarved is the next gang to look for nodes for: of the highest priority of those that have starved, and of these the one that has
// waited longest. One for which there were none is behind all for which they were looked for less often.
func (s *session) mostStarved(now time.Time) (most *api.JobInfo) {
	p := s.plugin
	for uid, waits := range p.starving {
		job := s.Jobs[uid]
		if p.guards[job.Queue] != nil || s.guarded[uid] || waits.next.After(now) || now.Sub(waits.since) < p.starvationAfter {
			continue
		}
		if (most == nil || s.starvesMore(job, most)) && s.wantsRoom(job) { // which costs more
			most = job
		}
	}
	return most
}

func (s *session) starvesMore(l, r *api.JobInfo) bool {
	left, right := s.plugin.starving[l.UID], s.plugin.starving[r.UID]
	return cmp.Or(cmp.Compare(left.looks, right.looks), cmp.Compare(r.Priority, l.Priority), left.since.Compare(right.since),
		cmp.Compare(l.UID, r.UID)) < 0
}

// wantsRoom is true if room is what the gang waits for, and its queue could give it.
func (s *session) wantsRoom(job *api.JobInfo) bool {
	wait, _ := s.Wait(job.UID)
	switch wait.Reason {
	case framework.NotEnoughResources, framework.QueueFull, framework.NotEnqueued:
	default:
		return false
	}
	if !complete(job) || s.network.mistaken(job) != nil {
		return false
	}
	for id, request := range s.requestsOf(job.UID) {
		queue := s.Queues[id]
		if queue == nil {
			return false
		}
		limit := api.NewResource(queue.Queue.Spec.Capability)
		for name := range queue.Queue.Spec.Capability {
			if request.Get(name) > limit.Get(name) {
				return false
			}
		}
	}
	return true
}

// requestsOf are what the gang's group asks of queues at the least.
func (s *session) requestsOf(uid api.JobID) map[api.QueueID]*api.Resource {
	requests := map[api.QueueID]*api.Resource{}
	for _, job := range s.together(uid) {
		if requests[job.Queue] == nil {
			requests[job.Queue] = api.EmptyResource()
		}
		for _, task := range needed(job) {
			requests[job.Queue].Add(task.Resreq)
		}
	}
	return requests
}

// begin has nodes kept for the gang, if there are any that could hold it.
func (s *session) begin(job *api.JobInfo, now time.Time) {
	waits := s.plugin.starving[job.UID]
	g := &guard{gang: job.UID, uid: job.PodGroup.UID, queue: job.Queue, since: now}
	holder := &gang{JobInfo: job}
	if c := holder.condition(Guarded); c != nil && c.Reason == nodesKept && !c.LastTransitionTime.After(now) {
		g.since = c.LastTransitionTime.Time
	}
	where, err := s.keep(g)
	if err != nil {
		waits.looks++
		waits.next, s.plugin.nextLook = now.Add(chooseAgain), now.Add(lookPause)
		s.setCondition(holder, Guarded, noNodesToKeep, brief.Text("it waits for long, and no nodes are kept for it: "+err.Error()))
		return
	}
	s.plugin.guards[job.Queue] = g
	s.tellGuard(g, where)
}

// tellGuard says on the PodGroup which nodes are kept for it.
func (s *session) tellGuard(g *guard, where string) {
	job := s.Jobs[g.gang]
	names := brief.List{First: mostNamed}
	for _, name := range slices.Sorted(maps.Keys(g.nodes)) {
		names.Add(name)
	}
	message := brief.Text(fmt.Sprintf("it has waited for more than %s: %d nodes %sare kept for it until it is placed: %s%s", s.plugin.starvationAfter,
		len(g.nodes), where, strings.Join(names.Items(), ", "), names.More()))
	holder := &gang{JobInfo: job}
	if s.setCondition(holder, Guarded, nodesKept, message) {
		s.RecordPodGroupEvent(job.PodGroup, v1.EventTypeNormal, nodesKept, message)
	}
	holder.condition(Guarded).LastTransitionTime.Time = g.since.Truncate(time.Second)
}

// look sees what is left on the kept nodes. It has the guests sent away that can be, once all others are gone, and ends a guard that is
// in vain: its gang waits anew from then.
func (s *session) look(g *guard, now time.Time) {
	if g.short && !now.Before(g.next) {
		again := *g
		g.next = now.Add(chooseAgain)
		if where, err := s.keep(&again); err == nil {
			*g = again
			g.short = false
			s.tellGuard(g, where)
		} else if len(g.nodes) == 0 {
			s.endGuard(g, framework.GuardLost)
			return
		}
	}
	guests, others := s.left(g)
	switch {
	case s.plugin.starving[g.gang] == nil: // it is being bound
		g.empty = time.Time{}
	case others > 0:
		g.empty = time.Time{}
	case len(guests) > 0:
		g.empty, g.cleared = time.Time{}, true
	case g.empty.IsZero():
		g.empty = now
	case now.Sub(g.empty) >= vainAfter:
		s.endGuard(g, framework.GuardVain)
		s.plugin.starving[g.gang].since = now
		wait, _ := s.Wait(g.gang)
		message := brief.Text(fmt.Sprintf("nodes were kept for it and empty for %s, and it was not placed: %s: %s", vainAfter, wait.Reason, wait.Message))
		holder := &gang{JobInfo: s.Jobs[g.gang]}
		s.setCondition(holder, Guarded, guardInVain, message)
		s.RecordPodGroupEvent(holder.PodGroup, v1.EventTypeWarning, guardInVain, message)
	}
}
