// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/volcano-prebind/volcano-prebind/test/conformance/adapter"
)

// tableCase is a leaf test that opened a session.
type tableCase struct {
	verdict verdict
	why     []string
}

type cases map[string]*tableCase

var (
	testBegins = regexp.MustCompile(`^\s*=== (?:RUN|NAME|CONT)\s+(\S.*)$`)
	testEnds   = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (.*) \([0-9.]+s\)$`)
	testSays   = regexp.MustCompile(`^\s+\S+_test\.go:\d+: (.*)$`)
)

// readCases reads the log of a verbose test run. A case that never ended, for example because its binary panicked or
// timed out, failed.
func readCases(path string) (cases, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found, opened := cases{}, cases{}
	current := ""
	at := func(name string) *tableCase {
		if found[name] == nil {
			found[name] = &tableCase{verdict: fail}
		}
		return found[name]
	}
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<24)
	for scanner.Scan() {
		line := scanner.Text()
		begins, ends, says := testBegins.FindStringSubmatch(line), testEnds.FindStringSubmatch(line), testSays.FindStringSubmatch(line)
		switch {
		case begins != nil:
			current = begins[1]
		case ends != nil:
			at(ends[2]).verdict = map[string]verdict{"PASS": pass, "SKIP": skip, "FAIL": fail}[ends[1]]
		case line == adapter.Mark:
			opened[current] = at(current)
		case says != nil:
			at(current).why = append(at(current).why, says[1])
		case strings.HasPrefix(line, "panic: "), strings.HasPrefix(line, "CONFORMANCE: "), strings.HasPrefix(line, "        "):
			at(current).why = append(at(current).why, strings.TrimSpace(line))
		}
	}
	for name := range opened {
		if slices.ContainsFunc(slices.Collect(maps.Keys(opened)), func(other string) bool { return strings.HasPrefix(other, name+"/") }) {
			delete(opened, name)
		}
	}
	return opened, scanner.Err()
}

// mergeCases combines the verdicts of both runs. If upstream's own sessions fail a case, the copy of the table is the
// cause, and the case has no verdict on ours.
func mergeCases(part string, upstream, ours cases) []result {
	all := maps.Clone(upstream)
	maps.Copy(all, ours)
	var results []result
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := result{part: part, name: name, upstream: unknown, ours: notRun}
		if c := ours[name]; c != nil {
			r.ours = c.verdict
			if c.verdict != pass {
				r.why = brief(strings.Join(c.why, " / "))
			}
		}
		switch c := upstream[name]; {
		case c == nil:
			r.why = "upstream's own session was not opened here"
		case c.verdict == fail:
			r.why = "upstream's own session fails it here: " + brief(strings.Join(c.why, " / "))
		default:
			r.upstream = c.verdict
		}
		results = append(results, r)
	}
	return results
}
