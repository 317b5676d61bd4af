// SPDX-License-Identifier: Apache-2.0

package main

import "math/rand/v2"

// offered is how much tasks ask for in all, in times of the cluster's GPUs.
const offered = 1.3

// arrivals lists the tasks in the order in which they arrive: those of the trace, with tasks drawn from it added, or removed, at random until they ask for what is
// offered, and shuffled. Equal seeds give equal lists.
func (t *trace) arrivals(seed uint64) []task {
	rng := rand.New(rand.NewPCG(seed, 2023))
	list := append([]task(nil), t.tasks...)
	want, asked := int(offered*float64(t.size())), 0
	for _, task := range list {
		asked += task.size()
	}
	for asked > want {
		i := rng.IntN(len(list))
		asked -= list[i].size()
		list[i] = list[len(list)-1]
		list = list[:len(list)-1]
	}
	for asked < want {
		drawn := t.tasks[rng.IntN(len(t.tasks))]
		asked += drawn.size()
		list = append(list, drawn)
	}
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

const minGang, maxGang = 2, 16

// jobs groups what arrives in jobs, in order: each task in one of its own, or with gangs as many as are drawn for each gang.
func jobs(list []task, gangs bool, seed uint64) [][]task {
	rng := rand.New(rand.NewPCG(seed, 216))
	var grouped [][]task
	for len(list) > 0 {
		size := 1
		if gangs {
			size = min(minGang+rng.IntN(maxGang-minGang+1), len(list))
		}
		grouped = append(grouped, list[:size:size])
		list = list[size:]
	}
	return grouped
}
