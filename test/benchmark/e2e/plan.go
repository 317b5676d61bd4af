// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// The schedulers, modes and placements that a plan can name.
const (
	upstream = "upstream"
	kube     = "kube"
	ours     = "ours"
	raw      = "raw"

	// live creates pods and PodGroups while the scheduler runs. pglast creates all pods first and then all PodGroups
	// at once, with a warmed-up scheduler.
	live   = "live"
	pglast = "pglast"

	// full is the default configuration, in which every pod may use any node. trivial names one node for each pod by
	// its nodeSelector, in a configuration without scoring plugins. nominated is trivial with the same node in the
	// pod's status.nominatedNodeName, so the scheduler need not filter every other node.
	full      = "full"
	trivial   = "trivial"
	nominated = "nominated"
)

const (
	nodeCPUs = 32
	nodePods = 110
	// spareNodePods is room for the warm-up gang and the lone gangs.
	spareNodePods = 4
)

// plan is the selection made by the flags.
type plan struct {
	nodes, gangs, gangSize int
	// ibClusters is the number of InfiniBand clusters of the nodes. Each gang requires one of them. Zero means no
	// clusters.
	ibClusters int
	// claims is the kind of each pod's claims. It is empty for none.
	claims string
	// fillerCPUs are the CPUs of each pod that fills the nodes first and that the gangs preempt. Zero means no such
	// pods.
	fillerCPUs          int
	modes, schedulers   []string
	placements          []string
	runs                int
	writers, rawWriters int
	loneGangs, loneSize int
	idleFor             time.Duration
	limits              limits
	jsonPath            string
	profile             profiling
	keepDir             string
	args                argList
}

// limits are the longest waits. quiet is the wait for the rest of the machine, trial is for a whole trial, and burst is
// for gangs that preempt.
type limits struct{ quiet, trial, burst time.Duration }

// profiling says where CPU profiles are stored, and how long each of them lasts. dir is empty for no profiles.
type profiling struct {
	dir    string
	length time.Duration
}

// argList is a flag that may be given several times.
type argList []string

func (l *argList) String() string { return strings.Join(*l, " ") }

// Set appends a value.
func (l *argList) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// trialKey identifies a trial.
type trialKey struct {
	Scheduler string `json:"scheduler"`
	Mode      string `json:"mode"`
	Placement string `json:"placement"`
	Run       int    `json:"run"`
}

func (k trialKey) String() string {
	return fmt.Sprintf("%s %s %s #%d", k.Scheduler, k.Mode, k.Placement, k.Run)
}

// parsePlan reads the command line. Usage and errors are also written to out.
func parsePlan(args []string, out io.Writer) (*plan, error) {
	p := &plan{}
	var modes, schedulers, placements string
	fs := flag.NewFlagSet("e2e", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.IntVar(&p.nodes, "nodes", 1000, "simulated nodes, of 32 cpus each")
	fs.IntVar(&p.gangs, "gangs", 100, "gangs to place")
	fs.IntVar(&p.gangSize, "gang-size", 50, "pods of 1 cpu in a gang, all of them its minimum")
	fs.IntVar(&p.ibClusters, "ib-clusters", 0, "InfiniBand clusters to spread the nodes over, one of which each gang must share; ours alone can do that")
	fs.StringVar(&p.claims, "claims", "", "what each pod claims for itself: volumes, which a provisioner makes when the pod was placed, or devices; nothing when empty")
	fs.IntVar(&p.fillerCPUs, "filler-cpus", 0, "cpus of each running pod of low priority that fills the nodes first, and that the gangs preempt; 0 for none")
	fs.DurationVar(&p.limits.burst, "limit", 5*time.Minute, "how long gangs that preempt may take; a scheduler that needs longer is reported so")
	fs.StringVar(&modes, "mode", "live,pglast", "how the load is offered: live, pglast or both")
	fs.StringVar(&schedulers, "schedulers", "upstream,kube,ours,raw", "whom to measure, in turn")
	fs.StringVar(&placements, "placement", full, "full, trivial, nominated, or several of them")
	fs.IntVar(&p.runs, "runs", 1, "how often to measure each; ratios are between medians")
	fs.IntVar(&p.writers, "writers", 16, "creations under way at a time")
	fs.IntVar(&p.rawWriters, "raw-writers", 64, "Bindings under way at a time in the raw trial")
	fs.IntVar(&p.loneGangs, "lone-gangs", 20, "gangs submitted one by one to the idle cluster after the load; 0 for none")
	fs.IntVar(&p.loneSize, "lone-size", 4, "pods of a lone gang")
	fs.DurationVar(&p.idleFor, "idle", 10*time.Second, "how long the idle scheduler's CPU is measured; 0 for not at all")
	fs.DurationVar(&p.limits.quiet, "quiet", 30*time.Second, "how long to wait for the rest of the machine to be quiet before the load")
	fs.DurationVar(&p.limits.trial, "timeout", 10*time.Minute, "limit of one trial")
	fs.StringVar(&p.jsonPath, "json", "", "also write the results to this file")
	fs.StringVar(&p.profile.dir, "profile", "", "write a CPU profile of each vc-scheduler under load into this directory")
	fs.DurationVar(&p.profile.length, "profile-for", 20*time.Second, "length of the CPU profile")
	fs.StringVar(&p.keepDir, "keep", "", "keep logs and data of each trial under this directory")
	fs.Var(&p.args, "scheduler-arg", "a further flag for our vc-scheduler; may be repeated")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected arguments: %q", fs.Args())
	}
	for _, list := range []struct {
		flag, text string
		known      []string
		into       *[]string
	}{
		{"mode", modes, []string{live, pglast}, &p.modes},
		{"schedulers", schedulers, []string{upstream, kube, ours, raw}, &p.schedulers},
		{"placement", placements, []string{full, trivial, nominated}, &p.placements},
	} {
		for name := range strings.SplitSeq(list.text, ",") {
			name = strings.TrimSpace(name)
			if !slices.Contains(list.known, name) {
				return nil, fmt.Errorf("--%s: %q is none of %s", list.flag, name, strings.Join(list.known, ", "))
			}
			*list.into = append(*list.into, name)
		}
	}
	return p, p.validate()
}

func (p *plan) validate() error {
	if p.nodes < 1 || p.gangs < 1 || p.gangSize < 1 || p.runs < 1 || p.writers < 1 || p.rawWriters < 1 || p.loneSize < 1 {
		return fmt.Errorf("sizes, runs and writers must be 1 or more")
	}
	perNode := (p.pods() + p.nodes - 1) / p.nodes
	if perNode > min(nodeCPUs, nodePods)-spareNodePods {
		return fmt.Errorf("%d pods do not fit on %d nodes of %d cpus beside the lone gangs", p.pods(), p.nodes, nodeCPUs)
	}
	if p.loneGangs*p.loneSize > p.nodes*spareNodePods {
		return fmt.Errorf("%d lone gangs of %d pods do not fit on %d nodes beside the others", p.loneGangs, p.loneSize, p.nodes)
	}
	switch {
	case !slices.Contains([]string{"", volumes, devices}, p.claims):
		return fmt.Errorf("--claims: %q is none of %s, %s", p.claims, volumes, devices)
	case p.claims != "" && (slices.Contains(p.schedulers, raw) || !slices.Equal(p.placements, []string{full})):
		return fmt.Errorf("--claims goes with --placement %s, and without --schedulers %s, which prepares nothing", full, raw)
	}
	return errors.Join(p.validateClusters(), p.validatePreempt())
}

// preempts reports whether the gangs preempt pods that fill the nodes.
func (p *plan) preempts() bool { return p.fillerCPUs != 0 }

func (p *plan) validatePreempt() error {
	theirs := func(scheduler string) bool { return scheduler == kube }
	switch {
	case !p.preempts():
		return nil
	case slices.ContainsFunc(p.schedulers, theirs) || !slices.Equal(p.placements, []string{full}) || p.claims != "" || p.ibClusters > 0:
		return fmt.Errorf("--filler-cpus goes with --schedulers %s,%s,%s and --placement %s, without claims and clusters", upstream, ours, raw, full)
	case p.fillerCPUs < 1 || nodeCPUs%p.fillerCPUs != 0:
		return fmt.Errorf("--filler-cpus: found %d, want a divisor of %d, the cpus of a node", p.fillerCPUs, nodeCPUs)
	}
	return nil
}

func (p *plan) validateClusters() error {
	switch {
	case p.ibClusters == 0:
		return nil
	case p.ibClusters < 0 || p.ibClusters > p.nodes:
		return fmt.Errorf("--ib-clusters: found %d, want 0 to %d, the number of nodes", p.ibClusters, p.nodes)
	case !slices.Equal(p.schedulers, []string{ours}) || !slices.Equal(p.placements, []string{full}):
		return fmt.Errorf("--ib-clusters goes with --schedulers %s and --placement %s alone", ours, full)
	}
	if room := p.nodes / p.ibClusters * nodeCPUs; max(p.gangSize, p.loneSize) > room {
		return fmt.Errorf("a gang of %d pods does not fit into a cluster of %d cpus", max(p.gangSize, p.loneSize), room)
	}
	return nil
}

func (p *plan) pods() int { return p.gangs * p.gangSize }

// trials returns the trials in order. kube-scheduler has no PodGroups, so it has the live mode only. Pods are
// nominated after their creation and before they may be scheduled, which only pglast separates.
func (p *plan) trials() []trialKey {
	var keys []trialKey
	for run := range p.runs {
		for _, placement := range p.placements {
			for _, mode := range p.modes {
				for _, scheduler := range p.schedulers {
					if scheduler == kube && mode != live || placement == nominated && mode != pglast {
						continue
					}
					keys = append(keys, trialKey{scheduler, mode, placement, run + 1})
				}
			}
		}
	}
	return keys
}
