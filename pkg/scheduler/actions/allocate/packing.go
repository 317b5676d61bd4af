package allocate

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

const (
	// maxPacked bounds how many tasks are packed by search.
	maxPacked = 64
	// maxPackingSteps bounds the search: nodes that are looked at for a task.
	maxPackingSteps = 500_000
)

// packing is a search for room for tasks of different sizes, in numbers only: depth first, the largest task first, the
// node it fills best first. A step back is what moves a smaller task out of a larger one's way. Nodes that are alike are
// tried once, and equal tasks go to nodes in ascending order, so no arrangement is looked at twice.
type packing struct {
	tasks []packedTask
	nodes []packedNode
	steps int
	// at is the node of each task, by place in nodes.
	at []int
}

type packedTask struct {
	task    *api.TaskInfo
	request []float64
	shape   *shape
	size    float64
}

type packedNode struct {
	node  int32
	room  []float64
	slots int
	// fits tells by shape whether the predicates accept the node.
	fits map[*shape]bool
}

// tryPacked searches room for all of the minimum and places it there, when every plugin still agrees.
func (a *allocation) tryPacked(job *api.JobInfo, subJob *api.SubJobInfo, tasks, minimum []*api.TaskInfo, st site, now bool) band {
	if len(minimum) > maxPacked {
		return band{}
	}
	if now && !a.roomFor(minimum, st.domain) {
		return band{}
	}
	p := a.newPass(job, subJob, st, now)
	k, ok := a.newPacking(p, minimum)
	if !ok || !k.search(0) {
		return band{}
	}
	p.lacking = len(minimum)
	for i, packed := range k.tasks {
		node := k.nodes[k.at[i]].node
		if !p.wanted(packed.task) || a.prePredicate(packed.task) != nil ||
			!p.putOn(packed.task, packed.shape, node) {
			p.discard()
			return band{}
		}
	}
	return p.end(a.untouched(tasks, p))
}

// roomFor says whether the domain may have room for the tasks, kind by kind.
func (a *allocation) roomFor(tasks []*api.TaskInfo, d *domain) bool {
	counts := map[*kind]int{}
	for _, task := range tasks {
		k := a.kindOf(task)
		if counts[k]++; k.shape != nil && a.capacity(k.shape, d) < counts[k] {
			return false
		}
	}
	return true
}

// putOn places the task on the node when all verdicts still allow it.
func (p *pass) putOn(task *api.TaskInfo, s *shape, node int32) bool {
	f := p.a.fieldOf(s, p.site.domain, p.job)
	place, ok := f.local[node]
	if !ok || f.at[place] < 0 || p.now && !f.rank[place].class.now() {
		return false
	}
	info := p.a.board.nodes[node]
	if p.a.exclusions.refuses(task, info) != nil || p.a.predicate(s.layers.live, task, info) != nil {
		return false
	}
	c := choice{node, f.rank[place].class}
	if p.verify(task, s, c) != nil || p.put(task, c) != nil {
		return false
	}
	p.follow(task)
	return true
}

func (a *allocation) newPacking(p *pass, minimum []*api.TaskInfo) (*packing, bool) {
	k := &packing{at: make([]int, len(minimum))}
	names := resourceNames(minimum)
	var shapes []*shape
	for _, task := range minimum {
		s, err := a.shapeOf(task)
		if err != nil {
			return nil, false
		}
		if !slices.Contains(shapes, s) {
			shapes = append(shapes, s)
		}
		k.tasks = append(k.tasks, packedTask{task, vector(task.InitResreq, names), s, a.dominantShare(task)})
	}
	slices.SortStableFunc(k.tasks, func(l, r packedTask) int {
		return cmp.Or(cmp.Compare(r.size, l.size), slices.Compare(r.request, l.request),
			cmp.Compare(slices.Index(shapes, l.shape), slices.Index(shapes, r.shape)))
	})
	k.nodes = a.packedNodes(p, shapes, names, len(minimum))
	return k, true
}

// packedNodes lists the nodes that take a task of some shape; of nodes that are alike no more than there are tasks.
func (a *allocation) packedNodes(p *pass, shapes []*shape, names []v1.ResourceName, tasks int) []packedNode {
	fields := make([]*field, len(shapes))
	for i, s := range shapes {
		fields[i] = a.fieldOf(s, p.site.domain, p.job)
	}
	alike := map[string]int{}
	var out []packedNode
	var key []byte
	for place, node := range p.site.domain.nodes {
		info := a.board.nodes[node]
		n := packedNode{node: node, slots: a.slotsOf(info), fits: map[*shape]bool{}}
		key = key[:0]
		for i, f := range fields {
			fits := f.at[place] >= 0 && (!p.now || f.rank[place].class.now())
			n.fits[shapes[i]] = fits
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

// search places the tasks from i on.
func (k *packing) search(i int) bool {
	if i == len(k.tasks) {
		return true
	}
	t := &k.tasks[i]
	from := 0
	if i > 0 && k.tasks[i-1].shape == t.shape {
		from = k.at[i-1]
	}
	for _, n := range k.candidates(t, from) {
		if k.steps++; k.steps > maxPackingSteps {
			return false
		}
		node := &k.nodes[n]
		node.slots--
		for r, value := range t.request {
			node.room[r] -= value
		}
		k.at[i] = n
		if k.search(i + 1) {
			return true
		}
		node.slots++
		for r, value := range t.request {
			node.room[r] += value
		}
	}
	return false
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
	if !n.fits[t.shape] || n.slots < 1 {
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
	if n.slots != other.slots || !slices.Equal(n.room, other.room) {
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

// vector lists the amounts of cpu, memory and the named resources.
func vector(r *api.Resource, names []v1.ResourceName) []float64 {
	out := []float64{r.MilliCPU, r.Memory}
	for _, name := range names {
		out = append(out, r.ScalarResources[name])
	}
	return out
}
