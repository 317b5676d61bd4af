// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// session is the plugin's part in one session.
type session struct {
	*plugin
	budgets *budgets
	round   int64
	// shared reads slices with the rules that taint devices; nil without.
	shared k8sframework.SharedDRAManager

	// mu guards what is below: upstream's actions ask predicates for several nodes at a time.
	mu sync.Mutex
	// listed reports whether the inventory is up to date for the session.
	listed bool
	tasks  map[types.UID]*taskState
	// coupled caches, by spec, whether devices of several nodes would suit a claim.
	coupled map[string]bool
}

// taskState is what a task's claims were when its pre-predicate ran.
type taskState struct {
	claims []podClaim
	// selectors are the nodes that reach the devices of claims that are allocated; nil for all.
	selectors []*nodeaffinity.NodeSelector
}

func newSession(p *plugin, shared k8sframework.SharedDRAManager) *session {
	p.devices.mu.Lock()
	defer p.devices.mu.Unlock()
	p.devices.rounds++
	p.devices.budgets = newBudgets(p.search, p.devices.budgets)
	return &session{
		plugin: p, budgets: p.devices.budgets, round: p.devices.rounds, shared: shared,
		tasks: map[types.UID]*taskState{}, coupled: map[string]bool{},
	}
}

// prePredicate reads the task's claims again. An error says why it can be placed nowhere.
func (s *session) prePredicate(task *api.TaskInfo) error {
	if len(task.Pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	s.mu.Lock()
	delete(s.tasks, task.Pod.UID)
	s.mu.Unlock()
	_, err := s.stateOf(task.Pod)
	return err
}

// predicate refuses a node on which the devices that the task claims cannot be had.
func (s *session) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	if node.Node == nil || len(task.Pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	state, err := s.stateOf(task.Pod)
	var status *api.Status
	if err != nil {
		status = unresolvable("%s", err)
	} else {
		_, status = s.planFor(task.Pod, state, node.Node)
	}
	if status == nil {
		return nil
	}
	status.Plugin = Name
	return api.NewFitErrWithStatus(task, node, status)
}

// stateOf returns what is known of the pod's claims, and reads them if that is nothing.
func (s *session) stateOf(pod *v1.Pod) (*taskState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.tasks[pod.UID]; state != nil {
		return state, nil
	}
	if err := s.list(); err != nil {
		return nil, err
	}
	state, err := s.devices.look(pod)
	if err != nil {
		return nil, err
	}
	s.tasks[pod.UID] = state
	return state, nil
}

// list has the inventory be up to date, once in the session: all its verdicts are by the same devices. The mutex is held.
func (s *session) list() error {
	if s.listed {
		return nil
	}
	if !s.devices.isReady() {
		return errNotReady
	}
	now, err := s.devices.catalog.listSlices(s.shared)
	if err != nil {
		return fmt.Errorf("listing devices: %w", err)
	}
	s.devices.inventory.update(now)
	s.listed = true
	return nil
}

// look reads the pod's claims.
func (d *devices) look(pod *v1.Pod) (*taskState, error) {
	claims, err := d.claimsOf(pod)
	if err != nil {
		return nil, err
	}
	state := &taskState{claims: claims, selectors: make([]*nodeaffinity.NodeSelector, len(claims))}
	for i, claim := range claims {
		if err := d.room(pod.UID, claim.ResourceClaim); err != nil {
			return nil, err
		}
		d.freeStranded(pod, claim)
		if claim.Status.Allocation == nil {
			err = d.catalog.check(claim.ResourceClaim)
		} else if _, err = d.catalog.bindable(claim.ResourceClaim); err == nil {
			state.selectors[i], err = selectorOf(claim.Status.Allocation)
		}
		if err != nil {
			return nil, err
		}
	}
	return state, nil
}

// reaches returns the claim as others hold it; nil for none. The status refuses a node that does not reach what it has.
func (s *session) reaches(pod *v1.Pod, claim podClaim, selector *nodeaffinity.NodeSelector, node *v1.Node) (*heldClaim, *api.Status) {
	s.devices.mu.Lock()
	held := s.devices.heldByOthers(pod.UID, claim.UID)
	leaves := held != nil && held.allLeave()
	if held != nil { // whose step writes what the claim was when it was held, whatever became of it
		selector = held.selector
	}
	s.devices.mu.Unlock()
	switch {
	case leaves:
		return nil, unresolvable("claim %s is being given back", brief.Value(claim.Name))
	case selector != nil && !selector.Match(node):
		return nil, unresolvable("%s: node(s) do not reach the devices that it has", describeFirst(claim.ResourceClaim))
	}
	return held, nil
}

// mostPlans is how often a plan is made again because of concurrent changes.
const mostPlans = 3

// Reserve implements framework.Reserver: the pod holds its claims, with the devices of the node.
func (s *session) Reserve(task *api.TaskInfo, node *api.NodeInfo) error {
	if len(task.Pod.Spec.ResourceClaims) == 0 || node.Node == nil {
		return nil
	}
	for range mostPlans {
		// Since the task's turn came its claims may have changed.
		if err := s.prePredicate(task); err != nil {
			return err
		}
		state, err := s.stateOf(task.Pod)
		if err != nil {
			return err
		}
		p, status := s.planFor(task.Pod, state, node.Node)
		if status != nil {
			return errors.New(status.Reason)
		}
		if err = s.devices.assume(task.Pod, p, s.round); !errors.Is(err, errChanged) {
			return err
		}
		klog.V(3).InfoS("Devices of a placed task were allocated to another meanwhile", "pod", klog.KObj(task.Pod), "node", node.Name)
	}
	return errChanged
}

// Unreserve implements framework.Reserver.
func (s *session) Unreserve(task *api.TaskInfo) { s.devices.drop(task.Pod.UID) }
