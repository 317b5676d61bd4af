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

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/accounting"
)

// Action is one stage of a scheduling cycle.
type Action interface {
	// Name is the action's name in volcano-scheduler.conf.
	Name() string
	// Execute runs the stage on the session.
	Execute(ssn *Session)
}

// Handle gives plugins access to the scheduler, also outside of sessions.
type Handle interface {
	KubeClient() kubernetes.Interface
	VCClient() vcclient.Interface
	// RestConfig returns a configuration for clients of API types that the other clients do not know. The caller may change it.
	// Every call made with it has a deadline.
	RestConfig() *rest.Config
	// InformerFactory returns the scheduler's informers. Informers that are requested at start run before the scheduler
	// lists the cluster; a plugin that is added by a reload passes the informers it needs to StartInformers.
	InformerFactory() informers.SharedInformerFactory
	// StartInformers runs the informers, of this factory or any other, if they do not run yet. Callers must not run them
	// themselves. They run as long as the process leads. StartInformers does not wait until they have synced, but Recoverers
	// and sessions of the configuration that requested them do. They do not wait for kinds that the API server does not serve
	// or does not allow to be listed: such an informer may not have synced when Recover is called, and syncs once it can.
	StartInformers(informers ...cache.SharedIndexInformer) error
	// HyperNodes returns the HyperNodes as a session would see them now. The same value is returned as long as the HyperNodes
	// do not change; it is read-only. The call waits for no session.
	HyperNodes() *api.HyperNodesInfo
	// PodsOn returns the node's pods that have not ended, of any scheduler, as the pod informer currently shows them. They
	// are read-only. Pods that are being bound are not included.
	PodsOn(node string) []*v1.Pod
	// CountResources sets the counter that supplies capacity and usage of resources that Node and Pod objects do not report. A
	// scheduler has one counter. It must be set before the scheduler reads any pod; another call replaces it.
	CountResources(counter accounting.ResourceCounter)
	// Wake requests a session soon, because a change may let a pending task be placed. It does not block.
	Wake()
	EventRecorder() record.EventRecorder
	// SharedDRAManager returns the state that plugins which allocate devices share, as in kube-scheduler; nil where the API
	// server does not serve device claims.
	SharedDRAManager() k8sframework.SharedDRAManager
}

// PreBindFn is a plugin's pre-bind step. It is called for each task, with the node chosen for it. See PreBinder for the
// contract.
type PreBindFn func(task *api.TaskInfo, nodeName string) error

// RollbackFn undoes a pre-bind step for a task. See PreBinder for the contract.
type RollbackFn func(ctx context.Context, task *api.TaskInfo, nodeName string) error

// PreBindOption sets an option of a pre-bind step that is added with AddPreBindFn.
type PreBindOption func(*preBindStep)

// WithRollback sets the rollback of a PreBindFn.
func WithRollback(fn RollbackFn) PreBindOption {
	return func(s *preBindStep) { s.rollback = fn }
}

// WithTimeout bounds one run of the step; the default is DefaultStepTimeout.
func WithTimeout(d time.Duration) PreBindOption {
	return func(s *preBindStep) { s.timeout = d }
}

// WithRollbackIfNotRun makes the rollback run for every task that was handed over and will not be bound, even if the step never
// began for it: for a plugin that did something when the session placed the task, such as assuming a volume. If the session
// itself undoes a placement, it calls the plugin's event handler instead (AddEventHandler). A Reserver needs neither the option
// nor a handler.
func WithRollbackIfNotRun() PreBindOption {
	return func(s *preBindStep) { s.rollbackIfNotRun = true }
}

// WithPreCommitCheck sets a function that checks a passed task again when its whole gang has passed and is about to be bound; an error
// fails the task, as an error of the step does. It covers changes made while other members were prepared, which may take minutes.
// It must be quick and make no remote calls. It is called for one member after the other, and may be called several times.
func WithPreCommitCheck(fn PreBindFn) PreBindOption {
	return func(s *preBindStep) { s.preCommitCheck = fn }
}

// BoundFn is called after a task was bound to the node.
type BoundFn func(ctx context.Context, task *api.TaskInfo, nodeName string)

// WithBound sets a function that is called for each bound task: once, off the session loop, after the write that binds the task
// has succeeded. A task that was handed over to be bound ends with this call or with a successful rollback, so the plugin can
// then forget its state for the task. Other members of its gang wait for the function; its context has a deadline.
func WithBound(fn BoundFn) PreBindOption {
	return func(s *preBindStep) { s.bound = fn }
}

type preBindStep struct {
	preBind          func(ctx context.Context, task *api.TaskInfo, nodeName string) error
	rollback         RollbackFn
	rollbackIfNotRun bool
	bound            BoundFn
	preCommitCheck   PreBindFn
	timeout          time.Duration
}
