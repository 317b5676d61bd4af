package allocate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

const (
	// maxExplanation bounds the compact explanation, in bytes: a group begins below it.
	maxExplanation = 900
	// maxReasons bounds how many reasons are told of a group, maxReason how much of each in bytes, and maxText how much of
	// what is told instead of reasons.
	maxReasons = 3
	maxReason  = 80
	maxText    = 200
)

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
		default:
			reason = strings.TrimPrefix(reason, "node(s) ") // of which a number is told
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
		fmt.Fprintf(&b, "no node group holds the %d %s needed: ", e.Needed, plural(e.Needed, "member"))
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
		return fmt.Sprintf("%s: %s", g.Group, short(g.Refused, maxText))
	}
	head := fmt.Sprintf("%s %d/%d", g.Group, g.Fits, needed)
	if g.AtMost {
		head = fmt.Sprintf("%s at most %d/%d", g.Group, g.Fits, needed)
	}
	switch {
	case g.Stopped != "":
		return head + ": " + short(strings.TrimSuffix(strings.TrimPrefix(g.Stopped, "In hyperNode "+g.Group+": "), "."), maxText)
	case g.Nodes == 0:
		return head + ": no nodes"
	case g.Reasons["cordoned"] == g.Nodes:
		return head + ": drained"
	}
	reasons := slices.Sorted(maps.Keys(g.Reasons))
	slices.SortStableFunc(reasons, func(l, r string) int { return g.Reasons[r] - g.Reasons[l] })
	var parts []string
	for i, reason := range reasons {
		if i == maxReasons {
			parts = append(parts, "...")
			break
		}
		part := fmt.Sprintf("%d %s", g.Reasons[reason], short(reason, maxReason))
		if i == 0 {
			part = fmt.Sprintf("%d %s %s", g.Reasons[reason], plural(g.Reasons[reason], "node"), short(reason, maxReason))
		}
		parts = append(parts, part)
	}
	return head + ": " + strings.Join(parts, ", ")
}

// short cuts a text that others wrote to so many bytes.
func short(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

func plural(count int, noun string) string {
	if count == 1 {
		return noun
	}
	return noun + "s"
}
