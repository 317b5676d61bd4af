// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// row is a result beside its reason to be accepted.
type row struct {
	result
	accepted string
}

// report is upstream's verdicts beside ours.
type report struct{ rows []row }

// compare puts the results in order, and what was never run beside them.
func compare(results *resultFile, expected map[string]verdict, accepted map[string]string) report {
	all := maps.Clone(results.results)
	for key, v := range expected {
		if _, ok := all[key]; !ok {
			part, name, _ := strings.Cut(key, "\t")
			all[key] = result{part: part, name: name, upstream: v, ours: notRun, why: "it is not there"}
		}
	}
	var r report
	for _, key := range slices.Sorted(maps.Keys(all)) {
		r.rows = append(r.rows, row{all[key], accepted[key]})
	}
	return r
}

// isTable is true for cases of unit tables, of which only differences are printed.
func (r row) isTable() bool { return strings.HasPrefix(r.part, tablesPart+" ") }

func (r row) ourVerdict() string {
	switch {
	case r.differs() && r.accepted != "":
		return string(r.ours) + ", accepted"
	case r.differs():
		return string(r.ours) + ", DIFFERS"
	default:
		return string(r.ours)
	}
}

// note is why a verdict is what it is, where that is not plain.
func (r row) note() string {
	switch {
	case r.differs() && r.accepted != "":
		return r.accepted
	case r.ours != pass:
		return r.why
	default:
		return ""
	}
}

// tally counts the cases of a part.
type tally struct{ part, cases, upstream, ours, accepted, differ string }

func (r report) tallies() []tally {
	counts := map[string]*[5]int{}
	for _, row := range r.rows {
		n := counts[row.part]
		if n == nil {
			n = &[5]int{}
			counts[row.part] = n
		}
		for i, yes := range []bool{true, row.upstream == pass, row.ours == pass, row.differs() && row.accepted != "", row.differs() && row.accepted == ""} {
			if yes {
				n[i]++
			}
		}
	}
	var out []tally
	for _, part := range slices.Sorted(maps.Keys(counts)) {
		n := counts[part]
		out = append(out, tally{part, fmt.Sprint(n[0]), fmt.Sprint(n[1]), fmt.Sprint(n[2]), fmt.Sprint(n[3]), fmt.Sprint(n[4])})
	}
	return out
}

// print writes the table of what ran and fails if a difference of it is not accepted.
func (r report) print(out io.Writer, ran map[string]bool) error {
	now := report{slices.DeleteFunc(slices.Clone(r.rows), func(row row) bool { return !ran[row.key()] })}
	if len(now.rows) == 0 {
		return nil
	}
	fmt.Fprintf(out, "\n%-8s  %-16s  %s\n", "UPSTREAM", "OURS", "CASE")
	differ := 0
	for _, row := range now.rows {
		if row.differs() && row.accepted == "" {
			differ++
		}
		if row.isTable() && !row.differs() {
			continue
		}
		fmt.Fprintf(out, "%-8s  %-16s  %s: %s\n", row.upstream, row.ourVerdict(), row.part, row.name)
		if note := row.note(); note != "" {
			fmt.Fprintf(out, "%28s%s\n", "", note)
		}
	}
	fmt.Fprintf(out, "\n%-40s %8s %8s %8s %8s %8s\n", "PART", "CASES", "UPSTREAM", "OURS", "ACCEPTED", "DIFFER")
	for _, t := range now.tallies() {
		fmt.Fprintf(out, "%-40s %8s %8s %8s %8s %8s\n", t.part, t.cases, t.upstream, t.ours, t.accepted, t.differ)
	}
	if differ > 0 {
		return fmt.Errorf("%d differences are not accepted: mend them, or give the reason in %s", differ, acceptedFile)
	}
	return nil
}

const pageHead = `<!-- Written by: go run ./test/conformance --parts none --docs docs/conformance.md -->
# Conformance

` + "`make conformance`" + ` runs upstream's own tests, of Volcano %s, against this build and compares the verdicts with those of upstream's own scheduler:
its end-to-end suites ` + "`hypernode`, `schedulingaction` and `schedulingbase`" + `, each spec in a process of its own on a real control plane with simulated nodes, and its unit
tables of actions and plugins through this project's sessions, ` + "`allocate`" + `, cache and bind transactions. The sources come out of the module cache and are compiled at run time; nothing
of them is in this repository. It takes about 25 minutes, fails on a difference that is not [accepted](../test/conformance/accepted.tsv), and is part of ` + "`.ci/run` when `CONFORMANCE=1`" + `.

What is accepted are specs that hold only because they look before the first cycle has run, which here takes milliseconds: with a pause of 6 s before the look upstream's own scheduler
fails them, too. Specs of volumes mounted on nodes need kubelets and are not run.

`

// page is the report as documentation.
func (r report) page(source upstream) string {
	var b strings.Builder
	fmt.Fprintf(&b, pageHead, source.version)
	b.WriteString("| part | cases | upstream passes | ours passes | accepted | differ |\n|---|---|---|---|---|---|\n")
	for _, t := range r.tallies() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", t.part, t.cases, t.upstream, t.ours, t.accepted, t.differ)
	}
	b.WriteString("\n| part | case | upstream | ours | |\n|---|---|---|---|---|\n")
	cell := strings.NewReplacer("|", "/", "<", "&lt;")
	for _, row := range r.rows {
		if row.isTable() && row.ours == pass {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", row.part, cell.Replace(row.name), row.upstream, row.ourVerdict(), cell.Replace(row.note()))
	}
	return b.String()
}
