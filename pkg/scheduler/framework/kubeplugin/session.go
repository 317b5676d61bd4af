// SPDX-License-Identifier: Apache-2.0

package kubeplugin

import (
	"context"
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// session is the adapted plugin's value for one session (framework.SessionScoped).
type session struct {
	*plugin
	// nodes are the session's nodes as Kubernetes' plugins see them. Upstream's predicates plugin keeps them up to date.
	nodes map[string]fwk.NodeInfo

	// mu guards tasks, because upstream's actions call predicates for several nodes concurrently.
	mu    sync.Mutex
	tasks map[types.UID]*taskState
}

// taskState is the plugin's state of a task, from PreFilter until the task is bound or rolled back, or the session
// ends.
type taskState struct {
	fwk.CycleState
	// nodes are the nodes that PreFilter allows; nil for all.
	nodes sets.Set[string]
	// notFiltered reports whether PreFilter returned Skip, so that Filter is not called for the task.
	notFiltered bool
	// err is why PreEnqueue or PreFilter refused the task on all nodes; nil if neither refused it.
	err error
	// reservedOn is the node on which the plugin has reserved for the task; empty without a reservation.
	reservedOn string
}

// prePredicate calls PreEnqueue and PreFilter for the task again. An error says why the task fits nowhere. If the
// plugin has already reserved for the task, prePredicate does nothing, because the task's state contains the
// reservation.
func (s *session) prePredicate(task *api.TaskInfo) error {
	if s.heldFor(task.Pod.UID) != nil {
		return nil
	}
	s.mu.Lock()
	delete(s.tasks, task.Pod.UID)
	s.mu.Unlock()
	_, err := s.stateOf(task)
	return err
}

// stateOf returns the task's state. If the task has no state yet, stateOf calls PreEnqueue and PreFilter to build it.
func (s *session) stateOf(task *api.TaskInfo) (*taskState, error) {
	if held := s.heldFor(task.Pod.UID); held != nil {
		return held, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.tasks[task.Pod.UID]
	if state == nil {
		state = &taskState{CycleState: k8sframework.NewCycleState()}
		state.err = s.limited(task, func(ctx context.Context) error { return s.preFilter(ctx, state, task.Pod) })
		s.tasks[task.Pod.UID] = state
	}
	return state, state.err
}

// limited calls act with a context that ends when the time limit of the task's namespace is used up. It returns act's error, or
// says which limit is used up.
func (s *session) limited(task *api.TaskInfo, act func(ctx context.Context) error) error {
	ctx, end, err := s.budgets.Begin(task.Namespace, filterTimeout)
	if err != nil {
		return fmt.Errorf("plugin %s: %w", s.name, err)
	}
	defer end()
	return act(ctx)
}

func (s *session) preFilter(ctx context.Context, state *taskState, pod *v1.Pod) error {
	if s.points.preEnqueue != nil {
		if err := s.failure(s.points.preEnqueue.PreEnqueue(ctx, pod)); err != nil {
			return err
		}
	}
	if s.points.preFilter == nil {
		return nil
	}
	nodes, err := s.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	result, status := s.points.preFilter.PreFilter(ctx, state, pod, nodes)
	if status.IsSkip() {
		state.notFiltered = true
		return nil
	}
	if !result.AllNodes() {
		state.nodes = result.NodeNames
	}
	return s.failure(status)
}

// predicate returns an error if the adapted plugin refuses the node for the task.
func (s *session) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	if refused := s.verdict(task, node); refused != nil {
		return api.NewFitErrWithStatus(task, node, refused)
	}
	return nil
}

func (s *session) verdict(task *api.TaskInfo, node *api.NodeInfo) *api.Status {
	state, err := s.stateOf(task)
	switch {
	case err != nil:
		return s.refusal(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error()))
	case state.notFiltered:
		return nil
	case state.nodes != nil && !state.nodes.Has(node.Name):
		return s.refusal(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "node(s) not allowed by plugin "+s.name))
	case s.points.filter == nil:
		return nil
	}
	info, err := s.nodeInfo(node)
	if err != nil {
		return s.refusal(fwk.AsStatus(err))
	}
	var refused *api.Status
	if err := s.limited(task, func(ctx context.Context) error {
		refused = s.refusal(s.points.filter.Filter(ctx, state, task.Pod, info))
		return nil
	}); err != nil {
		return s.refusal(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error()))
	}
	return refused
}

func (s *session) nodeInfo(node *api.NodeInfo) (fwk.NodeInfo, error) {
	info := s.nodes[node.Name]
	if info == nil || info.Node() == nil {
		return nil, fmt.Errorf("node %s is not in the session", node.Name)
	}
	return info, nil
}

// Reserve implements framework.Reserver. If results are cached, another task of the class was filtered on the node. So the task
// itself is filtered first, because Reserve of the adapted plugin may need data that its Filter stores in the CycleState.
func (s *session) Reserve(task *api.TaskInfo, node *api.NodeInfo) error {
	if s.caching != nil {
		if err := s.prePredicate(task); err != nil {
			return err
		}
		if refused := s.verdict(task, node); refused != nil {
			return errors.New(refused.Reason)
		}
	}
	state, err := s.stateOf(task)
	if err != nil {
		return err
	}
	state.reservedOn = node.Name
	s.remember(task.Pod.UID, state)
	if s.points.reserve == nil {
		return nil
	}
	if err := s.failure(s.points.reserve.Reserve(background, state, task.Pod, node.Name)); err != nil {
		s.Unreserve(task)
		return err
	}
	return nil
}

// Unreserve implements framework.Reserver.
func (s *session) Unreserve(task *api.TaskInfo) {
	defer s.forget(task.Pod.UID) // even if the plugin panics, because Unreserve is not called again
	if state := s.heldFor(task.Pod.UID); state != nil && s.points.reserve != nil {
		s.points.reserve.Unreserve(background, state, task.Pod, state.reservedOn)
	}
}

// scores returns the plugin's scores of nodes that fit.
func (s *session) scores(task *api.TaskInfo, nodes []*api.NodeInfo) (map[string]float64, error) {
	state, err := s.stateOf(task)
	if err != nil {
		return nil, err
	}
	infos := make([]fwk.NodeInfo, len(nodes))
	for i, node := range nodes {
		if infos[i], err = s.nodeInfo(node); err != nil {
			return nil, err
		}
	}
	if s.points.preScore != nil {
		status := s.points.preScore.PreScore(background, state, task.Pod, infos)
		if status.IsSkip() {
			return nil, nil
		}
		if err := s.failure(status); err != nil {
			return nil, fmt.Errorf("before scoring: %w", err)
		}
	}
	list := make(k8sframework.NodeScoreList, len(infos))
	for i, info := range infos {
		score, status := s.points.score.Score(background, state, task.Pod, info)
		if err := s.failure(status); err != nil {
			return nil, fmt.Errorf("scoring node %s: %w", nodes[i].Name, err)
		}
		list[i] = k8sframework.NodeScore{Name: nodes[i].Name, Score: score}
	}
	if extensions := s.points.score.ScoreExtensions(); extensions != nil {
		if err := s.failure(extensions.NormalizeScore(background, state, task.Pod, list)); err != nil {
			return nil, fmt.Errorf("normalizing scores: %w", err)
		}
	}
	return s.weighted(list)
}

func (s *session) weighted(list k8sframework.NodeScoreList) (map[string]float64, error) {
	scores := make(map[string]float64, len(list))
	for _, node := range list {
		if node.Score < k8sframework.MinNodeScore || node.Score > k8sframework.MaxNodeScore {
			return nil, fmt.Errorf("the score of node %s is %d, and not between %d and %d",
				node.Name, node.Score, k8sframework.MinNodeScore, k8sframework.MaxNodeScore)
		}
		scores[node.Name] = float64(node.Score) * float64(s.weight)
	}
	return scores, nil
}
