// SPDX-License-Identifier: Apache-2.0

package crosssession

import (
	"maps"
	"slices"
	"time"
)

// An attempt to place a gang that finds no room takes time from the gangs of other namespaces. So each namespace has
// token buckets of time for such attempts (bucketKey):
//   - A bucket holds at most attemptTime. Three seconds (restsFor) without attempts of the namespace add one second. So
//     attempts use at most a quarter of the time, apart from the exceptions below.
//   - An empty bucket is not used again before it is full.
//   - If no gang of another namespace waits, the bucket is full in each session, unless it has a debt of a second
//     (forgiven) or more.
//   - An attempt that has begun is completed, and may leave the bucket in debt, of at most maxDebt. So a namespace
//     waits for about a minute at most after a long attempt.
const (
	attemptTime = 500 * time.Millisecond
	restsFor    = 3
	forgiven    = time.Second
	maxDebt     = 20 * time.Second
	// promiseDebt is the debt up to which gangs with a promise are tried. A gang has a promise if a plugin selects it
	// to be placed first (framework.Prioritizer), for example because pods were evicted for it.
	promiseDebt = 10 * time.Second
	// absentFor is how long a gang that does not ask for its turn still counts as waiting, and how often it is checked
	// whether such a gang exists.
	absentFor = time.Minute
)

// Turns limits, for each namespace, the time of attempts to place gangs that do not lead to a bind. If the time does
// not suffice for all gangs, two kinds of sessions alternate. In one kind, gangs are tried in the plugins' job order.
// In the other kind, by age, only the gangs that have waited longest since their last attempt are tried.
type Turns struct {
	// limited reports whether the time is limited at all.
	limited bool
	session uint64
	// at is when the session began.
	at      time.Time
	buckets map[bucketKey]*bucket
	gangs   map[gangName]*turn
	// tries counts the turns of this session.
	tries int
}

// gangName identifies a gang by its namespace, and by the ID of its gang group, or its own ID if it has no gang group.
type gangName struct{ namespace, name string }

// bucketKey identifies a token bucket. A namespace has two. One (holds) is for gangs with a promise, and for gangs that
// held resources at the end of the last session. These gangs need a turn in each session, and in a common bucket they
// would leave no time for other gangs. If this bucket is empty, gangs with a promise are still tried up to promiseDebt,
// and the gangs that hold resources use the other bucket.
type bucketKey struct {
	namespace string
	holds     bool
}

// bucket is a token bucket.
type bucket struct {
	// left is the time that attempts may take; negative for a debt. spent is the time of this session's attempts. rests
	// reports whether the bucket was empty and is not full again yet.
	left, spent time.Duration
	rests       bool
	// most is how many gangs a session by age may try; 0 if the time suffices for all gangs. byAge reports whether the
	// current session is by age. It then tries only gangs that have waited since the time until, or longer.
	most  int
	byAge bool
	until time.Time
	// spare reports whether the gang that has waited longest, since the time oldest, may be tried although no time is
	// left, because other gangs came first and used it up. It is set in each session that begins with time that does
	// not suffice for all gangs. It does not apply once the session's attempts have taken more than twice attemptTime.
	spare  bool
	oldest time.Time
	// tried counts the gangs without a promise that were tried in this session. asked reports whether gangs asked for
	// their turn, and emptied whether one asked when no time was left.
	tried          int
	asked, emptied bool
	// refused is since when the longest-waiting gang waits, of the gangs with a promise that were refused in this
	// session; zero for none. before is this value of the last session. If the bucket is empty, only gangs with a
	// promise that have waited since before, or longer, have a turn. So these gangs take turns.
	refused, before time.Time
}

// turn is the turn of a gang.
type turn struct {
	// since is when the gang was last tried, or else when it was created.
	since time.Time
	// session is the last session in which the gang asked for its turn, and asked is when that session began. has
	// reports whether the gang got its turn, and of is the bucket that was used.
	session uint64
	asked   time.Time
	// checked is when the gang was last known to exist.
	checked time.Time
	has     bool
	of      *bucket
	// held is the last session at whose end the gang held resources.
	held uint64
}

// BeginSession starts a session at the given time. alone reports whether all gangs that wait are in one namespace.
// exist returns the namespaces and names of all gangs, including gangs that cannot be placed in this session.
func (t *Turns) BeginSession(now time.Time, alone bool, exist func() map[[2]string]bool) {
	if t.at.IsZero() {
		t.at = now
	}
	waiting, spent := map[*bucket][]time.Time{}, map[string]time.Duration{}
	t.forgetDeleted(now, exist)
	used := map[*bucket]bool{}
	for _, g := range t.gangs {
		if used[g.of] = true; g.session == t.session || now.Sub(g.asked) <= absentFor {
			waiting[g.of] = append(waiting[g.of], g.since)
		}
	}
	for key, b := range t.buckets {
		spent[key.namespace] += b.spent
	}
	for key, b := range t.buckets {
		b.choose(waiting[b], used[b])
		b.rests = b.rests || b.left <= 0
		b.left = min(attemptTime, b.left+max(0, now.Sub(t.at)-spent[key.namespace])/restsFor)
		if alone && b.left > -forgiven {
			b.left = attemptTime
		}
		if b.left == attemptTime && b.most == 0 {
			delete(t.buckets, key)
		}
		b.rests = b.rests && b.left < attemptTime
		b.spare = !b.rests && b.most > 0
		b.spent, b.tried, b.asked, b.emptied = 0, 0, false, false
		b.refused, b.before = time.Time{}, b.refused
	}
	t.session, t.at, t.tries = t.session+1, now, 0
}

// forgetDeleted drops gangs that no longer exist. It checks gangs that have not asked for their turn for a while.
func (t *Turns) forgetDeleted(now time.Time, exist func() map[[2]string]bool) {
	var existing map[[2]string]bool
	maps.DeleteFunc(t.gangs, func(name gangName, g *turn) bool {
		if now.Sub(g.checked) <= absentFor {
			return false
		}
		if existing == nil {
			existing = exist()
		}
		g.checked = now
		return !existing[[2]string{name.namespace, name.name}]
	})
}

// choose decides whether the next session is by age, and how many gangs a session by age may try (most). most is the
// number of gangs that emptied the bucket in the last session by age, or when the time first did not suffice. It is
// doubled after a session by age that did not empty the bucket. waiting has, for each gang that has asked for a turn in
// this bucket lately, since when it waits. used reports whether any gang of the bucket still exists.
func (b *bucket) choose(waiting []time.Time, used bool) {
	if !b.asked && used {
		return
	}
	switch {
	case b.emptied && b.tried == 0: // the session had no time, so the next one takes its place
	case b.emptied:
		if b.byAge || b.most == 0 {
			b.most = b.tried
		}
		b.byAge = !b.byAge
	case b.byAge:
		b.most, b.byAge = 2*b.most, false
	}
	if b.most >= len(waiting) {
		b.most = 0
	}
	if b.byAge = b.byAge && b.most > 0; b.most > 0 {
		slices.SortFunc(waiting, time.Time.Compare)
		b.oldest, b.until = waiting[0], waiting[b.most-1]
	}
}

// Has reports whether the gang may be tried in this session. gang is the name of its gang group, or of the gang itself
// if it has none, and created is when it was created. promised reports whether a plugin selects the gang to be placed
// first.
func (t *Turns) Has(namespace, gang string, created time.Time, promised bool) bool {
	if !t.limited {
		return true
	}
	name := gangName{namespace, gang}
	g := t.gangs[name]
	switch {
	case g == nil:
		if t.gangs == nil {
			t.gangs = map[gangName]*turn{}
		}
		g = &turn{since: created}
		t.gangs[name] = g
	case g.session == t.session:
		return g.has
	}
	b := t.bucketOf(bucketKey{namespace, promised || g.held > 0 && g.held+1 == t.session})
	if !promised && !b.open() {
		b = t.bucketOf(bucketKey{namespace: namespace})
	}
	b.asked, b.emptied = true, b.emptied || !b.open()
	g.session, g.asked, g.checked, g.of = t.session, t.at, t.at, b
	g.has = b.open() && (promised || !b.byAge || !g.since.After(b.until)) ||
		promised && b.left > -promiseDebt && (b.before.IsZero() || !g.since.After(b.before))
	if promised && !g.has && (b.refused.IsZero() || g.since.Before(b.refused)) {
		b.refused = g.since
	}
	if !g.has && b.spare && b.spent <= 2*attemptTime && !g.since.After(b.oldest) {
		g.has, b.spare = true, false
	}
	if g.has {
		t.tries++
		g.since = t.at.Add(time.Duration(t.tries)) // no two gangs wait since the same time
	}
	if g.has && !promised {
		b.tried++
	}
	return g.has
}

// open reports whether the bucket has time for attempts.
func (b *bucket) open() bool { return b.left > 0 && !b.rests }

func (t *Turns) bucketOf(key bucketKey) *bucket {
	b := t.buckets[key]
	if b == nil {
		if t.buckets == nil {
			t.buckets = map[bucketKey]*bucket{}
		}
		b = &bucket{left: attemptTime}
		t.buckets[key] = b
	}
	return b
}

// Hold records that the gang, which had its turn, holds resources until the end of the session, while it waits for
// other resources to be released.
func (t *Turns) Hold(namespace, gang string) {
	if g := t.gangs[gangName{namespace, gang}]; g != nil {
		g.held = t.session
	}
}

// Charge counts the time of an attempt to place the gang against the bucket of its turn. It is called for attempts that
// do not lead to a bind.
func (t *Turns) Charge(namespace, gang string, took time.Duration) {
	if g := t.gangs[gangName{namespace, gang}]; g != nil {
		g.of.left = max(g.of.left-took, -maxDebt)
		g.of.spent += took
	}
}

// Limit enables the limit on the time of attempts. Until it is called, all gangs may be tried.
func (t *Turns) Limit() { t.limited = true }

// Left returns how much time failed attempts to place gangs of the namespace may still take; negative for a debt. The
// bucket for gangs that hold resources or have a promise does not count.
func (t *Turns) Left(namespace string) time.Duration {
	return t.bucketOf(bucketKey{namespace: namespace}).left
}

// SetLeft sets the time that Left returns.
func (t *Turns) SetLeft(namespace string, left time.Duration) {
	t.bucketOf(bucketKey{namespace: namespace}).left = left
}
