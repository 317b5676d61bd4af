// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"encoding/binary"
	"hash/maphash"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/fragmentation"
)

// strategy has the inputs for choosing a task's devices on a node. context is a hash of all inputs except the node's
// devices and the request. It is part of the keys of cached verdicts.
type strategy struct {
	options   allocator.Options
	alignment alignment
	context   uint64
}

// strategyFor returns the strategy for placing a task on a node. free are the node's free resources before the task is
// placed. The caller holds s.mu.
func (s *session) strategyFor(task *api.TaskInfo, node *api.NodeInfo, free *api.Resource) strategy {
	templates := s.common.templates.current.Load()
	of := strategy{alignment: s.alignmentOf(task, node), options: allocator.Options{Templates: templates.Templates}, context: templates.number}
	switch s.common.strategy.Type {
	case leastAllocated:
		of.options.Strategy = allocator.LeastAllocated{Weights: s.common.strategy.weights()}
	case mostAllocated:
		of.options.Strategy = allocator.MostAllocated{Weights: s.common.strategy.weights()}
	default:
		before := fragmentation.Room{MilliCPU: int64(free.MilliCPU), Memory: int64(free.Memory)}
		after := fragmentation.Room{MilliCPU: before.MilliCPU - int64(task.InitResreq.MilliCPU), Memory: before.Memory - int64(task.InitResreq.Memory)}
		of.options.Strategy = s.classesNow().StrategyFor(before, after)
		of.options.ScoreFirst = true
		of.context = s.contextOf(of.context, s.history().version, uint64(before.MilliCPU), uint64(before.Memory), uint64(after.MilliCPU), uint64(after.Memory))
	}
	for _, id := range of.alignment.nodes {
		of.context = s.contextOf(of.context, uint64(id))
	}
	if of.alignment.must {
		of.context = s.contextOf(of.context)
	}
	return of
}

func (s *session) contextOf(numbers ...uint64) uint64 {
	var room [64]byte
	b := room[:0]
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return maphash.Bytes(s.common.verdicts.seed, b)
}

// weights returns the configured weight of each resource. If the configuration has no weights, all resources have equal
// weights.
func (s *scoringStrategy) weights() (weights allocator.Weights) {
	for _, r := range s.Resources {
		if at, known := allocator.ResourceOf(r.Name); known {
			weights[at] = float64(r.Weight)
		}
	}
	if len(s.Resources) == 0 {
		for _, at := range []allocator.Resource{allocator.MemoryRatio, allocator.Memory, allocator.RDMAShare, allocator.FPGAShare} {
			weights[at] = 1
		}
	}
	return weights
}

// history counts the classes of recent tasks. The fragmentation strategy keeps nodes usable for tasks of these classes.
type history struct {
	classes *fragmentation.Histogram
	// counted has the UIDs of existing pods that the histogram has counted.
	counted map[types.UID]bool
	// last are the classes of recent tasks that the latest session computed. version counts how often the classes have
	// changed.
	last    *fragmentation.TaskClasses
	version uint64
}

func newHistory() *history {
	return &history{classes: fragmentation.NewHistogram(), counted: map[types.UID]bool{}}
}

// history returns the history of task classes, which all sessions share.
func (s *session) history() *history { return s.common.inventories.devices.history }

// classesNow returns the classes of recent tasks. It computes them once in a session. The caller holds s.mu.
func (s *session) classesNow() *fragmentation.TaskClasses {
	if s.classes != nil {
		return s.classes
	}
	history := s.history()
	there := make(map[types.UID]bool, len(history.counted))
	for _, job := range s.ssn.Jobs {
		for _, task := range job.Tasks {
			uid := task.Pod.UID
			if !history.counted[uid] {
				if request := s.known(task); request != nil && request.err == nil {
					history.classes.Add(taskClassOf(task, request))
				}
			}
			there[uid] = true
		}
	}
	history.counted = there
	history.classes.SetSupply(s.supply)
	s.classes = history.classes.TaskClasses()
	if s.classes != history.last {
		history.last = s.classes
		history.version++
	}
	return s.classes
}

// taskClassOf returns the class of the task for the fragmentation strategy. The class has the task's CPU, memory, GPUs,
// NICs and allowed GPU models.
func taskClassOf(task *api.TaskInfo, request *request) fragmentation.TaskClass {
	class := fragmentation.TaskClass{
		MilliCPU: int64(task.InitResreq.MilliCPU), Memory: int64(task.InitResreq.Memory), Models: fragmentation.Models(modelsOf(task.Pod)...),
	}
	amounts, count, _ := request.Wants(allocator.GPU)
	class.GPUs, class.Core, class.GPUMemory = int64(count), amounts[allocator.Core], amounts[allocator.MemoryRatio]
	amounts, count, _ = request.Wants(allocator.RDMA)
	class.NICs, class.NICShare = int64(count), amounts[allocator.RDMAShare]
	return class
}

// modelsOf returns the GPU models that the pod allows by its node selector or node affinity; nil if the pod allows any
// model.
func modelsOf(pod *v1.Pod) []string {
	if model, ok := pod.Spec.NodeSelector[schedulingv1alpha1.GPUModelLabel]; ok {
		return []string{model}
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil || pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	var models []string
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		named := false
		for _, rule := range term.MatchExpressions {
			if rule.Key == schedulingv1alpha1.GPUModelLabel && rule.Operator == v1.NodeSelectorOpIn {
				models, named = append(models, rule.Values...), true
			}
		}
		if !named { // this term of the node affinity allows any GPU model
			return nil
		}
	}
	return models
}
