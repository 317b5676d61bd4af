// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"fmt"
	"hash/maphash"
	"iter"
	"slices"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	devicekinds "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/devices"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/fragmentation"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/ranks"
)

// session is the plugin's state during one scheduling session.
type session struct {
	framework.DefaultSigner
	common *common
	ssn    *framework.Session

	// mu guards the fields below and the ledgers (the nodes' devices in use), because upstream's actions call
	// predicates for several nodes concurrently.
	mu sync.Mutex
	// classes are the classes of recent tasks, for the fragmentation strategy; nil before the first use.
	classes *fragmentation.TaskClasses
	// supply is the number of GPUs of each model on the session's nodes, for the fragmentation strategy.
	supply fragmentation.Supply
	// requests caches the parsed requests of the session's pods, by the UID of the pod. former is the same cache of the
	// previous session.
	requests, former map[types.UID]*request
	placed           map[api.TaskID]*placement
	onNode           map[string][]*placement
	// unlike caches, by job, whether the members of the job request different devices.
	unlike map[api.JobID]bool
	ranks  *ranks.Ranks
	queues *queueLimits
	// tooTight has the plans for several members of a gang on one node that found no devices, so that they are not
	// tried again.
	tooTight map[besideKey]bool
	// fresh has the names of the nodes whose ledgers (the devices in use) are up to date.
	fresh map[string]bool
}

// request is a pod's parsed request for devices. err is the reason why the request is invalid.
type request struct {
	*allocator.Request
	// key is a hash of the request; equal requests have equal keys.
	key uint64
	err error
	// version is the resource version of the pod when its request was parsed.
	version string
}

func newSession(c *common, ssn *framework.Session) *session {
	c.ledgers.keepOnly(ssn.Nodes)
	c.inventories.keepOnly(ssn.Nodes)
	s := &session{
		common: c, ssn: ssn, requests: map[types.UID]*request{}, former: c.requests, placed: map[api.TaskID]*placement{}, onNode: map[string][]*placement{}, unlike: map[api.JobID]bool{},
		ranks: ranks.New(), tooTight: map[besideKey]bool{}, fresh: map[string]bool{},
	}
	s.queues = &queueLimits{ssn: ssn, known: c.inventories, requestOf: s.requestOf, parse: s.parse, placed: s.placed}
	c.requests = s.requests
	if c.strategy.Type == fragmentationStrategy {
		s.supply = c.supplies.of(c.inventories, ssn.Nodes)
	}
	return s
}

// requestOf returns the task's request for devices that Device objects describe; nil if the task requests none.
func (s *session) requestOf(task *api.TaskInfo) *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known(task)
}

// known returns the task's request for devices, like requestOf. It is for callers that already hold s.mu.
func (s *session) known(task *api.TaskInfo) *request {
	found, ok := s.requests[task.Pod.UID]
	if !ok {
		if found = s.former[task.Pod.UID]; found == nil || found.version != task.Pod.ResourceVersion || found.version == "" {
			found = s.parse(task.Pod)
		}
		s.requests[task.Pod.UID] = found
	}
	if found.Request == nil && found.err == nil {
		return nil
	}
	return found
}

// parse parses the pod's request for devices. This may take long if the pod's hints are large.
func (s *session) parse(pod *v1.Pod) *request {
	parsed, err := allocator.ParseRequest(pod, s.common.requestOptions)
	found := &request{Request: parsed, err: err, version: pod.ResourceVersion}
	if parsed != nil {
		found.key = maphash.String(s.common.verdicts.seed, parsed.Key())
	}
	return found
}

// prePredicate refuses a task whose request is invalid, because no node can take such a task.
func (s *session) prePredicate(task *api.TaskInfo) error {
	if request := s.requestOf(task); request != nil {
		return request.err
	}
	return nil
}

// skip reports whether the plugin does not affect where the task is placed: the task requests no devices, and the
// plugin does not score nodes for it.
func (s *session) skip(task *api.TaskInfo) bool {
	return s.requestOf(task) == nil && !s.common.backends.asks(task.Pod) && !s.keepsFit()
}

// SignTask implements framework.Signer. If the members of a gang request different devices, the verdict on a member
// depends on the members already on the node: they may get other devices to make the member fit. Members with equal
// requests leave enough devices for one another (reserveBeside), so the verdict is the same for all of them. Upstream's
// backends choose devices while they compute the verdict and reserve these devices later. So their verdicts are not
// cached for gangs whose members request different devices.
func (s *session) SignTask(task *api.TaskInfo) framework.CacheScope {
	if s.skip(task) {
		return framework.Unaffected
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch job := s.ssn.Jobs[task.Job]; {
	case job == nil || s.known(task) == nil || !s.isUnlike(job):
		return framework.PerTaskClass
	case s.common.backends.asks(task.Pod):
		return framework.Uncached
	default:
		return framework.PerJob
	}
}

// PodKeys implements framework.Signer.
func (s *session) PodKeys() framework.PodKeys {
	return framework.SomePodKeys(append(devicekinds.PodKeys(), podKeys...)...)
}

// SignJob implements framework.Signer. The key consists of the job and the number of its members that were handed over,
// because members keep their devices once they are handed over.
func (s *session) SignJob(job *api.JobInfo) string {
	return string(job.UID) + "/" + strconv.Itoa(len(job.TaskStatusIndex[api.Binding]))
}

// isUnlike reports whether members of the job request different devices. The caller holds s.mu.
func (s *session) isUnlike(job *api.JobInfo) bool {
	unlike, ok := s.unlike[job.UID]
	if ok {
		return unlike
	}
	var first *request
	for _, member := range job.Tasks {
		switch asked := s.known(member); {
		case asked == nil:
		case first == nil:
			first = asked
		case asked.key != first.key:
			unlike = true
		}
	}
	s.unlike[job.UID] = unlike
	return unlike
}

// predicate refuses a node without the devices that the task requests.
func (s *session) predicate(task *api.TaskInfo, node *api.NodeInfo) error {
	if err := s.common.backends.predicate(task, node); err != nil {
		return err
	}
	request := s.requestOf(task)
	if request == nil || node.Node == nil {
		return nil
	}
	if request.err != nil { // not every action calls prePredicate before predicate
		return refuse(task, node, request.err.Error(), true)
	}
	_, refusal := s.find(task, request, node)
	if refusal == nil {
		return nil
	}
	return refuse(task, node, refusal.Reason, refusal.Unresolvable)
}

func refuse(task *api.TaskInfo, node *api.NodeInfo, reason string, unresolvable bool) error {
	code := api.Unschedulable
	if unresolvable {
		code = api.UnschedulableAndUnresolvable
	}
	return api.NewFitErrWithStatus(task, node, &api.Status{Code: code, Reason: reason, Plugin: Name})
}

// find returns the verdict on the task for the node's devices, or why the node is refused. If the task would wait for pods
// that are leaving the node, these pods do not count.
// The verdict is nil in two cases: the node has no Device object and its GPUs are only counted, or the task fits only
// if other members get other devices.
func (s *session) find(task *api.TaskInfo, request *request, node *api.NodeInfo) (*verdict, *allocator.Refusal) {
	inventory, refusal := s.inventoryFor(request, node)
	if refusal != nil || inventory == nil {
		return nil, refusal
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ledger := s.ledgerOf(node, inventory)
	waits := framework.Waits(s.ssn, task, node)
	if refusal := ledger.refusal(waits); refusal != nil {
		return nil, refusal
	}
	state, on := ledger.beside(waits), s.strategyFor(task, node, idle(node, waits))
	found := s.common.verdicts.of(request, ledger, state, on)
	if found.refusal == nil {
		return found, nil
	}
	if job := s.ssn.Jobs[task.Job]; job != nil && s.isUnlike(job) && !on.isAligned() { // members with equal requests leave devices for each other
		if s.fitsBeside(&placement{task: task, node: node.Name, request: request}, state, waits, on) {
			return nil, nil
		}
	}
	if !waits && ledger.now != ledger.later && s.common.verdicts.of(request, ledger, ledger.later, on).refusal == nil {
		return nil, &allocator.Refusal{Reason: found.refusal.Reason + "; there are enough once terminating pods have ended"}
	}
	return nil, found.refusal
}

// idle returns the node's idle resources. For a task that waits for leaving pods, it returns the resources that will be
// idle once these pods have ended.
func idle(node *api.NodeInfo, waits bool) *api.Resource {
	if waits {
		return node.FutureIdle()
	}
	return node.Idle
}

// ledgerOf returns the ledger of devices in use on the node, up to date. For a copy of a node that simulates a change,
// the ledger is updated at each call. For the session's own node, it is updated only after the node has changed. The
// caller holds s.mu.
func (s *session) ledgerOf(node *api.NodeInfo, inventory *inventory) *ledger {
	own := s.ssn.Nodes[node.Name] == node
	if kept := s.common.ledgers.nodes[node.Name]; own && s.fresh[node.Name] && kept.inventory == inventory {
		return kept
	}
	s.fresh[node.Name] = own
	return s.common.ledgers.of(node, inventory, s.placed)
}

// changed marks the ledger of devices in use on the task's node as outdated: a task was placed on the node or removed
// from it.
func (s *session) changed(e *vcframework.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.fresh, e.Task.NodeName)
}

// inventoryFor returns the node's devices, or why the node cannot serve the request. Both are nil if the node has no
// Device object and can serve the request by counting its GPUs.
func (s *session) inventoryFor(request *request, node *api.NodeInfo) (*inventory, *allocator.Refusal) {
	inventory := s.common.inventories.of(node.Node)
	switch {
	case inventory == nil && request.OnlyVendorDevices():
		if reason := s.common.inventories.devices.byNumbers(node.Name, podsOf(node)); reason != "" {
			return nil, &allocator.Refusal{Reason: reason, Unresolvable: true}
		}
		return nil, nil
	case inventory == nil:
		return nil, &allocator.Refusal{Reason: "node(s) without a Device object", Unresolvable: true}
	case inventory.Shares(request.Request) && slices.Contains(s.common.unshared, inventory.model()):
		return nil, &allocator.Refusal{Reason: fmt.Sprintf("node(s) with GPUs of model %s, which argument %s excludes from sharing", brief.Value(inventory.Model), unsharedArgument), Unresolvable: true}
	}
	if reason := s.common.vendorRefusal(request.Request, inventory); reason != "" {
		return nil, &allocator.Refusal{Reason: reason, Unresolvable: true}
	}
	return inventory, nil
}

// podsOf yields the pods on the node. It leaves out pods that this session placed there: they are not bound yet, so a
// tenant may have written their annotations.
func podsOf(node *api.NodeInfo) iter.Seq[*v1.Pod] {
	return func(yield func(*v1.Pod) bool) {
		for _, task := range node.Tasks {
			if task.Status != api.Allocated && task.Status != api.Pipelined && !yield(task.Pod) {
				return
			}
		}
	}
}

// nodeOrder scores a node by the state that its devices would have after the placement of the task.
func (s *session) nodeOrder(task *api.TaskInfo, node *api.NodeInfo) (float64, error) {
	score := s.common.backends.score(task, node)
	request := s.requestOf(task)
	switch {
	case node.Node == nil || request != nil && request.err != nil:
		return score, nil
	case request == nil:
		return score + s.fitnessWith(task, node)*s.common.strategy.weight(), nil
	}
	if found, refusal := s.find(task, request, node); refusal == nil && found != nil {
		score += found.score * s.common.strategy.weight()
	}
	return score, nil
}
