// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// hopCount is the distance between the neighbors of a gang: the mean number of hops between the nodes of pods with
// consecutive ranks. Nodes are 0 hops apart below one leaf switch, 1 below one spine, 2 in one cluster and 3 otherwise.
type hopCount struct {
	Placed float64 `json:"placed"`
	// Random is the mean over random placements in the same cluster, with no more pods on a node than fit.
	Random float64 `json:"random"`
}

// draws is the number of random placements in the mean.
const draws = 100

// countHops returns the hops of the first gang of the shape, or nil if the gang is not placed.
func countHops(sh shape, placement map[string]string) *hopCount {
	byName := map[string]*v1.Node{}
	for _, node := range sh.nodeList() {
		byName[node.Name] = node
	}
	placed := make([]*v1.Node, sh.gangSize)
	for i := range placed {
		if placed[i] = byName[placement[podNamespace+"/"+podName(0, i)]]; placed[i] == nil {
			return nil
		}
	}
	var slots []*v1.Node
	for _, node := range byName {
		if node.Labels[insession.ClusterLabel] == placed[0].Labels[insession.ClusterLabel] {
			for range sh.podsPerNode() {
				slots = append(slots, node)
			}
		}
	}
	slices.SortFunc(slots, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	random := rand.New(rand.NewPCG(1, 2))
	sum := 0
	for range draws {
		random.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
		sum += sumHops(slots[:sh.gangSize])
	}
	pairs := float64(sh.gangSize - 1)
	return &hopCount{Placed: float64(sumHops(placed)) / pairs, Random: float64(sum) / draws / pairs}
}

// sumHops returns the sum of the hops along the nodes in order.
func sumHops(nodes []*v1.Node) int {
	sum := 0
	for i := 1; i < len(nodes); i++ {
		sum += hops(nodes[i-1], nodes[i])
	}
	return sum
}

func hops(a, b *v1.Node) int {
	for distance, label := range []string{insession.LeafLabel, insession.SpineLabel, insession.ClusterLabel} {
		if a.Labels[label] != "" && a.Labels[label] == b.Labels[label] {
			return distance
		}
	}
	return 3
}
