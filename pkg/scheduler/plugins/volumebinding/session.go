// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// session is the plugin's state in one session.
type session struct {
	framework.DefaultSigner
	settings
	volumes   *volumes
	users     *users
	inventory *volumeInventory

	// mu guards tasks, because upstream's actions call predicates for several nodes concurrently.
	mu    sync.Mutex
	tasks map[types.UID]*taskState
}

// taskState holds the claims of a task in the state at the task's last pre-predicate.
type taskState struct {
	bound []*v1.PersistentVolumeClaim
	// late are the unbound claims, the smallest request first.
	late []claimRequest
}

func newSession(p *plugin, nodes map[string]*api.NodeInfo, jobs map[api.JobID]*api.JobInfo) *session {
	p.volumes.unrecovered.Resume(jobs)
	return &session{
		settings: p.settings, volumes: p.volumes, users: &users{pods: p.volumes.objects.pods, nodes: nodes, leaving: map[types.UID]bool{}}, inventory: newInventory(p.volumes, nodes, jobs), tasks: map[types.UID]*taskState{},
	}
}

// prePredicate reads the current state of the task's claims. The error says why the task fits no node.
func (s *session) prePredicate(task *api.TaskInfo) error {
	if !hasClaims(task.Pod) {
		return nil
	}
	s.mu.Lock()
	delete(s.tasks, task.Pod.UID)
	s.mu.Unlock()
	_, err := s.stateOf(task)
	return err
}

// predicate returns an error for a node that cannot run the task: the node has no volumes for unbound claims, cannot access the
// volumes of bound claims, or runs a pod that excludes the task.
func (s *session) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	if status := s.verdict(task, node); status != nil {
		status.Plugin = Name
		return api.NewFitErrWithStatus(task, node, status)
	}
	return nil
}

// verdict returns nil if the node fits the task, and otherwise a status with the reason. A node that does not fit gets the code
// UnschedulableAndUnresolvable, because upstream's actions preempt and reclaim do not select victims by their volumes. For actions
// that evict pods, pods that are being deleted exclude nothing.
func (s *session) verdict(task *api.TaskInfo, node *api.NodeInfo) *api.Status {
	if reason := diskConflict(task.Pod, node, s.users.areEvicted()); reason != "" {
		return unresolvable("%s", reason)
	}
	if node.Node == nil || !hasClaims(task.Pod) {
		return nil
	}
	state, err := s.stateOf(task)
	if err != nil {
		return unresolvable("%s", err)
	}
	if status := s.usedByOthers(task.Pod, state); status != nil {
		return status
	}
	_, refused := s.find(task.Pod.UID, state, node.Node)
	return refused
}

// usedByOthers returns a status with the reason if another pod uses one of the pod's ReadWriteOncePod claims; nil otherwise.
func (s *session) usedByOthers(pod *v1.Pod, state *taskState) *api.Status {
	refused := func(claim *v1.PersistentVolumeClaim) *api.Status {
		if user := s.users.otherThan(pod, claim); user != "" {
			return unresolvable("%s is ReadWriteOncePod and in use by pod %s", describe(claim), brief.Value(user))
		}
		return nil
	}
	for _, claim := range state.bound {
		if status := refused(claim); status != nil {
			return status
		}
	}
	for _, claim := range state.late {
		if status := refused(claim.PersistentVolumeClaim); status != nil {
			return status
		}
	}
	return nil
}

func unresolvable(format string, args ...any) *api.Status {
	return &api.Status{Code: api.UnschedulableAndUnresolvable, Reason: fmt.Sprintf(format, args...)}
}

// stateOf returns the state of the task's claims, from the cache if the session has already read it.
func (s *session) stateOf(task *api.TaskInfo) (*taskState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state := s.tasks[task.Pod.UID]; state != nil {
		return state, nil
	}
	state, err := s.volumes.objects.readClaims(task.Pod)
	if err == nil {
		err = s.volumes.recovered(state.late)
	}
	if err != nil {
		return nil, err
	}
	s.tasks[task.Pod.UID] = state
	return state, nil
}

// readClaims reads the current state of the pod's claims. The error says why the pod cannot be placed now.
func (o *objects) readClaims(pod *v1.Pod) (*taskState, error) {
	if unread := o.unread(); len(unread) > 0 {
		return nil, fmt.Errorf("the scheduler has not read all %s yet", strings.Join(unread, ", "))
	}
	state := &taskState{}
	all := claimVolumes(pod)
	if len(all) > mostClaims {
		return nil, fmt.Errorf("the pod has %d claims, must be at most %d", len(all), mostClaims)
	}
	for _, own := range all {
		claim, err := o.claimOf(pod, own)
		switch {
		case err != nil:
			return nil, err
		case isBound(claim):
			state.bound = append(state.bound, claim)
		default:
			late, err := o.readRequest(claim)
			if err != nil {
				return nil, err
			}
			state.late = append(state.late, late)
		}
	}
	slices.SortStableFunc(state.late, func(l, r claimRequest) int { return smallestFirst(l.PersistentVolumeClaim, r.PersistentVolumeClaim) })
	return state, nil
}

// find returns, for each unbound claim, the volume that the claim would get on the node. It returns a status with the reason if
// the node has no volume for a claim, or cannot access the volume of a bound claim.
func (s *session) find(pod types.UID, state *taskState, node *v1.Node) ([]candidate, *api.Status) {
	for _, claim := range state.bound {
		pv, err := s.volumes.objects.volumes.Get(claim.Spec.VolumeName)
		if apierrors.IsNotFound(err) {
			return nil, unresolvable("volume %s of claim %s no longer exists", brief.Value(claim.Spec.VolumeName), brief.Value(claim.Name))
		}
		if err == nil {
			err = s.volumes.objects.reaches(pv, node)
		}
		if errors.Is(err, errUnreached) {
			return nil, s.unreached(state)
		} else if err != nil {
			return nil, &api.Status{Code: api.Error, Reason: fmt.Sprintf("finding volumes: %v", err)}
		}
	}
	found, why, err := s.inventory.candidates(pod, state.late, node)
	switch {
	case err != nil:
		return nil, &api.Status{Code: api.Error, Reason: fmt.Sprintf("finding volumes: %v", err)}
	case why != accepted:
		return nil, unresolvable("%s", s.explain(why, state.late, node))
	}
	return found, nil
}

// unreached returns the status for a node that cannot access the volume of a bound claim.
func (s *session) unreached(state *taskState) *api.Status {
	status := unresolvable("node(s) cannot access the volume of %s", describeAll(state.bound))
	status.Plugin = Name
	return status
}

// explain returns the message for a refusal. The message names the unbound claims that may have caused the refusal.
func (s *session) explain(why refusal, late []claimRequest, node *v1.Node) string {
	claims := make([]*v1.PersistentVolumeClaim, len(late))
	for i := range late {
		claims[i] = late[i].PersistentVolumeClaim
	}
	switch why {
	case noCapacity:
		return "node(s) with too little storage capacity for " + describeAll(claims)
	case selectedElsewhere:
		for _, claim := range claims {
			if selected := s.volumes.assumptions.selectedNode(claim); selected != "" && selected != node.Name {
				return fmt.Sprintf("node(s) other than %s, which is selected for %s", selected, describe(claim))
			}
		}
	}
	return "node(s) can neither offer nor provision a volume for " + describeAll(claims)
}

// selectedNode returns the node that is selected for provisioning the claim's volume, by the claim's annotation or by an
// assumption. It returns an empty name if no node is selected.
func (as *assumptions) selectedNode(claim *v1.PersistentVolumeClaim) string {
	if selected := claim.Annotations[volume.AnnSelectedNode]; selected != "" {
		return selected
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	if held := as.held[nameOf(claim)]; held != nil && held.volume == "" {
		return held.node
	}
	return ""
}

// Reserve implements framework.Reserver: it assumes volumes for the task's claims.
func (s *session) Reserve(task *api.TaskInfo, node *api.NodeInfo) error {
	if !hasClaims(task.Pod) {
		return nil
	}
	if node.Node == nil {
		return fmt.Errorf("node %s no longer exists", node.Name)
	}
	if err := s.inventory.assume(task.Pod, node.Node); err != nil {
		return err
	}
	s.users.add(task.Pod)
	return nil
}

// Unreserve implements framework.Reserver: it releases the volumes that Reserve assumed for the task's claims.
func (s *session) Unreserve(task *api.TaskInfo) {
	s.users.remove(task.Pod)
	s.volumes.assumptions.release(task.Pod.UID)
}
