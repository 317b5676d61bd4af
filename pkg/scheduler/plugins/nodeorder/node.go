// SPDX-License-Identifier: Apache-2.0

package nodeorder

import (
	"fmt"
	"math"

	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// maxScore is the best value of each score before its weight.
const maxScore = k8sframework.MaxNodeScore

// nodeOrder returns the score of a node on its own. An error says that the pod's preferred node affinity cannot be
// parsed.
func (s *session) nodeOrder(task *api.TaskInfo, candidate *api.NodeInfo) (float64, error) {
	node, ok := s.nodes[candidate.Name]
	if !ok {
		return 0, fmt.Errorf("node %s is not in the session", candidate.Name)
	}
	p := s.pod(task.Pod)
	var score float64
	if s.leastRequested != 0 {
		score += float64(leastRequested(p, node)) * float64(s.leastRequested)
	}
	if s.mostRequested != 0 {
		score += float64(mostRequested(p, node)) * float64(s.mostRequested)
	}
	if s.balancedResource != 0 {
		score += float64(balancedResource(p, node)) * float64(s.balancedResource)
	}
	if s.nodeAffinity != 0 {
		if p.preferredErr != nil {
			return 0, p.preferredErr
		}
		if p.preferred != nil {
			score += float64(p.preferred.Score(node.Node())) * float64(s.nodeAffinity)
		}
	}
	if s.imageLocality != 0 {
		score += float64(imageLocality(p, node, len(s.nodes))) * float64(s.imageLocality)
	}
	return score, nil
}

// leastRequested returns the mean unrequested share of CPU and memory, over the resources that the node has. (Kubernetes:
// NodeResourcesFit, LeastAllocated, equal weights.)
func leastRequested(p *pod, node fwk.NodeInfo) int64 {
	requested, allocatable := node.GetNonZeroRequested(), node.GetAllocatable()
	var shares mean
	if capacity := allocatable.GetMilliCPU(); capacity != 0 {
		shares.add(unrequested(requested.GetMilliCPU()+p.cpuAtLeast, capacity))
	}
	if capacity := allocatable.GetMemory(); capacity != 0 {
		shares.add(unrequested(requested.GetMemory()+p.memoryAtLeast, capacity))
	}
	return shares.value()
}

// mostRequested returns the mean of the shares of CPU and memory that would be requested. (Kubernetes:
// NodeResourcesFit, MostAllocated, equal weights.)
func mostRequested(p *pod, node fwk.NodeInfo) int64 {
	requested, allocatable := node.GetNonZeroRequested(), node.GetAllocatable()
	var shares mean
	if capacity := allocatable.GetMilliCPU(); capacity != 0 {
		shares.add(min(requested.GetMilliCPU()+p.cpuAtLeast, capacity) * maxScore / capacity)
	}
	if capacity := allocatable.GetMemory(); capacity != 0 {
		shares.add(min(requested.GetMemory()+p.memoryAtLeast, capacity) * maxScore / capacity)
	}
	return shares.value()
}

func unrequested(requested, capacity int64) int64 {
	if requested > capacity {
		return 0
	}
	return (capacity - requested) * maxScore / capacity
}

// mean is a mean of integers; 0 without any.
type mean struct{ sum, count int64 }

func (m *mean) add(v int64) { m.sum, m.count = m.sum+v, m.count+1 }

func (m *mean) value() int64 {
	if m.count == 0 {
		return 0
	}
	return m.sum / m.count
}

// balancedResource returns a high score if CPU, memory and, if the pod requests them, GPUs would be requested to
// similar shares: one minus their standard deviation. A pod without requests scores 0. (Kubernetes:
// NodeResourcesBalancedAllocation.)
func balancedResource(p *pod, node fwk.NodeInfo) int64 {
	if p.cpu == 0 && p.memory == 0 && p.gpus == 0 {
		return 0
	}
	requested, allocatable := node.GetRequested(), node.GetAllocatable()
	var shares [3]float64
	n := 0
	if capacity := allocatable.GetMilliCPU(); capacity != 0 {
		shares[n] = share(requested.GetMilliCPU()+p.cpu, capacity)
		n++
	}
	if capacity := allocatable.GetMemory(); capacity != 0 {
		shares[n] = share(requested.GetMemory()+p.memory, capacity)
		n++
	}
	if p.gpus != 0 {
		if capacity := allocatable.GetScalarResources()[gpu]; capacity != 0 {
			shares[n] = share(requested.GetScalarResources()[gpu]+p.gpus, capacity)
			n++
		}
	}
	return int64((1 - deviation(shares[:n])) * float64(maxScore))
}

func share(requested, capacity int64) float64 { return min(float64(requested)/float64(capacity), 1) }

// deviation returns the standard deviation. It follows Kubernetes' steps of calculation, because other steps would be
// rounded to other scores.
func deviation(shares []float64) float64 {
	switch len(shares) {
	case 2:
		return math.Abs((shares[0] - shares[1]) / 2)
	case 3:
		middle := (shares[0] + shares[1] + shares[2]) / 3
		var squares float64
		for _, share := range shares {
			squares += (share - middle) * (share - middle)
		}
		return math.Sqrt(squares / 3)
	default:
		return 0
	}
}

const (
	// An image smaller than leastImage bytes scores 0, and one of mostImage bytes the maximum, for each container.
	leastImage = 23 << 20
	mostImage  = 1000 << 20
)

// imageLocality returns a high score if the node has the pod's images, weighted by size and by the number of nodes that
// have them. (Kubernetes: ImageLocality.) Upstream's sessions have no images, so it is 0 in all of them; it matters for
// callers that provide images.
func imageLocality(p *pod, node fwk.NodeInfo, nodes int) int64 {
	states := node.GetImageStates()
	if len(states) == 0 || len(p.images) == 0 {
		return 0
	}
	var sum int64
	for _, image := range p.images {
		if state, ok := states[image]; ok {
			sum += int64(float64(state.Size) * (float64(state.NumNodes) / float64(nodes)))
		}
	}
	most := int64(mostImage * len(p.images))
	return maxScore * (min(max(sum, leastImage), most) - leastImage) / (most - leastImage)
}
