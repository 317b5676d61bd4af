// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/volcano-prebind/volcano-prebind/config"
	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// trivialConf places gangs without scoring: what is left is the predicates, the gang policy and the way to the API server.
const trivialConf = `actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: predicates
`

// clusterConf comes behind the scheduler's own.
const clusterConf = `  - name: ibcluster
    arguments:
      ibcluster.levels: [` + clusterLabel + `, spine, leaf]
`

// devicesConf comes behind the chart's conf, upstreamDevicesConf behind the line of the plugin predicates in what upstream's
// scheduler knows of it.
const (
	devicesConf         = "  - name: dynamicresources\n"
	predicatesOfConf    = "  - name: predicates\n"
	upstreamDevicesConf = "    arguments: {predicate.DynamicResourceAllocationEnable: true}\n"
)

// kubeConf lifts kube-scheduler's client-side rate limit of 50 requests a second, which would be all that is measured.
const kubeConf = `clientConnection: {qps: 10000, burst: 10000}
`

const kubeTrivialConf = kubeConf + `profiles:
- schedulerName: default-scheduler
  plugins:
    score: {disabled: [{name: "*"}]}
    preScore: {disabled: [{name: "*"}]}
`

// schedulerOptions says how to run the scheduler of a trial. The load of raw has no scheduler.
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
		// The provisioner is no CSI driver, which nodes could have attach limits for.
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
	}
	if p.profileDir != "" {
		opts.Args = append(opts.Args, "--enable-pprof")
	}
	return opts, nil
}

// schedulerName is the spec.schedulerName of the pods.
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
