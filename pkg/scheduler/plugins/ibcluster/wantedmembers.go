// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"
	vcgang "volcano.sh/volcano/pkg/scheduler/plugins/gang"

	"github.com/volcano-prebind/volcano-prebind/internal/keybytes"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

const (
	// maxComparedClasses limits how many task classes of a gang are compared with each other and counted on nodes. If a
	// gang has more classes, similar classes are merged. It then takes microseconds to compute how many members one
	// node group could hold (roomIn).
	maxComparedClasses = 64
	// maxKnownClasses limits how many task classes of all gangs are kept in memory. Each class takes some bytes in
	// each node group.
	maxKnownClasses = 1 << 15
)

// taskClass is a set of members with equal requests.
type taskClass struct {
	// number is the index of the class in emptyGroup.copiesOf, and a part of the keys of cached votes.
	number int
	// request is the requested amount of each resource in emptyGroups.names.
	request []float64
}

// classCounts has the number of a gang's pending members of each class. Members without requests are left out.
type classCounts map[*taskClass]int

// wantedMembers holds a gang's pending members by task class. needed is the number of members that must be in one
// node group at once.
type wantedMembers struct {
	*emptyGroups
	needed int
	// ascending has, for each resource, the members in ascending order of their request for the resource.
	ascending []leastFirst
	// classes are the task classes to compare with each other. If the members have too many classes, similar classes
	// are merged into one with the smallest request for each resource.
	classes []wantedClass
}

// wantedClass is a task class with the number of the gang's members in it.
type wantedClass struct {
	*taskClass
	count int
	// orMore reports whether the class was merged from several classes, so that some of its members request more than
	// the class.
	orMore bool
	// larger are the indexes of the classes that request at least as much of every resource as this class. This class
	// is one of them.
	larger []int
}

// leastFirst lists a gang's task classes in ascending order of their request for one resource. amounts has, for each
// class, the request of one member. members has the number of members in the class and all classes before it in the
// list. sums has the sum of these members' requests.
type leastFirst struct {
	amounts, sums []float64
	members       []int
}

// neededAtOnce returns how many more pending members with requests must be placed until the job reaches the minimum of
// the gang plugin. It is 0 if the conf does not enable function JobReady of the gang plugin.
func (s *session) neededAtOnce(job *api.JobInfo) int {
	option, found := s.ssn.PluginOption(vcgang.PluginName)
	if !found || option.EnabledJobReady == nil || !*option.EnabledJobReady {
		return 0
	}
	return int(job.MinAvailable - job.ReadyTaskNum() - job.WaitingTaskNum() - job.PendingBestEffortTaskNum())
}

// classesOf counts the pending members with requests by task class. It returns nil if fewer than needed members
// exist, or if none is needed.
func (e *emptyGroups) classesOf(pending map[api.TaskID]*api.TaskInfo, needed int) classCounts {
	if needed < 1 || len(pending) < needed {
		return nil
	}
	if len(e.classes) > maxKnownClasses {
		e.forgetClasses()
	}
	counts := classCounts{}
	there := 0
	request := make([]float64, 0, len(e.names))
	for _, task := range pending {
		if !task.BestEffort {
			there++
			request = e.appendAmounts(request[:0], task.InitResreq)
			counts[e.class(request)]++
		}
	}
	if there < needed {
		return nil
	}
	return counts
}

// class returns the task class with the given request. It creates the class if it does not exist.
func (e *emptyGroups) class(request []float64) *taskClass {
	key := keybytes.Float(make([]byte, 0, 128), request...)
	k := e.classes[string(key)]
	if k == nil {
		k = &taskClass{number: len(e.classes), request: slices.Clone(request)}
		e.classes[string(key)] = k
	}
	return k
}

// forgetClasses removes all task classes, and the cached results whose keys contain the numbers of classes.
func (e *emptyGroups) forgetClasses() {
	clear(e.classes)
	clear(e.votes)
	clear(e.lastVotes)
	for _, g := range e.equivalent {
		g.copiesOf = nil
	}
}

// appendTo appends the counts as bytes to a map key. Equal counts give equal bytes.
func (counts classCounts) appendTo(key []byte) []byte {
	classes := slices.SortedFunc(maps.Keys(counts), func(l, r *taskClass) int { return cmp.Compare(l.number, r.number) })
	for _, k := range classes {
		key = keybytes.Int(key, k.number, counts[k])
	}
	return key
}

// wanted returns the counted members as wantedMembers, with their task classes merged and compared.
func (e *emptyGroups) wanted(counts classCounts, needed int) *wantedMembers {
	w := &wantedMembers{emptyGroups: e, needed: needed}
	classes := slices.SortedFunc(maps.Keys(counts), func(l, r *taskClass) int { return slices.Compare(l.request, r.request) })
	for r := range w.names {
		w.ascending = append(w.ascending, counts.leastFirst(classes, r))
	}
	for _, k := range classes {
		w.classes = append(w.classes, wantedClass{taskClass: k, count: counts[k]})
	}
	w.mergeClasses()
	for k := range w.classes {
		for o := range w.classes {
			if asksForAll(w.classes[o].request, w.classes[k].request) {
				w.classes[k].larger = append(w.classes[k].larger, o)
			}
		}
	}
	return w
}

// mergeClasses merges neighbouring task classes if there are more than maxComparedClasses. A merged class requests,
// of each resource, the smallest amount that any of its classes requests. So it fits wherever one of its classes
// fits.
func (w *wantedMembers) mergeClasses() {
	all := w.classes
	if len(all) <= maxComparedClasses {
		return
	}
	w.classes = nil
	for part := range slices.Chunk(all, (len(all)+maxComparedClasses-1)/maxComparedClasses) {
		least, count := slices.Clone(part[0].request), 0
		for _, k := range part {
			count += k.count
			for r, amount := range k.request {
				least[r] = min(least[r], amount)
			}
		}
		w.classes = append(w.classes, wantedClass{taskClass: w.class(least), count: count, orMore: true})
	}
}

func (counts classCounts) leastFirst(classes []*taskClass, r int) (l leastFirst) {
	order := slices.SortedFunc(slices.Values(classes), func(l, o *taskClass) int { return cmp.Compare(l.request[r], o.request[r]) })
	members, sum := 0, 0.0
	for _, k := range order {
		amount := k.request[r]
		members += counts[k]
		sum += float64(counts[k]) * amount
		l.amounts, l.members, l.sums = append(l.amounts, amount), append(l.members, members), append(l.sums, sum)
	}
	return l
}

// asksForAll reports whether request has at least the amount in other of every resource.
func asksForAll(request, other []float64) bool {
	for r, amount := range other {
		if request[r] < amount {
			return false
		}
	}
	return true
}

// roomFor is the largest number of members that a node group can take, and the cause of this limit. If a task class
// is the cause, class is its index; with orLarger, the class and all larger classes are the cause. If a resource is
// the cause, resource is its index. An index that does not apply is -1.
type roomFor struct {
	members         int
	class, resource int
	orLarger        bool
}

// roomIn returns an upper bound of the number of the gang's members that the node group could hold if no pods ran
// there. It returns at most the needed number. Each limit considers only a part of the members' requirements, so the
// bound is never too small. Only allocate checks whether members of several classes fit on the nodes together.
func (w *wantedMembers) roomIn(g *emptyGroup) roomFor {
	room := roomFor{members: w.needed, class: -1, resource: -1}
	for r := range w.ascending {
		if bound := w.ascending[r].within(g.total.Get(w.names[r])); bound < room.members {
			room = roomFor{members: bound, class: -1, resource: r}
		}
	}
	takes := make([]int, len(w.classes))
	sum := 0
	for k := range w.classes {
		takes[k] = min(w.classes[k].count, g.copies(w.classes[k].taskClass))
		sum += takes[k]
	}
	if sum < room.members {
		short := slices.IndexFunc(w.classes, func(k wantedClass) bool { return g.copies(k.taskClass) < k.count })
		room = roomFor{members: sum, class: short, resource: -1}
	}
	for k := range w.classes {
		class := &w.classes[k]
		others, copies := sum, g.copies(class.taskClass)
		if copies >= room.members {
			continue
		}
		for _, o := range class.larger {
			others -= takes[o]
		}
		// A member of a larger class requests at least as much of every resource as a member of this class. The node
		// group could hold only a limited number (copies) of members of this class. So it could hold at most as many
		// members of this class and all larger classes together.
		if bound := others + copies; bound < room.members {
			room = roomFor{members: bound, class: k, resource: -1, orLarger: true}
		}
	}
	return room
}

// within returns for how many members the given amount of the resource suffices, if members with the smallest
// requests come first.
func (l *leastFirst) within(left float64) int {
	left += roundingSlack
	all := sort.Search(len(l.sums), func(k int) bool { return l.sums[k] > left }) // the number of task classes whose members all fit
	members := 0
	if all > 0 {
		members, left = l.members[all-1], left-l.sums[all-1]
	}
	if all < len(l.sums) {
		members += int(left / l.amounts[all])
	}
	return members
}

// describe returns, as text, why the node group could hold no more members of the gang, even if no pods ran there.
func (w *wantedMembers) describe(room roomFor, g *emptyGroup) string {
	if room.resource >= 0 {
		name := string(w.names[room.resource])
		return fmt.Sprintf("has %s %s, enough for %d of them", name, framework.AmountOf(g.total, name), room.members)
	}
	class := w.classes[room.class]
	count, orMore := class.count, ""
	if room.orLarger {
		count = 0
		for _, o := range class.larger {
			count += w.classes[o].count
		}
	}
	if room.orLarger || class.orMore {
		orMore = " or more"
	}
	fits := g.copies(class.taskClass)
	asks := w.resource(class.request)
	var parts []string
	for r, amount := range class.request {
		if amount > 0 && !api.IsIgnoredScalarResource(w.names[r]) {
			parts = append(parts, fmt.Sprintf("%s %s", w.names[r], framework.AmountOf(asks, string(w.names[r]))))
		}
	}
	request := strings.Join(parts[:min(len(parts), maxListed)], ", ") + orMore
	switch {
	case fits == 0 && count == 1:
		return "does not fit the pod that requests " + request
	case fits == 0:
		return fmt.Sprintf("fits none of the %d that request %s", count, request)
	default:
		return fmt.Sprintf("fits %d of the %d that request %s", fits, count, request)
	}
}
