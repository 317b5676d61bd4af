// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheTableIsComplete(t *testing.T) {
	attacks := table()
	if len(attacks) != 43 {
		t.Errorf("%d attacks, want 43", len(attacks))
	}
	names := map[string]bool{}
	for _, a := range append(attacks, breakages()...) {
		if !regexp.MustCompile(`^[a-z-]{1,18}$`).MatchString(a.name) || names[a.name] {
			t.Errorf("name %q is twice there, or not of at most 18 letters", a.name)
		}
		names[a.name] = true
		if a.does == "" || a.harm == "" || strings.Contains(a.does+a.harm, "|") || (a.run == nil) == (a.breaks == nil) || (a.breaks == nil) != (a.finds == "") {
			t.Errorf("%s is incomplete", a.name)
		}
	}
}

func TestThePageHasTheTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	list(&want, table(), true)
	_, rest, _ := strings.Cut(string(page), "<!-- go run ./test/attack --list --markdown -->\n")
	got, _, _ := strings.Cut(rest, "<!-- end -->")
	if diff := cmp.Diff(want.String(), got); diff != "" {
		t.Errorf("docs/attacks.md has another table than --list --markdown (-want +got):\n%s", diff)
	}
}

func TestOnlyChoosesAttacksByTheirNames(t *testing.T) {
	opts, err := parse([]string{"--only", "^slow-"})
	if err != nil {
		t.Fatal(err)
	}
	if attacks := chosen(opts); len(attacks) != 1 || attacks[0].name != "slow-cel" {
		t.Errorf("--only ^slow- chooses %v", attacks)
	}
	opts.selfTest = true
	if attacks := chosen(opts); len(attacks) != 1 || attacks[0].name != "slow-scheduler" {
		t.Errorf("--self-test --only ^slow- chooses %v", attacks)
	}
	if _, err := parse([]string{"--only", "("}); err == nil {
		t.Error("--only ( is taken")
	}
	if _, err := parse([]string{"--minutes", "0"}); err == nil {
		t.Error("--minutes 0 is taken")
	}
}

func TestTheConfHasAllThatIsAttacked(t *testing.T) {
	text := conf()
	for _, want := range []string{"preempt, reclaim", "starvationAfter: 2s", "name: ibcluster", "name: dynamicresources", "name: deviceshare"} {
		if !strings.Contains(text, want) {
			t.Errorf("the conf lacks %q:\n%s", want, text)
		}
	}
}
