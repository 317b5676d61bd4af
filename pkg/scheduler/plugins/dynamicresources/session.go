// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework/workbudget"
)

// session is the plugin's state in one session.
type session struct {
	framework.DefaultSigner
	settings
	devices *devices
	budgets *workbudget.Budgets
	round   int64
	// waits reports whether a task would wait on a node for pods that leave it (framework.Waits).
	waits func(*api.TaskInfo, *api.NodeInfo) bool
	// shared lists ResourceSlices with the taints of DeviceTaintRules; nil if upstream has no such list.
	shared k8sframework.SharedDRAManager

	// mu guards the fields below, because upstream's actions call predicates for several nodes concurrently.
	mu sync.Mutex
	// listed reports whether the inventory was updated in this session.
	listed bool
	tasks  map[types.UID]*taskState
	// coupled caches, by the spec of a claim, whether a device that several nodes reach suits the claim.
	coupled map[string]bool
}

// taskState holds the claims of a task in the state at the task's last pre-predicate.
type taskState struct {
	claims []podClaim
	// selectors has an entry for each claim, which matches the nodes that reach the claim's allocated devices. The entry is nil if
	// all nodes reach them, or if the claim is not allocated.
	selectors []*nodeaffinity.NodeSelector

	// read guards needs and err, the result of needsOf for all claims.
	read  sync.Once
	needs []need
	err   error
}

// needsOf returns the requests of those of the task's claims that have no allocation. Mostly these are all of its claims, on all
// nodes.
func (t *taskState) needsOf(c *catalog, open []*resourceapi.ResourceClaim) ([]need, error) {
	if len(open) < len(t.claims) {
		return c.needsOf(open)
	}
	t.read.Do(func() { t.needs, t.err = c.needsOf(open) })
	return t.needs, t.err
}

func newSession(p *plugin, shared k8sframework.SharedDRAManager, jobs map[api.JobID]*api.JobInfo, waits func(*api.TaskInfo, *api.NodeInfo) bool) *session {
	p.devices.unrecovered.Resume(jobs)
	p.devices.mu.Lock()
	defer p.devices.mu.Unlock()
	p.devices.rounds++
	p.devices.budgets = workbudget.New(searches, p.search, p.devices.budgets)
	return &session{
		settings: p.settings, devices: p.devices, budgets: p.devices.budgets, round: p.devices.rounds, shared: shared, waits: waits,
		tasks: map[types.UID]*taskState{}, coupled: map[string]bool{},
	}
}

// prePredicate reads the current state of the task's claims. The error says why the task fits no node.
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

// predicate returns an error for a node on which the task's claims cannot get devices, or which cannot access the devices that are
// already allocated to the claims.
func (s *session) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	if node.Node == nil || len(task.Pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	state, err := s.stateOf(task.Pod)
	var status *api.Status
	if err != nil {
		status = unresolvable("%s", err)
	} else {
		_, status = s.planFor(task.Pod, state, node.Node, s.leavingOn(node, state, s.waits(task, node)))
	}
	if status == nil {
		return nil
	}
	status.Plugin = Name
	return api.NewFitErrWithStatus(task, node, status)
}

// stateOf returns the state of the pod's claims, from the cache if the session has already read it.
func (s *session) stateOf(pod *v1.Pod) (*taskState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.tasks[pod.UID]; state != nil {
		return state, nil
	}
	if err := s.list(); err != nil {
		return nil, err
	}
	state, err := s.devices.readClaims(pod)
	if err != nil {
		return nil, err
	}
	s.tasks[pod.UID] = state
	return state, nil
}

// list updates the inventory once in a session, so that all filter results of the session are based on the same devices. The
// caller holds s.mu.
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

// readClaims reads the current state of the pod's claims. The error says why the pod cannot be placed now.
func (d *devices) readClaims(pod *v1.Pod) (*taskState, error) {
	claims, err := d.claimsOf(pod)
	if err != nil {
		return nil, err
	}
	state := &taskState{claims: claims, selectors: make([]*nodeaffinity.NodeSelector, len(claims))}
	for i, claim := range claims {
		if err := d.recovered(claim.ResourceClaim); err != nil {
			return nil, err
		}
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

// reaches checks whether the node reaches the devices of the claim. selector matches the nodes that reach the devices; nil if all
// nodes reach them. If the node does not reach them, or the claim is being released, reaches returns a status with the reason. waits
// reports whether the pod waits for devices that are in use. Otherwise it returns the claim's entry in devices.held; nil if no
// other pod holds the claim.
func (s *session) reaches(pod *v1.Pod, claim podClaim, selector *nodeaffinity.NodeSelector, node *v1.Node, waits bool) (*assumedClaim, *api.Status) {
	s.devices.mu.Lock()
	held := s.devices.held[claim.UID]
	if held != nil && len(held.holders) == 1 && held.holders[pod.UID] != nil && !held.holders[pod.UID].leaving {
		held = nil
	}
	leaves, inUse := held != nil && held.allLeave(), held != nil && held.waits && !waits
	// Placed pods hold the claim with the allocation that the entry held records. Only nodes that reach its devices fit the
	// claim, even if informers now show another allocation.
	if held != nil {
		selector = held.selector
	}
	s.devices.mu.Unlock()
	switch {
	case leaves:
		return nil, unresolvable("claim %s is used only by pods being deleted; retrying once they are deleted", brief.Value(claim.Name))
	case inUse:
		return nil, unresolvable("claim %s waits for devices that are still in use", brief.Value(claim.Name))
	case selector != nil && !selector.Match(node):
		return nil, unresolvable("%s: node(s) cannot access its devices", describeFirst(claim.ResourceClaim))
	}
	return held, nil
}

// mostPlans is the maximum number of plans that Reserve makes for a pod. Reserve makes another plan if a concurrent change made
// the last plan invalid.
const mostPlans = 3

// Reserve implements framework.Reserver: it plans devices for the task's claims on the node, and assumes them.
func (s *session) Reserve(task *api.TaskInfo, node *api.NodeInfo) error {
	if len(task.Pod.Spec.ResourceClaims) == 0 || node.Node == nil {
		return nil
	}
	for range mostPlans {
		// The claims may have changed since the task's pre-predicate ran.
		if err := s.prePredicate(task); err != nil {
			return err
		}
		state, err := s.stateOf(task.Pod)
		if err != nil {
			return err
		}
		p, status := s.planFor(task.Pod, state, node.Node, s.leavingOn(node, state, task.Status == api.Pipelined))
		if status != nil {
			return errors.New(status.Reason)
		}
		if err = s.devices.assume(task.Pod, p, s.round); !errors.Is(err, errChanged) {
			return err
		}
		klog.V(3).InfoS("Devices of a placed task were allocated to another pod in the meantime", "pod", klog.KObj(task.Pod), "node", node.Name)
	}
	return errChanged
}

// Unreserve implements framework.Reserver: it releases the devices that Reserve assumed for the task's claims.
func (s *session) Unreserve(task *api.TaskInfo) { s.devices.drop(task.Pod.UID) }
