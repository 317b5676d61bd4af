// SPDX-License-Identifier: Apache-2.0

package quarantine

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
	// A quarantined object is tried again after firstHold. This time doubles with each failure, up to lastHold. An
	// object that has changed is tried again after firstChangedHold. This time also doubles, up to lastChangedHold.
	firstHold, lastHold               = time.Minute, time.Hour
	firstChangedHold, lastChangedHold = 5 * time.Second, 5 * time.Minute
	// After a failed retry, no object of the same retry group is tried again for firstRest. This time also doubles, up
	// to lastRest.
	firstRest, lastRest = time.Second, time.Minute
	// mostBack bounds how many objects of a retry group are tried again in one session.
	mostBack = 1000
	// lookPeriod is the interval between checks for objects that may be tried again.
	lookPeriod = time.Second
)

// object identifies an object that sessions can leave out.
type object struct{ kind, name string }

// retryGroup returns the group of objects that are retried together: the PodGroups of a namespace, or all other objects
// of one kind. One user may have written many faulty objects.
func (it object) retryGroup() string {
	namespace, _, _ := strings.Cut(it.name, "/")
	if it.kind != PodGroup {
		namespace = ""
	}
	return it.kind + "/" + namespace
}

// quarantined is the state of a quarantined object. fingerprint is the hash of the object when it was quarantined. A
// different hash shows that the object has changed since then.
type quarantined struct {
	message     string
	failures    int
	since       time.Time
	fingerprint uint64
}

// retryGroup is the retry state of quarantined objects that are tried again together. size is how many of them are
// tried again in one session. It doubles after each success, and is one after a failure.
type retryGroup struct {
	size, failures int
	resumes        time.Time
}

func doubled(first, last time.Duration, times int) time.Duration {
	for ; times > 1 && first < last; times-- {
		first *= 2
	}
	return min(first, last)
}

// quarantine quarantines the object because of the last panic. The parameter with is 0 if the object itself made a
// cycle panic. If the object is quarantined without a trial, with is the number of culprits found in the object's retry
// group.
func (h *bisector) quarantine(it object, now time.Time, with int) {
	last, again := h.quarantined[it]
	if !again {
		last = &quarantined{}
		h.quarantined[it] = last
	}
	last.failures++
	last.since, last.fingerprint = now, 0
	what := h.what
	if with > 0 {
		what = fmt.Sprintf("%d %ss of this namespace made the scheduler panic: %s", with, it.kind, what)
	}
	last.message = brief.Text(fmt.Sprintf("Quarantined for up to %s, or for %s if it changes: %s",
		doubled(firstHold, lastHold, last.failures), doubled(firstChangedHold, lastChangedHold, last.failures), what))
}

// lookUp drops quarantined objects that are no longer in the snapshot, and retry groups without objects. It computes
// the fingerprints of objects that were quarantined since its last call.
func (h *bisector) lookUp(snapshot *api.ClusterInfo) {
	families := map[string]bool{}
	for it, held := range h.quarantined {
		fingerprint := fingerprintOf(it, snapshot)
		if fingerprint == nil {
			delete(h.quarantined, it)
			continue
		}
		families[it.retryGroup()] = true
		if held.fingerprint == 0 {
			held.fingerprint = fingerprint()
		}
	}
	maps.DeleteFunc(h.retryGroups, func(name string, _ *retryGroup) bool { return !families[name] })
}

// fingerprintOf returns the function that computes the object's fingerprint; nil when the object does not exist.
func fingerprintOf(it object, snapshot *api.ClusterInfo) func() uint64 {
	switch it.kind {
	case PodGroup:
		if job := snapshot.Jobs[api.JobID(it.name)]; job != nil {
			return func() uint64 { return fingerprintOfJob(job) }
		}
	case queueObject:
		if queue := snapshot.Queues[api.QueueID(it.name)]; queue != nil {
			return func() uint64 { return fingerprintOfQueue(queue) }
		}
	case nodeObject:
		if node := snapshot.Nodes[it.name]; node != nil {
			return func() uint64 { return fingerprintOfNode(node) }
		}
	}
	return nil
}

// due is a quarantined object that may be tried again. changed reports whether the object has changed. since is when it
// was quarantined.
type due struct {
	object
	changed bool
	since   time.Time
}

// comeBack selects quarantined objects to try again in the next session, all from one retry group whose pause has
// passed. It selects one object, or several after successful retries. Changed objects are selected first, then the
// objects that have waited longest.
func (h *bisector) comeBack(snapshot *api.ClusterInfo, now time.Time) map[object]bool {
	if h.searching() || now.Before(h.looks) {
		return nil
	}
	h.looks = now.Add(lookPeriod)
	var waiting []due
	for it, held := range h.quarantined {
		waited := now.Sub(held.since)
		if f := h.retryGroups[it.retryGroup()]; f != nil && now.Before(f.resumes) || waited < doubled(firstChangedHold, lastChangedHold, held.failures) {
			continue
		}
		changed := fingerprintOf(it, snapshot)() != held.fingerprint
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
	of := waiting[0].retryGroup()
	back := map[object]bool{}
	for _, d := range waiting {
		if d.retryGroup() == of && len(back) < h.retryGroup(of).size {
			back[d.object] = true
		}
	}
	return back
}

// retryGroup returns the retry group with this name, and creates it if necessary.
func (h *bisector) retryGroup(name string) *retryGroup {
	if h.retryGroups[name] == nil {
		h.retryGroups[name] = &retryGroup{size: 1}
	}
	return h.retryGroups[name]
}

// backPanicked processes a panic of a cycle with retried objects: they stay quarantined. If there are several, it is
// unknown which of them caused the panic. Only one is then tried next time. ofOther reports whether a gang that is not
// retried was being scheduled. That gang may be the cause, so a retried object counts as failed only after maxSuspects
// such panics in a row.
func (h *bisector) backPanicked(now time.Time, ofOther bool) (found []object) {
	var f *retryGroup
	for it := range h.back {
		f = h.retryGroup(it.retryGroup())
		if len(h.back) == 1 && (!ofOther || f.failures >= maxSuspects) {
			found = []object{it}
			h.quarantine(it, now, 0)
		}
	}
	f.failures++
	f.size, f.resumes = 1, now.Add(doubled(firstRest, lastRest, f.failures))
	h.back = nil
	return found
}

// backSucceeded ends the quarantine of the retried objects, because a cycle with these objects succeeded.
func (h *bisector) backSucceeded() {
	var f *retryGroup
	for it := range h.back {
		f = h.retryGroup(it.retryGroup())
		delete(h.quarantined, it)
	}
	if f != nil {
		f.size, f.failures = min(2*f.size, mostBack), 0
	}
	h.back = nil
}
