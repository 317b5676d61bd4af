// SPDX-License-Identifier: Apache-2.0

package cache

import (
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	nodeinfov1alpha1 "volcano.sh/apis/pkg/apis/nodeinfo/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/scheme"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/features"
)

// showGroup writes the PodGroup to the books, unless it belongs to another scheduler.
func (ch *changes) showGroup(shown *v1beta1.PodGroup) {
	if !ch.responsible.forOwned(shown) {
		return
	}
	if err := ch.books.Jobs.ShowGroup(shown); err != nil {
		logger().Error(err, "Reading a PodGroup failed")
	}
}

func (ch *changes) showQueue(shown *v1beta1.Queue) {
	queue := &scheduling.Queue{}
	if err := scheme.Scheme.Convert(shown, queue, nil); err != nil {
		logger().Error(err, "Reading a queue failed", "queue", shown.Name)
		return
	}
	books := ch.books
	books.Lock()
	defer books.Unlock()
	books.Tables.ShowQueue(queue)
}

// watchTables adds the handlers of resource quotas, priority classes and Numatopologies, whose
// changes need no cycle.
func (ch *changes) watchTables() {
	books, s := ch.books, ch.sources
	quotas := s.kube.Core().V1().ResourceQuotas().Informer()
	locked := func(f func(any)) func(any) {
		return func(object any) {
			books.Lock()
			defer books.Unlock()
			f(object)
		}
	}
	ch.handlers.table(quotas, locked(func(o any) { books.Tables.ShowQuota(o.(*v1.ResourceQuota)) }), locked(func(o any) { books.Tables.HideQuota(o.(*v1.ResourceQuota)) }))
	if options.ServerOpts != nil && options.ServerOpts.EnablePriorityClass && utilfeature.DefaultFeatureGate.Enabled(features.PriorityClass) {
		classes := s.kube.Scheduling().V1().PriorityClasses().Informer()
		ch.handlers.table(classes, locked(func(o any) {
			class := o.(*schedulingv1.PriorityClass)
			books.Tables.Priorities[class.Name] = class
		}), locked(func(o any) { delete(books.Tables.Priorities, o.(*schedulingv1.PriorityClass).Name) }))
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.ResourceTopology) {
		numa := s.volcano.Nodeinfo().V1alpha1().Numatopologies().Informer()
		ch.handlers.table(numa, func(o any) { books.Nodes.ShowNUMA(o.(*nodeinfov1alpha1.Numatopology)) }, func(o any) { books.Nodes.HideNUMA(o.(*nodeinfov1alpha1.Numatopology).Name) })
	}
}
