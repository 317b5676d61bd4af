// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/sums"
)

// Action is one stage of a scheduling cycle.
type Action interface {
	// Name is the action's name in volcano-scheduler.conf.
	Name() string
	// Execute runs the stage on the session.
	Execute(ssn *Session)
}

// Handle is what a plugin may use of the scheduler outside a session.
type Handle interface {
	KubeClient() kubernetes.Interface
	VCClient() vcclient.Interface
	// RestConfig is what the clients are made with, for clients of other kinds; the caller may change it. Every call with it has a
	// deadline.
	RestConfig() *rest.Config
	// InformerFactory has the scheduler's informers. It starts those that are asked for before it lists the cluster; a plugin that
	// a reload brings in calls StartInformers with those it needs.
	InformerFactory() informers.SharedInformerFactory
	// StartInformers has those of the informers run that do not, of this factory or any other, which must not start them itself. They
	// run for as long as the process leads. It does not wait for their lists; but no Recoverer and no session of the configuration that
	// asked for them comes before they are read. Only what the API server does not serve, or does not allow to be listed, is not waited
	// for: such an informer has not synced when Recover is called, and does when it can.
	StartInformers(informers ...cache.SharedIndexInformer) error
	// HyperNodes are the HyperNodes as the next session would see them: the same for as long as nothing that is in them changes, and
	// only to be read. It waits for no session.
	HyperNodes() *api.HyperNodesInfo
	// PodsOn are the pods on the node that have not ended, as the watch shows them now, of whichever scheduler; only to be read. Those that
	// are being bound are not among them.
	PodsOn(node string) []*v1.Pod
	// CountResources has nodes and pods counted by what the Counter knows of some resources. A scheduler has one Counter, from before it reads any
	// pod on; asking again with another has that one used from then on.
	CountResources(counter sums.Counter)
	// Wake has a session open soon, because something changed that may let a pending task be placed. It does not block.
	Wake()
	EventRecorder() record.EventRecorder
	// SharedDRAManager is what plugins that allocate devices share, as in kube-scheduler; nil where the API server has no claims for devices.
	SharedDRAManager() k8sframework.SharedDRAManager
}

// PreBindFn is one plugin's step for one task on the node chosen for it. See PreBinder for the contract.
type PreBindFn func(task *api.TaskInfo, nodeName string) error

// RollbackFn undoes a step. See PreBinder for the contract.
type RollbackFn func(ctx context.Context, task *api.TaskInfo, nodeName string) error

// PreBindOption refines a registered step.
type PreBindOption func(*preBindStep)

// WithRollback gives a PreBindFn its undo.
func WithRollback(fn RollbackFn) PreBindOption {
	return func(s *preBindStep) { s.rollback = fn }
}

// WithTimeout bounds one run of the step; DefaultStepTimeout without it.
func WithTimeout(d time.Duration) PreBindOption {
	return func(s *preBindStep) { s.timeout = d }
}

// WithRollbackUnbegun has the rollback called for every task that was handed over to be bound and will not be, also when
// the step has not begun for it: for a plugin that did something when the session placed the task, such as to assume a
// volume. A placement that the session takes back before that is told to the plugin's event handler (AddEventHandler). A Reserver
// needs neither.
func WithRollbackUnbegun() PreBindOption {
	return func(s *preBindStep) { s.rollbackUnbegun = true }
}

// WithLastLook has the function asked once more about a task that passed the plugin's step, when its whole gang has passed and is
// about to be bound; an error fails the task as one of the step does. It is for what may change while other members are prepared,
// which may take minutes. It must be quick and call nobody, is asked of one member after the other, and maybe several times.
func WithLastLook(fn PreBindFn) PreBindOption {
	return func(s *preBindStep) { s.lastLook = fn }
}

// BoundFn is told that a task is bound to the node.
type BoundFn func(ctx context.Context, task *api.TaskInfo, nodeName string)

// WithBound has the plugin told of each task that is bound: once, off the session loop, after the write that binds it has
// succeeded. A task that was handed over to be bound ends with that or with a rollback that succeeds, so what a plugin keeps for
// it can be forgotten then. Other members of its gang wait for the function; its context has a deadline.
func WithBound(fn BoundFn) PreBindOption {
	return func(s *preBindStep) { s.bound = fn }
}

type preBindStep struct {
	preBind         func(ctx context.Context, task *api.TaskInfo, nodeName string) error
	rollback        RollbackFn
	rollbackUnbegun bool
	bound           BoundFn
	lastLook        PreBindFn
	timeout         time.Duration
}
