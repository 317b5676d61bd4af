// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// mostDelay is the maximum excess of the victim's median delay over the baseline's.
	mostDelay = time.Second
	// mostWrites is the maximum number of the scheduler's writes for each call of the tenant while the API server is
	// slow, because the scheduler must not be the cause. A created object gets two statuses and an event or two.
	mostWrites = 4
	// mostMemory is the maximum of the scheduler's memory as a multiple of the baseline's.
	mostMemory = 2
	// baseline is the name of rounds without an attack.
	baseline = "baseline"
)

// judged is a round with its verdict.
type judged struct {
	round
	// base is the last baseline before the round, and first is the first baseline of the run.
	base, first *round
	// faults are the reasons why the attack succeeded. There are none if it failed.
	faults []string
}

// outcome has the rounds of a run in order.
type outcome struct {
	first, base *round
	rounds      []judged
}

// add compares the round with the baselines before it. A baseline is compared with the first one.
func (o *outcome) add(r round) *judged {
	if o.first == nil {
		o.first, o.base = &r, &r
	}
	j := judged{round: r, base: o.base, first: o.first}
	j.faults = faults(&r, o.base, o.first)
	if r.name == baseline {
		o.base = &r
	}
	o.rounds = append(o.rounds, j)
	return &o.rounds[len(o.rounds)-1]
}

// faults returns the limits that the round exceeds. Each kind of gang is checked separately: harm to gangs with GPUs
// only would not show in the median of all.
func faults(r, base, first *round) []string {
	var all []string
	for _, kind := range kinds {
		if len(r.delays[kind]) == 0 {
			if len(r.lasting) > 0 { // A gang that was not bound ended the measurement.
				continue
			}
			all = append(all, fmt.Sprintf("no %s gang of the victim was measured", kind))
			continue
		}
		was, is := median(base.delays[kind]), median(r.delays[kind])
		if is-was > mostDelay {
			all = append(all, fmt.Sprintf("the victim's %s gangs took %s s in the median, %s s without an attack; at most %s s more is allowed",
				kind, seconds(is), seconds(was), seconds(mostDelay)))
		}
	}
	if r.memory > mostMemory*first.memory {
		all = append(all, fmt.Sprintf("the scheduler used %d MB, %d MB at first without an attack; at most %d times that is allowed",
			r.memory>>20, first.memory>>20, mostMemory))
	}
	if api, calls := median(r.api), r.done+r.refused; api > mostDelay && r.writes > mostWrites*calls {
		all = append(all, fmt.Sprintf("the API server took %s s for the victim's gangs in the median, while the scheduler wrote %d times for %d calls of the tenant; at most %d times as often is allowed then",
			seconds(api), r.writes, calls, mostWrites))
	}
	return append(all, r.lasting...)
}

// median returns the middle value, the lower one of two, or 0 if there is none.
func median(values []time.Duration) time.Duration {
	if len(values) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(values))[(len(values)-1)/2]
}

// failed returns an error for each successful attack, and for baselines that were worse than the first.
func (o *outcome) failed() error {
	var errs []error
	for _, j := range o.rounds {
		for _, fault := range j.faults {
			errs = append(errs, fmt.Errorf("%s: %s", j.name, fault))
		}
	}
	return errors.Join(errs...)
}

// unfound is the verdict of the self-test. It returns an error for each breakage (a defect made on purpose) whose rounds
// did not find the expected fault, and for each baseline round with a fault.
func (o *outcome) unfound(breakages []attack) error {
	var errs []error
	for _, j := range o.rounds {
		text := strings.Join(j.faults, "; ")
		i := slices.IndexFunc(breakages, func(a attack) bool { return a.name == j.name })
		switch {
		case i < 0 && text != "":
			errs = append(errs, fmt.Errorf("%s: %s", j.name, text))
		case i >= 0 && !strings.Contains(text, breakages[i].finds):
			errs = append(errs, fmt.Errorf("%s: found %q, want %q in it", j.name, text, breakages[i].finds))
		}
	}
	return errors.Join(errs...)
}
