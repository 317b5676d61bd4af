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
	// An item that is held comes back after the first value, which doubles each time up to the last; and sooner when it
	// has changed.
	firstHold, lastHold               = time.Minute, time.Hour
	firstChangedHold, lastChangedHold = 5 * time.Second, 5 * time.Minute
	// firstRest and lastRest are how long none of a family comes back after one that did was guilty again, which doubles too.
	firstRest, lastRest = time.Second, time.Minute
	// mostBack is how many of a family come back at a time.
	mostBack = 1000
	// lookPeriod is how often those are looked for that may come back.
	lookPeriod = time.Second
)

// item is an object that sessions can do without.
type item struct{ kind, name string }

// family is what the item has in common with others: a PodGroup its namespace, others their kind. Who writes one of a
// family may write many of it.
func (it item) family() string {
	namespace, _, _ := strings.Cut(it.name, "/")
	if it.kind != PodGroup {
		namespace = ""
	}
	return it.kind + "/" + namespace
}

// held is an item that is set aside. mark tells whether its object has changed since.
type held struct {
	message  string
	failures int
	since    time.Time
	mark     uint64
}

// family is how those come back that are held of one. size is how many at a time: twice as many after each time that went
// well, and one after one that did not.
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

// hold sets the item aside, because of the last panic; with says with how many others of its family it is, though it
// was not tried alone.
func (h *hunt) hold(it item, now time.Time, with int) {
	last, again := h.held[it]
	if !again {
		last = &held{}
		h.held[it] = last
	}
	last.failures++
	last.since, last.mark = now, 0
	why := "the " + it.kind + " is left out of scheduling"
	if with > 0 {
		why = fmt.Sprintf("%d of its namespace did this, and with them the %s is left out of scheduling", with, it.kind)
	}
	last.message = brief.Text(h.what + "; " + why + " until it changes, or for " + doubled(firstHold, lastHold, last.failures).String() + " at the most")
}

// lookUp finds the objects of held items: it forgets items whose objects are gone, and notes what new ones look like.
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

// markOf returns what makes the mark of the item's object; nil when there is none.
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

// due is a held item that may come back.
type due struct {
	item
	changed bool
	since   time.Time
}

// comeBack lets some of the held items back into the next session: of those whose wait is over one, or several of its
// family after others of it were well. Those that have changed go first, then those that wait the longest.
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

// backPanicked holds those that came back again. Of several nobody knows which it is: one of them comes back next.
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

// backSucceeded lets go of those that came back.
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
