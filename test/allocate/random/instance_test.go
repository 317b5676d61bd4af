// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// instance is a random cluster with its workload and its configuration.
type instance struct {
	seed  uint64
	world sessiontest.ClusterSpec
	conf  string
	// prepare, if not nil, makes changes that a ClusterSpec cannot express before the session opens.
	prepare func(*sessiontest.Cluster)
}

// mix has the parameters of random instances.
type mix struct {
	// gangs is the maximum number of gangs.
	gangs int
	// alike makes the tasks of all gangs equal except for the gang's name: one size, and no constraint between pods.
	// The number of tasks that fit then does not depend on the placement.
	alike bool
	// coupled is the percentage of gangs whose pods constrain each other: affinity, spread, host ports.
	coupled int
	// subGroups is the percentage of gangs with sub-groups.
	subGroups int
	// topology adds HyperNodes, and gangs that require or prefer one.
	topology bool
	// subGroupTierNames lets sub-groups give their tier by name. Upstream does not apply such a name: it places
	// sub-groups that the tier forbids, or does not try to place them.
	subGroupTierNames bool
	// volumes is the percentage of gangs with claims of the inventory.
	volumes int
}

// instance returns the instance of a seed, which is always the same. It shares no object with earlier instances,
// because a session may change its pods.
func (m mix) instance(seed uint64) instance {
	c := &cluster{dice: newDice(seed, 0), room: map[string]size{}, slots: map[string]int{}}
	c.drawNodes(c.between(1, pick(c.dice, 4, 10, 30)))
	if m.topology {
		c.drawHyperNodes()
	}
	c.drawQueues()
	c.drawBystanders()
	shape := c.drawShape()
	for i := range c.between(1, m.gangs) {
		g := c.newGang(fmt.Sprintf("gang-%d", i))
		if m.alike {
			g.drawAlike(shape)
		} else {
			g.drawRoles()
			if c.chance(m.coupled) {
				g.couple()
			}
			if m.volumes > 0 && c.chance(m.volumes) {
				g.claim()
			}
			g.nominate()
		}
		if c.chance(m.subGroups) {
			g.drawSubGroups()
		}
		if m.topology {
			g.drawTopology(m.subGroupTierNames)
		}
		g.finish()
	}
	return instance{seed: seed, world: c.world, conf: m.conf(newDice(seed, 1))}
}

// conf returns a configuration with random plugins. Gang and predicates are always included, because they enforce the
// constraints.
func (m mix) conf(d dice) string {
	second := []string{"drf", fmt.Sprintf("predicates\n    arguments:\n      predicate.VolumeBindingEnable: %t", m.volumes > 0)}
	second = append(second, pick(d, "proportion", "capacity", ""))
	second = append(second, pick(d, "nodeorder", "nodeorder", "binpack", ""))
	if m.topology {
		second = append(second, "network-topology-aware")
	}
	var b strings.Builder
	b.WriteString("actions: allocate\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n- plugins:\n")
	for _, plugin := range second {
		if plugin != "" {
			fmt.Fprintf(&b, "  - name: %s\n", plugin)
		}
	}
	return b.String()
}

// cluster builds the random cluster of an instance.
type cluster struct {
	dice
	world sessiontest.ClusterSpec
	// room and slots are the resources and the pod slots that each node has left for pods that run before the session.
	room  map[string]size
	slots map[string]int
	// leaves are the nodes of each HyperNode of the lowest tier.
	leaves [][]string
	// claimed is the number of claims of the inventory in use.
	claimed int
}

const (
	zone = v1.LabelTopologyZone
	disk = "disk"
	app  = "app"
)

func (c *cluster) drawNodes(n int) {
	big := c.chance(30)
	for i := range n {
		has := size{pick(c.dice, 2000, 4000, 6000, 8000), pick(c.dice, 4, 8, 16), pick(c.dice, 0, 0, 2, 4)}
		if big {
			has = has.times(2)
		}
		pods := pick(c.dice, 3, 6, 110, 110, 110)
		b := schedtest.MakeNode().Name(fmt.Sprintf("node-%02d", i)).Capacity(has.capacity(pods))
		if !c.chance(10) {
			b.Label(zone, fmt.Sprintf("zone-%d", c.IntN(3)))
		}
		if c.chance(50) {
			b.Label(disk, pick(c.dice, "ssd", "hdd"))
		}
		node := b.Obj()
		if c.chance(15) {
			node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: "dedicated", Value: pick(c.dice, "a", "b"), Effect: v1.TaintEffectNoSchedule})
		}
		if c.chance(5) {
			node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: "slow", Effect: v1.TaintEffectPreferNoSchedule})
		}
		node.Spec.Unschedulable = c.chance(8)
		c.world.Nodes = append(c.world.Nodes, node)
		c.room[node.Name], c.slots[node.Name] = has, pods
	}
}

func (c *cluster) drawQueues() {
	for i := range c.IntN(3) {
		queue := schedtest.MakeQueue().Name(fmt.Sprintf("queue-%d", i)).Weight(int32(c.between(1, 4))).Obj()
		if c.chance(30) {
			queue.Spec.Capability = v1.ResourceList{v1.ResourceCPU: resource.MustParse(fmt.Sprint(c.between(2, 20)))}
		}
		c.world.Queues = append(c.world.Queues, queue)
	}
	for _, value := range []int32{10, 20} {
		c.world.PriorityClasses = append(c.world.PriorityClasses, &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("priority-%d", value)}, Value: value,
		})
	}
}

// drawBystanders adds running pods of other schedulers, and terminating pods.
func (c *cluster) drawBystanders() {
	share := pick(c.dice, 0, 30, 80)
	for i := range 2 * len(c.world.Nodes) {
		if !c.chance(share) {
			continue
		}
		asks := c.drawShape()
		node, ok := c.take(asks)
		if !ok {
			continue
		}
		b := schedtest.MakePod().Name(fmt.Sprintf("bystander-%d", i)).Scheduler("default-scheduler").Req(asks.resources()).Node(node).Phase(v1.PodRunning).
			Label(app, fmt.Sprintf("app-%d", c.IntN(3)))
		if c.chance(25) {
			b.Terminating()
		}
		pod := b.Obj()
		if c.chance(10) {
			pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term(pick(c.dice, zone, v1.LabelHostname), app, fmt.Sprintf("app-%d", c.IntN(3)))},
			}}
		}
		if c.chance(10) {
			pod.Spec.Containers[0].Ports = []v1.ContainerPort{hostPort(c.between(8000, 8001))}
		}
		c.world.Pods = append(c.world.Pods, pod)
	}
}

// take returns a node with room for a pod that runs already.
func (c *cluster) take(asks size) (string, bool) {
	for _, i := range c.Perm(len(c.world.Nodes)) {
		name := c.world.Nodes[i].Name
		if c.takeOn(name, asks) {
			return name, true
		}
	}
	return "", false
}

func (c *cluster) takeOn(node string, asks size) bool {
	if !asks.fits(c.room[node]) || c.slots[node] == 0 {
		return false
	}
	c.room[node] = c.room[node].minus(asks)
	c.slots[node]--
	return true
}

func (c *cluster) drawShape() size {
	shape := size{pick(c.dice, 500, 1000, 1000, 2000, 3000), pick(c.dice, 0, 1, 2, 4), 0}
	if c.chance(20) {
		shape.gpus = c.between(1, 2)
	}
	return shape
}
