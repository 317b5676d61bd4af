// SPDX-License-Identifier: Apache-2.0

// Package kubeplugin has plugins that were written for kube-scheduler's framework take part in the scheduling of gangs.
//
//	kube-scheduler's point               here
//	PreEnqueue, PreFilter                when a task's turn comes (pre-predicate), with a CycleState of its own
//	Filter                               predicate, with the NodeInfo of the session
//	PreScore, Score, NormalizeScore      score of the nodes that fit, times the weight
//	Reserve                              when the session places the task, in trials too
//	PreBindPreFlight, PreBind            the task's step in its gang's transaction
//	Unreserve                            when the placement is taken back, or the member is not bound
//	PostBind                             when the member is bound
//	Close                                when a reload has replaced the configuration
//
// The CycleState of a task lives from its pre-filter to the end of its member, bound or rolled back; that of a task that is not
// handed over to be bound, to the end of the session. PostFilter and EnqueueExtensions are not asked. A plugin with Permit, Bind
// or QueueSort is refused: whether a pod waits for others, how it is bound and who is first is decided by gang.
//
// It imports of this project framework and internal/brief.
package kubeplugin
