// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"hash/maphash"
	"math"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/predicates"
)

// Shapes are kept up to a number at a time, which is maxSamples over the number of nodes: a shape holds some 50 bytes per
// node. It is no less than minShapes.
const (
	maxSamples = 640_000
	minShapes  = 64
)

// kind is tasks that are equal but for their identity, and that the same plugins couple.
type kind struct {
	number int
	// print is the same in each session.
	print  uint64
	layers *layers
	// shape is what is known of the kind's tasks; nil before one is asked for, and when it was dropped to save memory.
	shape *shape
}

// kindOf returns the task's kind.
func (a *allocation) kindOf(task *api.TaskInfo) *kind {
	if k, ok := a.kindOfTask[task.UID]; ok {
		return k
	}
	layers := a.layering.of(task) // may depend on the identity, too
	a.keyBuffer = append(appendShape(a.keyBuffer[:0], task, a.telling), layers.signature...)
	k, ok := a.kinds[string(a.keyBuffer)]
	if !ok {
		k = &kind{number: len(a.kinds), print: maphash.Bytes(a.memory.seed, a.keyBuffer), layers: layers}
		a.kinds[string(a.keyBuffer)] = k
	}
	a.kindOfTask[task.UID] = k
	return k
}

// shapeOf returns the task's shape. The error is of the pre-predicate of a task that is the first of its shape.
func (a *allocation) shapeOf(task *api.TaskInfo) (*shape, error) {
	k := a.kindOf(task)
	if k.shape == nil {
		if err := a.prePredicate(task); err != nil {
			return nil, err
		}
		if len(a.shapes) >= a.maxShapes {
			for _, old := range a.shapes {
				old.shape = nil
			}
			a.shapes = a.shapes[:0]
		}
		k.shape = &shape{layers: k.layers, task: task, samples: make([]sample, len(a.board.nodes)), fields: map[fieldKey]*field{},
			voices: map[string]*voice{}, barred: map[int32]error{}, rooms: map[*domain]*room{}, words: map[*api.FitError]string{}}
		a.shapes = append(a.shapes, k)
	}
	return k.shape, nil
}

// shape stands for tasks that no plugin of the layers kept and ofJob tells apart.
type shape struct {
	layers *layers
	// task is one of the tasks. Its pre-predicate has run, so predicates asked for it have their cycle state.
	task *api.TaskInfo
	// samples are by board number.
	samples []sample
	fields  map[fieldKey]*field
	// voices are by job key.
	voices map[string]*voice
	// barred are the nodes that the live layer refuses to all tasks of the shape, whatever is placed where.
	barred map[int32]error
	// rooms are what is known of the domains' room.
	rooms map[*domain]*room
	// words are verdicts in few words, as far as explanations asked for them.
	words map[*api.FitError]string
}

// prePredicate asks the plugins' pre-predicates, but for those that only prepare for preemption and take their time to.
func (a *allocation) prePredicate(task *api.TaskInfo) (err error) {
	with(a.ssn, a.prePredicates, func() { err = a.ssn.PrePredicateFn(task) })
	return err
}

// sample is what the layer kept says of one node.
type sample struct {
	// version is 1 + the node's when the verdict was asked, 0 for never; scored likewise for the score.
	version, scored uint32
	// copies is how many tasks of the shape the node takes by its idle resources, 0 when the predicates refuse it.
	copies int32
	// fits says that the predicates accept the node and that the task fits at least once what is being released is free.
	fits  bool
	score float64
	err   error
}

// ask brings the node's sample up to date.
func (a *allocation) ask(s *shape, node int32) *sample {
	sm := &s.samples[node]
	if sm.version == a.board.version[node]+1 {
		return sm
	}
	info := a.board.nodes[node]
	*sm = sample{version: a.board.version[node] + 1}
	if short := insufficient(s.task.InitResreq, info); len(short) > 0 {
		var statuses []*api.Status
		for _, name := range short {
			statuses = append(statuses, &api.Status{Code: api.Unschedulable, Reason: api.WrapInsufficientResourceReason([]string{name})})
		}
		sm.err = api.NewFitErrWithStatus(s.task, info, statuses...)
		return sm
	}
	err := a.predicate(s.layers.kept, s.task, info)
	if !a.layering.nothingKept {
		sm.err = err
	}
	sm.fits = sm.err == nil
	if err == nil {
		sm.copies = a.copies(s.task.InitResreq, info)
	}
	return sm
}

// scoreOf returns the layer kept's score of a node that fits.
func (a *allocation) scoreOf(s *shape, node int32) float64 {
	sm := a.ask(s, node)
	if sm.scored != sm.version {
		sm.scored = sm.version
		sm.score = a.nodeScore(s.layers.kept, s.task, a.board.nodes[node])
	}
	return sm.score
}

// futureIdle is what the node has when all that is being released is free and all that waits for it is placed.
func futureIdle(node *api.NodeInfo) *api.Resource {
	if node.Releasing.IsEmpty() && node.Pipelined.IsEmpty() {
		return node.Idle
	}
	return node.FutureIdle()
}

// insufficient returns the resources the node will not have enough of, by name.
func insufficient(request *api.Resource, node *api.NodeInfo) []string {
	idle := futureIdle(node)
	if request.LessEqual(idle, api.Zero) {
		return nil
	}
	_, short := request.LessEqualWithResourcesName(idle, api.Zero)
	slices.Sort(short)
	return short
}

// copies is how many such requests the node's idle resources take, by arithmetic.
func (a *allocation) copies(request *api.Resource, node *api.NodeInfo) int32 {
	if !request.LessEqual(node.Idle, api.Zero) {
		return 0
	}
	n := math.Inf(1)
	bound := func(request, idle float64) {
		if request > 0 {
			n = min(n, math.Floor((idle+0.5)/request))
		}
	}
	bound(request.MilliCPU, node.Idle.MilliCPU)
	bound(request.Memory, node.Idle.Memory)
	for name, value := range request.ScalarResources {
		bound(value, node.Idle.ScalarResources[name])
	}
	n = min(n, float64(a.slotsOf(node)))
	return int32(min(max(n, 1), math.MaxInt32))
}

// slotsOf is how many more pods the node takes.
func (a *allocation) slotsOf(node *api.NodeInfo) int {
	if !a.podSlots {
		return math.MaxInt32
	}
	return node.Allocatable.MaxTaskNum - len(node.Tasks)
}

// predicatesEnabled says whether the predicates plugin counts pods.
func (a *allocation) predicatesEnabled() bool {
	for _, tier := range a.ssn.Tiers {
		for _, option := range tier.Plugins {
			if option.Name == predicates.PluginName {
				return option.EnabledPredicate != nil && *option.EnabledPredicate
			}
		}
	}
	return false
}

// predicateSwitch says whether the predicates plugin, where it is enabled, has one of its parts switched on, as all are that
// its arguments do not name.
func (a *allocation) predicateSwitch(argument string) bool {
	on := true
	for _, tier := range a.ssn.Tiers {
		for _, option := range tier.Plugins {
			if option.Name == predicates.PluginName {
				vcframework.Arguments(option.Arguments).GetBool(&on, argument)
			}
		}
	}
	return a.podSlots && on
}

// predicate asks the layer's predicates as upstream's allocate does.
func (a *allocation) predicate(tiers []conf.Tier, task *api.TaskInfo, node *api.NodeInfo) (err error) {
	if len(tiers) == 0 {
		return nil
	}
	all := a.ssn.Tiers
	a.ssn.Tiers = tiers
	defer func() { a.ssn.Tiers = all }()
	return a.ssn.PredicateForAllocateAction(task, node)
}

// nodeScore sums the layer's scores of single nodes. A plugin that fails gives none, and says so in the log.
func (a *allocation) nodeScore(tiers []conf.Tier, task *api.TaskInfo, node *api.NodeInfo) (score float64) {
	if len(tiers) == 0 {
		return 0
	}
	with(a.ssn, tiers, func() {
		var err error
		if score, err = a.ssn.NodeOrderFn(task, node); err != nil {
			klog.ErrorS(err, "Scoring a node failed, it counts as 0", "pod", klog.KObj(task.Pod), "node", node.Name)
			score = 0
		}
	})
	return score
}
