// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
)

// trusting is a cache that counts the trusted sessions, whose copies need fewer comparisons.
type trusting struct {
	*recordingCache
	trusted int
}

var _ Snapshotter = (*trusting)(nil)

func (c *trusting) SessionSnapshot() (*api.ClusterInfo, snapshot.NodeForms, map[api.TaskID]map[string]string) {
	given := c.Snapshot()
	return given, snapshot.NodeForms{Total: api.EmptyResource()}, copyAnnotations(given)
}

func (c *trusting) TrustSession(snapshot.Touched) { c.trusted++ }

// ported is a plugin that was written for upstream.
type ported struct{}

func (ported) Name() string                        { return "ported" }
func (ported) OnSessionOpen(*vcframework.Session)  {}
func (ported) OnSessionClose(*vcframework.Session) {}

// TestOnlySessionsOfKnownPluginsAreTrusted checks that TrustSession is called, when a session has closed, only if all
// its plugins and actions are known to change placed tasks by the methods of jobs and nodes. The next snapshot then
// compares less with the session's copies.
func TestOnlySessionsOfKnownPluginsAreTrusted(t *testing.T) {
	tests := map[string]struct {
		plugins, actions []string
		want             int
	}{
		"plugins of upstream":           {plugins: []string{"gang", "drf"}, actions: []string{"enqueue", "preempt"}, want: 1},
		"one of ours that leaves tasks": {plugins: []string{"gang", "leaves"}, want: 1},
		"one that does not say so":      {plugins: []string{"gang", "writes"}},
		"one written for upstream":      {plugins: []string{"gang", "ported"}},
		"an action of one's own":        {plugins: []string{"gang"}, actions: []string{"enqueue", "own"}},
	}
	vcframework.RegisterPluginBuilder("ported", func(vcframework.Arguments) vcframework.Plugin { return ported{} })
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			registry := NewRegistry()
			leaves := spec("leaves", func(*Session) {})
			leaves.LeavesTasks = true
			registry.RegisterPlugin(leaves)
			registry.RegisterPlugin(spec("writes", func(*Session) {}))
			for _, name := range tt.actions {
				registry.RegisterAction(namedAction(name))
			}
			profile, err := registry.Build(ProfileInput{Actions: tt.actions, Tiers: []conf.Tier{tier(tt.plugins...)}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			c := &trusting{recordingCache: newRecordingCache(t)}
			ssn := registry.OpenSession(c, profile)
			if c.trusted > 0 {
				t.Error("a session is trusted that is still open")
			}
			if touched := ssn.Touched("n"); touched != (tt.want == 0) {
				t.Errorf("a session that has placed nothing may have changed a node: %t", touched)
			}
			registry.CloseSession(ssn)
			if c.trusted != tt.want {
				t.Errorf("%d sessions are trusted, want %d", c.trusted, tt.want)
			}
		})
	}
}

// namedAction is an action of this name that does nothing.
type namedAction string

func (a namedAction) Name() string   { return string(a) }
func (namedAction) Execute(*Session) {}
