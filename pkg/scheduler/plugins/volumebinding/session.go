// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	k8s "k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumebinding"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// session is the plugin's part in one session.
type session struct {
	*plugin
	users *users

	// mu guards tasks: upstream's actions ask predicates for several nodes at a time.
	mu    sync.Mutex
	tasks map[types.UID]*taskState
}

// taskState is what is known of a task's claims as long as nothing else is assumed.
type taskState struct {
	volumesState uint64
	pod          *v1.Pod
	claims       *k8s.PodVolumeClaims
	bound, late  []*v1.PersistentVolumeClaim

	mu sync.Mutex
	// found is by node.
	found map[string]finding
}

// finding is what the binder says of a node: volumes, or why it is refused.
type finding struct {
	volumes *k8s.PodVolumes
	refused *api.Status
}

func newSession(p *plugin, nodes map[string]*api.NodeInfo) *session {
	return &session{plugin: p, users: newUsers(p.volumes.pods, nodes), tasks: map[types.UID]*taskState{}}
}

// prePredicate reads the task's claims anew. An error says why it can be placed nowhere.
func (s *session) prePredicate(task *api.TaskInfo) error {
	if len(claimVolumes(task.Pod)) == 0 {
		return nil
	}
	s.mu.Lock()
	delete(s.tasks, task.Pod.UID)
	s.mu.Unlock()
	_, err := s.stateOf(task)
	return err
}

// predicate refuses a node that the volumes of the task's claims cannot be had on, or that another pod keeps it from.
func (s *session) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	if status := s.verdict(task, node); status != nil {
		status.Plugin = Name
		return api.NewFitErrWithStatus(task, node, status)
	}
	return nil
}

// verdict is nil for a node that takes the task. No eviction helps with any refusal: upstream's preempt and reclaim do not
// choose whom to evict by volumes.
func (s *session) verdict(task *api.TaskInfo, node *api.NodeInfo) *api.Status {
	if reason := diskConflict(task.Pod, node); reason != "" {
		return unresolvable("%s", reason)
	}
	if node.Node == nil || len(claimVolumes(task.Pod)) == 0 {
		return nil
	}
	state, err := s.stateOf(task)
	if err != nil {
		return unresolvable("%s", err)
	}
	for _, claim := range slices.Concat(state.bound, state.late) {
		if user := s.users.otherThan(task.Pod, claim); user != "" {
			return unresolvable("%s is for one pod at a time, and pod %s uses it", describe(claim), brief.Value(user))
		}
	}
	_, refused := s.find(state, node.Node)
	return refused
}

func unresolvable(format string, args ...any) *api.Status {
	return &api.Status{Code: api.UnschedulableAndUnresolvable, Reason: fmt.Sprintf(format, args...)}
}

// stateOf returns what is known of the task's claims. It is read again when something else was assumed meanwhile.
func (s *session) stateOf(task *api.TaskInfo) (*taskState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.volumes.stateNow()
	if state := s.tasks[task.Pod.UID]; state != nil && state.volumesState == now {
		return state, nil
	}
	state, err := s.volumes.look(task.Pod)
	if err != nil {
		delete(s.tasks, task.Pod.UID)
		return nil, err
	}
	state.volumesState = now
	s.tasks[task.Pod.UID] = state
	return state, nil
}

// look reads the pod's claims.
func (v *volumes) look(pod *v1.Pod) (*taskState, error) {
	if !v.isReady() {
		return nil, fmt.Errorf("the scheduler has not read all volumes and claims yet")
	}
	volumes := claimVolumes(pod)
	state := &taskState{pod: withVolumes(pod, volumes...), found: map[string]finding{}}
	for _, own := range volumes {
		claim, err := v.claimOf(pod, own)
		switch {
		case err != nil:
			return nil, err
		case isBound(claim):
			state.bound = append(state.bound, claim)
		default:
			state.late = append(state.late, claim)
		}
	}
	var err error
	if state.claims, err = v.binder.GetPodVolumeClaims(klog.Background(), state.pod); err != nil {
		return nil, fmt.Errorf("reading claims: %w", err)
	}
	return state, nil
}

// find returns what the binder finds for the task on the node, or why there is nothing.
func (s *session) find(state *taskState, node *v1.Node) (*k8s.PodVolumes, *api.Status) {
	state.mu.Lock()
	known, ok := state.found[node.Name]
	state.mu.Unlock()
	if ok {
		return known.volumes, known.refused
	}
	found, reasons, err := s.volumes.find(state.pod, state.claims, node)
	made := finding{volumes: found}
	switch {
	case err != nil:
		made = finding{refused: &api.Status{Code: api.Error, Reason: err.Error()}}
	case len(reasons) > 0:
		made = finding{refused: unresolvable("%s", s.volumes.explain(state, node, reasons))}
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	state.found[node.Name] = made
	return made.volumes, made.refused
}

// explain puts the binder's reasons into words that name the claims they may be about.
func (v *volumes) explain(state *taskState, node *v1.Node, reasons k8s.ConflictReasons) string {
	switch {
	case slices.Contains(reasons, k8s.ErrReasonPVNotExist):
		return "there is no volume any more for " + describeAll(state.bound)
	case slices.Contains(reasons, k8s.ErrReasonNodeConflict):
		return "node(s) do not reach the volume of " + describeAll(state.bound)
	case slices.Contains(reasons, k8s.ErrReasonNotEnoughSpace):
		return "node(s) have too little storage left for " + describeAll(state.late)
	}
	for _, claim := range state.late {
		if selected := v.selectedNode(claim); selected != "" && selected != node.Name {
			return fmt.Sprintf("node(s) other than %s, which was selected for %s", selected, describe(claim))
		}
	}
	return "node(s) have no free volume, and cannot be given one, for " + describeAll(state.late)
}

// selectedNode is the node on which the claim's volume is being made, or is assumed to be.
func (v *volumes) selectedNode(claim *v1.PersistentVolumeClaim) string {
	if selected := claim.Annotations[volume.AnnSelectedNode]; selected != "" {
		return selected
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if held := v.held[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]; held != nil && len(held.assumed.DynamicProvisions) > 0 {
		return held.node
	}
	return ""
}

// uncacheable is true of a task whose verdicts depend on what else is placed: with a claim that is not bound yet, or that is for
// one pod at a time, or with a disk that is.
func (s *session) uncacheable(task *api.TaskInfo) bool {
	if hasDisks(task.Pod) {
		return true
	}
	for _, own := range claimVolumes(task.Pod) {
		claim, err := s.volumes.claims.PersistentVolumeClaims(own.claim.Namespace).Get(own.claim.Name)
		if err != nil || !isBound(claim) || forOnePod(claim) {
			return true
		}
	}
	return false
}

// allocated assumes the volumes of a task that was placed. A task whose eviction is taken back is none.
func (s *session) allocated(event *vcframework.Event) {
	task := event.Task
	if task.Status != api.Allocated && task.Status != api.Pipelined {
		return
	}
	s.users.add(task.Pod)
	if len(claimVolumes(task.Pod)) == 0 {
		return
	}
	node, ok := s.users.nodes[task.NodeName]
	if !ok || node.Node == nil {
		event.Err = fmt.Errorf("node %s is not in the session", task.NodeName)
		return
	}
	if err := s.volumes.assume(task.Pod, node.Node); err != nil {
		event.Err = fmt.Errorf("plugin %s: reserving volumes: %w", Name, err)
		klog.V(3).InfoS("Volumes of a placed task are not reserved", "pod", klog.KObj(task.Pod), "node", node.Name, "err", err)
	}
}

// deallocated undoes that for a task whose placement was taken back. An evicted one keeps its volumes until it is gone.
func (s *session) deallocated(event *vcframework.Event) {
	if event.Task.Status != api.Pending {
		return
	}
	s.users.remove(event.Task.Pod)
	s.volumes.revert(event.Task.Pod.UID)
}
