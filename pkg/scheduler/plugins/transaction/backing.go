// SPDX-License-Identifier: Apache-2.0

package transaction

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// maxLooks limits how many nodes a session looks at to check whether the pods of admitted gangs suffice for their
// promises (reserved minResources). A tenant may have thousands of gangs. For pods with many requirements, a node
// counts several times (kind.cost).
const maxLooks = 100_000

// dueCheck is a gang and its promise (the minResources that are reserved for it). It is to be checked whether the
// gang's pods suffice for the promise.
type dueCheck struct {
	gang api.JobID
	made *promise
}

// due reports whether the gang's pods are to be checked. That is so if promiseFor has passed since their last check. It
// is also so if the promise (reserved minResources) expires, because the pods have not sufficed for it.
func (made *promise) due(now time.Time) bool {
	return now.Sub(made.checked) >= promiseFor || made.expires(now)
}

// expires reports whether, for the duration promiseFor, the gang's pods have not sufficed for the minResources that are
// reserved for it.
func (made *promise) expires(now time.Time) bool {
	return !made.unbacked.IsZero() && now.Sub(made.unbacked) >= promiseFor
}

// dueSince returns when the check of the gang's pods became due.
func (made *promise) dueSince() time.Time {
	if made.checked.IsZero() {
		return made.unbacked
	}
	return made.checked.Add(promiseFor)
}

// check checks whether the gangs' pods suffice for their promises (reserved minResources), within maxLooks. The gang
// whose check has been due for longest comes first. A promise ends if the pods do not suffice now, and have not sufficed
// for promiseFor. So a node that is away for a moment ends no promise. The first check of a gang waits until pods exist
// that request the promised resources, but at most for promiseFor. If maxLooks is reached, promises that expire end
// without a check, which does not count against their namespaces.
func (p *promises) check(ssn *framework.Session, due []dueCheck, now time.Time) {
	slices.SortFunc(due, func(a, b dueCheck) int {
		return cmp.Or(a.made.dueSince().Compare(b.made.dueSince()), cmp.Compare(a.gang, b.gang))
	})
	looks := 0
	for i, d := range due {
		job, made := ssn.Jobs[d.gang], d.made
		complete := made.resources.LessEqual(requested(job), api.Zero)
		if !complete && made.checked.IsZero() && !made.expires(now) {
			continue
		}
		suffice := false
		if complete {
			had := looks
			suffice = backs(ssn, job, made.resources, &looks)
			if looks > maxLooks && had > 0 {
				p.dropExpired(due[i:], now)
				return // the checks that are left wait for the next session
			}
		}
		made.checked = now
		switch {
		case suffice:
			made.unbacked = time.Time{}
		case made.expires(now):
			p.end(d.gang, now, "its pods do not exist, or do not fit on the nodes that they may use")
		case made.unbacked.IsZero():
			made.unbacked = now
		}
	}
}

// dropExpired ends the promises that expire.
func (p *promises) dropExpired(due []dueCheck, now time.Time) {
	for _, d := range due {
		if d.made.expires(now) {
			delete(p.admitted, d.gang)
		}
	}
}

// requested returns the resources that the gang holds or that its pending pods request. Pods with scheduling gates do
// not count.
func requested(job *api.JobInfo) *api.Resource {
	sum := job.Allocated.Clone()
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if !task.SchGated {
			sum.Add(task.InitResreq)
		}
	}
	return sum
}

// backs reports whether the gang's pods suffice for its promise (reserved minResources). It counts the resources that
// the gang holds, and the pending pods that would fit together on nodes without pods of other gangs (stays). Pods are
// packed one kind after the other, the kinds with the most requirements first. Other rules for pods are not considered,
// such as volumes and affinity to pods. backs returns false if looks, the session's count of nodes that were looked at,
// exceeds maxLooks.
func backs(ssn *framework.Session, job *api.JobInfo, promise *api.Resource, looks *int) bool {
	kinds := kindsOf(job, looks)
	if *looks > maxLooks {
		return false
	}
	sum, rooms := job.Allocated.Clone(), newEmptied(ssn, job)
	for _, k := range kinds {
		packed, ok := k.pack(rooms, looks)
		if !ok {
			return false
		}
		if promise.LessEqual(sum.Add(packed), api.Zero) {
			return true
		}
	}
	return promise.LessEqual(sum, api.Zero)
}

// emptied computes, for nodes, the resources that would be left for pending pods of a gang if the pods of other gangs ended.
type emptied struct {
	ssn  *framework.Session
	left map[string]*api.Resource
}

// newEmptied returns the resources that would be left beside the members of the gang that hold a node.
func newEmptied(ssn *framework.Session, job *api.JobInfo) *emptied {
	e := &emptied{ssn, map[string]*api.Resource{}}
	for status, tasks := range job.TaskStatusIndex {
		for _, task := range tasks {
			if node := ssn.Nodes[task.NodeName]; node != nil && api.AllocatedStatus(status) {
				e.on(node).SubWithoutAssert(task.Resreq)
			}
		}
	}
	return e
}

// on returns the resources that would be left on the node. The caller subtracts what it uses of them.
func (e *emptied) on(node *api.NodeInfo) *api.Resource {
	left := e.left[node.Name]
	if left == nil {
		left = node.Allocatable.Clone()
		for _, task := range node.Tasks {
			if stays(e.ssn, task) {
				left.SubWithoutAssert(task.Resreq)
			}
		}
		e.left[node.Name] = left
	}
	return left
}

// pack places as many pods of the kind as fit on the nodes, and returns the sum of their requests. It returns false as soon
// as looks exceeds maxLooks.
func (k *kind) pack(rooms *emptied, looks *int) (*api.Resource, bool) {
	sum, left := api.EmptyResource(), k.pods
	for node := range k.candidates(rooms.ssn.Nodes) {
		if *looks += k.cost; *looks > maxLooks {
			return sum, false
		}
		if !k.mayUse(node.Node) || !k.request.LessEqual(node.Allocatable, api.Zero) {
			continue
		}
		for room := rooms.on(node); left > 0 && k.request.LessEqual(room, api.Zero); left-- {
			room.SubWithoutAssert(k.request)
			sum.Add(k.request)
		}
		if left == 0 {
			break
		}
	}
	return sum, true
}

// stays reports whether the task is not expected to end: a pod of a DaemonSet, a static pod, or a pod that does not belong
// to a gang of this scheduler.
func stays(ssn *framework.Session, task *api.TaskInfo) bool {
	return ssn.Jobs[task.Job] == nil || framework.OfDaemonSet(task)
}

// kind are pending pods of a gang with equal requests and equal rules for nodes.
type kind struct {
	spec     *v1.PodSpec
	affinity nodeaffinity.RequiredNodeAffinity
	request  *api.Resource
	pods     int
	// rules is how many requirements the pods have on labels. cost is how much a look at a node costs.
	rules, cost int
}

// rulesPerLook is how many requirements, values of requirements and tolerations are compared about as fast as a node is
// looked at. A pod may have 10,000 values and 1,000 tolerations (quarantine/limits.go). keyCost is how many nodes are
// looked at in about the time in which one of them is added to the key of a kind.
const (
	rulesPerLook = 10
	keyCost      = 2
)

// kindsOf returns the kinds of the gang's pending pods, without pods with scheduling gates: first the kinds with the most
// requirements, because other pods can use other nodes, then the kinds with the largest requests, which are harder to
// pack. It adds its cost to looks, and returns nil as soon as looks exceeds maxLooks.
func kindsOf(job *api.JobInfo, looks *int) []*kind {
	kinds := map[string]*kind{}
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if task.SchGated {
			continue
		}
		if *looks += 1 + keyCost*rulesOf(task.Pod); *looks > maxLooks {
			return nil
		}
		key := kindKey(task)
		if kinds[key] == nil {
			kinds[key] = newKind(task)
		}
		kinds[key].pods++
	}
	keys := slices.SortedFunc(maps.Keys(kinds), func(x, y string) int {
		a, b := kinds[x], kinds[y]
		return cmp.Or(cmp.Compare(b.rules, a.rules), cmp.Compare(b.request.MilliCPU, a.request.MilliCPU), cmp.Compare(b.request.Memory, a.request.Memory), cmp.Compare(x, y))
	})
	sorted := make([]*kind, 0, len(keys))
	for _, key := range keys {
		sorted = append(sorted, kinds[key])
	}
	return sorted
}

func newKind(task *api.TaskInfo) *kind {
	k := &kind{spec: &task.Pod.Spec, affinity: nodeaffinity.GetRequiredNodeAffinity(task.Pod), request: task.InitResreq, rules: len(task.Pod.Spec.NodeSelector)}
	if required := requiredAffinity(task.Pod); required != nil {
		for _, term := range required.NodeSelectorTerms {
			k.rules += len(term.MatchExpressions) + len(term.MatchFields)
		}
	}
	k.cost = 1 + rulesOf(task.Pod)/rulesPerLook
	return k
}

// rulesOf returns how many requirements on nodes, values of these requirements, and tolerations the pod has.
func rulesOf(pod *v1.Pod) int {
	n := len(pod.Spec.NodeSelector) + len(pod.Spec.Tolerations)
	if required := requiredAffinity(pod); required != nil {
		for _, term := range required.NodeSelectorTerms {
			for _, requirements := range [][]v1.NodeSelectorRequirement{term.MatchExpressions, term.MatchFields} {
				for i := range requirements {
					n += 1 + len(requirements[i].Values)
				}
			}
		}
	}
	return n
}

// kindKey returns a key that is equal for pods of one kind.
func kindKey(task *api.TaskInfo) string {
	rules, _ := json.Marshal([]any{task.Pod.Spec.NodeSelector, requiredAffinity(task.Pod), task.Pod.Spec.Tolerations}) // these types always have JSON
	r := task.InitResreq
	return fmt.Sprint(r.MilliCPU, r.Memory, r.ScalarResources, string(rules)) // fmt sorts the keys of maps
}

func requiredAffinity(pod *v1.Pod) *v1.NodeSelector {
	if affinity := pod.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		return affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// candidates returns the nodes to look at: the one node that the pods select by its name, if it exists, or all.
func (k *kind) candidates(nodes map[string]*api.NodeInfo) iter.Seq[*api.NodeInfo] {
	if name, selected := k.spec.NodeSelector[v1.LabelHostname]; selected {
		if node := nodes[name]; node != nil && node.Node.Labels[v1.LabelHostname] == name {
			return func(yield func(*api.NodeInfo) bool) { yield(node) }
		}
	}
	return maps.Values(nodes)
}

// mayUse reports whether the node accepts pods, has the labels that the pods require, and no taint that they do not
// tolerate.
func (k *kind) mayUse(node *v1.Node) bool {
	if node == nil || node.Spec.Unschedulable {
		return false
	}
	matches, err := k.affinity.Match(node)
	if err != nil || !matches {
		return false
	}
	_, untolerated := v1helper.FindMatchingUntoleratedTaint(node.Spec.Taints, k.spec.Tolerations, func(taint *v1.Taint) bool {
		return taint.Effect == v1.TaintEffectNoSchedule || taint.Effect == v1.TaintEffectNoExecute
	})
	return !untolerated
}
