// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/klog/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench-e2e:", err)
		os.Exit(1)
	}
}

// run runs the trials that the arguments select. A failed trial does not prevent the others from being measured and
// printed. Its failure is part of the error.
func run(ctx context.Context, args []string, out, progress io.Writer) error {
	p, err := parsePlan(args, progress)
	if err != nil {
		return err
	}
	// client-go logs watches that end with the control plane, as they must.
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	trials := p.trials()
	fmt.Fprintf(progress, "%d nodes, %d gangs of %d pods, %d trials\n", p.nodes, p.gangs, p.gangSize, len(trials))
	var (
		results []result
		errs    []error
	)
	for i, key := range trials {
		if ctx.Err() != nil {
			errs = append(errs, context.Cause(ctx))
			break
		}
		began := time.Now()
		fmt.Fprintf(progress, "[%d/%d] %s\n", i+1, len(trials), key)
		r, err := runTrial(ctx, key, p, indented{progress})
		if err != nil {
			errs = append(errs, err)
			fmt.Fprintf(progress, "  failed: %v\n", err)
			continue
		}
		results = append(results, r)
		fmt.Fprintf(progress, "  %.0f pods/s (%.0fs in all)\n", r.PodsPerSecond, time.Since(began).Seconds())
	}
	errs = append(errs, report(out, p, results))
	if p.jsonPath != "" {
		errs = append(errs, writeJSON(p, results))
	}
	return errors.Join(errs...)
}

// indented indents lines below the trial to which they belong.
type indented struct{ w io.Writer }

// Write writes the line indented.
func (i indented) Write(line []byte) (int, error) {
	if _, err := io.WriteString(i.w, "  "); err != nil {
		return 0, err
	}
	return i.w.Write(line)
}

func writeJSON(p *plan, results []result) error {
	data, err := json.MarshalIndent(struct {
		Nodes      int      `json:"nodes"`
		IBClusters int      `json:"ibClusters"`
		Gangs      int      `json:"gangs"`
		GangSize   int      `json:"gangSize"`
		Results    []result `json:"results"`
	}{p.nodes, p.ibClusters, p.gangs, p.gangSize, results}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(p.jsonPath, append(data, '\n'), 0o644)
}
