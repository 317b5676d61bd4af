// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	conf := `actions: "enqueue, allocate ,backfill"
tiers:
- plugins:
  - name: gang
    enablePreBind: false
    enabledVictim: no
  - name: checked
    enablePreBind: true
    arguments:
      checked.wait: 30s
- plugins:
  - name: drf
configurations:
- name: binding
  arguments:
    evictPartiallyBoundAfter: 10m
metrics:
  type: prometheus
  address: http://prometheus:9090
  tls.insecureSkipVerify: true
`
	cfg, err := Parse([]byte(conf), testCatalogue())
	if err != nil {
		t.Fatal(err)
	}
	gang := cfg.Tiers[0].Plugins[0]
	got := map[string]any{
		"actions":         cfg.Actions,
		"order":           cfg.PluginOrder(),
		"pre-bind off":    cfg.PreBindDisabled,
		"metrics":         cfg.Metrics,
		"partially bound": cfg.EvictPartiallyBoundAfter,
		"raw":             string(cfg.Raw),
		"hash":            cfg.Hash,
		"default":         cfg.Default,
		"switched off":    *gang.EnabledVictim,
		"switched on":     *gang.EnabledJobOrder,
		"arguments":       cfg.Tiers[0].Plugins[1].Arguments,
	}
	want := map[string]any{
		"actions":         []string{"enqueue", "allocate", "backfill"},
		"order":           []string{"gang", "checked", "drf"},
		"pre-bind off":    map[string]bool{"gang": true},
		"metrics":         map[string]string{"type": "prometheus", "address": "http://prometheus:9090", "tls.insecureSkipVerify": "true"},
		"partially bound": 10 * time.Minute,
		"raw":             conf,
		"hash":            hashOf([]byte(conf)),
		"default":         false,
		"switched off":    false,
		"switched on":     true,
		"arguments":       map[string]any{"checked.wait": "30s"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse (-want +got):\n%s", diff)
	}
}

func TestParseNothingMeansTheBuiltInConfiguration(t *testing.T) {
	for name, conf := range map[string]string{"empty": "", "blank": " \n\n", "comments": "# none\n", "null": "---\n"} {
		t.Run(name, func(t *testing.T) {
			cfg, err := Parse([]byte(conf), NewCatalogue())
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"priority", "gang", "conformance", "overcommit", "drf", "predicates", "proportion", "nodeorder"}
			if diff := cmp.Diff(want, cfg.PluginOrder()); diff != "" {
				t.Errorf("plugins (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"enqueue", "allocate", "backfill"}, cfg.Actions); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
			if !cfg.Default || string(cfg.Raw) != conf {
				t.Errorf("Default %t, Raw %q", cfg.Default, cfg.Raw)
			}
			if cfg.EvictPartiallyBoundAfter != 0 {
				t.Errorf("partially bound gangs are evicted after %s, want never", cfg.EvictPartiallyBoundAfter)
			}
		})
	}
}

// TestBuiltInPlugins checks that the built-in configuration names, after upstream's plugins, those plugins of this
// project that request it, and that these take over their parts of upstream's plugins.
func TestBuiltInPlugins(t *testing.T) {
	asks := binds
	asks.BuiltIn = true
	for name, tc := range map[string]struct {
		cat  *Catalogue
		last string
		// arguments are the arguments of predicates.
		arguments map[string]any
	}{
		"one that asks for it":  {cat: NewCatalogue(asks), last: asks.Name, arguments: map[string]any{"predicate.VolumeBindingEnable": false}},
		"one that does not":     {cat: NewCatalogue(binds), last: "nodeorder"},
		"upstream's by default": {cat: NewCatalogue(), last: "nodeorder"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, err := Parse(nil, tc.cat)
			if err != nil {
				t.Fatal(err)
			}
			order := cfg.PluginOrder()
			if last := order[len(order)-1]; last != tc.last {
				t.Errorf("the last plugin is %s, want %s", last, tc.last)
			}
			for _, option := range cfg.Tiers[1].Plugins {
				if option.Name != predicatesName {
					continue
				}
				if diff := cmp.Diff(tc.arguments, option.Arguments); diff != "" {
					t.Errorf("arguments of predicates (-want +got):\n%s", diff)
				}
			}
		})
	}
}
