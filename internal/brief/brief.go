// SPDX-License-Identifier: Apache-2.0

// Package brief keeps what people read short. Names, labels, annotations, expressions and errors of others can be as
// large as the API server lets an object be, and a message repeats them for each pod of a gang, in events, conditions and
// logs. Whatever goes there passes Text once, at the door; a message made of parts has its long parts cut before, with Part
// and Value, so that its end is not lost.
//
// It imports nothing of this project.
package brief

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// Most is the maximum length of a message, in bytes: the API server's limit for the note of an event.
	Most = 1024
	// MostOfPart is the maximum length of a quoted part of a message.
	MostOfPart = 480
	// mostOfValue is how much of a value is quoted; quoting it may make four bytes of one.
	mostOfValue = 64
	// room is what the mark of a cut takes at most.
	room = len("... (and 9223372036854775807 bytes more)")
)

// Text returns the message as people may read it: valid UTF-8, no longer than Most.
func Text(message string) string { return Cut(message, Most) }

// Part returns a quoted part of a message, cut to MostOfPart.
func Part(text string) string { return Cut(text, MostOfPart) }

// Value quotes a user's value, cut if it is long.
func Value(value string) string {
	if len(value) <= mostOfValue {
		return fmt.Sprintf("%q", value)
	}
	head := beginning(value, mostOfValue)
	return fmt.Sprintf("%q... (and %d bytes more)", head, len(value)-len(head))
}

// Cut returns the text when it is valid UTF-8 of at most so many bytes, and otherwise as much of its beginning as
// leaves room to say how much is missing. Cutting twice is cutting once.
func Cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	head := beginning(text, most-room)
	return fmt.Sprintf("%s... (and %d bytes more)", head, len(text)-len(head))
}

// beginning returns at most so many bytes of the text's beginning, without half a rune at the end.
func beginning(text string, most int) string {
	end := min(max(most, 0), len(text))
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// List collects items and keeps only the first few in order, so its size and the cost of adding are bounded.
type List struct {
	// First is the number of items kept.
	First int
	items []string
	total int
}

// Add adds an item.
func (l *List) Add(item string) {
	l.total++
	at, _ := slices.BinarySearch(l.items, item)
	l.items = slices.Insert(l.items, at, item)
	l.items = l.items[:min(len(l.items), l.First)]
}

// Items returns the kept items, in order.
func (l *List) Items() []string { return l.items }

// More returns " and 59990 more", or empty if all items were kept.
func (l *List) More() string {
	if more := l.total - len(l.items); more > 0 {
		return fmt.Sprintf(" and %d more", more)
	}
	return ""
}

// First returns the first of one or more messages, and how many more there are.
func First(messages []string) string {
	first := messages[0]
	if more := len(messages) - 1; more > 0 {
		first += fmt.Sprintf(" (and %d more)", more)
	}
	return Text(first)
}
