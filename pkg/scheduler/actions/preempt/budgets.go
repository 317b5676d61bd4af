// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"maps"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/pdb"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// budget is a PodDisruptionBudget, and how many disruptions its status allows.
type budget struct {
	selects labels.Selector
	allowed int
	// disrupted are the pods whose disruption allowed no longer counts.
	disrupted map[string]metav1.Time
}

// staysFor is how long other pods are evicted rather than a pod under a budget whose eviction has failed.
const staysFor = 10 * time.Minute

// budgets are the cluster's PodDisruptionBudgets.
type budgets struct {
	// all are the budgets by namespace. used is how many evictions each of them counts that its status does not count yet.
	all  map[string][]*budget
	used map[*budget]int
	// strict reports whether budgets are never broken, because plugin pdb is configured.
	strict bool
	// stayed is the time after which pods count whose evictions have failed.
	stayed time.Time
}

// newBudgets returns the budgets without any eviction.
func newBudgets(ssn *framework.Session, now time.Time) budgets {
	found, err := ssn.InformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		klog.ErrorS(err, "Listing PodDisruptionBudgets failed")
	}
	b := budgets{all: map[string][]*budget{}, used: map[*budget]int{}, stayed: now.Add(-staysFor)}
	_, b.strict = ssn.PluginOption(pdb.PluginName)
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
	b.used = maps.Clone(b.used)
	for _, task := range evicted {
		b.count(task)
	}
	return b
}

// count counts the eviction of the task. selecting is the number of budgets that select the task's pod, and allowed reports
// whether all of them allow the eviction.
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
	return selecting, allowed
}

// broken returns how many of the tasks' evictions break a budget, in their order. A pod under a budget counts if its eviction has
// just failed: the API server may refuse it again.
func (b budgets) broken(tasks []*api.TaskInfo) (n int) {
	if len(b.all) == 0 {
		return 0
	}
	with := b.with()
	for _, task := range tasks {
		if selecting, allowed := with.count(task); !allowed || selecting > 0 && conditions.StayedSince(task.Pod, b.stayed) {
			n++
		}
	}
	return n
}

// protects counts the eviction of the task, and reports whether the API server has to be asked about it: one budget selects the
// pod, and allows the eviction. The API server refuses each pod that several budgets select. It is not asked about a pod whose
// eviction has just failed, unless budgets are never broken. Otherwise a tenant could keep its pods by changing a budget all
// the time.
func (b budgets) protects(task *api.TaskInfo) bool {
	selecting, allowed := b.count(task)
	return selecting == 1 && allowed && (b.strict || !conditions.StayedSince(task.Pod, b.stayed))
}
