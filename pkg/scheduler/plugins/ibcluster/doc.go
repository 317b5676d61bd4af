// SPDX-License-Identifier: Apache-2.0

// Package ibcluster keeps a gang in one InfiniBand cluster. A cluster is a node group, which labels of nodes or
// HyperNodes define.
//
//   - Package topology reads the node groups. annotations.go reads the gang's rules from annotations.
//   - gangscope.go computes in which node groups further members of a gang may be placed.
//   - groups.go and score.go pass these node groups to allocate. predicate.go enforces them in every action.
//   - enqueue.go refuses to admit a gang that no node group could hold even if it were empty. infeasible.go detects such
//     gangs among the admitted ones. Both use emptygroups.go and wantedmembers.go.
//   - target.go and evictions.go choose the node group with the fewest evictions for preempt and reclaim.
//   - prebind.go checks, before a member is bound, that its node is still in the same node group.
package ibcluster
