// SPDX-License-Identifier: Apache-2.0

package setaside

import (
	"maps"
	"slices"
	"strings"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// Kinds of items.
const (
	PodGroup  = "PodGroup"
	queueItem = "Queue"
	nodeItem  = "Node"
)

const (
	// maxSuspects bounds how many gangs in a row are suspected because a cycle panicked during their turn.
	maxSuspects = 3
	// maxCulprits bounds how many culprits are searched for in a namespace. After that, its items that are not cleared
	// are quarantined, too: a user who created so many may have created a thousand.
	maxCulprits = 3
	// huntPause is the pause after a search without a result.
	huntPause = time.Minute
)

// hunt finds the objects that make cycles panic.
//
// If a cycle panics during the turn of a gang, the next cycle leaves that gang out. If it was no gang's turn, or cycles
// still panic without the suspect, the culprit is searched for: all gangs are left out, then halves of the suspects are
// tried in turn, each together with all cleared gangs. So after about twice log2(n) cycles all but the culprit are in
// sessions again. If cycles panic without any gang, queues and nodes are searched in the same way. After maxCulprits of
// a namespace its remaining suspects are quarantined without a trial, so that a thousand objects of one template take no
// longer. Gangs that are added during a search are left out until it ends.
//
//	quiet --panic, a turn--> quiet, the gang held     (at most maxSuspects times in a row)
//	quiet --panic----------> control                  (none of the suspects is in the session)
//	control --ok-----------> trying                   (one of several groups is in the session)
//	control --panic--------> control of queues and nodes, or a pause
//	trying --ok------------> the group is cleared; after the last one, quiet
//	trying --panic---------> the group is split, or tried again when it is one item, and held the second time
type hunt struct {
	held map[item]*held
	// seen is the input of the last session: a search begins with its items. The maps are the session's own.
	seen api.ClusterInfo

	// groups are the items that are not cleared; the last group is being tried.
	groups [][]item
	// known are the gangs that existed when the search began, and culprits counts the ones found by family.
	known    map[item]bool
	culprits map[string]int
	control  bool
	others   bool // the search is among queues and nodes
	hidden   map[item]bool
	suspects []item
	// doubted is a single item whose trial panicked. It is tried once more before it is quarantined, because a panic on
	// another goroutine may be reported late, in the wrong cycle.
	doubted item
	// misled reports whether suspects turned out to be innocent. During the rest of the search, the gang whose turn it
	// was is then not suspected.
	misled bool
	// back are quarantined items of a family that are tried again in the session. looks is the earliest time of the
	// next check for such items.
	back     map[item]bool
	looks    time.Time
	families map[string]*family
	// what is the message of the last panic. resumes is the earliest time of the next search.
	what    string
	resumes time.Time
}

func newHunt() *hunt {
	return &hunt{held: map[item]*held{}, hidden: map[item]bool{}, families: map[string]*family{}}
}

func (h *hunt) searching() bool { return len(h.groups) > 0 }

// leaveOut removes from the snapshot the items that the next session leaves out. It returns the gangs that are not to
// be placed because the sums of their queue are incomplete.
func (h *hunt) leaveOut(snapshot *api.ClusterInfo, now time.Time) (paused map[api.JobID]bool) {
	h.back = nil
	if len(h.held) > 0 || h.searching() {
		h.lookUp(snapshot)
		h.back = h.comeBack(snapshot, now)
		blind := map[string]bool{}
		for id, job := range snapshot.Jobs {
			it := item{PodGroup, string(id)}
			if h.others || h.isOut(it) {
				if h.searching() && holdsResources(job) {
					blind[topQueue(snapshot, job.Queue)] = true
				}
				delete(snapshot.Jobs, id)
			}
		}
		h.leaveOutOthers(snapshot)
		paused = map[api.JobID]bool{}
		for id, job := range snapshot.Jobs {
			if blind[topQueue(snapshot, job.Queue)] {
				paused[id] = true
			}
		}
	}
	h.seen = api.ClusterInfo{Jobs: snapshot.Jobs, Queues: snapshot.Queues, Nodes: snapshot.Nodes}
	return paused
}

func (h *hunt) leaveOutOthers(snapshot *api.ClusterInfo) {
	for id, queue := range snapshot.Queues {
		if h.isOut(item{queueItem, queue.Name}) {
			delete(snapshot.Queues, id)
			maps.DeleteFunc(snapshot.Jobs, func(_ api.JobID, job *api.JobInfo) bool { return job.Queue == id })
		}
	}
	for name := range snapshot.Nodes {
		if h.isOut(item{nodeItem, name}) {
			delete(snapshot.Nodes, name)
			delete(snapshot.RevocableNodes, name)
		}
	}
}

// isOut reports whether the session leaves out the item.
func (h *hunt) isOut(it item) bool {
	if h.held[it] != nil {
		return !h.back[it]
	}
	return h.hidden[it] || h.searching() && it.kind == PodGroup && !h.known[it]
}

// panicked processes a cycle that panicked. It returns the items that are now quarantined.
func (h *hunt) panicked(now time.Time, turn api.JobID, what string) (found []item, progress bool) {
	h.what = what
	suspect := item{PodGroup, string(turn)}
	switch {
	case len(h.back) > 0:
		found = h.backPanicked(now)
	case h.control:
		progress = h.controlPanicked(now)
		return nil, progress
	case h.inSession(turn) && len(h.suspects) < maxSuspects && !h.misled:
		h.suspects = append(h.suspects, suspect)
		h.hold(suspect, now, 0)
		h.drop(func(it item) bool { return it == suspect })
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

// succeeded processes a cycle that ended normally. Suspects that it left out caused the panics.
func (h *hunt) succeeded() (found []item, busy bool) {
	found, h.suspects = h.suspects, nil
	h.backSucceeded()
	h.doubted = item{}
	if h.searching() {
		if h.control {
			h.control = false // the culprit is one of the items
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
	return found, h.searching() || len(h.held) > 0
}

// searchGangs begins a search among the gangs of the last session and the released suspects.
func (h *hunt) searchGangs(released []item) {
	h.known, h.culprits = map[item]bool{}, map[string]int{}
	for _, it := range released {
		h.known[it] = true
	}
	for id := range h.seen.Jobs {
		h.known[item{PodGroup, string(id)}] = true
	}
	h.search(slices.Collect(maps.Keys(h.known)))
}

// search begins a search with a session that contains none of the items.
func (h *hunt) search(items []item) {
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.kind+a.name, b.kind+b.name) })
	h.groups, h.control = [][]item{items}, true
	if len(items) == 0 {
		h.groups = nil
	}
}

// controlPanicked continues the search with queues and nodes, or pauses it.
func (h *hunt) controlPanicked(now time.Time) bool {
	h.groups, h.control = nil, false
	if h.others {
		h.others, h.resumes = false, now.Add(huntPause)
		h.hide()
		return false
	}
	h.others = true
	var items []item
	for _, queue := range h.seen.Queues {
		if queue.Name != rootQueue { // without the root queue, upstream accounts for no queue
			items = append(items, item{queueItem, queue.Name})
		}
	}
	for name := range h.seen.Nodes {
		items = append(items, item{nodeItem, name})
	}
	h.search(items)
	h.hide()
	return true
}

// groupPanicked splits the group that was tried. The suspects of the last cycles are cleared. A single item is tried
// twice and then quarantined.
func (h *hunt) groupPanicked(now time.Time) (found []item) {
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
		h.hold(group[0], now, 0)
		return append(group[:1:1], h.holdRest(group[0].family(), now)...)
	}
	return nil
}

// holdRest counts a culprit of the family. If a namespace has too many, holdRest quarantines its items that are not
// cleared.
func (h *hunt) holdRest(family string, now time.Time) (rest []item) {
	h.culprits[family]++
	if h.others || h.culprits[family] < maxCulprits {
		return nil
	}
	h.drop(func(it item) bool {
		if it.family() != family {
			return false
		}
		rest = append(rest, it)
		return true
	})
	for _, it := range rest {
		h.hold(it, now, h.culprits[family])
	}
	return rest
}

// split halves the group that is tried next.
func (h *hunt) split() {
	last := len(h.groups) - 1
	group := h.groups[last]
	half := len(group) / 2
	h.groups = append(h.groups[:last], group[half:], group[:half:half])
}

// release returns the suspects to sessions, because cycles panic without them, too.
func (h *hunt) release() []item {
	released := h.suspects
	h.misled = h.misled || len(released) > 0
	for _, it := range released {
		delete(h.held, it)
	}
	h.suspects = nil
	return released
}

// hide computes the items that the next session leaves out.
func (h *hunt) hide() {
	clear(h.hidden)
	for i, group := range h.groups {
		if i < len(h.groups)-1 || h.control {
			for _, it := range group {
				h.hidden[it] = true
			}
		}
	}
}

func (h *hunt) inSession(gang api.JobID) bool {
	_, there := h.seen.Jobs[gang]
	return there
}

// drop removes quarantined items from the groups.
func (h *hunt) drop(held func(item) bool) {
	for i := range h.groups {
		h.groups[i] = slices.DeleteFunc(slices.Clone(h.groups[i]), held)
	}
	h.groups = slices.DeleteFunc(h.groups, func(group []item) bool { return len(group) == 0 })
}
