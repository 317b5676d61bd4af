// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// gangLabel is the label of a pod with the name of its gang, and subLabel the label with the name of its sub-group.
const (
	gangLabel = "gang"
	subLabel  = "sub"
)

// gang builds a random PodGroup and its pods.
type gang struct {
	*cluster
	name  string
	roles []*role
	group *v1beta1.PodGroup
	// subGroups is the number of sub-groups to which the tasks are assigned in turn. 0 means no sub-groups.
	subGroups int
}

// role is a set of equal tasks.
type role struct {
	name  string
	count int
	asks  size
	// pod is the template of its pods.
	pod *v1.Pod
	// ownClaims gives each of its pods a separate claim.
	ownClaims bool
}

func (c *cluster) newGang(name string) *gang {
	b := schedtest.MakePodGroup().Name(name)
	if len(c.world.Queues) > 0 && c.chance(70) {
		b.Queue(pick(c.dice, c.world.Queues...).Name)
	}
	g := &gang{cluster: c, name: name, group: b.Obj()}
	if c.chance(20) {
		g.group.Spec.PriorityClassName = pick(c.dice, c.world.PriorityClasses...).Name
	}
	return g
}

func (g *gang) addRole(name string, count int, asks size) *role {
	pod := schedtest.MakePod().Group(g.name).Label(gangLabel, g.name).Req(asks.resources())
	if name != "" {
		pod.Role(name)
	}
	r := &role{name: name, count: count, asks: asks, pod: pod.Obj()}
	g.roles = append(g.roles, r)
	return r
}

// drawAlike gives the gang tasks of this size that may use any node.
func (g *gang) drawAlike(shape size) {
	g.addRole(pick(g.dice, "", "worker"), g.between(1, 10), shape)
	g.drawMinimum()
}

// drawRoles gives the gang up to three roles, with constraints between a pod and a node only.
func (g *gang) drawRoles() {
	tasks := g.between(1, 10)
	roles := min(tasks, pick(g.dice, 1, 1, 2, 3))
	for i := range roles {
		count := tasks
		if left := roles - i - 1; left > 0 {
			count = g.between(1, tasks-left)
		}
		tasks -= count
		r := g.addRole(fmt.Sprintf("role-%d", i), count, g.drawShape())
		if roles == 1 && g.chance(50) {
			delete(r.pod.Annotations, "volcano.sh/task-spec")
		}
		g.constrain(r.pod)
		if g.chance(10) {
			priority := int32(g.between(1, 3))
			r.pod.Spec.Priority = &priority
		}
	}
	g.drawMinimum()
}

func (g *gang) tasks() (n int) {
	for _, r := range g.roles {
		n += r.count
	}
	return n
}

func (g *gang) drawMinimum() {
	minimum := g.tasks()
	if g.chance(40) {
		minimum = g.between(1, minimum)
	}
	g.group.Spec.MinMember = int32(minimum)
	if len(g.roles) > 1 && g.chance(30) {
		g.group.Spec.MinTaskMember = map[string]int32{}
		for _, r := range g.roles {
			if g.chance(60) {
				g.group.Spec.MinTaskMember[r.name] = int32(g.between(1, r.count))
			}
		}
	}
}

// drawSubGroups assigns the tasks to sub-groups.
func (g *gang) drawSubGroups() {
	g.subGroups = g.between(1, min(3, g.tasks()))
	needed, each := int32(g.between(0, g.subGroups)), int32(max(1, g.tasks()/g.subGroups-g.IntN(2)))
	g.group.Spec.SubGroupPolicy = schedtest.MakePodGroup().SubGroups("sub", subLabel, needed, each).Obj().Spec.SubGroupPolicy
}

// nominate gives some roles a random nominated node.
func (g *gang) nominate() {
	for _, r := range g.roles {
		if g.chance(5) {
			r.pod.Status.NominatedNodeName = pick(g.dice, g.world.Nodes...).Name
		}
	}
}

// finish adds the gang to the cluster. Some of its pods may run already, have a scheduling gate, or have no requests.
func (g *gang) finish() {
	running := 0
	if g.chance(15) {
		running = g.between(1, g.tasks())
	}
	home := g.home()
	i := 0
	for _, r := range g.roles {
		for range r.count {
			pod := r.pod.DeepCopy()
			pod.Name = fmt.Sprintf("%s-%d", g.name, i)
			pod.UID = schedtest.MakePod().Name(pod.Name).Obj().UID
			if r.ownClaims {
				g.useClaim(pod)
			}
			if g.subGroups > 0 {
				pod.Labels[subLabel] = fmt.Sprint(i % g.subGroups)
			}
			i++
			if running > 0 && g.placeRunning(pod, r.asks, home) {
				running--
			} else {
				g.withhold(pod)
			}
			g.world.Pods = append(g.world.Pods, pod)
		}
	}
	g.world.PodGroups = append(g.world.PodGroups, g.group)
}

// placeRunning makes the pod run on a random node of home. It returns false if that node has no room.
func (g *gang) placeRunning(pod *v1.Pod, asks size, home []string) bool {
	node := home[g.IntN(len(home))]
	if !g.takeOn(node, asks) {
		return false
	}
	pod.Spec.NodeName, pod.Status.Phase, pod.Status.NominatedNodeName = node, v1.PodRunning, ""
	return true
}

// withhold turns a few pods into pods that allocate must not place: pods with a scheduling gate, or without requests.
func (g *gang) withhold(pod *v1.Pod) {
	if g.chance(2) {
		pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}}
		return
	}
	if g.chance(2) {
		pod.Spec.Containers[0].Resources.Requests = nil
	}
}
