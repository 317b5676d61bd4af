package allocate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// maxExplanation bounds the compact explanation, in bytes.
const maxExplanation = 900

// explain says, group by group, how many of the members that the gang lacks fit and what stops the next.
func (a *allocation) explain(job *api.JobInfo, sheet *sheet, groups *framework.NodeGroups, n *need) {
	e := framework.GangExplanation{
		Namespace: job.Namespace, PodGroup: job.Name, Time: a.now(), Needed: n.total, Required: groups.Required,
	}
	for _, group := range groups.Candidates {
		e.Groups = append(e.Groups, a.explainGroup(group, n))
	}
	slices.SortStableFunc(e.Groups, func(l, r framework.NodeGroupExplanation) int { return r.Fits - l.Fits })
	for _, path := range slices.Sorted(maps.Keys(groups.Refused)) {
		e.Groups = append(e.Groups, framework.NodeGroupExplanation{Group: path, Refused: groups.Refused[path]})
	}
	e.Message = compact(e, a.jobReady(job))
	a.ssn.Explain(job.UID, e)
	job.JobFitErrors = e.Message
	errs := api.NewFitErrors() // of every task: the group is what none of them fits into
	errs.SetError(e.Message)
	for _, tasks := range sheet.tasks {
		for _, task := range tasks {
			job.NodesFitErrors[task.UID] = errs
		}
	}
}

func (a *allocation) explainGroup(group *topology.Group, n *need) framework.NodeGroupExplanation {
	d := a.board.group(group)
	e := framework.NodeGroupExplanation{Group: group.Path(), Nodes: len(d.nodes)}
	for _, s := range n.shapes {
		e.Fits += min(a.capacity(s, d), n.counts[s]+n.further[s])
	}
	e.Fits = min(e.Fits, n.total)
	if tried, ok := a.stops[d]; ok { // what happened counts before what arithmetic says
		e.Fits, e.Stopped = tried.placed, tried.why
		return e
	}
	short := n.shapes[0]
	for _, s := range n.shapes {
		if a.capacity(s, d) < n.counts[s] {
			short = s
			break
		}
	}
	e.Reasons = a.reasons(short, d)
	return e
}

// reasons counts the nodes of the domain by what stops the next task of the shape there. Gangs of one shape share the
// count until a node of the domain changes.
func (a *allocation) reasons(s *shape, d *domain) map[string]int {
	r := a.roomOf(s, d)
	if r.reasons != nil {
		return r.reasons
	}
	r.reasons = map[string]int{}
	for _, node := range d.nodes {
		sm := a.ask(s, node)
		info := a.board.nodes[node]
		switch {
		case sm.err != nil:
			for _, reason := range reasonsOf(sm.err) {
				r.reasons[reason]++
			}
		case sm.copies == 0:
			_, missing := s.task.InitResreq.LessEqualWithResourcesName(info.Idle, api.Zero)
			r.reasons["short of "+slices.Min(missing)+" until it is released"]++
		default: // it takes some, and then is full
			r.reasons[a.fullReason(s, info, sm.copies)]++
		}
	}
	return r.reasons
}

// fullReason says what a node is short of after it has taken the copies that fit.
func (a *allocation) fullReason(s *shape, node *api.NodeInfo, copies int32) string {
	left := node.Idle.Clone()
	for range copies {
		left.SubWithoutAssert(s.task.InitResreq)
	}
	if _, short := s.task.InitResreq.LessEqualWithResourcesName(left, api.Zero); len(short) > 0 {
		return "short of " + slices.Min(short)
	}
	return "full"
}

// reasonsOf puts a verdict into few words.
func reasonsOf(err error) []string {
	var fit *api.FitError
	if !errors.As(err, &fit) {
		return []string{err.Error()}
	}
	var out []string
	for _, reason := range fit.Reasons() {
		switch resource, short := strings.CutPrefix(reason, "Insufficient "); {
		case short:
			reason = "short of " + resource
		case strings.Contains(reason, "were unschedulable"):
			reason = "cordoned"
		case strings.Contains(reason, "untolerated taint"):
			reason = "tainted"
		}
		if !slices.Contains(out, reason) {
			out = append(out, reason)
		}
	}
	if slices.Contains(out, "cordoned") { // a cordoned node is also tainted as such
		return []string{"cordoned"}
	}
	return out
}

// compact puts an explanation into one line, such as "ib-a 12/16: 3 nodes short of nvidia.com/gpu, 1 tainted".
func compact(e framework.GangExplanation, ready bool) string {
	var b strings.Builder
	switch {
	case ready:
		b.WriteString("the minimum is placed, further members wait: ")
	case e.Required:
		fmt.Fprintf(&b, "no node group holds the %d members needed: ", e.Needed)
	}
	for i, g := range e.Groups {
		text := compactGroup(g, e.Needed)
		if i > 0 && b.Len()+len(text) > maxExplanation {
			fmt.Fprintf(&b, "; and %d more", len(e.Groups)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(text)
	}
	if len(e.Groups) == 0 {
		b.WriteString("there is no node group that may hold it")
	}
	return b.String()
}

func compactGroup(g framework.NodeGroupExplanation, needed int) string {
	if g.Refused != "" {
		return fmt.Sprintf("%s: %s", g.Group, g.Refused)
	}
	head := fmt.Sprintf("%s %d/%d", g.Group, g.Fits, needed)
	switch {
	case g.Stopped != "":
		return head + ": " + strings.TrimSuffix(strings.TrimPrefix(g.Stopped, "In hyperNode "+g.Group+": "), ".")
	case g.Nodes == 0:
		return head + ": no nodes"
	case g.Reasons["cordoned"] == g.Nodes:
		return head + ": drained"
	}
	reasons := slices.Sorted(maps.Keys(g.Reasons))
	slices.SortStableFunc(reasons, func(l, r string) int { return g.Reasons[r] - g.Reasons[l] })
	var parts []string
	for i, reason := range reasons {
		if i == 3 {
			parts = append(parts, "...")
			break
		}
		if i == 0 {
			parts = append(parts, fmt.Sprintf("%d %s %s", g.Reasons[reason], plural(g.Reasons[reason]), reason))
		} else {
			parts = append(parts, fmt.Sprintf("%d %s", g.Reasons[reason], reason))
		}
	}
	return head + ": " + strings.Join(parts, ", ")
}

func plural(nodes int) string {
	if nodes == 1 {
		return "node"
	}
	return "nodes"
}
