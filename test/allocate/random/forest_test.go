// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// levels are the node labels with the names of a node's groups, widest first.
var levels = []string{"cluster", "spine", "leaf"}

// wishAnnotation on a PodGroup states whether its gang requires or prefers one node group.
const (
	wishAnnotation = "node-groups"
	required       = "required"
	preferred      = "preferred"
)

// groups is a plugin that makes allocate keep gangs in node groups, which it reads from the nodes' labels. For a gang
// that requires a group and has placed members, their group is the only candidate.
type groups struct {
	framework.NoFilter
	forest *topology.Forest
}

const groupsName = "groups"

func groupsSpec() framework.PluginSpec {
	return framework.PluginSpec{
		Name: groupsName,
		Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) { return &groups{}, nil }),
	}
}

func (*groups) Name() string { return groupsName }

func (g *groups) OnSessionOpen(ssn *framework.Session) {
	var nodes []*v1.Node
	for _, node := range ssn.NodeList {
		nodes = append(nodes, node.Node)
	}
	g.forest = topology.NewLabels(levels...).Forest(nodes)
}

func (g *groups) Placement(job *api.JobInfo) (framework.Placement, error) {
	wish := job.PodGroup.Annotations[wishAnnotation]
	if wish == "" {
		return framework.Placement{}, nil
	}
	candidates := g.forest.At(0)
	for _, task := range job.Tasks {
		if home := g.forest.Of(task.NodeName, 0); wish == required && api.AllocatedStatus(task.Status) && home != nil {
			candidates = []*topology.Group{home}
		}
	}
	return framework.Placement{NodeGroups: &framework.NodeGroups{Required: wish == required, Candidates: candidates}}, nil
}

func (*groups) OnSessionClose(*framework.Session) {}

// forestMix has the parameters of instances with node groups.
type forestMix struct {
	gangs int
	wish  string
	// mixed gives the gang's tasks several sizes; otherwise they are equal. There are up to 8 of them.
	mixed bool
	// elastic lets gangs have more tasks than their minimum.
	elastic bool
	// conf is the configuration. An empty conf means the default.
	conf string
}

const forestConf = `actions: allocate
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
    arguments:
      predicate.VolumeBindingEnable: false
  - name: nodeorder
  - name: groups
`

// drawForest returns a cluster with groups, in which some nodes are tainted, cordoned or in use, and gangs that want
// one group.
func drawForest(seed uint64, m forestMix) instance {
	c := &cluster{dice: newDice(seed, 5), room: map[string]size{}, slots: map[string]int{}}
	clusters, spines, leaves := c.between(1, 4), c.between(1, 2), c.between(1, 3)
	for i := range c.between(2, 24) {
		has := size{1000 * c.between(1, 6), c.between(1, 8), pick(c.dice, 0, 0, 2)}
		pods := pick(c.dice, 3, 110, 110)
		b := schedtest.MakeNode().Name(fmt.Sprintf("node-%02d", i)).Capacity(has.capacity(pods))
		// A path may end at any level. Nodes without the first label are in no group.
		for level, width := range []int{clusters, spines, leaves} {
			if c.chance(6) {
				break
			}
			b.Label(levels[level], fmt.Sprintf("%s-%d", levels[level], c.IntN(width)))
		}
		node := b.Obj()
		if c.chance(8) {
			node.Spec.Taints = []v1.Taint{{Key: "broken", Effect: v1.TaintEffectNoSchedule}}
		}
		node.Spec.Unschedulable = c.chance(6)
		c.world.Nodes = append(c.world.Nodes, node)
		c.room[node.Name], c.slots[node.Name] = has, pods
	}
	c.drawBystanders()
	for i := range c.between(1, m.gangs) {
		c.drawForestGang(fmt.Sprintf("gang-%d", i), m)
	}
	conf := m.conf
	if conf == "" {
		conf = forestConf
	}
	return instance{seed: seed, world: c.world, conf: conf}
}

func (c *cluster) drawForestGang(name string, m forestMix) {
	tasks := c.between(1, 16)
	if m.mixed {
		tasks = c.between(2, 8)
	}
	wish := m.wish
	if wish == "" {
		wish = pick(c.dice, required, preferred)
	}
	group := schedtest.MakePodGroup().Name(name).MinMember(int32(tasks)).Obj()
	group.Annotations[wishAnnotation] = wish
	group.Annotations[ibclusterModeAnnotation] = wish
	if m.elastic {
		group.Spec.MinMember = int32(c.between(1, tasks))
	}
	asks := size{500 * c.between(1, 4), c.IntN(3), 0}
	for i := range tasks {
		if m.mixed {
			asks = size{500 * c.between(1, 8), c.IntN(4), c.IntN(5) / 4}
		}
		c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name(fmt.Sprintf("%s-%d", name, i)).Group(name).Label(gangLabel, name).Req(asks.resources()).Obj())
	}
	c.world.PodGroups = append(c.world.PodGroups, group)
}
