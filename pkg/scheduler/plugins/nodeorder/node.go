// SPDX-License-Identifier: Apache-2.0

package nodeorder

import (
	"fmt"
	"math"

	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// maxScore is the highest value of each score before the weight is applied.
const maxScore = k8sframework.MaxNodeScore

// nodeOrder returns the sum of the scores that depend on one node only. It returns an error if the pod's preferred
// node affinity cannot be parsed.
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

// leastRequested returns the mean of the unrequested shares of CPU and memory, with the pod on the node. A resource
// that the node does not have is left out. (Kubernetes: NodeResourcesFit, LeastAllocated, equal weights.)
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

// mostRequested returns the mean of the requested shares of CPU and memory, with the pod on the node. (Kubernetes:
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

// mean computes the mean of integers; 0 if there are none.
type mean struct{ sum, count int64 }

func (m *mean) add(v int64) { m.sum, m.count = m.sum+v, m.count+1 }

func (m *mean) value() int64 {
	if m.count == 0 {
		return 0
	}
	return m.sum / m.count
}

// balancedResource returns a high score if similar shares of the node's CPU and memory would be requested, with the
// pod on the node. GPUs are included if the pod requests GPUs. The score is one minus the standard deviation of the
// shares. A pod without requests scores 0. (Kubernetes: NodeResourcesBalancedAllocation.)
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

// deviation returns the standard deviation of the shares. It calculates in the same steps as Kubernetes, because
// other steps may round to other scores.
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
	// Images of at most leastImage bytes in total score 0. Images of mostImage bytes or more for each container get the
	// highest score.
	leastImage = 23 << 20
	mostImage  = 1000 << 20
)

// imageLocality returns a high score if the node has the pod's images, weighted by their size and by the number of
// nodes that have them. (Kubernetes: ImageLocality.) Upstream's sessions have no images, so the score is 0 in all of
// them. It matters only for callers that provide images.
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
