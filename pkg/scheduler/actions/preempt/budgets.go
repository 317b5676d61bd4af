// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// budget is a PodDisruptionBudget, and how many disruptions it allows beside those of this session.
type budget struct {
	selects labels.Selector
	allowed int32
	// disrupted are the pods whose disruption allowed does not count any more.
	disrupted map[string]metav1.Time
}

// budgets are the cluster's PodDisruptionBudgets by namespace.
type budgets map[string][]*budget

// newBudgets returns the budgets beside the evictions of the given tasks, which their statuses do not count yet.
func newBudgets(ssn *framework.Session, evicted []*api.TaskInfo) budgets {
	found, err := ssn.InformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		klog.ErrorS(err, "Listing PodDisruptionBudgets failed")
	}
	b := budgets{}
	for _, object := range found {
		if one := newBudget(object); one != nil {
			b[object.Namespace] = append(b[object.Namespace], one)
		}
	}
	b.broken(evicted)
	return b
}

// newBudget returns nil for an object that selects no pods.
func newBudget(of *policyv1.PodDisruptionBudget) *budget {
	selects, err := metav1.LabelSelectorAsSelector(of.Spec.Selector)
	if err != nil || of.Spec.Selector == nil {
		return nil
	}
	return &budget{selects: selects, allowed: of.Status.DisruptionsAllowed, disrupted: of.Status.DisruptedPods}
}

// of returns the budgets that select the task's pod.
func (b budgets) of(task *api.TaskInfo) (of []*budget) {
	for _, one := range b[task.Namespace] {
		if _, counted := one.disrupted[task.Name]; !counted && one.selects.Matches(labels.Set(task.Pod.Labels)) {
			of = append(of, one)
		}
	}
	return of
}

// spend counts the eviction of the task. selecting is the number of budgets that select the task's pod, and allowed reports
// whether all of them allow the eviction.
func (b budgets) spend(task *api.TaskInfo) (selecting int, allowed bool) {
	of := b.of(task)
	for _, one := range of {
		one.allowed--
	}
	return len(of), !slices.ContainsFunc(of, func(one *budget) bool { return one.allowed < 0 })
}

// broken counts the evictions of the tasks, in their order, and returns how many of them break a budget.
func (b budgets) broken(tasks []*api.TaskInfo) (n int) {
	if len(b) == 0 {
		return 0
	}
	for _, task := range tasks {
		if _, allowed := b.spend(task); !allowed {
			n++
		}
	}
	return n
}

// protects counts the eviction of the task, and reports whether the API server has to be asked about it: one budget selects the
// pod, and allows the eviction. The API server refuses each pod that several budgets select.
func (b budgets) protects(task *api.TaskInfo) bool {
	selecting, allowed := b.spend(task)
	return selecting == 1 && allowed
}
