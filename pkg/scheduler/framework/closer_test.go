// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/conf"
)

// closing is a plugin that reports when it is closed.
type closing struct {
	fake
	closed func()
}

func (c *closing) Close() { c.closed() }

func closingSpec(name string, closed func()) PluginSpec {
	return PluginSpec{Name: name, Load: WithoutArguments(func(Handle) (Plugin, error) {
		return &closing{fake{name, func(*Session) {}}, closed}, nil
	})}
}

func TestPluginsAreClosedTheLastFirst(t *testing.T) {
	refuses := PluginSpec{Name: "refuses", Load: WithoutArguments(func(Handle) (Plugin, error) { return nil, errors.New("no such level") })}
	all := []string{"c", "b", "a"}
	tests := map[string]struct {
		tiers  []conf.Tier
		panics string
		want   []string
	}{
		"all of a configuration":                 {tiers: []conf.Tier{tier("a", "no-closer", "b"), tier("c")}, want: all},
		"one panics":                             {tiers: []conf.Tier{tier("a", "b", "c")}, panics: "b", want: all},
		"those that were built before a refusal": {tiers: []conf.Tier{tier("a", "b"), tier("refuses", "c")}, want: []string{"b", "a"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var closed []string
			r := NewRegistry()
			r.RegisterPlugin(refuses)
			r.RegisterPlugin(spec("no-closer", func(*Session) {}))
			for _, name := range all {
				r.RegisterPlugin(closingSpec(name, func() {
					closed = append(closed, name)
					if name == tt.panics {
						panic("oh no")
					}
				}))
			}
			profile, err := r.Build(ProfileInput{Tiers: tt.tiers}, nil)
			if err == nil {
				if closed != nil {
					t.Errorf("%v are closed when they are built", closed)
				}
				profile.Close()
			}
			if diff := cmp.Diff(tt.want, closed); diff != "" {
				t.Errorf("closed (-want +got):\n%s", diff)
			}
		})
	}
}
