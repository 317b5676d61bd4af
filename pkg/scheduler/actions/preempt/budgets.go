// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"maps"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// budget is a PodDisruptionBudget, and how many disruptions its status allows.
type budget struct {
	selects labels.Selector
	allowed int
	// disrupted are the pods whose disruption allowed does not count any more.
	disrupted map[string]metav1.Time
}

// budgets are the cluster's PodDisruptionBudgets by namespace, and how many evictions each of them counts that its status does
// not count yet.
type budgets struct {
	all  map[string][]*budget
	used map[*budget]int
}

// newBudgets returns the budgets without any eviction.
func newBudgets(ssn *framework.Session) budgets {
	found, err := ssn.InformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		klog.ErrorS(err, "Listing PodDisruptionBudgets failed")
	}
	b := budgets{map[string][]*budget{}, map[*budget]int{}}
	for _, object := range found {
		if one := newBudget(object); one != nil {
			b.all[object.Namespace] = append(b.all[object.Namespace], one)
		}
	}
	return b
}

// newBudget returns nil for an object that selects no pods. A budget whose status is older than its spec allows nothing, because the
// API server refuses all its evictions.
func newBudget(of *policyv1.PodDisruptionBudget) *budget {
	selects, err := metav1.LabelSelectorAsSelector(of.Spec.Selector)
	if err != nil || of.Spec.Selector == nil {
		return nil
	}
	one := &budget{selects: selects, disrupted: of.Status.DisruptedPods}
	if of.Status.ObservedGeneration >= of.Generation {
		one.allowed = int(of.Status.DisruptionsAllowed)
	}
	return one
}

// with returns the budgets with the evictions of these tasks, too.
func (b budgets) with(evicted ...*api.TaskInfo) budgets {
	if len(b.all) == 0 {
		return b
	}
	with := budgets{b.all, maps.Clone(b.used)}
	for _, task := range evicted {
		with.count(task)
	}
	return with
}

// count counts the eviction of the task. selecting is the number of budgets that select the task's pod, and allowed reports
// whether all of them allow the eviction. None allows it if the API server has refused to evict the pod before.
func (b budgets) count(task *api.TaskInfo) (selecting int, allowed bool) {
	allowed = true
	for _, one := range b.all[task.Namespace] {
		if _, counted := one.disrupted[task.Name]; counted || !one.selects.Matches(labels.Set(task.Pod.Labels)) {
			continue
		}
		b.used[one]++
		selecting++
		allowed = allowed && b.used[one] <= one.allowed
	}
	return selecting, allowed && (selecting == 0 || !conditions.Stayed(task.Pod))
}

// broken returns how many of the tasks' evictions break a budget, in their order.
func (b budgets) broken(tasks []*api.TaskInfo) (n int) {
	if len(b.all) == 0 {
		return 0
	}
	with := b.with()
	for _, task := range tasks {
		if _, allowed := with.count(task); !allowed {
			n++
		}
	}
	return n
}

// protects counts the eviction of the task, and reports whether the API server has to be asked about it: one budget selects the
// pod, and allows the eviction. The API server refuses each pod that several budgets select.
func (b budgets) protects(task *api.TaskInfo) bool {
	selecting, allowed := b.count(task)
	return selecting == 1 && allowed
}
