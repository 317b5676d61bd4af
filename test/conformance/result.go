// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// expectedFile has upstream's verdicts on the specs, acceptedFile the differences that are accepted.
	expectedFile = "test/conformance/upstream.tsv"
	acceptedFile = "test/conformance/accepted.tsv"
)

// verdict is what became of a case.
type verdict string

const (
	pass   verdict = "pass"
	fail   verdict = "fail"
	skip   verdict = "skip"
	notRun verdict = "not run"
	// unknown is upstream's verdict on a spec that is new to us. It is to be measured.
	unknown verdict = "unknown"
)

// result is a case with both verdicts. Its part is a suite, or tablesPart and a package.
type result struct {
	part, name     string
	upstream, ours verdict
	took           time.Duration
	// why is what a failure said.
	why string
}

func (r result) key() string { return r.part + "\t" + r.name }

// differs is true if upstream's passes and ours does not, or nobody knows upstream's.
func (r result) differs() bool { return r.upstream == pass && r.ours != pass || r.upstream == unknown }

// resultFile keeps results from run to run.
type resultFile struct {
	path    string
	results map[string]result
}

func readResults(path string) (*resultFile, error) {
	f := &resultFile{path: path, results: map[string]result{}}
	rows, err := readRows(path, 6)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	for _, row := range rows {
		seconds, err := strconv.ParseFloat(row[4], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %q are no seconds", path, row[4])
		}
		f.put(result{row[0], row[1], verdict(row[2]), verdict(row[3]), time.Duration(seconds * float64(time.Second)), row[5]})
	}
	return f, err
}

func (f *resultFile) put(r result) { f.results[r.key()] = r }

func (f *resultFile) write() error {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(f.results)) {
		r := f.results[key]
		fmt.Fprintf(&b, "%s\t%s\t%s\t%.1f\t%s\n", key, r.upstream, r.ours, r.took.Seconds(), r.why)
	}
	return os.WriteFile(f.path, []byte(b.String()), 0o644)
}

// readExpected reads upstream's verdicts by suite and spec.
func readExpected(path string) (map[string]verdict, error) {
	expected := map[string]verdict{}
	rows, err := readRows(path, 3)
	for _, row := range rows {
		expected[row[0]+"\t"+row[1]] = verdict(row[2])
	}
	return expected, err
}

const expectedHead = "# Verdicts of upstream's own scheduler on its suites: `go run ./test/conformance --parts SUITE,... --upstream` writes them.\n"

// writeExpected keeps the verdicts of what ran just now.
func writeExpected(path string, expected map[string]verdict, results *resultFile, ran map[string]bool) error {
	for key := range ran {
		if r := results.results[key]; !strings.HasPrefix(r.part, tablesPart) {
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

// readRows reads lines of that many fields with tabs between them; a line with # is a comment.
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
