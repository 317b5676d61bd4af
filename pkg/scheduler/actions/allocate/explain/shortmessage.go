// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

const (
	// maxExplanation bounds the text about node groups in a gang's message, in bytes: groups are added until the text
	// reaches this length. With the rest of the text, the message stays near 1 kB, the usual limit of messages to
	// users.
	maxExplanation = 900
	// maxReasons bounds the number of reasons for a node group, maxReason the bytes of one reason, and MaxText the bytes
	// of a text of a plugin or queue that is shown instead of reasons. With these bounds, a message has room for a few
	// groups, and reasons that name a claim and its class are not cut.
	maxReasons = 3
	maxReason  = 125
	MaxText    = 200
)

// shortMessage formats an explanation in one line, such as "ib-a 12/16: 3 nodes short of nvidia.com/gpu, 1 tainted". For a ready
// gang it reports the number of further members that wait.
func shortMessage(e framework.GangExplanation, further int) string {
	var b strings.Builder
	named := len(e.Groups) != 1 || e.Groups[0].Group != ""
	switch {
	case further > 0:
		fmt.Fprintf(&b, "the minimum is placed, %d further %s: ", further, verb(further, "member waits", "members wait"))
	case e.Required && named:
		fmt.Fprintf(&b, "no node group holds the %d %s needed: ", e.Needed, Plural(e.Needed, "member"))
	}
	for i, g := range e.Groups {
		text := compactGroup(g, e.Needed, further > 0)
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
		b.WriteString("no node group is allowed for the gang")
	}
	return b.String()
}

func compactGroup(g framework.NodeGroupExplanation, needed int, ready bool) string {
	if g.Refused != "" {
		return fmt.Sprintf("%s: %s", g.Group, brief.Cut(g.Refused, MaxText))
	}
	text := Stopped(g)
	head := head(g, needed, ready)
	if head == "" || text == "" {
		return head + text
	}
	return head + ": " + text
}

// head returns the name of the node group and how many members fit there, for the beginning of the group's text.
func head(g framework.NodeGroupExplanation, needed int, ready bool) string {
	var count string
	switch {
	case ready: // further members are optional and placed one by one, so no count is shown
	case g.Group == "" && g.Queue != "" && g.Fits == 0: // the queue refused the gang, so the number of members that fit is unknown
	case g.Fits >= needed:
		count = fmt.Sprintf("no room for the %d members together", needed)
		if needed == 1 {
			count = "no room"
		}
	case g.AtMost:
		count = fmt.Sprintf("at most %d/%d", g.Fits, needed)
	default:
		count = fmt.Sprintf("%d/%d", g.Fits, needed)
	}
	if g.Group == "" && strings.Contains(count, "/") {
		count += " members fit"
	}
	return strings.TrimSpace(g.Group + " " + count)
}

// Stopped returns a text with the reasons why the node group takes no further member.
func Stopped(g framework.NodeGroupExplanation) string {
	switch {
	case g.Stopped != "":
		return brief.Cut(strings.TrimSuffix(strings.TrimPrefix(g.Stopped, "In hyperNode "+g.Group+": "), "."), MaxText)
	case g.Nodes == 0:
		return "no nodes"
	}
	reasons := slices.Sorted(maps.Keys(g.Reasons))
	slices.SortStableFunc(reasons, func(l, r string) int { return g.Reasons[r] - g.Reasons[l] })
	var parts []string
	for i, reason := range reasons {
		if i == maxReasons {
			parts = append(parts, "...")
			break
		}
		parts = append(parts, fmt.Sprintf("%d %s%s", g.Reasons[reason], noun(parts, g.Reasons[reason]), brief.Cut(reason, maxReason)))
	}
	if g.Filled > 0 {
		of := brief.Cut(strings.Join(g.FilledOf, ", "), maxReason)
		parts = append(parts, fmt.Sprintf("%d %sfilled by its members (%s)", g.Filled, noun(parts, g.Filled), of))
	}
	return strings.Join(parts, ", ")
}

// noun returns "node " or "nodes " for the first part of a text, depending on the count, and nothing for further parts.
func noun(parts []string, count int) string {
	if len(parts) > 0 {
		return ""
	}
	return Plural(count, "node") + " "
}

func verb(count int, one, several string) string {
	if count == 1 {
		return one
	}
	return several
}

// Plural returns the noun in singular or plural, depending on the count.
func Plural(count int, noun string) string {
	if count == 1 {
		return noun
	}
	return noun + "s"
}
