// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestAvoidedNodes checks that gangs stay off the nodes that plugins ask them to avoid, such as nodes on which they
// failed, unless no other placement exists.
func TestAvoidedNodes(t *testing.T) {
	const upstream = "it has no such wish"
	avoiding := func(gang string, nodes ...string) []framework.PluginSpec {
		return []framework.PluginSpec{plugin("avoiding", nothing, sessiontest.AvoidNodesFn(func(job *api.JobInfo) []string {
			if job.Name == gang {
				return nodes
			}
			return nil
		}))}
	}
	const conf = plain + "\n- plugins:\n  - name: avoiding\n"
	world := func(group *schedtest.PodGroupBuilder, list []*v1.Node, names ...string) sessiontest.ClusterSpec {
		return sessiontest.ClusterSpec{
			Nodes: list, PodGroups: []*v1beta1.PodGroup{group.Name("g").MinMember(int32(len(names))).Obj()},
			Pods: each(schedtest.MakePod().Group("g").Req(cores("2")), names...),
		}
	}
	runTable(t, map[string]behaviour{
		"there is another node": {
			conf: conf, plugins: avoiding("g", "n1"), upstreamDiffers: upstream,
			world: world(schedtest.MakePodGroup(), nodes(holds("2"), "n1", "n2"), "g-0"),
			binds: map[string]string{"g-0": "n2"},
		},
		"another gang does not avoid it": {
			conf: conf, plugins: avoiding("other", "n1"),
			world: world(schedtest.MakePodGroup(), append(nodes(holds("2"), "n1"), nodes(holds("1"), "n2")...), "g-0"),
			binds: map[string]string{"g-0": "n1"},
		},
		"there is no other node": {
			conf: conf, plugins: avoiding("g", "n1"),
			world: world(schedtest.MakePodGroup(), append(nodes(holds("2"), "n1"), nodes(holds("1"), "n2")...), "g-0"),
			binds: map[string]string{"g-0": "n1"},
		},
		"there is no room for the whole gang without it": {
			conf: conf, plugins: avoiding("g", "n1"),
			world: world(schedtest.MakePodGroup(), nodes(holds("2"), "n1", "n2"), "g-0", "g-1"),
			binds: map[string]string{"g-0": "*", "g-1": "*"},
		},
		"it is nominated": {
			conf: conf, plugins: avoiding("g", "n1"), upstreamDiffers: upstream,
			world: func() sessiontest.ClusterSpec {
				w := world(schedtest.MakePodGroup(), nodes(holds("2"), "n1", "n2"), "g-0")
				w.Pods[0].Status.NominatedNodeName = "n1"
				return w
			}(),
			binds: map[string]string{"g-0": "n2"},
		},
		"the whole gang takes the group without it": {
			conf: conf + "  - name: racks\n", plugins: append(avoiding("g", "a2"), nodeGroups("racks", rackGroups(true, "a", "b"))), upstreamDiffers: upstream,
			world: world(schedtest.MakePodGroup(), nodes(holds("2"), "a1", "a2", "b1", "b2"), "g-0", "g-1"),
			binds: map[string]string{"g-0": "b1|b2", "g-1": "b1|b2"},
		},
		"no other group holds the gang": {
			conf: conf + "  - name: racks\n", plugins: append(avoiding("g", "a2"), nodeGroups("racks", rackGroups(true, "a", "b"))), upstreamDiffers: upstream,
			world: world(schedtest.MakePodGroup(), nodes(holds("2"), "a1", "a2", "b1"), "g-0", "g-1"),
			binds: map[string]string{"g-0": "a1|a2", "g-1": "a1|a2"},
		},
		"a preferred gang takes the group without it": {
			conf: conf + "  - name: racks\n", plugins: append(avoiding("g", "a2"), nodeGroups("racks", rackGroups(false, "a", "b"))), upstreamDiffers: upstream,
			world: world(schedtest.MakePodGroup(), nodes(holds("2"), "a1", "a2", "b1", "b2"), "g-0", "g-1"),
			binds: map[string]string{"g-0": "b1|b2", "g-1": "b1|b2"},
		},
		"a preferred gang takes a group with it before it takes two without": {
			conf: conf + "  - name: racks\n", plugins: append(avoiding("g", "a1", "b2"), nodeGroups("racks", rackGroups(false, "a", "b"))), upstreamDiffers: upstream,
			world: world(schedtest.MakePodGroup(), nodes(holds("2"), "a1", "a2", "b1", "b2"), "g-0", "g-1"),
			binds: map[string]string{"g-0": "*", "g-1": "*"}, together: [][]string{{"g-0", "g-1"}},
		},
		"a preferred gang that needs two groups takes them without it": {
			conf: conf + "  - name: racks\n", plugins: append(avoiding("g", "a1"), nodeGroups("racks", rackGroups(false, "a", "b"))), upstreamDiffers: upstream,
			world: world(schedtest.MakePodGroup(), nodes(holds("2"), "a1", "a2", "b1", "b2"), "g-0", "g-1", "g-2"),
			binds: map[string]string{"g-0": "a2|b1|b2", "g-1": "a2|b1|b2", "g-2": "a2|b1|b2"},
		},
		"room elsewhere is not waited for": {
			conf: conf, plugins: avoiding("g", "n1"),
			world: func() sessiontest.ClusterSpec {
				w := world(schedtest.MakePodGroup(), nodes(holds("2"), "n1", "n2"), "g-0")
				w.Pods = append(w.Pods, leaving("n2", "2", "old-0")...)
				w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj())
				return w
			}(),
			binds: map[string]string{"g-0": "n1"},
		},
		"the whole gang takes the HyperNode without it": {
			conf: topological + "- plugins:\n  - name: avoiding\n", plugins: avoiding("g", "a2"), upstreamDiffers: upstream,
			world: func() sessiontest.ClusterSpec {
				w := world(schedtest.MakePodGroup().Topology(hard, 1), nodes(holds("2"), "a1", "a2", "b1", "b2"), "g-0", "g-1")
				w.HyperNodes = oneRow
				return w
			}(),
			binds: map[string]string{"g-0": "b1|b2", "g-1": "b1|b2"},
		},
		"a plugin that panics keeps the gang from being placed": {
			conf: conf, plugins: []framework.PluginSpec{plugin("avoiding", nothing, sessiontest.AvoidNodesFn(func(*api.JobInfo) []string { panic("test") }))}, upstreamDiffers: upstream,
			world: world(schedtest.MakePodGroup(), nodes(holds("2"), "n1"), "g-0"),
		},
	})
}
