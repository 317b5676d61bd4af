// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/volcano-prebind/volcano-prebind/config"
	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// trivialConf places gangs without scoring. Only the predicates, the gang policy and the calls to the API server
// remain.
const trivialConf = `actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: predicates
`

// clusterConf is appended to the scheduler's own configuration.
const clusterConf = `  - name: ibcluster
    arguments:
      ibcluster.levels: [` + clusterLabel + `, spine, leaf]
`

// devicesConf is appended to the chart's configuration. upstreamDevicesConf is inserted after the line of plugin
// predicates in the configuration for upstream's scheduler.
const (
	devicesConf         = "  - name: dynamicresources\n"
	predicatesOfConf    = "  - name: predicates\n"
	upstreamDevicesConf = "    arguments: {predicate.DynamicResourceAllocationEnable: true}\n"
)

// preemptActions replaces actionsOfConf in the configuration of both schedulers.
const (
	actionsOfConf  = "allocate, backfill"
	preemptActions = "allocate, preempt, backfill"
)

// kubeConf raises kube-scheduler's client-side rate limit of 50 requests a second, which would otherwise be the only
// thing measured.
const kubeConf = `clientConnection: {qps: 10000, burst: 10000}
`

const kubeTrivialConf = kubeConf + `profiles:
- schedulerName: default-scheduler
  plugins:
    score: {disabled: [{name: "*"}]}
    preScore: {disabled: [{name: "*"}]}
`

// schedulerOptions returns the options of a trial's scheduler. A raw trial has no scheduler.
func schedulerOptions(key trialKey, p *plan) (controlplane.SchedulerOptions, error) {
	opts := controlplane.SchedulerOptions{}
	switch key.Scheduler {
	case ours:
		opts.Kind, opts.Conf, opts.Args = controlplane.Ours, config.DefaultConf, p.args
	case upstream:
		opts.Kind, opts.Conf = controlplane.Upstream, config.UpstreamConf()
	case kube:
		opts.Kind, opts.Conf = controlplane.KubeScheduler, kubeConf
		if key.Placement != full {
			opts.Conf = kubeTrivialConf
		}
		return opts, nil
	default:
		return opts, fmt.Errorf("%s is not a scheduler process", key.Scheduler)
	}
	if p.claims == volumes {
		// The provisioner is not a CSI driver, so nodes cannot have attach limits for it.
		opts.Args = append(opts.Args, "--ignored-provisioners="+claimed)
	}
	switch {
	case p.claims == devices && key.Scheduler == ours:
		opts.Conf = config.DefaultConf + devicesConf
	case p.claims == devices:
		opts.Conf = strings.Replace(config.UpstreamConf(), predicatesOfConf, predicatesOfConf+upstreamDevicesConf, 1)
	case key.Placement != full:
		opts.Conf = trivialConf
	case p.ibClusters > 0:
		opts.Conf += clusterConf
	case p.preempts():
		opts.Conf = strings.Replace(opts.Conf, actionsOfConf, preemptActions, 1)
	}
	if p.profile.dir != "" {
		opts.Args = append(opts.Args, "--enable-pprof")
	}
	return opts, nil
}

// schedulerName returns the spec.schedulerName of the pods.
func schedulerName(scheduler string) string {
	switch scheduler {
	case kube:
		return "default-scheduler"
	case raw:
		return "nobody"
	default:
		return "volcano"
	}
}

// usesPodGroups reports whether the scheduler places gangs by PodGroup.
func usesPodGroups(scheduler string) bool { return scheduler == ours || scheduler == upstream }
