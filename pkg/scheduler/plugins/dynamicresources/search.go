// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

const (
	// freeSearch is the time at the start of each search that does not count as slow. Most searches take a tenth of this time.
	freeSearch = time.Millisecond
	// shortSearch is a reduced time limit of a search. It applies to a namespace without slow searches in this session, in two
	// cases. Slow searches for other namespaces have used up the session's limit, or slow searches are reserved for another
	// namespace (budgets.turn). It is enough for claims that are not slow to search, even on a busy machine.
	shortSearch = 50 * time.Millisecond
	// creditSessions is the maximum debt of a namespace (see budgets.owed), as a multiple of the limit of slow searches in one
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

// budgets limits the time that a session searches devices for the claims of each namespace, and of all namespaces. Without limits,
// a tenant's claims might take any time to search, and all other pods would wait.
type budgets struct {
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

// newBudgets returns the budgets of a new session. last are the budgets of the previous session; nil for the first session.
func newBudgets(limit time.Duration, last *budgets) *budgets {
	b := &budgets{limit: limit, limitOfAll: min(budgetsOfAll*limit, longestOfAll), spent: map[string]spent{}, opened: time.Now(), owed: map[string]time.Duration{}, waiting: map[string]time.Time{}}
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
func (b *budgets) chooseTurn(last *budgets) {
	b.waiting = maps.Clone(last.waiting)
	for namespace, since := range b.waiting {
		if b.turn == "" || cmp.Or(since.Compare(b.waiting[b.turn]), cmp.Compare(namespace, b.turn)) < 0 {
			b.turn = namespace
		}
	}
	delete(b.waiting, b.turn)
}

// leftOfSlow returns how much of the session's time for slow searches a search for the namespace may use. The caller holds b.mu.
func (b *budgets) leftOfSlow(namespace string) time.Duration {
	own := b.spent[namespace].slow
	switch left := b.limit - b.slow; {
	case namespace == b.turn:
		return b.limit - own
	case own == 0 && (left < shortSearch || b.turn != ""):
		return shortSearch
	case b.turn != "":
		return 0
	default:
		return left
	}
}

// wait records that slow searches for other namespaces ended, or prevented, a search for this namespace. The caller holds b.mu.
func (b *budgets) wait(namespace string) {
	if _, waits := b.waiting[namespace]; !waits {
		b.waiting[namespace] = b.opened
	}
}

// carryOver adds the time of slow searches in the last session to the debt of each namespace. It reduces the debts by a fraction
// of the time since the last session began.
func (b *budgets) carryOver(last *budgets) {
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

var errSlow = errors.New("the device search timed out")

// beginSearch starts a search for claims of the namespace. It returns a context that ends at the time limit of the search, and a
// function to call at the end of the search. most is the maximum of this time limit. The error says which limit is used up.
func (b *budgets) beginSearch(namespace string, most time.Duration) (ctx context.Context, end func(), err error) {
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
	switch {
	// A search for a namespace in debt is refused in two cases. The debt leaves the namespace no search time. Or the namespace's
	// first slow search in this session would have less than the full time limit.
	case owed > 0 && (left <= 0 || own.slow == 0 && left < min(most, b.limit)):
		return nil, nil, fmt.Errorf("device searches of namespace %s take long and get only 1/%d of the time; retrying in a later cycle; fewer requests per claim make them faster", brief.Value(namespace), slowPart)
	case left <= 0:
		return nil, nil, fmt.Errorf("device search budget of namespace %s (%v per cycle) is exhausted; retrying in a later cycle", brief.Value(namespace), b.limit)
	case leftOfSlow <= 0:
		return nil, nil, fmt.Errorf("device search budget of slow namespaces (%v per cycle) is exhausted; retrying the searches of namespace %s in a later cycle", b.limit, brief.Value(namespace))
	case leftOfAll <= 0:
		return nil, nil, fmt.Errorf("device search budget of all namespaces (%v per cycle) is exhausted; retrying in a later cycle", b.limitOfAll)
	case leftOfShare <= 0:
		return nil, nil, fmt.Errorf("device search budget of namespace %s (its share of %v per cycle) is exhausted; retrying in a later cycle", brief.Value(namespace), b.share)
	}
	// freeSearch is added because it does not count as slow. Otherwise a search that uses up all of the time that is left would
	// cost nothing, and could be repeated.
	alone, slowly := min(left+freeSearch, leftOfAll, leftOfShare, most), leftOfSlow+freeSearch
	begun := time.Now()
	ctx, cancel := context.WithTimeoutCause(context.Background(), min(alone, slowly), errSlow)
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
		slow := max(0, took-freeSearch)
		b.all += took
		b.slow += slow
		b.spent[namespace] = spent{own.all + took, own.slow + slow}
	}, nil
}

// search is one search for devices on a node, for given claims.
type search struct {
	catalog *catalog
	ctx     context.Context
	reach   *reach
	// offered are the slices among which devices are searched. Slices that only this node reaches come first.
	offered []*slice
	ids     []structured.DeviceID
	raw     []*resourceapi.ResourceSlice
}

// newSearch prepares a search for devices for the claims. It searches the slices that the node reaches and from which the claims
// may be allocated.
func (c *catalog) newSearch(ctx context.Context, r *reach, claims []*resourceapi.ResourceClaim) (*search, error) {
	if err := c.compileAll(ctx, claims); err != nil {
		return nil, err
	}
	s := &search{catalog: c, ctx: ctx, reach: r}
	if wantsAll(claims) {
		s.offered = r.all()
	} else {
		for _, part := range []*part{r.own, r.shared} {
			kept, err := part.suitingAny(ctx, c, claims)
			if err != nil {
				return nil, err
			}
			s.offered = append(s.offered, kept...)
		}
	}
	for _, one := range s.offered {
		s.ids = append(s.ids, one.ids...)
		s.raw = append(s.raw, one.ResourceSlice)
	}
	return s, nil
}

// ofOneNode reports whether all devices of the slice belong to one node.
func (s *slice) ofOneNode() bool { return s.Spec.NodeName != nil && *s.Spec.NodeName != "" }

// suitsAny reports whether a device of the slice suits a request of one of the claims.
func (c *catalog) suitsAny(ctx context.Context, one *slice, claims []*resourceapi.ResourceClaim) (bool, error) {
	for _, claim := range claims {
		for i := range claim.Spec.Devices.Requests {
			choices, err := choicesOf(&claim.Spec.Devices.Requests[i], c.classes)
			if err != nil {
				return false, err
			}
			for k := range choices {
				suits, err := one.suiting(ctx, c.compiled.Cache, &choices[k], choices[k].key())
				if err != nil || slices.Contains(suits, true) {
					return err == nil, err
				}
			}
		}
	}
	return false, nil
}

// found is the result of a search: an allocation for each claim. If devices are lacking, claim and request are instead the indexes
// of a claim, and of its request that lacks a device.
type found struct {
	allocations    []resourceapi.AllocationResult
	claim, request int
}

// solve finds devices for the claims among the devices that are free in the given state. If the free devices do not suffice, the
// result has no allocations.
func (s *search) solve(claims []*resourceapi.ResourceClaim, state structured.AllocatedState) (found, error) {
	// If the claims request one device, and the node reaches one pool, no matching of requests with devices is needed. The
	// allocator alone is fast then, and its choice is deterministic.
	if s.reach.pools() == 1 && asksForOne(claims) {
		allocations, err := s.allocate(claims, state)
		return found{allocations: allocations}, err
	}
	m := newMarket(s.offered, state, s.catalog.features)
	d, err := requestsOf(s.ctx, claims, s.offered, m, s.catalog.classes, s.catalog.compiled.Cache)
	if err != nil {
		return found{}, err
	}
	given, short, ok := match(s.ctx, d.units, len(m.devices))
	switch {
	case s.ctx.Err() != nil:
		return found{}, context.Cause(s.ctx)
	case !ok:
		return found{claim: d.units[short].claim, request: d.units[short].request}, nil
	}
	if d.simple {
		if allocations := s.guided(claims, state, m, d.units, given); allocations != nil {
			return found{allocations: allocations}, nil
		}
	}
	allocations, err := s.allocate(claims, state)
	return found{allocations: allocations}, err
}

// asksForOne reports whether the claims are a single claim that requests exactly one device, without alternatives.
func asksForOne(claims []*resourceapi.ResourceClaim) bool {
	if len(claims) != 1 || len(claims[0].Spec.Devices.Requests) != 1 {
		return false
	}
	exactly := claims[0].Spec.Devices.Requests[0].Exactly
	return exactly != nil && exactly.AllocationMode != resourceapi.DeviceAllocationModeAll && exactly.Count == 1
}

// guided calls the allocator once for each claim, with only the devices that the matching of requests with devices assigned to
// the claim. It returns nil if the allocator refuses these devices.
func (s *search) guided(claims []*resourceapi.ResourceClaim, state structured.AllocatedState, m *deviceSupply, units []deviceRequest, given []int) []resourceapi.AllocationResult {
	allocations := make([]resourceapi.AllocationResult, 0, len(claims))
	for i, claim := range claims {
		others := state
		others.AllocatedDevices = sets.New(m.devices...)
		for k := range units {
			if units[k].claim == i {
				others.AllocatedDevices.Delete(m.devices[given[k]])
			}
		}
		allocation, err := s.allocate([]*resourceapi.ResourceClaim{claim}, others)
		if err != nil || allocation == nil {
			return nil
		}
		allocations = append(allocations, allocation...)
	}
	return allocations
}

// allocate calls Kubernetes' allocator. If the allocator panics, it returns an error. It returns no allocations unless all claims
// can be allocated together.
func (s *search) allocate(claims []*resourceapi.ResourceClaim, state structured.AllocatedState) (allocations []resourceapi.AllocationResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			allocations, err = nil, fmt.Errorf("the allocator panicked: %v", p)
		}
	}()
	allocator, err := structured.NewAllocator(s.ctx, s.catalog.features, state, s.catalog.classes, s.raw, s.catalog.compiled.Cache)
	if err != nil {
		return nil, err
	}
	allocations, err = allocator.Allocate(s.ctx, s.reach.node, claims)
	// If the context ends while a selector is evaluated, the allocator returns an error that hides the cause.
	if cause := context.Cause(s.ctx); cause != nil {
		return nil, cause
	}
	if len(allocations) != len(claims) {
		return nil, err
	}
	return allocations, err
}
