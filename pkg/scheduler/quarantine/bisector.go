// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"maps"
	"slices"
	"strings"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// Kinds of the objects that sessions can leave out when cycles panic.
const (
	PodGroup    = "PodGroup"
	queueObject = "Queue"
	nodeObject  = "Node"
)

const (
	// maxSuspects bounds how many gangs in a row are suspected because a cycle panicked while they were being scheduled.
	maxSuspects = 3
	// maxCulprits bounds how many culprits, which are objects that make cycles panic, are searched for in a namespace.
	// After that, the namespace's objects that are not cleared are quarantined, too, because a user who created so many
	// culprits may have created a thousand.
	maxCulprits = 3
	// searchPause is how long no new search for an object that makes cycles panic begins after a search that found
	// none.
	searchPause = time.Minute
)

// bisector finds the objects that make cycles panic.
//
// If a cycle panics while a gang is being scheduled, that gang is suspected, and the next cycle leaves it out. If no
// gang was being scheduled, or cycles still panic without the suspect, a search for the culprit begins. First, all
// gangs are left out. Then halves of the searched objects are tried one after the other, each together with all cleared
// gangs. So after about twice log2(n) cycles, all objects except the culprit are in sessions again. If cycles panic
// without any gang, queues and nodes are searched in the same way. After maxCulprits of a namespace, its remaining
// objects are quarantined without a trial. So a thousand objects of one template take no longer. Gangs that are added
// during a search are left out until the search ends.
//
//	quiet --panic with a gang--> quiet, the gang is suspected   (at most maxSuspects times in a row)
//	quiet --panic------------> control                (none of the searched objects is in the session)
//	control --ok-------------> trying                 (one of several groups is in the session)
//	control --panic----------> control of queues and nodes, or a pause
//	trying --ok--------------> the group is cleared; after the last group, quiet
//	trying --panic-----------> the group is split; a group of one object is tried again, and quarantined the second time
type bisector struct {
	quarantined map[object]*quarantined
	// seen has the jobs, queues and nodes of the last session's snapshot. A search begins with these objects. The
	// session uses the same maps.
	seen api.ClusterInfo

	// groups are sets of objects that the search for the culprit, the object that makes cycles panic, has not cleared.
	// The objects of one set are tried together in a session. The last set is being tried.
	groups [][]object
	// known are the gangs that existed when the search for culprits (objects that make cycles panic) began. culprits
	// has the number of culprits that the search has found, by retry group: the PodGroups of a namespace, or all
	// objects of another kind.
	known    map[object]bool
	culprits map[string]int
	control  bool
	others   bool // the search for the object that makes cycles panic is among queues and nodes, not among gangs
	hidden   map[object]bool
	suspects []object
	// doubted is the only object of the set that was being tried when a cycle panicked. It is tried once more before it
	// is quarantined, because a panic on another goroutine may be reported late, in the wrong cycle.
	doubted object
	// misled reports whether a suspected gang turned out to be innocent. If so, for the rest of this search no gang is
	// suspected only because it was being scheduled when a cycle panicked.
	misled bool
	// back are quarantined objects of one retry group that are tried again in the current session. looks is the earliest
	// time of the next check for quarantined objects that may be tried again.
	back        map[object]bool
	looks       time.Time
	retryGroups map[string]*retryGroup
	// what is the message of the last panic. resumes is the earliest time of the next search for objects that make
	// cycles panic.
	what    string
	resumes time.Time
}

func newBisector() *bisector {
	return &bisector{quarantined: map[object]*quarantined{}, hidden: map[object]bool{}, retryGroups: map[string]*retryGroup{}}
}

func (h *bisector) searching() bool { return len(h.groups) > 0 }

// leaveOut removes from the snapshot the objects that the next session must not see. It returns the gangs that the
// session must not place, because the sums of used resources in their queues lack gangs that a search leaves out.
func (h *bisector) leaveOut(snapshot *api.ClusterInfo, now time.Time) (paused map[api.JobID]bool) {
	if len(h.quarantined) > 0 || h.searching() {
		h.lookUp(snapshot)
		h.back = h.comeBack(snapshot, now)
		partiallyVisible := map[string]bool{}
		for id, job := range snapshot.Jobs {
			it := object{PodGroup, string(id)}
			if h.others || h.isOut(it) {
				if h.searching() && holdsResources(job) {
					partiallyVisible[topQueue(snapshot, job.Queue)] = true
				}
				delete(snapshot.Jobs, id)
			}
		}
		h.leaveOutOthers(snapshot)
		paused = map[api.JobID]bool{}
		for id, job := range snapshot.Jobs {
			if partiallyVisible[topQueue(snapshot, job.Queue)] {
				paused[id] = true
			}
		}
	}
	h.seen = api.ClusterInfo{Jobs: snapshot.Jobs, Queues: snapshot.Queues, Nodes: snapshot.Nodes}
	return paused
}

func (h *bisector) leaveOutOthers(snapshot *api.ClusterInfo) {
	for id, queue := range snapshot.Queues {
		if h.isOut(object{queueObject, queue.Name}) {
			delete(snapshot.Queues, id)
			maps.DeleteFunc(snapshot.Jobs, func(_ api.JobID, job *api.JobInfo) bool { return job.Queue == id })
		}
	}
	for name := range snapshot.Nodes {
		if h.isOut(object{nodeObject, name}) {
			delete(snapshot.Nodes, name)
			delete(snapshot.RevocableNodes, name)
		}
	}
}

// isOut reports whether the session leaves the object out.
func (h *bisector) isOut(it object) bool {
	if h.quarantined[it] != nil {
		return !h.back[it]
	}
	return h.hidden[it] || h.searching() && it.kind == PodGroup && !h.known[it]
}

// panicked processes a cycle that panicked. turn is the gang that was being scheduled; empty if there was none. what is
// the message of the panic. panicked returns the objects that it has quarantined. progress reports whether the next
// session sees other objects.
func (h *bisector) panicked(now time.Time, turn api.JobID, what string) (found []object, progress bool) {
	h.what = what
	suspect := object{PodGroup, string(turn)}
	switch {
	case len(h.back) > 0:
		found = h.backPanicked(now, h.inSession(turn) && !h.back[suspect])
	case h.control:
		progress = h.controlPanicked(now)
		return nil, progress
	case h.inSession(turn) && len(h.suspects) < maxSuspects && !h.misled:
		h.suspects = append(h.suspects, suspect)
		h.quarantine(suspect, now, 0)
		h.drop(func(it object) bool { return it == suspect })
	case h.searching():
		found = h.groupPanicked(now)
	case now.Before(h.resumes):
		return nil, false
	default:
		h.searchGangs(h.release())
	}
	h.hide()
	return found, true
}

// succeeded processes a cycle that ended normally. The suspects that this cycle left out did cause the earlier panics,
// so they stay quarantined and are returned. busy reports whether objects are quarantined or searched for.
func (h *bisector) succeeded() (found []object, busy bool) {
	found, h.suspects = h.suspects, nil
	h.backSucceeded()
	h.doubted = object{}
	if h.searching() {
		if h.control {
			h.control = false // cycles succeed without the searched objects, so one of them is the culprit
			if len(h.groups[len(h.groups)-1]) > 1 {
				h.split()
			}
		} else {
			h.groups = h.groups[:len(h.groups)-1]
		}
		h.hide()
	}
	if !h.searching() {
		h.control, h.others, h.misled, h.known, h.culprits = false, false, false, nil, nil
	}
	return found, h.searching() || len(h.quarantined) > 0
}

// searchGangs begins a search for the gang that makes cycles panic, among the gangs of the last session and the released
// gangs. The released gangs were suspected, but cycles panicked without them, too. The last session did not contain
// them.
func (h *bisector) searchGangs(released []object) {
	h.known, h.culprits = map[object]bool{}, map[string]int{}
	for _, it := range released {
		h.known[it] = true
	}
	for id := range h.seen.Jobs {
		h.known[object{PodGroup, string(id)}] = true
	}
	h.search(slices.Collect(maps.Keys(h.known)))
}

// search begins a search for the item that makes cycles panic: among gangs, or among queues and nodes. The next session
// contains none of the items.
func (h *bisector) search(items []object) {
	slices.SortFunc(items, func(a, b object) int { return strings.Compare(a.kind+a.name, b.kind+b.name) })
	h.groups, h.control = [][]object{items}, true
	if len(items) == 0 {
		h.groups = nil
	}
}

// controlPanicked processes a panic of a cycle without any of the objects among which the culprit (the object that
// makes cycles panic) is searched for. If these were gangs, it begins a search among queues and nodes, and returns
// true. Otherwise it ends the search, allows the next search only after searchPause, and returns false.
func (h *bisector) controlPanicked(now time.Time) bool {
	h.groups, h.control = nil, false
	if h.others {
		h.others, h.resumes = false, now.Add(searchPause)
		h.hide()
		return false
	}
	h.others = true
	var items []object
	for _, queue := range h.seen.Queues {
		if queue.Name != rootQueue { // if the root queue were left out, upstream would account for no queue
			items = append(items, object{queueObject, queue.Name})
		}
	}
	for name := range h.seen.Nodes {
		items = append(items, object{nodeObject, name})
	}
	h.search(items)
	h.hide()
	return true
}

// groupPanicked processes a panic of a cycle with the last set of objects in groups, the objects that the search has
// not cleared. It adds the gangs that were suspected in the last cycles to this set, and splits the set. A set of one
// object is tried a second time. If the cycle panics again, the object is quarantined.
func (h *bisector) groupPanicked(now time.Time) (found []object) {
	last := len(h.groups) - 1
	group := slices.Concat(h.groups[last], h.release())
	h.groups[last] = group
	switch {
	case len(group) > 1:
		h.split()
	case group[0] != h.doubted:
		h.doubted = group[0]
	default:
		h.groups = h.groups[:last]
		h.quarantine(group[0], now, 0)
		return append(group[:1:1], h.holdRest(group[0].retryGroup(), now)...)
	}
	return nil
}

// holdRest counts a culprit of the retry group. Once a namespace has maxCulprits culprits, holdRest quarantines and
// returns the namespace's objects that the search has not cleared.
func (h *bisector) holdRest(retryGroup string, now time.Time) (rest []object) {
	h.culprits[retryGroup]++
	if h.others || h.culprits[retryGroup] < maxCulprits {
		return nil
	}
	h.drop(func(it object) bool {
		if it.retryGroup() != retryGroup {
			return false
		}
		rest = append(rest, it)
		return true
	})
	for _, it := range rest {
		h.quarantine(it, now, h.culprits[retryGroup])
	}
	return rest
}

// split divides the last set of objects in groups (not cleared by the search) into two halves. The first half is tried
// next.
func (h *bisector) split() {
	last := len(h.groups) - 1
	group := h.groups[last]
	half := len(group) / 2
	h.groups = append(h.groups[:last], group[half:], group[:half:half])
}

// release returns the suspects, and ends their quarantine because cycles panic without them, too.
func (h *bisector) release() []object {
	released := h.suspects
	h.misled = h.misled || len(released) > 0
	for _, it := range released {
		delete(h.quarantined, it)
	}
	h.suspects = nil
	return released
}

// hide computes which objects the next session leaves out, of those among which the object that makes cycles panic is
// searched for.
func (h *bisector) hide() {
	clear(h.hidden)
	for i, group := range h.groups {
		if i < len(h.groups)-1 || h.control {
			for _, it := range group {
				h.hidden[it] = true
			}
		}
	}
}

func (h *bisector) inSession(gang api.JobID) bool {
	_, there := h.seen.Jobs[gang]
	return there
}

// drop removes the objects that the function held accepts from all sets in groups, the objects that the search has not
// cleared.
func (h *bisector) drop(held func(object) bool) {
	for i := range h.groups {
		h.groups[i] = slices.DeleteFunc(slices.Clone(h.groups[i]), held)
	}
	h.groups = slices.DeleteFunc(h.groups, func(group []object) bool { return len(group) == 0 })
}
