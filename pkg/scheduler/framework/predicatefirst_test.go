// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
)

// TestPredicateFirst checks that the plugin that called PredicateFirst is called first, so a refusal that evictions
// can resolve does not hide one that they cannot. It is called once, in every session of the profile, and not at all
// if the configuration disables its predicate.
func TestPredicateFirst(t *testing.T) {
	off := tier("last")
	off.Plugins[0].EnabledPredicate = nil
	tests := map[string]struct {
		tiers []conf.Tier
		want  []string
	}{
		"in its own tier":          {tiers: []conf.Tier{tier("other"), tier("last")}, want: []string{"last", "other"}},
		"in the tier of others":    {tiers: []conf.Tier{tier("other", "last", "third")}, want: []string{"last", "other", "third"}},
		"switched off":             {tiers: []conf.Tier{tier("other"), off}, want: []string{"other"}},
		"first already":            {tiers: []conf.Tier{tier("last", "other")}, want: []string{"last", "other"}},
		"the only one in the conf": {tiers: []conf.Tier{tier("last")}, want: []string{"last"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, k := NewRegistry(), newRecordingCache(t)
			var asked []string
			for _, plugin := range []string{"other", "last", "third"} {
				r.RegisterPlugin(spec(plugin, func(ssn *Session) {
					ssn.AddPredicateFn(plugin, func(*api.TaskInfo, *api.NodeInfo) error { asked = append(asked, plugin); return nil })
					if plugin == "last" {
						ssn.PredicateFirst(plugin)
					}
				}))
			}
			profile, err := r.Build(ProfileInput{Tiers: tt.tiers}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				asked = nil
				ssn := r.OpenSession(k, profile)
				for _, task := range ssn.Jobs["ns/g"].Tasks {
					if err := ssn.PredicateFn(task, ssn.Nodes["n"]); err != nil {
						t.Fatal(err)
					}
					break
				}
				r.CloseSession(ssn)
				if diff := cmp.Diff(tt.want, asked); diff != "" {
					t.Errorf("predicates asked (-want +got):\n%s", diff)
				}
			}
		})
	}
}
