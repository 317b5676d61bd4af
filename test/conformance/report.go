// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// row is a result with the reason why its difference is accepted.
type row struct {
	result
	accepted string
}

// report has upstream's verdicts and ours.
type report struct {
	rows []row
	// stale are the acceptances of cases that do not exist.
	stale []string
}

// compare sorts the results, and adds the cases that had to be run and are not among them.
func compare(found results, expected map[string]verdict, accepted map[string]string, covers func(part, name string) bool) report {
	all := maps.Clone(found)
	for key, v := range expected {
		part, name, _ := strings.Cut(key, "\t")
		if _, ran := found[key]; !ran && covers(part, name) {
			all[key] = result{part: part, name: name, upstream: v, ours: notRun, why: "it is in " + expectedFile + " and was not run"}
		}
	}
	var r report
	for _, key := range slices.Sorted(maps.Keys(all)) {
		r.rows = append(r.rows, row{all[key], accepted[key]})
	}
	for _, key := range slices.Sorted(maps.Keys(accepted)) {
		part, name, _ := strings.Cut(key, "\t")
		if _, is := all[key]; !is && covers(part, name) {
			r.stale = append(r.stale, part+": "+name)
		}
	}
	return r
}

// needless reports whether a difference is accepted although the case has none this time.
func (r row) needless() bool { return !r.differs() && r.accepted != "" }

func (r row) ourVerdict() string {
	switch {
	case r.differs() && r.accepted != "":
		return string(r.ours) + ", accepted"
	case r.differs():
		return string(r.ours) + ", DIFFERS"
	case r.needless():
		return string(r.ours) + " this time"
	default:
		return string(r.ours)
	}
}

// note returns the explanation of a verdict, if it needs one.
func (r row) note() string {
	switch {
	case r.accepted != "":
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

// print writes the table, without the cases of unit tables that do not differ, and fails if a difference is not
// accepted, if no case ran, or if the accepted differences name a case that does not exist.
func (r report) print(out io.Writer) error {
	if len(r.rows) == 0 {
		return errors.New("no case was run: none has a name that --focus matches")
	}
	fmt.Fprintf(out, "\n%-8s  %-16s  %s\n", "UPSTREAM", "OURS", "CASE")
	differ := 0
	var needless []string
	for _, row := range r.rows {
		if row.differs() && row.accepted == "" {
			differ++
		}
		if row.needless() {
			needless = append(needless, row.part+": "+row.name)
		}
		if row.isTable() && !row.differs() {
			continue
		}
		fmt.Fprintf(out, "%-8s  %-16s  %s: %s\n", row.upstream, row.ourVerdict(), row.part, row.name)
		if note := row.note(); note != "" {
			fmt.Fprintf(out, "%28s%s\n", "", note)
		}
		if row.differs() && row.accepted != "" && row.why != "" {
			fmt.Fprintf(out, "%28sthis time: %s\n", "", row.why)
		}
	}
	fmt.Fprintf(out, "\n%-40s %8s %8s %8s %8s %8s\n", "PART", "CASES", "UPSTREAM", "OURS", "ACCEPTED", "DIFFER")
	for _, t := range r.tallies() {
		fmt.Fprintf(out, "%-40s %8s %8s %8s %8s %8s\n", t.part, t.cases, t.upstream, t.ours, t.accepted, t.differ)
	}
	for _, name := range needless {
		fmt.Fprintf(out, "\nits difference is accepted in %s, and it passes this time: %s\n", acceptedFile, name)
	}
	var errs []error
	for _, name := range r.stale {
		errs = append(errs, fmt.Errorf("%s accepts a difference of a case that there is not: %s", acceptedFile, name))
	}
	if differ > 0 {
		errs = append(errs, fmt.Errorf("%d differences are not accepted: mend them, or give the reason in %s", differ, acceptedFile))
	}
	return errors.Join(errs...)
}

const pageHead = `<!-- Written by make conformance. -->
# Conformance

` + "`make conformance`" + ` runs upstream's own tests, of Volcano %s, against this build and compares the verdicts with the verdicts of upstream's own scheduler. It runs
the end-to-end suites ` + "`hypernode`, `schedulingaction` and `schedulingbase`" + `, each spec in its own process on a real control plane with simulated nodes. It also runs the unit
tables of actions and plugins through this project's sessions, ` + "`allocate`" + `, cache and bind transactions. The sources come out of the module cache and are compiled at run time; nothing
of them is in this repository. It fails on a difference that is not [accepted](../test/conformance/accepted.tsv), and is part of ` + "`.ci/run` when `CONFORMANCE=1`" + `.
This run took %.0f minutes. A case that upstream has and that was not run differs, and so does a spec that fails and passes when it is tried again ("flaky").

An accepted difference has its measured reason beside it. Some are specs that find pods pending because they look before the first cycle has run, which here takes milliseconds.
Specs of volumes mounted on nodes need kubelets and are not run. Of the tables only cases that differ are shown.


`

// page returns the report as documentation.
func (r report) page(source upstream, took time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, pageHead, source.version, took.Minutes())
	b.WriteString("| part | cases | upstream passes | ours passes | accepted | differ |\n|---|---|---|---|---|---|\n")
	for _, t := range r.tallies() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", t.part, t.cases, t.upstream, t.ours, t.accepted, t.differ)
	}
	b.WriteString("\n| part | case | upstream | ours | |\n|---|---|---|---|---|\n")
	cell := strings.NewReplacer("|", "/", "<", "&lt;")
	for _, row := range r.rows {
		if row.isTable() && !row.differs() && !row.needless() {
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", row.part, cell.Replace(row.name), row.upstream, row.ourVerdict(), cell.Replace(row.note()))
	}
	return b.String()
}
