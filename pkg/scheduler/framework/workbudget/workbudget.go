// SPDX-License-Identifier: Apache-2.0

// Package workbudget limits the time that plugins work for the pods of each namespace in a session, and for all pods together.
// Without limits, a tenant's pods might take any time, and all other pods would wait. The limits also hold from session to session.
//
// The comments call the work a search, after the searches for devices that need these limits most.
package workbudget

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

const (
	// Free is the time at the start of each search that does not count as slow. Most searches take a tenth of this time.
	Free = time.Millisecond
	// Short is a reduced time limit of a search. It applies to a namespace without slow searches in this session, in two
	// cases. Slow searches for other namespaces have used up the session's limit, or slow searches are reserved for another
	// namespace (Budgets.turn). It is enough for claims that are not slow to search, even on a busy machine.
	Short = 50 * time.Millisecond
	// creditSessions is the maximum debt of a namespace (see Budgets.owed), as a multiple of the limit of slow searches in one
	// session. At this debt, searches for the namespace pause. At half of it they do not pause yet, because a single slow search
	// on a busy machine may cause such a debt.
	creditSessions = 2
	// budgetsOfAll is the time limit of all searches in a session, as a multiple of the limit of slow searches. longestOfAll is
	// the maximum of this time limit. A session that takes twice as long as longestOfAll would be treated as hanging.
	budgetsOfAll = 20
	longestOfAll = time.Minute
	// slowPart and slowPartOfAll limit slow searches in the long run. Slow searches for one namespace take at most 1/slowPart of
	// the time, and slow searches for all namespaces together at most 1/slowPartOfAll.
	slowPart      = 20
	slowPartOfAll = 5
)

// Work names the work whose time is limited, for messages: "device search" and "device searches" are Kind "device ", One "search" and
// Many "searches".
type Work struct {
	Kind, One, Many string
	// Remedy says what makes the work faster, after a semicolon; empty if nothing is known.
	Remedy string
}

// Budgets limits the time that a session works for each namespace, and for all namespaces.
type Budgets struct {
	work Work
	// limit is the time limit of slow searches in a session, for each namespace and for all namespaces together. limitOfAll is
	// the time limit of all searches.
	limit, limitOfAll time.Duration
	// share is the time limit of all searches for one namespace. It equals limitOfAll, but is smaller if limitOfAll was not enough
	// in the previous session. Otherwise a tenant whose gangs are tried first could use up the time in each session.
	share time.Duration

	// opened is when the session began. owed is the debt of each namespace: the time of its slow searches in earlier sessions,
	// less a part of the time that has passed since.
	opened time.Time
	owed   map[string]time.Duration

	mu    sync.Mutex
	spent map[string]spent
	all   time.Duration
	// slow is the time of slow searches for all namespaces in this session.
	slow time.Duration
	// short reports whether a search was refused because limitOfAll, or the namespace's share of it, was used up.
	short bool
	// waiting is the time since which each namespace waits because slow searches for other namespaces ended its searches early.
	// turn is the namespace that had waited longest when this session began. Slow searches are reserved for this namespace, until
	// one of its searches ends within the time limit.
	waiting map[string]time.Time
	turn    string
}

// spent is the time of the searches for one namespace in this session: of all searches, and of slow searches.
type spent struct{ all, slow time.Duration }

// New returns the budgets of a new session. last are the budgets of the previous session; nil for the first session.
func New(work Work, limit time.Duration, last *Budgets) *Budgets {
	b := &Budgets{work: work, limit: limit, limitOfAll: min(budgetsOfAll*limit, longestOfAll), spent: map[string]spent{}, opened: time.Now(), owed: map[string]time.Duration{}, waiting: map[string]time.Time{}}
	b.share = b.limitOfAll
	if last != nil {
		b.carryOver(last)
	}
	if last != nil && last.short {
		b.share /= time.Duration(len(last.spent))
		// More than half of the time for all searches was left in the last session, so only the shares of the namespaces were too
		// small. The total time suffices even if each share is doubled.
		if last.all < last.limitOfAll/2 {
			b.share = min(b.limitOfAll, max(b.share, 2*last.share))
		}
	}
	return b
}

// chooseTurn sets b.turn to the namespace in last.waiting that has waited longest. The other namespaces continue to wait. last are
// the budgets of the previous session.
func (b *Budgets) chooseTurn(last *Budgets) {
	b.waiting = maps.Clone(last.waiting)
	for namespace, since := range b.waiting {
		if b.turn == "" || cmp.Or(since.Compare(b.waiting[b.turn]), cmp.Compare(namespace, b.turn)) < 0 {
			b.turn = namespace
		}
	}
	delete(b.waiting, b.turn)
}

// leftOfSlow returns how much of the session's time for slow searches a search for the namespace may use. The caller holds b.mu.
func (b *Budgets) leftOfSlow(namespace string) time.Duration {
	own := b.spent[namespace].slow
	switch left := b.limit - b.slow; {
	case namespace == b.turn:
		return b.limit - own
	case own == 0 && (left < Short || b.turn != ""):
		return Short
	case b.turn != "":
		return 0
	default:
		return left
	}
}

// wait records that slow searches for other namespaces ended, or prevented, a search for this namespace. The caller holds b.mu.
func (b *Budgets) wait(namespace string) {
	if _, waits := b.waiting[namespace]; !waits {
		b.waiting[namespace] = b.opened
	}
}

// carryOver adds the time of slow searches in the last session to the debt of each namespace. It reduces the debts by a fraction
// of the time since the last session began.
func (b *Budgets) carryOver(last *Budgets) {
	b.chooseTurn(last)
	for namespace, spent := range last.spent {
		if owed := last.owed[namespace] + spent.slow; owed > 0 {
			b.owed[namespace] = owed
		}
	}
	for namespace, owed := range last.owed {
		b.owed[namespace] = max(b.owed[namespace], owed)
	}
	paid := b.opened.Sub(last.opened) / time.Duration(max(slowPart, slowPartOfAll*len(b.owed)))
	for namespace, owed := range b.owed {
		if b.owed[namespace] = owed - paid; owed <= paid {
			delete(b.owed, namespace)
		}
	}
}

// ErrSlow is the cause of a context that ended at the time limit of its work.
var ErrSlow = errors.New("the time limit was exceeded")

// Begin starts a search for the namespace. It returns a context that ends at the time limit of the search, and a
// function to call at the end of the search. most is the maximum of this time limit. The error says which limit is used up.
func (b *Budgets) Begin(namespace string, most time.Duration) (ctx context.Context, end func(), err error) {
	b.mu.Lock()
	own := b.spent[namespace]
	// This gives the namespace an entry in spent. The next session may divide its search time among all namespaces in spent.
	b.spent[namespace] = own
	owed := b.owed[namespace]
	left, leftOfAll, leftOfShare := min(b.limit, creditSessions*b.limit-owed)-own.slow, b.limitOfAll-b.all, b.share-own.all
	leftOfSlow := b.leftOfSlow(namespace)
	if left > 0 && leftOfSlow <= 0 {
		b.wait(namespace)
	}
	b.short = b.short || left > 0 && min(leftOfAll, leftOfShare) <= 0
	b.mu.Unlock()
	name := func() string { return brief.Value(namespace) }
	const later = "is exhausted; retrying in a later cycle"
	switch {
	// A search for a namespace in debt is refused in two cases. The debt leaves the namespace no search time. Or the namespace's
	// first slow search in this session would have less than the full time limit.
	case owed > 0 && (left <= 0 || own.slow == 0 && left < min(most, b.limit)):
		return nil, nil, fmt.Errorf("%s%s of namespace %s take long and get only 1/%d of the time; retrying in a later cycle%s", b.work.Kind, b.work.Many, name(), slowPart, b.work.Remedy)
	case left <= 0:
		return nil, nil, fmt.Errorf("%s%s budget of namespace %s (%v per cycle) %s", b.work.Kind, b.work.One, name(), b.limit, later)
	case leftOfSlow <= 0:
		return nil, nil, fmt.Errorf("%s%s budget of slow namespaces (%v per cycle) is exhausted; retrying the %s of namespace %s in a later cycle", b.work.Kind, b.work.One, b.limit, b.work.Many, name())
	case leftOfAll <= 0:
		return nil, nil, fmt.Errorf("%s%s budget of all namespaces (%v per cycle) %s", b.work.Kind, b.work.One, b.limitOfAll, later)
	case leftOfShare <= 0:
		return nil, nil, fmt.Errorf("%s%s budget of namespace %s (its share of %v per cycle) %s", b.work.Kind, b.work.One, name(), b.share, later)
	}
	// Free is added because it does not count as slow. Otherwise a search that uses up all of the time that is left would
	// cost nothing, and could be repeated.
	alone, slowly := min(left+Free, leftOfAll, leftOfShare, most), leftOfSlow+Free
	begun := time.Now()
	ctx, cancel := context.WithTimeoutCause(context.Background(), min(alone, slowly), ErrSlow)
	return ctx, func() {
		late := ctx.Err() != nil
		cancel()
		took := time.Since(begun)
		b.mu.Lock()
		defer b.mu.Unlock()
		switch {
		case namespace == b.turn && !late:
			b.turn = "" // from now on, slow searches of other namespaces are allowed
		case late && slowly < alone:
			b.wait(namespace)
		}
		own := b.spent[namespace]
		slow := max(0, took-Free)
		b.all += took
		b.slow += slow
		b.spent[namespace] = spent{own.all + took, own.slow + slow}
	}, nil
}
