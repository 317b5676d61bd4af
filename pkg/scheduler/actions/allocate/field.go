// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"container/heap"
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	"volcano.sh/volcano/pkg/scheduler/util"
	vcutil "volcano.sh/volcano/pkg/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// fieldKey tells the fields of one shape apart.
type fieldKey struct {
	domain *domain
	// job is the key of the jobs the field's verdicts hold for; empty for all jobs.
	job string
}

// field is the nodes of a domain that take a task of a shape, best first. Its verdicts leave out the live layer.
type field struct {
	a     *allocation
	key   fieldKey
	shape *shape
	// ofJob is the layer of that name, as far as it is asked, and voice the task that it is asked about.
	ofJob []conf.Tier
	voice *voice
	*domain
	// heap holds the nodes that fit; at is a node's place in it or -1, both by place in the domain.
	heap []int32
	at   []int32
	rank []rank
	// batch are the scores of plugins that score nodes together, scored the places that were among them. late says that a node
	// came to fit that was not: in a trial another task had filled it.
	batch  map[string]float64
	scored []bool
	late   bool
	// seen is how much of the board's log is taken in. scanned is how many of the domain's nodes have been looked at:
	// all, unless the user has asked for sampling.
	seen, scanned int
	// errors are the verdicts when nothing fits, at the board's state errorsAt.
	errors   *api.FitErrors
	errorsAt int
}

// rank orders nodes: a lower class first, then the higher score, then the name.
type rank struct {
	class rankClass
	score float64
}

// rankClass says where a node's room for the task is: idle before being released, this scheduler's shard before others.
type rankClass uint8

const (
	idleInShard rankClass = iota
	idleElsewhere
	futureInShard
	futureElsewhere
)

func (c rankClass) now() bool { return c <= idleElsewhere }

func (r rank) before(other rank) (less, equal bool) {
	if r.class != other.class {
		return r.class < other.class, false
	}
	if r.score != other.score {
		return r.score > other.score, false
	}
	return false, true
}

var _ heap.Interface = (*field)(nil)

func (f *field) Len() int { return len(f.heap) }

func (f *field) Less(i, j int) bool {
	l, r := f.heap[i], f.heap[j]
	less, equal := f.rank[l].before(f.rank[r])
	return less || equal && l < r
}

func (f *field) Swap(i, j int) {
	f.heap[i], f.heap[j] = f.heap[j], f.heap[i]
	f.at[f.heap[i]], f.at[f.heap[j]] = int32(i), int32(j)
}

func (f *field) Push(x any) {
	f.at[x.(int32)] = int32(len(f.heap))
	f.heap = append(f.heap, x.(int32))
}

func (f *field) Pop() any {
	last := f.heap[len(f.heap)-1]
	f.heap = f.heap[:len(f.heap)-1]
	f.at[last] = -1
	return last
}

// voice is a task that speaks for all tasks of a shape in jobs of one key, where the layer ofJob is asked.
type voice struct {
	task *api.TaskInfo
	// err is of the task's pre-predicate, which has run.
	err error
}

// voiceOf returns who speaks for the task where the layer ofJob is asked: a task of its own job, or of one with the same key.
func (a *allocation) voiceOf(s *shape, task *api.TaskInfo, jobKey string) *voice {
	if v, ok := s.voices[jobKey]; ok {
		return v
	}
	v := &voice{task: task}
	if task != s.task {
		v.err = a.prePredicate(task)
	}
	s.voices[jobKey] = v
	return v
}

// fieldOf returns the shape's field on the domain for tasks such as this one, which is of the shape, up to date.
func (a *allocation) fieldOf(s *shape, d *domain, task *api.TaskInfo) *field {
	ofJob, jobKey := s.layers.jobLayer(a.ssn, a.ssn.Jobs[task.Job], a.inside)
	key := fieldKey{domain: d, job: jobKey}
	f, ok := s.fields[key]
	if !ok {
		f = &field{a: a, key: key, shape: s, ofJob: ofJob, domain: d, at: make([]int32, len(d.nodes)), rank: make([]rank, len(d.nodes)),
			scored: make([]bool, len(d.nodes)), seen: len(a.board.changes), errorsAt: -1}
		if len(ofJob) > 0 {
			f.voice = a.voiceOf(s, task, jobKey)
		}
		for i := range f.at {
			f.at[i] = -1
		}
		s.fields[key] = f
		if strings.Contains(key.job, string(task.Job)) {
			a.ofJob = append(a.ofJob, f)
		}
	}
	f.update()
	return f
}

// update takes in what has changed on the board.
func (f *field) update() {
	changes := f.a.board.changes[f.seen:]
	f.seen = len(f.a.board.changes)
	for _, node := range changes {
		if place, ok := f.local[node]; ok && int(place) < f.scanned {
			f.look(place)
		}
	}
	if f.late {
		f.scoreAnew()
	}
	if f.scanned == len(f.nodes) || len(f.heap) >= f.a.enough(len(f.nodes)) {
		return
	}
	f.scan()
}

// scan looks at nodes not seen yet until there are enough that fit.
func (f *field) scan() {
	enough := f.a.enough(len(f.nodes))
	var fresh []*api.NodeInfo
	from := f.scanned
	for fits := len(f.heap); f.scanned < len(f.nodes) && fits < enough; f.scanned++ {
		node := f.nodes[f.scanned]
		if f.verdict(node) == nil {
			fits++
			fresh = append(fresh, f.a.board.nodes[node])
		}
	}
	if len(fresh) == 0 {
		return
	}
	f.batchScore(fresh)
	for place := from; place < f.scanned; place++ {
		f.look(int32(place))
	}
}

// scoreAnew scores all nodes that fit together.
func (f *field) scoreAnew() {
	f.batch, f.late = nil, false
	fit := slices.Clone(f.heap)
	nodes := make([]*api.NodeInfo, len(fit))
	for i, place := range fit {
		nodes[i] = f.a.board.nodes[f.nodes[place]]
	}
	f.batchScore(nodes)
	for _, place := range fit {
		f.look(place)
	}
}

// enough is how many nodes that fit are looked for among so many: all, unless upstream's sampling flags were set.
func (a *allocation) enough(nodes int) int {
	if !a.sampled {
		return nodes
	}
	return int(util.CalculateNumOfFeasibleNodesToFind(int32(nodes)))
}

// samplingWanted says whether a user has set one of upstream's flags that leave nodes out, of which the others have these
// defaults.
func samplingWanted(defaults *options.ServerOption) bool {
	set := options.ServerOpts
	if percentage := set.PercentageOfNodesToFind; percentage > 0 {
		return percentage < 100
	}
	return set.MinNodesToFind != defaults.MinNodesToFind || set.MinPercentageOfNodesToFind != defaults.MinPercentageOfNodesToFind
}

// defaultOptions are upstream's flags as they are when none is set.
func defaultOptions() *options.ServerOption {
	defaults := options.NewServerOption()
	defaults.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return defaults
}

// verdict is what the layers kept and ofJob say of the node.
func (f *field) verdict(node int32) error {
	info := f.a.board.nodes[node]
	if options.ServerOpts.ShardingMode == vcutil.HardShardingMode && !f.a.ssn.NodesInShard.Has(info.Name) {
		return errOtherShard
	}
	sm := f.a.ask(f.shape, node)
	if sm.err != nil {
		return sm.err
	}
	if err := f.shape.barred[node]; err != nil && !f.a.layering.nothingKept {
		return err
	}
	if f.a.layering.nothingKept {
		return nil
	}
	return f.ofJobVerdict(info)
}

// ofJobVerdict is what the layer ofJob says of the node.
func (f *field) ofJobVerdict(node *api.NodeInfo) error {
	switch {
	case f.voice == nil:
		return nil
	case f.voice.err != nil:
		return f.voice.err
	default:
		return f.a.predicate(f.ofJob, f.voice.task, node)
	}
}

// packs says whether a task of the shape may be packed on the node, which has room for it: by what is kept, or would be.
func (f *field) packs(node int32) bool {
	if !f.a.layering.nothingKept {
		return true // else it would have no place in the heap
	}
	info := f.a.board.nodes[node]
	return f.shape.barred[node] == nil && f.a.predicate(f.shape.layers.kept, f.shape.task, info) == nil && f.ofJobVerdict(info) == nil
}

// bar takes out the nodes that refuse the shape's tasks for good, of those that the live layer refused.
func (f *field) bar(refused map[int32]error) {
	for node, err := range refused {
		if lasting(err) {
			f.shape.barred[node] = err
			f.look(f.local[node])
		}
	}
}

// look brings one node's place in the heap up to date.
func (f *field) look(place int32) {
	node := f.nodes[place]
	if f.verdict(node) != nil {
		if f.at[place] >= 0 {
			heap.Remove(f, int(f.at[place]))
		}
		return
	}
	f.late = f.late || !f.scored[place] && !f.a.layering.nothingKept
	f.rank[place] = rank{class: f.a.classOf(f.shape.task, f.a.board.nodes[node]), score: f.score(node)}
	if f.at[place] >= 0 {
		heap.Fix(f, int(f.at[place]))
	} else {
		heap.Push(f, place)
	}
}

func (f *field) score(node int32) float64 {
	if f.a.layering.nothingKept {
		return 0
	}
	info := f.a.board.nodes[node]
	score := f.a.scoreOf(f.shape, node) + f.batch[info.Name]
	if f.voice != nil {
		score += f.a.nodeScore(f.ofJob, f.voice.task, info)
	}
	return steady(score)
}

// steady rounds a sum of scores. Upstream's plugins add them up in the order of a map, and what is kept is added up in another
// order than what is asked: without it a tie would be broken by the last bit of a float.
func steady(score float64) float64 { return math.Round(score*1e6) / 1e6 }

// batchScore asks the plugins that score nodes together. A node's score stays what it was among the nodes it was asked with.
func (f *field) batchScore(nodes []*api.NodeInfo) {
	if f.a.layering.nothingKept {
		return
	}
	if f.batch == nil {
		f.batch = map[string]float64{}
	}
	for _, node := range nodes {
		f.scored[f.local[f.a.board.index[node.Name]]] = true
	}
	kept := f.shape.layers.batch
	if framework.HasClaims(f.shape.task.Pod) {
		kept = f.shape.layers.kept
	}
	f.addBatchScores(kept, f.shape.task, nodes)
	if f.voice != nil {
		f.addBatchScores(f.ofJob, f.voice.task, nodes)
	}
}

func (f *field) addBatchScores(layer []conf.Tier, task *api.TaskInfo, nodes []*api.NodeInfo) {
	if len(layer) == 0 {
		return
	}
	with(f.a.ssn, layer, func() {
		scores, err := f.a.ssn.BatchNodeOrderFn(task, nodes)
		if err != nil {
			klog.ErrorS(err, "Scoring nodes together failed, they count as 0", "pod", klog.KObj(task.Pod))
			return
		}
		for _, node := range nodes {
			if score := scores[node.Name]; score != 0 {
				f.batch[node.Name] += score
			}
		}
	})
}

// classOf says where the node's room for the task is; the node must have it.
func (a *allocation) classOf(task *api.TaskInfo, node *api.NodeInfo) rankClass {
	class := futureInShard
	if task.InitResreq.LessEqual(node.Idle, api.Zero) {
		class = idleInShard
	}
	if options.ServerOpts.ShardingMode == vcutil.SoftShardingMode && !a.ssn.NodesInShard.Has(node.Name) {
		class++
	}
	return class
}

// fitErrors are the verdicts on every node of the domain, for a task that fits on none. Equal tasks share them.
func (f *field) fitErrors() *api.FitErrors {
	if f.errorsAt == f.seen {
		return f.errors
	}
	f.errors, f.errorsAt = api.NewFitErrors(), f.seen
	for _, node := range f.nodes {
		if err := f.verdict(node); err != nil {
			f.errors.SetNodeError(f.a.board.nodes[node].Name, err)
		}
	}
	if f.name != "" {
		f.errors.SetHyperNode(f.name)
	}
	return f.errors
}
