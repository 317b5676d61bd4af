// SPDX-License-Identifier: Apache-2.0

// Package brief limits the length of texts for users. Names, labels, annotations, expressions and errors from other
// packages can be as large as the API server allows for an object. A message repeats such texts for each pod of a gang,
// in events, conditions and logs. Each complete message passes through Text once. If a message has several parts, its
// long parts are shortened first with Part and Value, so that the end of the message is not lost.
//
// The package imports no other package of this project.
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
	// MostOfPart is the maximum length, in bytes, of a text that is part of a message.
	MostOfPart = 480
	// mostOfValue is the maximum number of bytes of a value that are quoted. Quoting may turn one byte into four.
	mostOfValue = 64
	// room is the maximum length of the note that Cut appends to a shortened text.
	room = len("... (and 9223372036854775807 bytes more)")
)

// Text returns the message in a form for users: valid UTF-8, no longer than Most.
func Text(message string) string { return Cut(message, Most) }

// Part returns a text that is to be part of a message, cut to MostOfPart.
func Part(text string) string { return Cut(text, MostOfPart) }

// Value returns a user's value in quotes, cut if it is long.
func Value(value string) string {
	if len(value) <= mostOfValue {
		return fmt.Sprintf("%q", value)
	}
	head := beginning(value, mostOfValue)
	return fmt.Sprintf("%q... (and %d bytes more)", head, len(value)-len(head))
}

// Cut returns the text if it is valid UTF-8 and has at most most bytes. Otherwise it returns the beginning of the text,
// and a note with the number of missing bytes. Cutting a text twice has the same result as cutting it once.
func Cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	head := beginning(text, most-room)
	return fmt.Sprintf("%s... (and %d bytes more)", head, len(text)-len(head))
}

// beginning returns the beginning of the text, at most most bytes, without an incomplete rune at the end.
func beginning(text string, most int) string {
	end := min(max(most, 0), len(text))
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// Count returns the number with the noun in singular or plural, such as "1 pod" and "2 pods".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// List collects items, but stores only the few that come first in alphabetical order. So its size and the cost of Add
// are bounded.
type List struct {
	// First is the maximum number of items that the list stores.
	First int
	items []string
	total int
}

// Add adds an item to the list.
func (l *List) Add(item string) {
	l.total++
	at, _ := slices.BinarySearch(l.items, item)
	l.items = slices.Insert(l.items, at, item)
	l.items = l.items[:min(len(l.items), l.First)]
}

// Items returns the stored items, sorted.
func (l *List) Items() []string { return l.items }

// More returns how many items were added but not stored, as in " and 59990 more"; empty if all items are stored.
func (l *List) More() string {
	if more := l.total - len(l.items); more > 0 {
		return fmt.Sprintf(" and %d more", more)
	}
	return ""
}

// First returns the first of the messages, with a note of how many other messages exist. messages must not be empty.
func First(messages []string) string {
	first := messages[0]
	if more := len(messages) - 1; more > 0 {
		first += fmt.Sprintf(" (and %d more)", more)
	}
	return Text(first)
}
