// SPDX-License-Identifier: Apache-2.0

package feasible

// keptAway are the nodes that required anti-affinity excludes, with the filter result. The anti-affinity is that of
// a class's tasks, or of placed pods against these tasks. Placing more pods only excludes more nodes, so an entry stays
// valid until a task is taken back.
type keptAway struct {
	results map[int32]error
	// removals is the number of tasks taken back (sessionAntiAffinity.removals) when the first entry was made.
	removals int
}

// add records that the node is excluded. removals is the current number of tasks taken back.
func (k *keptAway) add(node int32, err error, removals int) {
	if k.results == nil {
		k.results, k.removals = map[int32]error{}, removals
	}
	k.results[node] = err
}

// expire removes all entries and returns them, if tasks were taken back after the first entry was made. removals is the
// current number of tasks taken back.
func (k *keptAway) expire(removals int) map[int32]error {
	if k.results == nil || k.removals == removals {
		return nil
	}
	expired := k.results
	k.results = nil
	return expired
}
