// SPDX-License-Identifier: Apache-2.0

// Package kubeplugin adapts plugins that were written for kube-scheduler's framework to the scheduling of gangs.
//
//	kube-scheduler's point               here
//	PreEnqueue, PreFilter                when a task is tried (pre-predicate), with a CycleState of its own
//	Filter                               predicate, with the NodeInfo of the session
//	PreScore, Score, NormalizeScore      score of the nodes that fit, times the weight
//	Reserve                              when the session places the task, in trials too
//	PreBindPreFlight, PreBind            the task's step in its gang's transaction
//	Unreserve                            when the placement is taken back, or the member is not bound
//	PostBind                             when the member is bound
//	Close                                when a reload has replaced the configuration
//
// The CycleState of a task lasts from its pre-filter until its member is bound or rolled back. For a task that is not
// handed over to be bound, it lasts until the session ends. PostFilter and EnqueueExtensions are not called. A plugin
// with Permit, Bind or QueueSort is rejected, because these decisions are made for whole gangs: whether a pod waits for
// other pods, how it is bound, and which pod is first.
//
// PreEnqueue, PreFilter and Filter get a context that ends when the pod's namespace has used up its time in the session
// (package workbudget). Later calls for the namespace are left out in this session, and the pods' reason says so.
//
// The package imports only framework, framework/workbudget and internal/brief of this project.
package kubeplugin
