// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"volcano.sh/volcano/pkg/scheduler"
	_ "volcano.sh/volcano/pkg/scheduler/actions"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	structfields "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/fields"
)

// samples are configurations that both upstream and Parse can read.
var samples = map[string]string{
	"built in": scheduler.DefaultSchedulerConf,
	"evicting": `
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
  - name: sla
    arguments:
      sla-waiting-time: 1h30m
- plugins:
  - name: overcommit
    arguments: {overcommit-factor: 1}
  - name: drf
    enablePreemptable: off
  - name: predicates
    arguments:
      predicate.DynamicResourceAllocationEnable: true
      predicate.CacheEnable: yes
      volumebinding.weight: 3
      volumebinding.bindTimeoutSeconds: 1_200
      volumebinding.shape:
      - {utilization: 0, score: 10}
      - {utilization: 100, score: 0}
  - name: proportion
  - name: nodeorder
    arguments:
      leastrequested.weight: 0
      tainttoleration.weight: 0x10
  - name: binpack
    arguments:
      binpack.weight: 010
      binpack.resources: nvidia.com/gpu, example.com/foo
      binpack.resources.nvidia.com/gpu: 8
      binpack.resources.example.com/foo: 2
configurations:
- name: preempt
  arguments:
    enableTopologyAwarePreemption: on
    topologyAwarePreemptWorkerNum: 8
- name: allocate
  arguments:
    predicateErrorCacheEnable: n
- name: init-params
  arguments:
    presetVirtualDevice: true
    useClusterInfoManager: "false"
`,
	"usage, windows and a tidy spread": `
actions: allocate, shuffle
tiers:
- plugins:
  - name: usage
    enablePredicate: false
    arguments:
      usage.weight: 5
      thresholds:
        cpu: 80
        mem: 85
  - name: tdm
    arguments:
      tdm.revocable-zone.rz1: 10:00-21:00
      tdm.revocable-zone.rz2: "22:00-06:00"
      tdm.evict.period: 2m
  - name: rescheduling
    arguments:
      interval: 10m
      strategies:
      - name: lowNodeUtilization
        params:
          thresholds: {cpu: 20, memory: 20, pods: 20}
          targetThresholds:
            "cpu": 50
            "memory": 50
  - name: resource-strategy-fit
    arguments:
      resourceStrategyFitWeight: 10
      resources:
        nvidia.com/gpu: {type: MostAllocated, weight: 2}
        example.com/*: {type: LeastAllocated}
      sra:
        enable: true
        resources: nvidia.com/gpu
        weight: 10
        resourceWeight: {nvidia.com/gpu: 1}
      proportional:
        enable: false
        resources: nvidia.com/gpu
        resourceProportion:
          nvidia.com/gpu.cpu: 4
          nvidia.com/gpu.memory: 8.5
metrics:
  type: elasticsearch
  address: https://es:9200
  interval: 1m
  tls.insecureSkipVerify: true
  elasticsearch.index: 2024
`,
	"outside services and devices": `
actions: allocate
tiers:
- plugins:
  - name: extender
    arguments:
      extender.urlPrefix: http://127.0.0.1:8080
      extender.httpTimeout: 100ms
      extender.predicateVerb: predicate
      extender.ignorable: true
      extender.managedResources: [nvidia.com/gpu, nvidia.com/gpumem]
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.SchedulePolicy: binpack
      deviceshare.ScheduleWeight: 10
  - name: network-topology-aware
    arguments:
      weight: 10
      hypernode.binpack.cpu: 5
      hypernode.binpack.resources: nvidia.com/gpu
      hypernode.binpack.resources.nvidia.com/gpu: 2
      hypernode.binpack.normal-pod.fading: .5
  - name: nodegroup
    enableHierarchy: true
    arguments: {strict: no}
  - name: capacity
    enableHierarchy: true
    EnabledClusterOrder: true
  - name: numa-aware
    arguments: {weight: 2}
  - name: task-topology
    arguments: {task-topology.weight: 10}
  - name: cdp
  - name: pdb
  - name: resourcequota
`,
	"hierarchical drf in another tier": `
actions: allocate
tiers:
- plugins: [{name: drf, enableHierarchy: true}]
- plugins: [{name: proportion}]
`,
	"anchors, merges and every kind of value": `
actions: allocate
tiers:
- plugins:
  - &base
    name: homemade
    enableJobOrder: false
    arguments: &args
      text: plain
      quoted: "5"
      number: 1.5e3
      big: 9223372036854775808
      octal: 0o17
      binary: 0b101
      date: 2024-01-02
      time: 12:30:45
      yes: on
      5: five
      null: ~
      tagged: !!str 12
      float: !!float 3
      list: [1, 2.5, three, false, {four: 5}]
      nested: {a: {b: {c: [1]}}, 1: one, true: two}
      block: |
        two
        lines
      infinity: .inf
  - name: checked
    arguments:
      checked.any:
        <<: *args
        text: replaced
`,
}

// TestValuesAreUpstreams checks that plugins get the same values as from upstream, including the Go types, which
// plugins assert.
func TestValuesAreUpstreams(t *testing.T) {
	for name, text := range samples {
		t.Run(name, func(t *testing.T) {
			cfg, err := Parse([]byte(text), testCatalogue(homemade))
			if err != nil {
				t.Fatal(err)
			}
			actions, tiers, configurations, metrics, err := scheduler.UnmarshalSchedulerConf(text)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, action := range actions {
				names = append(names, action.Name())
			}
			want := &Config{Actions: names, Tiers: tiers, Configurations: configurations, Metrics: metrics,
				PreBindDisabled: map[string]bool{}, Builders: map[string]framework.Builder{}, Raw: []byte(text), Hash: hashOf([]byte(text))}
			if diff := cmp.Diff(want, cfg); diff != "" {
				t.Errorf("Parse (-upstream +ours):\n%s", diff)
			}
		})
	}
}

func TestUpstreamTable(t *testing.T) {
	for _, spec := range upstreamPlugins() {
		build, found := vcframework.GetPluginBuilder(spec.Name)
		if !found {
			t.Errorf("upstream has no plugin %q", spec.Name)
			continue
		}
		if got := build(vcframework.Arguments{}).Name(); got != spec.Name {
			t.Errorf("plugin %q calls itself %q", spec.Name, got)
		}
		if spec.Doc == "" {
			t.Errorf("plugin %q has no doc", spec.Name)
		}
		for _, arg := range spec.Arguments {
			if arg.Doc == "" || arg.Type == "" {
				t.Errorf("argument %q of plugin %q is not declared in full: %+v", arg.Name, spec.Name, arg)
			}
		}
	}
	for _, spec := range upstreamActions() {
		if _, found := vcframework.GetAction(strings.TrimSuffix(spec.Name, preempt.UpstreamSuffix)); !found {
			t.Errorf("upstream has no action %q", spec.Name)
		}
	}
}

// TestPluginSwitches checks that the switches are the keys that upstream's type decodes, and this project's keys.
func TestPluginSwitches(t *testing.T) {
	want := []string{enablePreBind}
	option := reflect.TypeFor[conf.PluginOption]()
	for field := range option.Fields() {
		if key := field.Tag.Get("yaml"); key != "name" && key != "arguments" {
			want = append(want, key)
		}
	}
	var got []string
	for _, s := range pluginSwitches() {
		got = append(got, s.Key)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("switches (-upstream +ours):\n%s", diff)
	}
	cfg, err := Parse([]byte(plugin("gang", "")), NewCatalogue())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range pluginSwitches() {
		for field, set := range structfields.Exported(reflect.ValueOf(cfg.Tiers[0].Plugins[0])) {
			if field.Tag.Get("yaml") == s.Key && set.IsNil() != s.OffByDefault {
				t.Errorf("switch %q: off by default %t, upstream sets it: %t", s.Key, s.OffByDefault, !set.IsNil())
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range samples {
		f.Add([]byte(text))
	}
	f.Add([]byte("actions: &a [*a]\n"))
	f.Add([]byte("tiers: [{plugins: [{<<: {name: gang}, name: x, name: y}]}]\n"))
	cat := testCatalogue(homemade)
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Parse(data, cat)
		switch {
		case (cfg == nil) == (err == nil):
			t.Fatalf("Parse returned %v and %v", cfg, err)
		case err != nil && !strings.HasPrefix(err.Error(), "line "):
			t.Fatalf("an error without a line: %v", err)
		case err != nil || cfg.Default || len(cfg.Warnings) > 0: // Upstream uses the default for quoted values.
			return
		}
		// A configuration that is valid here is valid upstream and has the same meaning.
		_, tiers, configurations, metrics, err := scheduler.UnmarshalSchedulerConf(string(data))
		if err != nil {
			t.Fatalf("upstream refuses it: %v", err)
		}
		got := []any{cfg.Tiers, cfg.Configurations, cfg.Metrics}
		if diff := cmp.Diff([]any{tiers, configurations, metrics}, got, cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("Parse (-upstream +ours):\n%s", diff)
		}
	})
}
