// SPDX-License-Identifier: Apache-2.0

package setaside

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

const (
	// A quarantined item is tried again after firstHold. The time doubles with each failure, up to lastHold, and ends
	// early if the object changes.
	firstHold, lastHold               = time.Minute, time.Hour
	firstChangedHold, lastChangedHold = 5 * time.Second, 5 * time.Minute
	// After a failed retry, no item of the family is tried again for firstRest. This time also doubles, up to lastRest.
	firstRest, lastRest = time.Second, time.Minute
	// mostBack bounds how many items of a family are tried again at once.
	mostBack = 1000
	// lookPeriod is the interval between checks for items that may be tried again.
	lookPeriod = time.Second
)

// item identifies an object that sessions can leave out.
type item struct{ kind, name string }

// family returns the group with which the item is retried: the namespace of a PodGroup, or the kind of other objects.
// The author of one bad object may have written many.
func (it item) family() string {
	namespace, _, _ := strings.Cut(it.name, "/")
	if it.kind != PodGroup {
		namespace = ""
	}
	return it.kind + "/" + namespace
}

// held is a quarantined item. mark shows whether its object has changed since.
type held struct {
	message  string
	failures int
	since    time.Time
	mark     uint64
}

// family is the retry state of a family's quarantined items. size is how many are tried again at once: it doubles after
// each success, and is one after a failure.
type family struct {
	size, failures int
	resumes        time.Time
}

func doubled(first, last time.Duration, times int) time.Duration {
	for ; times > 1 && first < last; times-- {
		first *= 2
	}
	return min(first, last)
}

// hold quarantines the item because of the last panic. with is the number of items of its family that are quarantined
// at the same time, without checking each on its own.
func (h *hunt) hold(it item, now time.Time, with int) {
	last, again := h.held[it]
	if !again {
		last = &held{}
		h.held[it] = last
	}
	last.failures++
	last.since, last.mark = now, 0
	what := h.what
	if with > 0 {
		what = fmt.Sprintf("%d %ss of this namespace made the scheduler panic: %s", with, it.kind, what)
	}
	last.message = brief.Text(fmt.Sprintf("Quarantined for up to %s, or until it changes: %s", doubled(firstHold, lastHold, last.failures), what))
}

// lookUp finds the objects of quarantined items: it drops items whose objects no longer exist, and marks new ones.
func (h *hunt) lookUp(snapshot *api.ClusterInfo) {
	families := map[string]bool{}
	for it, held := range h.held {
		mark := markOf(it, snapshot)
		if mark == nil {
			delete(h.held, it)
			continue
		}
		families[it.family()] = true
		if held.mark == 0 {
			held.mark = mark()
		}
	}
	maps.DeleteFunc(h.families, func(name string, _ *family) bool { return !families[name] })
}

// markOf returns the function that computes the mark of the item's object; nil when the object does not exist.
func markOf(it item, snapshot *api.ClusterInfo) func() uint64 {
	switch it.kind {
	case PodGroup:
		if job := snapshot.Jobs[api.JobID(it.name)]; job != nil {
			return func() uint64 { return markOfJob(job) }
		}
	case queueItem:
		if queue := snapshot.Queues[api.QueueID(it.name)]; queue != nil {
			return func() uint64 { return markOfQueue(queue) }
		}
	case nodeItem:
		if node := snapshot.Nodes[it.name]; node != nil {
			return func() uint64 { return markOfNode(node) }
		}
	}
	return nil
}

// due is a quarantined item that may be tried again.
type due struct {
	item
	changed bool
	since   time.Time
}

// comeBack selects quarantined items to try again in the next session. From one family whose wait has passed it takes
// one item, or several after successful retries. Items whose objects changed go first, then the items that have waited
// longest.
func (h *hunt) comeBack(snapshot *api.ClusterInfo, now time.Time) map[item]bool {
	if h.searching() || now.Before(h.looks) {
		return nil
	}
	h.looks = now.Add(lookPeriod)
	var waiting []due
	for it, held := range h.held {
		waited := now.Sub(held.since)
		if f := h.families[it.family()]; f != nil && now.Before(f.resumes) || waited < doubled(firstChangedHold, lastChangedHold, held.failures) {
			continue
		}
		changed := markOf(it, snapshot)() != held.mark
		if changed || waited >= doubled(firstHold, lastHold, held.failures) {
			waiting = append(waiting, due{it, changed, held.since})
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	slices.SortFunc(waiting, func(a, b due) int {
		if a.changed != b.changed {
			return map[bool]int{true: -1, false: 1}[a.changed]
		}
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.kind+a.name, b.kind+b.name))
	})
	of := waiting[0].family()
	back := map[item]bool{}
	for _, d := range waiting {
		if d.family() == of && len(back) < h.family(of).size {
			back[d.item] = true
		}
	}
	return back
}

// family returns the family of the name.
func (h *hunt) family(name string) *family {
	if h.families[name] == nil {
		h.families[name] = &family{size: 1}
	}
	return h.families[name]
}

// backPanicked quarantines the retried items again. If there are several, it is unknown which one caused the panic, and
// next time only one is tried.
func (h *hunt) backPanicked(now time.Time) (found []item) {
	var f *family
	for it := range h.back {
		f = h.family(it.family())
		if len(h.back) == 1 {
			found = []item{it}
			h.hold(it, now, 0)
		}
	}
	f.failures++
	f.size, f.resumes = 1, now.Add(doubled(firstRest, lastRest, f.failures))
	h.back = nil
	return found
}

// backSucceeded releases the retried items.
func (h *hunt) backSucceeded() {
	var f *family
	for it := range h.back {
		f = h.family(it.family())
		delete(h.held, it)
	}
	if f != nil {
		f.size, f.failures = min(2*f.size, mostBack), 0
	}
	h.back = nil
}
