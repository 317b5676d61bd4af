// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/plugins/pdb"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

const (
	// staysFor is how long other pods are evicted rather than a pod whose eviction has failed.
	staysFor = 10 * time.Minute
	// maxBudgets limits the budgets of a namespace. In a namespace with more, no eviction of a pod is within the budgets, because
	// matching them with pods would take too long.
	maxBudgets = 200
)

// budget is a PodDisruptionBudget, and how many disruptions its status allows.
type budget struct {
	selects labels.Selector
	allowed int
	// disrupted are the pods whose disruption allowed no longer counts.
	disrupted map[string]metav1.Time
}

// budgets are the cluster's PodDisruptionBudgets.
type budgets struct {
	// all are the budgets by namespace, and of has, for pods that were asked about, the budgets that count their eviction.
	all map[string][]*budget
	of  map[types.UID][]*budget
	// refused are the namespaces with a pod under a budget whose eviction the API server has just refused.
	refused map[string]bool
	// underway are pods whose evictions were decided before the session, and that the API server does not delete yet.
	underway []*api.TaskInfo
	// strict reports whether budgets are never broken, because plugin pdb is configured.
	strict bool
	// stayed is the time after which pods count whose evictions have failed.
	stayed time.Time
}

// newBudgets returns the budgets of the session. sent are the pods that the session has evicted so far.
func newBudgets(ssn *framework.Session, now time.Time, sent []*api.TaskInfo) *budgets {
	found, err := ssn.InformerFactory().Policy().V1().PodDisruptionBudgets().Lister().List(labels.Everything())
	if err != nil {
		klog.ErrorS(err, "Listing PodDisruptionBudgets failed")
	}
	b := &budgets{
		all: map[string][]*budget{}, of: map[types.UID][]*budget{}, refused: map[string]bool{}, strict: areStrict(ssn), stayed: now.Add(-staysFor),
	}
	for _, object := range found {
		if one := newBudget(object); one != nil {
			b.all[object.Namespace] = append(b.all[object.Namespace], one)
		}
	}
	if len(b.all) == 0 {
		return b
	}
	for _, job := range ssn.Jobs {
		for _, task := range job.TaskStatusIndex[api.Releasing] {
			if task.Pod.DeletionTimestamp == nil && !slices.Contains(sent, task) {
				b.underway = append(b.underway, task)
			}
		}
		b.noteRefused(job)
	}
	return b
}

// areStrict reports whether budgets are never broken.
func areStrict(ssn *framework.Session) bool {
	_, configured := ssn.PluginOption(pdb.PluginName)
	return configured
}

// noteRefused records the job's namespace if an eviction of one of the job's pods was refused because of a budget.
func (b *budgets) noteRefused(job *api.JobInfo) {
	if b.refused[job.Namespace] || len(b.all[job.Namespace]) == 0 {
		return
	}
	for _, status := range []api.TaskStatus{api.Running, api.Bound} {
		for _, task := range job.TaskStatusIndex[status] {
			if b.stays(task.Pod) && len(b.counting(task.Pod)) > 0 {
				b.refused[job.Namespace] = true
				return
			}
		}
	}
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

// stays reports whether the pod's eviction has just failed.
func (b *budgets) stays(pod *v1.Pod) bool { return conditions.StayedSince(pod, b.stayed) }

// counting returns the budgets that count the eviction of the pod.
func (b *budgets) counting(pod *v1.Pod) []*budget {
	all := b.all[pod.Namespace]
	if len(all) == 0 {
		return nil
	}
	counting, known := b.of[pod.UID]
	if !known {
		for _, one := range all[:min(len(all), maxBudgets)] {
			if _, counted := one.disrupted[pod.Name]; !counted && one.selects.Matches(labels.Set(pod.Labels)) {
				counting = append(counting, one)
			}
		}
		b.of[pod.UID] = counting
	}
	return counting
}

// tally counts evictions that the statuses of budgets do not count yet.
type tally struct {
	*budgets
	used map[*budget]int
}

// beside returns a tally of the tasks' evictions and the evictions that are underway.
func (b *budgets) beside(evicted []*api.TaskInfo) *tally {
	t := &tally{b, map[*budget]int{}}
	t.add(b.underway)
	t.add(evicted)
	return t
}

// clone returns a copy that counts for itself.
func (t *tally) clone() *tally {
	return &tally{t.budgets, maps.Clone(t.used)}
}

// add counts the evictions of the tasks.
func (t *tally) add(tasks []*api.TaskInfo) {
	for _, task := range tasks {
		t.count(task.Pod, 1)
	}
}

// count adds n evictions of the pod, and reports whether more are then counted for a budget than it allows.
func (t *tally) count(pod *v1.Pod, n int) (breaks bool) {
	for _, one := range t.counting(pod) {
		t.used[one] += n
		breaks = breaks || t.used[one] > one.allowed
	}
	return breaks || len(t.all[pod.Namespace]) > maxBudgets
}

// breaking returns how many of the tasks' evictions, in their order, break a budget beside the counted evictions. dear is how many
// break one or may fail: the pod's eviction has just failed, or that of another pod under a budget in its namespace.
func (t *tally) breaking(tasks []*api.TaskInfo) (breaking, dear int) {
	for _, task := range tasks {
		switch breaks := t.count(task.Pod, 1); {
		case breaks:
			breaking++
			dear++
		case t.mayFail(task.Pod):
			dear++
		}
	}
	for _, task := range tasks {
		t.count(task.Pod, -1)
	}
	return breaking, dear
}

// admits reports whether the tasks may be evicted together. dear reports whether budgets may be broken, unless they are strict, and
// whether evictions may fail.
func (t *tally) admits(tasks []*api.TaskInfo, dear bool) bool {
	if dear && !t.strict {
		return true
	}
	breaking, failing := t.breaking(tasks)
	return breaking == 0 && (dear || failing == 0)
}

// dearLast returns the units with those last whose evictions break budgets or may fail, beside the pods of the units before them. If
// budgets are strict, units that break budgets are left out.
func (t *tally) dearLast(units []*unit) []*unit {
	left := t.clone()
	var cheap, dear []*unit
	for _, u := range units {
		switch {
		case left.admits(u.tasks, false):
			cheap = append(cheap, u)
			left.add(u.tasks)
		case !t.strict || left.admits(u.tasks, true):
			dear = append(dear, u)
		}
	}
	return append(cheap, dear...)
}

// mayFail reports whether the API server may refuse to evict the pod again.
func (t *tally) mayFail(pod *v1.Pod) bool {
	return t.stays(pod) || t.refused[pod.Namespace] && len(t.counting(pod)) > 0
}

// protects counts the eviction of the task, and reports whether the API server has to be asked about it: one budget selects the
// pod, and allows the eviction. The API server refuses each pod that several budgets select. It is not asked about a pod whose
// eviction may fail, unless budgets are never broken. Otherwise a tenant could keep its pods by changing its budgets all the time.
func (t *tally) protects(task *api.TaskInfo) bool {
	breaks := t.count(task.Pod, 1)
	return !breaks && len(t.counting(task.Pod)) == 1 && (t.strict || !t.mayFail(task.Pod))
}
