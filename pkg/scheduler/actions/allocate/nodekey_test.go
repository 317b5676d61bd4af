// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"testing"

	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// TestNodeKeyDecidesWhetherAPluginIsCalledAgain checks that a plugin's predicate is not called again while the keys
// that it gives to nodes (SignNode) are unchanged. If a key changes, or the plugin gives none, the gang is tried again.
func TestNodeKeyDecidesWhetherAPluginIsCalledAgain(t *testing.T) {
	steps := []struct {
		reserved  string
		key       uint64
		wantAsked bool
		wantBound int
	}{
		{reserved: "n0-1", key: 1, wantAsked: true},
		{reserved: "n0-1", key: 1},
		{reserved: "n0-1", key: 2, wantAsked: true},
		{reserved: "n0-1", key: 2},
		{reserved: "", key: 3, wantAsked: true, wantBound: 3},
	}
	for where, lies := range map[string]func(*v1beta1.PodGroup){"anywhere": func(*v1beta1.PodGroup) {}, "cluster": inOneCluster} {
		for name, keyed := range map[string]bool{"with a key": true, "without": false} {
			t.Run(where+" "+name, func(t *testing.T) {
				w, podGroup := rackWorld([]string{"6", "6"}, "5", "3", "3")
				lies(podGroup)
				w.Nodes, w.HyperNodes = w.Nodes[:2], w.HyperNodes[:1]
				asked, step := 0, steps[0]
				open := func(ssn *framework.Session) {
					ssn.AddPredicateFn("helper", func(task *api.TaskInfo, node *api.NodeInfo) error {
						asked++
						if node.Name == step.reserved {
							return api.NewFitErrWithStatus(task, node, &api.Status{Code: api.Unschedulable, Reason: "reserved"})
						}
						return nil
					})
				}
				var nodeKey func(*api.NodeInfo) uint64
				if keyed {
					nodeKey = func(node *api.NodeInfo) uint64 {
						if node.Name == "n0-1" {
							return step.key
						}
						return 0
					}
				}
				c := newCounting(t, w)
				c.registry.RegisterPlugin(framework.PluginSpec{
					Name: "helper",
					Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
						return helper{open: open, nodeKey: nodeKey}, nil
					}),
				})
				c.conf += "  - name: helper\n"
				for i := range steps {
					asked, step = 0, steps[i]
					_, bound := c.session()
					if bound != step.wantBound || (asked > 0) != (step.wantAsked || !keyed) {
						t.Errorf("session %d: %d members bound and the plugin asked %d times, want %d and asked: %t; %s",
							i, bound, asked, step.wantBound, step.wantAsked || !keyed, c.says)
					}
				}
			})
		}
	}
}
