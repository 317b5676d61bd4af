// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"slices"
	"strings"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// Kinds of items.
const (
	podGroupItem = "PodGroup"
	queueItem    = "Queue"
	nodeItem     = "Node"
)

const (
	// maxSuspects bounds how many gangs in a row are suspected because it was their turn when a cycle panicked.
	maxSuspects = 3
	// An item that is held comes back after the first value, which doubles each time up to the last; and sooner when it
	// has changed.
	firstHold, lastHold               = time.Minute, time.Hour
	firstChangedHold, lastChangedHold = 5 * time.Second, 5 * time.Minute
	// huntPause is how long no culprit is looked for after none was found.
	huntPause = time.Minute
)

// item is an object that sessions can do without.
type item struct{ kind, name string }

// held is an item that is set aside. mark tells whether its object has changed since.
type held struct {
	message  string
	failures int
	since    time.Time
	mark     uint64
}

// due says whether the item may come back.
func (h *held) due(now time.Time, mark uint64) bool {
	wait := doubled(firstHold, lastHold, h.failures)
	if mark != h.mark {
		wait = doubled(firstChangedHold, lastChangedHold, h.failures)
	}
	return now.Sub(h.since) >= wait
}

func doubled(first, last time.Duration, times int) time.Duration {
	for ; times > 1 && first < last; times-- {
		first *= 2
	}
	return min(first, last)
}

// hunt finds the objects that make cycles panic.
//
// A cycle that panicked during the turn of a gang goes on without it. When it was nobody's turn, or the suspicion is wrong
// because cycles panic still, the culprit is searched for: all gangs are left out, then halves of those that may be it
// are tried in turn, each beside all that are cleared. So after about twice log2(n) cycles all but the culprit are in
// sessions again. When cycles panic without any gang, queues and nodes are searched the same way.
//
//	quiet --panic, a turn--> quiet, the gang held     (at most maxSuspects times in a row)
//	quiet --panic----------> control                  (none of the suspects is in the session)
//	control --ok-----------> trying                   (one of several groups is in the session)
//	control --panic--------> control of queues and nodes, or a pause
//	trying --ok------------> the group is cleared; after the last one, quiet
//	trying --panic---------> the group is split, or tried again when it is one item, and held the second time
type hunt struct {
	held map[item]*held
	// seen is what the last session began with: a search begins with its items. The maps are the session's own.
	seen api.ClusterInfo

	// groups are those that are not cleared; the last one is being tried.
	groups   [][]item
	control  bool
	others   bool // queues and nodes are searched
	hidden   map[item]bool
	suspects []item
	// doubted is the one item of a group that was tried when a cycle panicked. It is tried once more before it is held: a
	// panic on another goroutine may be told of a cycle late.
	doubted item
	// misled says that suspects turned out not to be it: turns do not count until the search is over.
	misled bool
	// back is a held item that is in the session again.
	back *item
	// what is the last panic; it is searched for no sooner than resumes.
	what    string
	resumes time.Time
}

func newHunt() *hunt { return &hunt{held: map[item]*held{}, hidden: map[item]bool{}} }

func (h *hunt) searching() bool { return len(h.groups) > 0 }

// leaveOut takes from the snapshot what the next session does without, and returns the gangs that are not to be placed
// because not all of their queue is seen.
func (h *hunt) leaveOut(snapshot *api.ClusterInfo, now time.Time) (paused map[api.JobID]bool) {
	h.back = nil
	if len(h.held) > 0 || h.searching() {
		h.forgetGone(snapshot)
		blind := map[string]bool{}
		for id, job := range snapshot.Jobs {
			it := item{podGroupItem, string(id)}
			if h.others || h.isOut(it, now, func() uint64 { return markOfJob(job) }) {
				if h.searching() && holdsResources(job) {
					blind[topQueue(snapshot, job.Queue)] = true
				}
				delete(snapshot.Jobs, id)
			}
		}
		h.leaveOutOthers(snapshot, now)
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

func (h *hunt) leaveOutOthers(snapshot *api.ClusterInfo, now time.Time) {
	for id, queue := range snapshot.Queues {
		if h.isOut(item{queueItem, queue.Name}, now, func() uint64 { return markOfQueue(queue) }) {
			delete(snapshot.Queues, id)
			maps.DeleteFunc(snapshot.Jobs, func(_ api.JobID, job *api.JobInfo) bool { return job.Queue == id })
		}
	}
	for name, node := range snapshot.Nodes {
		if h.isOut(item{nodeItem, name}, now, func() uint64 { return markOfNode(node) }) {
			delete(snapshot.Nodes, name)
			delete(snapshot.RevocableNodes, name)
		}
	}
}

// isOut says whether the session does without the item. Of those held, one at a time comes back.
func (h *hunt) isOut(it item, now time.Time, mark func() uint64) bool {
	held, is := h.held[it]
	if !is {
		return h.hidden[it]
	}
	if held.mark == 0 {
		held.mark = mark()
	}
	if h.back == nil && !h.searching() && held.due(now, mark()) {
		h.back = &it
		return false
	}
	return true
}

// forgetGone drops held items whose objects are gone.
func (h *hunt) forgetGone(snapshot *api.ClusterInfo) {
	for it := range h.held {
		there := true
		switch it.kind {
		case podGroupItem:
			_, there = snapshot.Jobs[api.JobID(it.name)]
		case queueItem:
			_, there = snapshot.Queues[api.QueueID(it.name)]
		case nodeItem:
			_, there = snapshot.Nodes[it.name]
		}
		if !there {
			delete(h.held, it)
		}
	}
}

// panicked draws the conclusions of a cycle that panicked. It returns the items that are found guilty.
func (h *hunt) panicked(now time.Time, turn api.JobID, what string) (found []item, progress bool) {
	h.what = what
	suspect := item{podGroupItem, string(turn)}
	switch {
	case h.back != nil:
		found = []item{*h.back}
		h.hold(*h.back, now)
		h.back = nil
	case h.control:
		progress = h.controlPanicked(now)
		return nil, progress
	case turn != "" && h.inSession(turn) && len(h.suspects) < maxSuspects && !h.misled:
		h.suspects = append(h.suspects, suspect)
		h.hold(suspect, now)
		h.drop(suspect)
	case h.searching():
		found = h.groupPanicked(now)
	case now.Before(h.resumes):
		return nil, false
	default:
		h.release()
		h.search(slices.Collect(func(yield func(item) bool) {
			for id := range h.seen.Jobs {
				if !yield(item{podGroupItem, string(id)}) {
					return
				}
			}
		}))
	}
	h.hide()
	return found, true
}

// succeeded draws the conclusions of a cycle that came to its end. Suspects without which it did are guilty.
func (h *hunt) succeeded() (found []item, busy bool) {
	found, h.suspects = h.suspects, nil
	if h.back != nil {
		delete(h.held, *h.back)
		h.back = nil
	}
	h.doubted = item{}
	if h.searching() {
		if h.control {
			h.control = false // one of all of them it is
			if len(h.groups[len(h.groups)-1]) > 1 {
				h.split()
			}
		} else {
			h.groups = h.groups[:len(h.groups)-1]
		}
		h.hide()
	}
	if !h.searching() {
		h.others, h.misled = false, false
	}
	return found, h.searching() || len(h.held) > 0
}

// search begins a search with a session that has none of the items.
func (h *hunt) search(items []item) {
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.kind+a.name, b.kind+b.name) })
	h.groups, h.control = [][]item{items}, true
	if len(items) == 0 {
		h.groups = nil
	}
}

// controlPanicked goes over from gangs to queues and nodes, or gives up for a while.
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
		if queue.Name != "root" { // without which upstream reckons with no queue at all
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

// groupPanicked splits the group that was tried, together with the suspects of the last cycles, which are none then. One
// item is tried twice and then held.
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
		h.doubted = item{}
		h.groups = h.groups[:last]
		h.hold(group[0], now)
		return group
	}
	return nil
}

// split halves the group that is tried next.
func (h *hunt) split() {
	last := len(h.groups) - 1
	group := h.groups[last]
	half := len(group) / 2
	h.groups = append(h.groups[:last], group[half:], group[:half:half])
}

// release lets go of suspects: cycles panic without them too.
func (h *hunt) release() []item {
	released := h.suspects
	h.misled = h.misled || len(released) > 0
	for _, it := range released {
		delete(h.held, it)
	}
	h.suspects = nil
	return released
}

// hide lists what the next session does without.
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

// drop takes a held item out of the groups.
func (h *hunt) drop(it item) {
	for i := range h.groups {
		h.groups[i] = slices.DeleteFunc(slices.Clone(h.groups[i]), func(other item) bool { return other == it })
	}
	h.groups = slices.DeleteFunc(h.groups, func(group []item) bool { return len(group) == 0 })
}

func (h *hunt) hold(it item, now time.Time) {
	last, again := h.held[it]
	if !again {
		last = &held{}
		h.held[it] = last
	}
	last.failures++
	last.since, last.mark = now, 0
	last.message = brief.Text(h.what + "; the " + it.kind + " is left out of scheduling until it changes, or for " +
		doubled(firstHold, lastHold, last.failures).String() + " at the most")
}
