// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"
	vcgang "volcano.sh/volcano/pkg/scheduler/plugins/gang"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

const (
	// maxComparedKinds bounds the number of kinds of members up to which each kind is compared with all others and
	// counted on nodes. This takes microseconds for each different group.
	maxComparedKinds = 64
	// maxKnownKinds bounds the number of kinds of members that are kept: each takes some bytes in each group.
	maxKnownKinds = 1 << 15
)

// memberKind is the set of members with equal requests.
type memberKind struct {
	// number identifies the kind as long as the empty groups are kept.
	number int
	// request is the requested amount of each resource that some node has.
	request []float64
}

// kindCounts is the number of a gang's pending members of each kind, without members that request nothing.
type kindCounts map[*memberKind]int

// wantedMembers holds a gang's pending members by their requests, and the number that must be in one group at once.
type wantedMembers struct {
	*emptyGroups
	needed int
	// ascending lists, by resource, the members in ascending order of their request.
	ascending []leastFirst
	// kinds are the kinds to compare: the members' kinds, or fewer with smaller requests that stand for them.
	kinds []wantedKind
}

// wantedKind is one of several kinds of a gang's members.
type wantedKind struct {
	*memberKind
	count int
	// orMore reports whether the kind also stands for members with larger requests.
	orMore bool
	// larger are the indexes of the kinds that request at least as much of everything, including this kind.
	larger []int
}

// leastFirst lists a gang's members in ascending order of their request for a resource: for each kind the request of
// one member, and up to and including that kind the number of members and the sum of their requests.
type leastFirst struct {
	amounts, sums []float64
	members       []int
}

// neededAtOnce returns how many of the job's pending members with requests must be placed for it to be ready; 0 if no
// plugin requires that.
func (s *session) neededAtOnce(job *api.JobInfo) int {
	option, found := s.ssn.PluginOption(vcgang.PluginName)
	if !found || option.EnabledJobReady == nil || !*option.EnabledJobReady {
		return 0
	}
	return int(job.MinAvailable - job.ReadyTaskNum() - job.WaitingTaskNum() - job.PendingBestEffortTaskNum())
}

// kindsOf counts the needed members by kind; nil if that is unknown because too few pods exist.
func (e *emptyGroups) kindsOf(pending map[api.TaskID]*api.TaskInfo, needed int) kindCounts {
	if needed < 1 || len(pending) < needed {
		return nil
	}
	if len(e.kinds) > maxKnownKinds {
		e.forgetKinds()
	}
	counts := kindCounts{}
	there := 0
	request := make([]float64, 0, len(e.names))
	for _, task := range pending {
		if !task.BestEffort {
			there++
			request = e.appendAmounts(request[:0], task.InitResreq)
			counts[e.kind(request)]++
		}
	}
	if there < needed {
		return nil
	}
	return counts
}

// kind returns the kind with the request.
func (e *emptyGroups) kind(request []float64) *memberKind {
	key := appendKey(make([]byte, 0, 128), request)
	k := e.kinds[string(key)]
	if k == nil {
		k = &memberKind{number: len(e.kinds), request: slices.Clone(request)}
		e.kinds[string(key)] = k
	}
	return k
}

// forgetKinds resets the numbers of kinds.
func (e *emptyGroups) forgetKinds() {
	clear(e.kinds)
	clear(e.votes)
	clear(e.lastVotes)
	for _, g := range e.alike {
		g.copiesOf = nil
	}
}

// appendTo appends bytes that are equal for equal counts.
func (counts kindCounts) appendTo(key []byte) []byte {
	kinds := slices.SortedFunc(maps.Keys(counts), func(l, r *memberKind) int { return cmp.Compare(l.number, r.number) })
	for _, k := range kinds {
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(k.number)), uint64(counts[k]))
	}
	return key
}

// wanted returns the members with their kinds compared.
func (e *emptyGroups) wanted(counts kindCounts, needed int) *wantedMembers {
	w := &wantedMembers{emptyGroups: e, needed: needed}
	kinds := slices.SortedFunc(maps.Keys(counts), func(l, r *memberKind) int { return slices.Compare(l.request, r.request) })
	for r := range w.names {
		w.ascending = append(w.ascending, counts.leastFirst(kinds, r))
	}
	for _, k := range kinds {
		w.kinds = append(w.kinds, wantedKind{memberKind: k, count: counts[k]})
	}
	w.mergeKinds()
	for k := range w.kinds {
		for o := range w.kinds {
			if asksForAll(w.kinds[o].request, w.kinds[k].request) {
				w.kinds[k].larger = append(w.kinds[k].larger, o)
			}
		}
	}
	return w
}

// mergeKinds merges neighbouring kinds if there are too many. The merged kind requests, of each resource, the least
// that any of them requests, so that it fits wherever they fit.
func (w *wantedMembers) mergeKinds() {
	all := w.kinds
	if len(all) <= maxComparedKinds {
		return
	}
	w.kinds = nil
	for part := range slices.Chunk(all, (len(all)+maxComparedKinds-1)/maxComparedKinds) {
		least, count := slices.Clone(part[0].request), 0
		for _, k := range part {
			count += k.count
			for r, amount := range k.request {
				least[r] = min(least[r], amount)
			}
		}
		w.kinds = append(w.kinds, wantedKind{memberKind: w.kind(least), count: count, orMore: true})
	}
}

func (counts kindCounts) leastFirst(kinds []*memberKind, r int) (l leastFirst) {
	order := slices.SortedFunc(slices.Values(kinds), func(l, o *memberKind) int { return cmp.Compare(l.request[r], o.request[r]) })
	members, sum := 0, 0.0
	for _, k := range order {
		amount := k.request[r]
		members += counts[k]
		sum += float64(counts[k]) * amount
		l.amounts, l.members, l.sums = append(l.amounts, amount), append(l.members, members), append(l.sums, sum)
	}
	return l
}

// asksForAll reports whether the request is at least as large as the other in every resource.
func asksForAll(request, other []float64) bool {
	for r, amount := range other {
		if request[r] < amount {
			return false
		}
	}
	return true
}

// roomFor is the largest number of members that a group can take, and the index of the kind (or of the kind and all
// larger ones), or of the resource, that limits it. The other index is -1; both are -1 if nothing limits it.
type roomFor struct {
	members        int
	kind, resource int
	orLarger       bool
}

// roomIn returns an upper bound of the number of members that the empty group takes. Each limit considers only a part
// of the requirements, so the result is never too small. Whether members of several kinds fit together, node by node,
// is decided by allocate.
func (w *wantedMembers) roomIn(g *emptyGroup) roomFor {
	room := roomFor{members: w.needed, kind: -1, resource: -1}
	for r := range w.ascending {
		if bound := w.ascending[r].within(g.total.Get(w.names[r])); bound < room.members {
			room = roomFor{members: bound, kind: -1, resource: r}
		}
	}
	takes := make([]int, len(w.kinds))
	sum := 0
	for k := range w.kinds {
		takes[k] = min(w.kinds[k].count, g.copies(w.kinds[k].memberKind))
		sum += takes[k]
	}
	if sum < room.members {
		short := slices.IndexFunc(w.kinds, func(k wantedKind) bool { return g.copies(k.memberKind) < k.count })
		room = roomFor{members: sum, kind: short, resource: -1}
	}
	for k := range w.kinds {
		kind := &w.kinds[k]
		others, copies := sum, g.copies(kind.memberKind)
		if copies >= room.members {
			continue
		}
		for _, o := range kind.larger {
			others -= takes[o]
		}
		// A node takes no more of the larger members than of the kind itself.
		if bound := others + copies; bound < room.members {
			room = roomFor{members: bound, kind: k, resource: -1, orLarger: true}
		}
	}
	return room
}

// within returns for how many members, in ascending order of requests, the amount of the resource suffices.
func (l *leastFirst) within(left float64) int {
	left += roundingSlack
	all := sort.Search(len(l.sums), func(k int) bool { return l.sums[k] > left }) // of so many kinds
	members := 0
	if all > 0 {
		members, left = l.members[all-1], left-l.sums[all-1]
	}
	if all < len(l.sums) {
		members += int(left / l.amounts[all])
	}
	return members
}

// describe describes the limit of the members in the group.
func (w *wantedMembers) describe(room roomFor, g *emptyGroup) string {
	if room.resource >= 0 {
		name := string(w.names[room.resource])
		return fmt.Sprintf("has %s %s, enough for %d of them", name, framework.AmountOf(g.total, name), room.members)
	}
	kind := w.kinds[room.kind]
	count, orMore := kind.count, ""
	if room.orLarger {
		count = 0
		for _, o := range kind.larger {
			count += w.kinds[o].count
		}
	}
	if room.orLarger || kind.orMore {
		orMore = " or more"
	}
	asks := w.resource(kind.request)
	var parts []string
	for r, amount := range kind.request {
		if amount > 0 && !api.IsIgnoredScalarResource(w.names[r]) {
			parts = append(parts, fmt.Sprintf("%s %s", w.names[r], framework.AmountOf(asks, string(w.names[r]))))
		}
	}
	return fmt.Sprintf("fits %d of the %d that request %s%s", g.copies(kind.memberKind), count, strings.Join(parts[:min(len(parts), maxListed)], ", "), orMore)
}
