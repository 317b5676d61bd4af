// SPDX-License-Identifier: Apache-2.0

package brief

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestCut(t *testing.T) {
	tests := map[string]struct {
		text string
		most int
		want string
	}{
		"a short text stays as it is":            {text: "no room", most: 60, want: "no room"},
		"a text that just fits stays as it is":   {text: strings.Repeat("x", 60), most: 60, want: strings.Repeat("x", 60)},
		"a long one says how much was cut":       {text: strings.Repeat("x", 99), most: 60, want: strings.Repeat("x", 20) + "... (and 79 bytes more)"},
		"no rune is cut in two":                  {text: "x" + strings.Repeat("é", 49), most: 60, want: "x" + strings.Repeat("é", 9) + "... (and 80 bytes more)"},
		"what is no UTF-8 is replaced":           {text: "a\xffb", most: 60, want: "a\uFFFDb"},
		"what replacing makes longer is cut too": {text: strings.Repeat("\xffx", 30), most: 60, want: strings.Repeat("\uFFFDx", 5) + "... (and 100 bytes more)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Cut(tt.text, tt.most)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzCut(f *testing.F) {
	f.Add("", 100)
	f.Add(strings.Repeat("héllo\xff", 400), 320)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = room + max(most, 0)%2048
		got := Cut(text, most)
		if len(got) > most || !utf8.ValidString(got) {
			t.Errorf("%d bytes of at most %d, valid is %v: %q", len(got), most, utf8.ValidString(got), got)
		}
		if again := Cut(got, most); again != got {
			t.Errorf("cut again it is %q, was %q", again, got)
		}
	})
}

func TestValue(t *testing.T) {
	tests := map[string]struct{ value, want string }{
		"a short value is quoted":   {value: `a"b`, want: `"a\"b"`},
		"a long one to its bound":   {value: strings.Repeat("v", 100), want: `"` + strings.Repeat("v", 64) + `"... (and 36 bytes more)`},
		"a value of no text at all": {value: "\xff\x00", want: `"\xff\x00"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Value(tt.value)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestBounds checks that a message, a part or a value of the maximum length is unchanged, and that a longer one is cut
// and ends with the number of removed bytes.
func TestBounds(t *testing.T) {
	tests := map[string]struct {
		of   func(string) string
		most int
	}{
		"a message": {of: Text, most: 1024},
		"a part":    {of: Part, most: 480},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			whole := strings.Repeat("x", tt.most)
			if got := tt.of(whole); got != whole {
				t.Errorf("a text that just fits becomes %q", got)
			}
			cut := tt.of(whole + "y")
			head, rest, ok := strings.Cut(cut, "... (and ")
			if want := fmt.Sprintf("%d bytes more)", tt.most+1-len(head)); !ok || rest != want || len(cut) > tt.most {
				t.Errorf("with one more byte the result is %q, %d bytes, want it to end with %q", cut, len(cut), want)
			}
		})
	}
	if got, want := Value(strings.Repeat("v", 64)), `"`+strings.Repeat("v", 64)+`"`; got != want {
		t.Errorf("a value that just fits is %s", got)
	}
	if got, want := Value(strings.Repeat("v", 65)), `"`+strings.Repeat("v", 64)+`"... (and 1 bytes more)`; got != want {
		t.Errorf("a value of a byte more is %s", got)
	}
	if got, want := Value(strings.Repeat("é", 33)), `"`+strings.Repeat("é", 32)+`"... (and 2 bytes more)`; got != want {
		t.Errorf("a value of a rune more is %s", got)
	}
}

// TestListHoldsOnlyTheFirst checks that List keeps only the first names in order. A caller may add tens of thousands,
// in any order.
func TestListHoldsOnlyTheFirst(t *testing.T) {
	add := func(n int) func() {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("%06d", n-i) // Each name sorts before all earlier ones.
		}
		return func() {
			l := List{First: 3}
			for _, name := range names {
				l.Add(name)
			}
			if len(l.items) != 3 || cap(l.items) > 8 {
				t.Errorf("of %d items %d are kept, with capacity %d", n, len(l.items), cap(l.items))
			}
		}
	}
	few, many := testing.AllocsPerRun(5, add(1_000)), testing.AllocsPerRun(5, add(16_000))
	if many > few {
		t.Errorf("adding 1000 items allocates %v times, 16000 %v times", few, many)
	}
	one := List{First: 1}
	for _, item := range []string{"b", "a", "b", "c"} {
		one.Add(item)
	}
	if diff := cmp.Diff([]string{"a"}, one.Items()); diff != "" || one.More() != " and 3 more" {
		t.Errorf("items, and%s (-want +got):\n%s", one.More(), diff)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 more pods", 1: "1 more pod", 2: "2 more pods"} {
		if got := Count(n, "more pod"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestListNamesTheFirst(t *testing.T) {
	l := List{First: 3}
	for i := range 60_000 {
		l.Add(fmt.Sprintf("%05d", (i*7919)%60_000))
	}
	if diff := cmp.Diff([]string{"00000", "00001", "00002"}, l.Items()); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	if got := l.More(); got != " and 59997 more" {
		t.Errorf("more is %q", got)
	}
	few := List{First: 3}
	few.Add("b")
	few.Add("a")
	if diff := cmp.Diff([]string{"a", "b"}, few.Items()); diff != "" || few.More() != "" {
		t.Errorf("items of a short list, more is %q (-want +got):\n%s", few.More(), diff)
	}
}
