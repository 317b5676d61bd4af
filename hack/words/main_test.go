// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const guide = "# Contributing\n\n## Language\n\n```\ntold, in vain -> notified\n```\n\n## Other\n\n```\nother -> no word\n```\n"

func TestWordsAreReadFromTheGuide(t *testing.T) {
	tests := map[string]struct {
		text string
		want string
	}{
		"a word":                           {text: "The caller is told.", want: "told"},
		"in capitals":                      {text: "Told the caller.", want: "Told"},
		"a phrase":                         {text: "It waits in vain.", want: "in vain"},
		"a phrase over two lines":          {text: "It waits in\nvain.", want: "in\nvain"},
		"a part of a word":                 {text: "It is retold."},
		"a word of another section":        {text: "the other one"},
		"a word on the right of the arrow": {text: "It is notified."},
	}
	listed, err := wordList(guide)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := listed.FindString(tt.text); got != tt.want {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
	if _, err := wordList("# Contributing\n"); err == nil {
		t.Error("a guide without words is accepted")
	}
}

func TestCommentsOfAFile(t *testing.T) {
	source := "// SPDX-License-Identifier: Apache-2.0\n\n// Package a has\n// two lines.\npackage a\n\nvar x = 1 // one\n\n//go:embed y\nvar y = \"//z\"\n"
	want := []text{{"a.go", 3, " Package a has\n two lines.\n"}, {"a.go", 7, "one"}}
	if diff := cmp.Diff(want, commentsOf("a.go", source), cmp.AllowUnexported(text{})); diff != "" {
		t.Errorf("comments (-want +got):\n%s", diff)
	}
}

func TestSentencesOfAPage(t *testing.T) {
	page := "# A title of a page\n\nThe first one is `told`. The second one\nends here.\n\n```\ntold\n```\n\n| a name | a meaning of it |\n"
	want := []text{
		{"a.md", 1, "# A title of a page\n\n"},
		{"a.md", 3, "The first one is ``. "},
		{"a.md", 3, "The second one\nends here.\n"},
		{"a.md", 10, " a meaning of it |"},
	}
	if diff := cmp.Diff(want, sentencesOf("a.md", page), cmp.AllowUnexported(text{})); diff != "" {
		t.Errorf("sentences (-want +got):\n%s", diff)
	}
}

func TestTooManyWordsFail(t *testing.T) {
	tests := map[string]struct {
		comment, page string
		want          string
	}{
		"neither":     {comment: "// Package a is told.", page: "The reader is notified.", want: "comments"},
		"in a page":   {comment: "// Package a is notified.", page: "The reader is told.", want: "sentences of pages"},
		"in no place": {comment: "// Package a is notified.", page: "The reader is notified."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			write := func(name, text string) {
				t.Helper()
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write("CONTRIBUTING.md", guide)
			write("docs/page.md", tt.page+"\n")
			for _, folder := range folders {
				write(folder+"/a/a.go", tt.comment+"\npackage a\n")
			}
			var out strings.Builder
			err := run(root, &out)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want an error with %q; output:\n%s", err, tt.want, out.String())
			}
		})
	}
}
