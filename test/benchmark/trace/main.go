// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"k8s.io/klog/v2"
)

func main() {
	err := measure(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "trace:", err)
		os.Exit(1)
	}
}

// measure runs the selected strategies and prints the results. It returns an error if the bar is missed.
func measure(args []string, out, told io.Writer) error {
	p, err := parsePlan(args, told)
	if err != nil {
		return err
	}
	quiet()
	debug.SetGCPercent(400) // Sessions of thousands of pods leave much garbage.
	p.describe(out)
	var outcomes []outcome
	for _, strategy := range p.strategies {
		o, err := p.measure(strategy, told)
		if err != nil {
			return err
		}
		outcomes = append(outcomes, *o)
	}
	report(out, outcomes, p.published())
	return p.check(outcomes)
}

// quiet discards log lines: those about single tasks would take most of the time.
func quiet() {
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			panic(err)
		}
	}
	klog.SetOutput(io.Discard)
}

// measure runs the strategy with every seed.
func (p *plan) measure(strategy string, told io.Writer) (*outcome, error) {
	o := &outcome{strategy: strategy}
	for seed := uint64(1); seed <= uint64(p.seeds); seed++ {
		began := time.Now()
		stop, err := p.profile(fmt.Sprintf("%s-%d", strategy, seed))
		if err != nil {
			return nil, err
		}
		figures, err := run(p.trace, strategy, jobs(p.trace.arrivals(seed), p.gangs, seed), p.batch)
		if err := errors.Join(err, stop()); err != nil {
			return nil, fmt.Errorf("seed %d: %w", seed, err)
		}
		took := time.Since(began)
		fmt.Fprintf(told, "%s, seed %d: %s (%.0f s)\n", strategy, seed, figures, took.Seconds())
		o.runs = append(o.runs, figures)
		o.took += took
	}
	return o, nil
}

// check returns an error if the first strategy misses the bar.
func (p *plan) check(outcomes []outcome) error {
	if got := mean(outcomes[0].runs)[atFull]; p.bar > 0 && got < p.bar {
		return fmt.Errorf("%s has allocated %.2f%% when all GPUs are requested, which is below the bar of %.2f%%", outcomes[0].strategy, got, p.bar)
	}
	return nil
}
