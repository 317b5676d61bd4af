// SPDX-License-Identifier: Apache-2.0

package allocator

// Strategy scores devices and nodes. It must be immutable, because it is called concurrently.
type Strategy interface {
	// DeviceScore returns the score of taking the amounts, which are free, from the device at that index of the inventory.
	// A higher score is better. Devices of a type with equal capacity and equal use must have equal scores.
	DeviceScore(s *State, t Type, index int, amounts Amounts) float64
	// NodeScore returns the score, from 0 to 100, of a node whose devices change from state before to state after. A
	// higher score is better.
	NodeScore(before, after *State) float64
}

// Weights are the weights of the device resources in a score.
type Weights [numResources]float64

// DefaultWeights are the weights that Koordinator uses by default.
var DefaultWeights = Weights{MemoryRatio: 1, Memory: 1, RDMAShare: 1, FPGAShare: 1}

// LeastAllocated prefers devices, and nodes, with the most free resources.
type LeastAllocated struct{ Weights Weights }

// MostAllocated prefers devices, and nodes, with the least free resources.
type MostAllocated struct{ Weights Weights }

var (
	_ Strategy = LeastAllocated{}
	_ Strategy = MostAllocated{}
)

// DeviceScore implements Strategy.
func (l LeastAllocated) DeviceScore(s *State, t Type, index int, amounts Amounts) float64 {
	return 100 - MostAllocated(l).DeviceScore(s, t, index, amounts)
}

// NodeScore implements Strategy.
func (l LeastAllocated) NodeScore(before, after *State) float64 {
	return 100 - MostAllocated(l).NodeScore(before, after)
}

// DeviceScore implements Strategy. The score is the percentage of the device that is used after taking the amounts,
// averaged over the requested resources.
func (m MostAllocated) DeviceScore(s *State, t Type, index int, amounts Amounts) float64 {
	return m.usedPart(&amounts, &s.Devices[t][index].Total, s.used[t][index].Add(amounts))
}

// NodeScore implements Strategy. The score is the percentage of the node's devices that is used in the state after,
// averaged over the types and resources whose use changes.
func (m MostAllocated) NodeScore(before, after *State) float64 {
	var sum float64
	types := 0
	for t := range after.Devices {
		var taken, total, used Amounts
		for i := range after.Devices[t] {
			taken = taken.Add(after.used[t][i].Sub(before.used[t][i]))
			total = total.Add(after.Devices[t][i].Total)
			used = used.Add(after.used[t][i])
		}
		if !taken.IsZero() {
			sum += m.usedPart(&taken, &total, used)
			types++
		}
	}
	if types == 0 {
		return 0
	}
	return sum / float64(types)
}

// usedPart returns the percentage of the total amounts that is used: the weighted mean of the percentages of the
// resources whose amount in asked is not 0.
func (m MostAllocated) usedPart(asked, total *Amounts, used Amounts) float64 {
	var sum, weights float64
	for r := range asked {
		if asked[r] == 0 || total[r] == 0 || m.Weights[r] == 0 {
			continue
		}
		sum += m.Weights[r] * min(float64(used[r])*100/float64(total[r]), 100)
		weights += m.Weights[r]
	}
	if weights == 0 {
		return 0
	}
	return sum / weights
}
