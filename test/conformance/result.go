// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// expectedFile has upstream's verdicts on the specs, and acceptedFile the accepted differences.
	expectedFile = "test/conformance/upstream.tsv"
	acceptedFile = "test/conformance/accepted.tsv"
)

// verdict is the result of a case.
type verdict string

const (
	pass verdict = "pass"
	fail verdict = "fail"
	skip verdict = "skip"
	// flaky is the verdict on a spec that failed first and passed when it was retried.
	flaky  verdict = "flaky"
	notRun verdict = "not run"
	// unknown is upstream's verdict on a new case, which must be measured, or on a case that upstream's sessions
	// fail.
	unknown verdict = "unknown"
)

// result is a case with both verdicts. Its part is a suite, or tablesPart and a package.
type result struct {
	part, name     string
	upstream, ours verdict
	took           time.Duration
	// why is the text of a failure.
	why string
}

func (r result) key() string { return r.part + "\t" + r.name }

// differs reports whether upstream's case passes and ours does not, or upstream's verdict is unknown.
func (r result) differs() bool {
	switch r.upstream {
	case unknown:
		return true
	case pass:
		return r.ours != pass
	case flaky:
		return r.ours != pass && r.ours != flaky
	default:
		return false
	}
}

// isTable reports whether the case is of a unit table.
func (r result) isTable() bool { return strings.HasPrefix(r.part, tablesPart+" ") }

// results are cases by their keys.
type results map[string]result

// readExpected reads upstream's verdicts by part and case.
func readExpected(path string) (map[string]verdict, error) {
	expected := map[string]verdict{}
	rows, err := readRows(path, 3)
	for _, row := range rows {
		expected[row[0]+"\t"+row[1]] = verdict(row[2])
	}
	return expected, err
}

const expectedHead = "# Verdicts of upstream's own scheduler on its tests: `go run ./test/conformance --parts PART,... --upstream` writes them.\n"

// writeExpected writes upstream's verdicts: for a suite the verdicts of the scheduler that ran, and for a table the
// verdicts of upstream's sessions.
func writeExpected(path string, expected map[string]verdict, found results) error {
	for key, r := range found {
		if r.isTable() {
			expected[key] = r.upstream
		} else {
			expected[key] = r.ours
		}
	}
	var b strings.Builder
	b.WriteString(expectedHead)
	for _, key := range slices.Sorted(maps.Keys(expected)) {
		fmt.Fprintf(&b, "%s\t%s\n", key, expected[key])
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// readAccepted reads the reasons of accepted differences by part and case.
func readAccepted(path string) (map[string]string, error) {
	accepted := map[string]string{}
	rows, err := readRows(path, 3)
	for _, row := range rows {
		accepted[row[0]+"\t"+row[1]] = row[2]
	}
	return accepted, err
}

// readRows reads lines with this number of fields, separated by tabs. A line with # is a comment.
func readRows(path string, fields int) ([][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rows [][]string
	scanner := bufio.NewScanner(f)
	for n := 1; scanner.Scan(); n++ {
		if strings.HasPrefix(scanner.Text(), "#") {
			continue
		}
		row := strings.Split(scanner.Text(), "\t")
		if len(row) != fields {
			return nil, fmt.Errorf("%s:%d has %d fields; it should have %d, with tabs between them", path, n, len(row), fields)
		}
		rows = append(rows, row)
	}
	return rows, scanner.Err()
}
