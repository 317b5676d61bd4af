// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
)

// knownStrategies are the plugin's strategies. The bar applies to the first.
var knownStrategies = []string{"Fragmentation", "LeastAllocated", "MostAllocated"}

// defaultWorkload is the workload of the published figures.
const defaultWorkload = "default"

// syntheticNodes and syntheticSeed are the parameters of the trace that is used if none is given: a quarter of the
// real one, for a quick run.
const syntheticNodes, syntheticSeed = 300, 1

// defaultBatch is the number of jobs that arrive for a session. The strategy sees all of them, and they are placed in
// order.
const defaultBatch = 200

// plan is the selection made by the flags.
type plan struct {
	trace      *trace
	folder     string
	workload   string
	strategies []string
	seeds      int
	batch      int
	gangs      bool
	// bar is the minimum percentage that the first strategy must have allocated when all GPUs have been requested. 0
	// means no bar.
	bar float64
	// profileDir is empty for no profiles.
	profileDir string
}

// parsePlan reads the command line, and the trace. Usage and errors are also written to told.
func parsePlan(args []string, told io.Writer) (*plan, error) {
	p := &plan{}
	var chosen string
	fs := flag.NewFlagSet("trace", flag.ContinueOnError)
	fs.SetOutput(told)
	fs.StringVar(&p.folder, "trace", "", "folder with openb_node_list_gpu_node.csv and openb_pod_list_WORKLOAD.csv of Alibaba's cluster-trace-gpu-v2023; without one, a synthetic trace of 300 nodes")
	fs.StringVar(&p.workload, "workload", defaultWorkload, "workload of the trace")
	fs.StringVar(&chosen, "strategies", strings.Join(knownStrategies, ","), "strategies of the plugin deviceshare to run")
	fs.IntVar(&p.seeds, "seeds", 10, "run with the seeds from 1 to this one")
	fs.IntVar(&p.batch, "batch", defaultBatch, "how many jobs arrive for a session; they are placed in order")
	fs.BoolVar(&p.gangs, "gangs", false, "group the tasks, as they arrive, in gangs of 2 to 16 that are placed whole or not at all")
	fs.Float64Var(&p.bar, "bar", 0, "least percentage of GPUs that the first strategy must have allocated, on average, when all are asked for")
	fs.StringVar(&p.profileDir, "profile", "", "write a CPU profile of each run into this directory")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if err := p.validate(fs, chosen); err != nil {
		return nil, err
	}
	if p.folder == "" {
		p.trace = synthetic(syntheticNodes, syntheticSeed)
		return p, nil
	}
	var err error
	p.trace, err = readTrace(p.folder, p.workload)
	return p, err
}

func (p *plan) validate(fs *flag.FlagSet, chosen string) error {
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected arguments: %q", fs.Args())
	}
	if p.seeds < 1 || p.batch < 1 {
		return fmt.Errorf("--seeds and --batch must be 1 or more, not %d and %d", p.seeds, p.batch)
	}
	if p.folder == "" && p.workload != defaultWorkload {
		return fmt.Errorf("--workload %s needs --trace", p.workload)
	}
	for name := range strings.SplitSeq(chosen, ",") {
		i := slices.IndexFunc(knownStrategies, func(known string) bool { return strings.EqualFold(known, strings.TrimSpace(name)) })
		if i < 0 {
			return fmt.Errorf("--strategies: %q is none of %s", name, strings.Join(knownStrategies, ", "))
		}
		p.strategies = append(p.strategies, knownStrategies[i])
	}
	return nil
}

// published reports whether there are published figures for this run.
func (p *plan) published() bool { return p.folder != "" && p.workload == defaultWorkload && !p.gangs }

// describe writes a description of the run.
func (p *plan) describe(out io.Writer) {
	each := "each task a job of its own"
	if p.gangs {
		each = fmt.Sprintf("in gangs of %d to %d, all or nothing", minGang, maxGang)
	}
	fmt.Fprintf(out, "Of %s: %d nodes with %d GPUs, %d tasks, drawn until they ask for %.1f times the GPUs; %d seeds.\n",
		p.trace.name, len(p.trace.nodes), p.trace.size()/1000, len(p.trace.tasks), offered, p.seeds)
	fmt.Fprintf(out, "They arrive %s, and are placed at once or never; %d jobs a session, placed in order, with every node looked at.\n\n", each, p.batch)
}

// profile starts profiling, if requested. The returned function ends it.
func (p *plan) profile(name string) (stop func() error, err error) {
	if p.profileDir == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(p.profileDir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(p.profileDir, name+".cpu.pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}
