// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

const (
	// maxPacked bounds how many tasks are packed by search.
	maxPacked = 64
	// maxPackingSteps bounds the search: nodes that are looked at for a task.
	maxPackingSteps = 100_000
)

// packing is a search for room for tasks of different sizes, in numbers only: depth first, the largest task first, the
// node it fills best first. A step back is what moves a smaller task out of a larger one's way. Nodes that are alike are
// tried once, and equal tasks go to nodes in ascending order, so no arrangement is looked at twice. When there are more
// tasks than are wanted, the search chooses among them.
type packing struct {
	tasks []packedTask
	nodes []packedNode
	// wanted is how many tasks must find room, and roles how many of a role, less those that have.
	wanted int
	roles  map[string]int32
	steps  int
	// at is the node of each task, by place in nodes, or leftOut.
	at []int
}

const leftOut = -1

type packedTask struct {
	task    *api.TaskInfo
	request []float64
	shape   *shape
	size    float64
	ports   []string
}

type packedNode struct {
	node  int32
	room  []float64
	slots int
	// ports are the host ports of tasks placed on the node in the search.
	ports map[string]bool
	// fits tells by shape whether the predicates accept the node.
	fits map[*shape]bool
}

// tryPacked searches room for so many of the first tasks and places them there, when every plugin still agrees.
func (a *allocation) tryPacked(job *api.JobInfo, subJob *api.SubJobInfo, tasks []*api.TaskInfo, first, wanted int, st site, now bool) band {
	if first > maxPacked || now && !a.roomFor(tasks[:first], wanted, st.domain) {
		return band{}
	}
	p := a.newPass(job, subJob, st, now)
	k, ok := a.newPacking(p, tasks[:first], wanted)
	if !ok || !k.search(0, 0) {
		return band{}
	}
	p.lacking = wanted
	for i, packed := range k.tasks {
		if k.at[i] == leftOut {
			continue
		}
		node := k.nodes[k.at[i]].node
		if !p.wanted(packed.task) || a.prePredicate(packed.task) != nil ||
			!p.putOn(packed.task, packed.shape, node) {
			p.discard()
			return band{}
		}
	}
	return p.end(untouched(tasks, first, p))
}

// roomFor says whether the domain may have room for so many of the tasks, kind by kind.
func (a *allocation) roomFor(tasks []*api.TaskInfo, wanted int, d *domain) bool {
	counts := map[*kind]int{}
	for _, task := range tasks {
		k := a.kindOf(task)
		if counts[k]++; k.shape == nil || a.capacity(k.shape, d) >= counts[k] {
			wanted--
		}
	}
	return wanted <= 0
}

// lackingRoles is how many tasks of each role the job's minimum lacks. The roles' minima do not
// count when they are more than the job's, which they only are where they are no minima.
func lackingRoles(job *api.JobInfo) map[string]int32 {
	if job.MinAvailable < job.TaskMinAvailableTotal {
		return nil
	}
	lacking := maps.Clone(job.TaskMinAvailable)
	for status, tasks := range job.TaskStatusIndex {
		for _, task := range tasks {
			if api.AllocatedStatus(status) || status == api.Succeeded || status == api.Pending && task.InitResreq.IsEmpty() {
				lacking[task.TaskRole]--
			}
		}
	}
	return lacking
}

// putOn places the task on the node when all verdicts still allow it.
func (p *pass) putOn(task *api.TaskInfo, s *shape, node int32) bool {
	f := p.a.fieldOf(s, p.site.domain, task)
	place, ok := f.local[node]
	if !ok || f.at[place] < 0 || p.now && !f.rank[place].class.now() {
		return false
	}
	if p.a.liveVerdict(task, s, node) != nil {
		return false
	}
	c := choice{node, f.rank[place].class}
	if p.verify(task, s, c) != nil || p.put(task, c) != nil {
		return false
	}
	p.follow(task)
	return true
}

func (a *allocation) newPacking(p *pass, tasks []*api.TaskInfo, wanted int) (*packing, bool) {
	k := &packing{at: make([]int, len(tasks)), wanted: wanted}
	if wanted < len(tasks) && a.gang {
		k.roles = lackingRoles(p.job)
	}
	names := resourceNames(tasks)
	var shapes []*shape
	var fields []*field
	for _, task := range tasks {
		s, err := a.shapeOf(task)
		if err != nil {
			return nil, false
		}
		if !slices.Contains(shapes, s) {
			shapes = append(shapes, s)
			fields = append(fields, a.fieldOf(s, p.site.domain, task))
		}
		k.tasks = append(k.tasks, packedTask{task, vector(task.InitResreq, names), s, a.dominantShare(task), hostPorts(task.Pod)})
	}
	slices.SortStableFunc(k.tasks, func(l, r packedTask) int {
		return cmp.Or(cmp.Compare(r.size, l.size), slices.Compare(r.request, l.request),
			cmp.Compare(slices.Index(shapes, l.shape), slices.Index(shapes, r.shape)))
	})
	k.nodes = a.packedNodes(p, fields, names, len(tasks))
	return k, true
}

// packedNodes lists the nodes that take a task of some shape, each of which has a field; of nodes that are alike no more than
// there are tasks.
func (a *allocation) packedNodes(p *pass, fields []*field, names []v1.ResourceName, tasks int) []packedNode {
	alike := map[string]int{}
	var out []packedNode
	var key []byte
	for place, node := range p.site.domain.nodes {
		info := a.board.nodes[node]
		n := packedNode{node: node, slots: a.slotsOf(info), ports: map[string]bool{}, fits: map[*shape]bool{}}
		key = key[:0]
		for _, f := range fields {
			fits := f.at[place] >= 0 && (!p.now || f.rank[place].class.now()) && f.packs(node)
			n.fits[f.shape] = fits
			key = appendBool(key, fits)
		}
		if !slices.Contains(slices.Collect(maps.Values(n.fits)), true) {
			continue
		}
		room := futureIdle(info)
		if p.now {
			room = info.Idle
		}
		n.room = vector(room, names)
		for _, value := range n.room {
			key = appendFloat(key, value)
		}
		key = appendFloat(key, float64(n.slots))
		if alike[string(key)] < tasks {
			alike[string(key)]++
			out = append(out, n)
		}
	}
	return out
}

// search places the tasks from i on; so many of those before are placed.
func (k *packing) search(i, placed int) bool {
	if placed >= k.wanted && k.rolesMet() {
		for ; i < len(k.tasks); i++ {
			k.at[i] = leftOut
		}
		return true
	}
	if i == len(k.tasks) || placed+len(k.tasks)-i < k.wanted || k.steps > maxPackingSteps {
		return false
	}
	t := &k.tasks[i]
	from := 0
	if i > 0 && k.tasks[i-1].shape == t.shape {
		from = k.at[i-1]
	}
	for _, n := range k.candidates(t, from) {
		k.steps++
		k.put(t, n, 1)
		k.at[i] = n
		if k.search(i+1, placed+1) {
			return true
		}
		k.put(t, n, -1)
		if k.steps > maxPackingSteps {
			return false
		}
	}
	next := i // an equal task in place of one that is left out is the same again
	for ; next < len(k.tasks) && k.tasks[next].shape == t.shape; next++ {
		k.at[next] = leftOut
	}
	return k.search(next, placed)
}

// put takes a task's request from the node, or gives it back when times is -1.
func (k *packing) put(t *packedTask, n, times int) {
	node := &k.nodes[n]
	node.slots -= times
	for r, value := range t.request {
		node.room[r] -= float64(times) * value
	}
	for _, port := range t.ports {
		if times > 0 {
			node.ports[port] = true
		} else {
			delete(node.ports, port)
		}
	}
	if k.roles != nil {
		k.roles[t.task.TaskRole] -= int32(times)
	}
}

func (k *packing) rolesMet() bool {
	for _, lacking := range k.roles {
		if lacking > 0 {
			return false
		}
	}
	return true
}

// candidates lists the nodes the task fits on, the one with the least room left first, of nodes that are alike one.
func (k *packing) candidates(t *packedTask, from int) []int {
	var fit []int
	k.steps += len(k.nodes) - from
	for n := from; n < len(k.nodes); n++ {
		if k.nodes[n].takes(t) && !slices.ContainsFunc(fit, func(other int) bool { return k.nodes[n].like(&k.nodes[other]) }) {
			fit = append(fit, n)
		}
	}
	left := func(n int) float64 {
		sum := 0.0
		for r, value := range t.request {
			if room := k.nodes[n].room[r]; room > 0 {
				sum += (room - value) / room
			}
		}
		return sum
	}
	slices.SortStableFunc(fit, func(l, r int) int { return cmp.Compare(left(l), left(r)) })
	return fit
}

func (n *packedNode) takes(t *packedTask) bool {
	if !n.fits[t.shape] || n.slots < 1 || slices.ContainsFunc(t.ports, func(port string) bool { return n.ports[port] }) {
		return false
	}
	for r, value := range t.request {
		if value > n.room[r]+0.01 {
			return false
		}
	}
	return true
}

func (n *packedNode) like(other *packedNode) bool {
	if n.slots != other.slots || !slices.Equal(n.room, other.room) || !maps.Equal(n.ports, other.ports) {
		return false
	}
	for s, fits := range n.fits {
		if other.fits[s] != fits {
			return false
		}
	}
	return true
}

func resourceNames(tasks []*api.TaskInfo) []v1.ResourceName {
	var names []v1.ResourceName
	for _, task := range tasks {
		for name := range task.InitResreq.ScalarResources {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// hostPorts names the host ports the pod asks for, whatever the address.
func hostPorts(pod *v1.Pod) []string {
	var ports []string
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.HostPort != 0 {
				ports = append(ports, fmt.Sprint(cmp.Or(port.Protocol, v1.ProtocolTCP), port.HostPort))
			}
		}
	}
	return ports
}

// vector lists the amounts of cpu, memory and the named resources.
func vector(r *api.Resource, names []v1.ResourceName) []float64 {
	out := []float64{r.MilliCPU, r.Memory}
	for _, name := range names {
		out = append(out, r.ScalarResources[name])
	}
	return out
}
