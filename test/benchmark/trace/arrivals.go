// SPDX-License-Identifier: Apache-2.0

package main

import "math/rand/v2"

// offered is the total request of the tasks as a multiple of the cluster's GPUs.
const offered = 1.3

// arrivals returns the tasks in the order of their arrival. It adds random tasks of the trace, or removes some, until
// the requests reach the offered amount, and then shuffles the tasks. Equal seeds return equal lists.
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

// jobs groups the arriving tasks in jobs, in order: one task per job, or with gangs a random number per job.
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
