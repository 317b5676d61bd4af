// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/plugins/util"
)

// decisive is a plugin whose refusals evictions cannot resolve, and which votes on admission. It records its votes.
type decisive struct {
	DefaultSigner
	*fake
	votes *[]string
}

func (decisive) Unresolvable() bool { return true }
func (d decisive) RefuseAdmission(*api.JobInfo) *PendingReason {
	*d.votes = append(*d.votes, d.name)
	return nil
}
func (decisive) Infeasible(*api.JobInfo) bool { return false }

// TestWhoIsAskedFirst checks that a predicate whose refusals evictions cannot resolve is called first, so a refusal that
// evictions can resolve does not hide it, and that an AdmissionVoter votes first. Both are called once, in every session
// of the profile, and not at all if the configuration disables them.
func TestWhoIsAskedFirst(t *testing.T) {
	off := tier("last")
	off.Plugins[0].EnabledPredicate, off.Plugins[0].EnabledJobEnqueued = nil, nil
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
			var asked, votes []string
			for _, plugin := range []string{"other", "last", "third"} {
				r.RegisterPlugin(spec(plugin, func(ssn *Session) {
					ssn.AddPredicateFn(plugin, func(*api.TaskInfo, *api.NodeInfo) error { asked = append(asked, plugin); return nil })
					if plugin != "last" {
						ssn.AddJobEnqueueableFn(plugin, func(any) int { votes = append(votes, plugin); return util.Abstain })
					}
				}))
			}
			last := r.specs["last"]
			r.RegisterPlugin(PluginSpec{Name: "last", Load: WithoutArguments(func(h Handle) (Plugin, error) {
				plugin, err := last.New(nil, h)
				return decisive{fake: plugin.(*fake), votes: &votes}, err
			})})
			profile, err := r.Build(ProfileInput{Tiers: tt.tiers}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				asked, votes = nil, nil
				ssn := r.OpenSession(k, profile)
				for _, task := range ssn.Jobs["ns/g"].Tasks {
					if err := ssn.PredicateFn(task, ssn.Nodes["n"]); err != nil {
						t.Fatal(err)
					}
					break
				}
				ssn.JobEnqueueable(ssn.Jobs["ns/g"])
				if diff := cmp.Diff(tt.want, votes); diff != "" {
					t.Errorf("votes (-want +got):\n%s", diff)
				}
				r.CloseSession(ssn)
				if diff := cmp.Diff(tt.want, asked); diff != "" {
					t.Errorf("predicates asked (-want +got):\n%s", diff)
				}
			}
		})
	}
}
