// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"
	vcgang "volcano.sh/volcano/pkg/scheduler/plugins/gang"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// maxComparedKinds bounds of how many kinds of members each is compared with all others.
const maxComparedKinds = 64

// wantedMembers are a gang's pending members by what they ask for, of which so many must lie in one group at once.
type wantedMembers struct {
	*emptyGroups
	needed int
	kinds  []*memberKind
	// ascending are, by resource, the places of the kinds that ask for the least of it first.
	ascending [][]int
}

// memberKind is members that ask for the same.
type memberKind struct {
	asks *api.Resource
	// request is how much of each resource that some node has.
	request []float64
	key     string
	count   int
	// larger are the places of the kinds that ask for no less of anything, itself among them.
	larger []int
}

// neededAtOnce is how many of the job's pending members that ask for something must be placed for it to be ready; 0 where no
// plugin waits for that.
func (s *session) neededAtOnce(job *api.JobInfo) int {
	option, found := s.ssn.PluginOption(vcgang.PluginName)
	if !found || option.EnabledJobReady == nil || !*option.EnabledJobReady {
		return 0
	}
	return int(job.MinAvailable - job.ReadyTaskNum() - job.WaitingTaskNum() - job.PendingBestEffortTaskNum())
}

// wanted returns the members of which so many are needed; nil where these do not say it: too few pods are there yet.
func (e *emptyGroups) wanted(pending map[api.TaskID]*api.TaskInfo, needed int) *wantedMembers {
	if needed < 1 || len(pending) < needed {
		return nil
	}
	w := &wantedMembers{emptyGroups: e, needed: needed}
	kinds := map[string]*memberKind{}
	there := 0
	request, key := make([]float64, 0, len(e.names)), make([]byte, 0, 8*len(e.names))
	for _, task := range pending {
		if task.BestEffort {
			continue
		}
		there++
		request = e.appendAmounts(request[:0], task.InitResreq)
		key = appendKey(key[:0], request)
		kind := kinds[string(key)]
		if kind == nil {
			kind = &memberKind{asks: task.InitResreq, request: slices.Clone(request), key: string(key)}
			kinds[kind.key] = kind
		}
		kind.count++
	}
	if there < needed {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(kinds)) {
		w.kinds = append(w.kinds, kinds[key])
	}
	w.compareKinds()
	return w
}

// compareKinds finds which kinds are larger than others.
func (w *wantedMembers) compareKinds() {
	for r := range w.names {
		order := make([]int, len(w.kinds))
		for k := range order {
			order[k] = k
		}
		slices.SortFunc(order, func(l, o int) int { return cmp.Compare(w.kinds[l].request[r], w.kinds[o].request[r]) })
		w.ascending = append(w.ascending, order)
	}
	for k := range w.kinds {
		if len(w.kinds) > maxComparedKinds {
			w.kinds[k].larger = []int{k}
			continue
		}
		for o := range w.kinds {
			if asksForAll(w.kinds[o].request, w.kinds[k].request) {
				w.kinds[k].larger = append(w.kinds[k].larger, o)
			}
		}
	}
}

// asksForAll says whether the request is for no less of anything than the other.
func asksForAll(request, other []float64) bool {
	for r, amount := range other {
		if request[r] < amount {
			return false
		}
	}
	return true
}

// roomFor is how many members a group takes at most, and what bounds them: room for a kind, or for it and those that are larger, or a
// resource. The other place is -1, both if nothing does.
type roomFor struct {
	members        int
	kind, resource int
	orLarger       bool
}

// roomIn bounds how many members the empty group takes. It is never less than there is room for: each bound looks at a part of
// what must hold. That the members of several kinds fit together, node by node, is for allocate to find.
func (w *wantedMembers) roomIn(g *emptyGroup) roomFor {
	room := roomFor{members: w.needed, kind: -1, resource: -1}
	for r, order := range w.ascending {
		if bound := w.smallest(r, order, g.total.Get(w.names[r])); bound < room.members {
			room = roomFor{members: bound, kind: -1, resource: r}
		}
	}
	takes := make([]int, len(w.kinds))
	sum := 0
	for k := range w.kinds {
		takes[k] = min(w.kinds[k].count, g.copies(w.kinds[k]))
		sum += takes[k]
	}
	if sum < room.members {
		short := slices.IndexFunc(w.kinds, func(k *memberKind) bool { return g.copies(k) < k.count })
		room = roomFor{members: sum, kind: short, resource: -1}
	}
	for k, kind := range w.kinds {
		others, copies := sum, g.copies(kind)
		for _, o := range kind.larger {
			others -= takes[o]
		}
		// A node takes no more of those that are larger than of the kind itself.
		if bound := others + copies; bound < room.members {
			room = roomFor{members: bound, kind: k, resource: -1, orLarger: true}
		}
	}
	return room
}

// smallest is for how many members, those first that ask for the least, there is enough of the resource.
func (w *wantedMembers) smallest(r int, order []int, left float64) int {
	left += roundingSlack
	members := 0
	for _, k := range order {
		fit := w.kinds[k].count
		if amount := w.kinds[k].request[r]; amount > 0 {
			fit = min(fit, int(left/amount))
			left -= float64(fit) * amount
		}
		members += fit
		if fit < w.kinds[k].count {
			break
		}
	}
	return members
}

// describe says what bounds the members in the group.
func (w *wantedMembers) describe(room roomFor, g *emptyGroup) string {
	if room.resource >= 0 {
		name := string(w.names[room.resource])
		return fmt.Sprintf("has %s %s, enough for %d of them", name, framework.AmountOf(g.total, name), room.members)
	}
	kind := w.kinds[room.kind]
	count, orMore := kind.count, ""
	if room.orLarger {
		count, orMore = 0, " or more"
		for _, o := range kind.larger {
			count += w.kinds[o].count
		}
	}
	var parts []string
	for r, amount := range kind.request {
		if amount > 0 && !api.IsIgnoredScalarResource(w.names[r]) {
			parts = append(parts, fmt.Sprintf("%s %s", w.names[r], framework.AmountOf(kind.asks, string(w.names[r]))))
		}
	}
	return fmt.Sprintf("takes %d of the %d that ask for %s%s", g.copies(kind), count, strings.Join(parts[:min(len(parts), maxListed)], ", "), orMore)
}
