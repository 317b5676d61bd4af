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
	// A quarantined item is tried again after the first value, which doubles each time up to the last; and sooner when its
	// object has changed.
	firstHold, lastHold               = time.Minute, time.Hour
	firstChangedHold, lastChangedHold = 5 * time.Second, 5 * time.Minute
	// firstRest and lastRest are how long no item of a family is tried again after a retry of one failed, which doubles too.
	firstRest, lastRest = time.Second, time.Minute
	// mostBack bounds how many items of a family are tried again at a time.
	mostBack = 1000
	// lookPeriod is how often items that may be tried again are looked for.
	lookPeriod = time.Second
)

// item identifies an object that sessions can leave out.
type item struct{ kind, name string }

// family is the group that the item is retried with: of a PodGroup its namespace, of others their kind. The author of one
// object of a family may have written many.
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

// family is the retry state of a family's quarantined items. size is how many are tried again at a time: twice as many after
// each success, and one after a failure.
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

// hold quarantines the item, because of the last panic; with is the number of items of its family quarantined with it without
// a trial of each.
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

// comeBack selects quarantined items to try again in the next session. Of one family whose wait has passed it takes one item,
// or several after successful retries. Changed objects go first, then the ones that have waited longest.
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

// backPanicked quarantines the retried items again. If there are several, the culprit is unknown: then one of them is tried
// next.
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
