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
	// RestConfig returns a configuration for building clients of API types that the scheduler's other clients do not
	// know. The caller may change it. Every call made with this configuration has a deadline.
	RestConfig() *rest.Config
	// InformerFactory returns the scheduler's informers. Informers that are requested when the scheduler starts run
	// before it lists the cluster. A plugin that is added by a reload must pass the informers it needs to
	// StartInformers.
	InformerFactory() informers.SharedInformerFactory
	// StartInformers runs the informers, of this factory or any other, if they do not run yet. Callers must not run them
	// themselves. The informers run as long as the process leads. StartInformers does not wait until the informers have
	// synced, but Recoverers and sessions of the configuration that requested them do. An informer of a kind that the
	// API server does not serve or does not allow to be listed is not waited for. Such an informer may not have synced
	// when Recover is called, and syncs once it can.
	StartInformers(informers ...cache.SharedIndexInformer) error
	// HyperNodes returns the HyperNodes as a session that opens now would see them. The same value is returned as long
	// as the HyperNodes do not change. The value is read-only. The call does not wait for a session.
	HyperNodes() *api.HyperNodesInfo
	// PodsOn returns the node's pods that have not ended, of any scheduler, as the pod informer currently shows them.
	// The pods are read-only. Pods that are being bound are not included.
	PodsOn(node string) []*v1.Pod
	// Wake requests a session soon. A plugin calls it after a change that may let a pending task be placed. Wake does
	// not block.
	Wake()
	EventRecorder() record.EventRecorder
	// SharedDRAManager returns the state that plugins which allocate devices share, as in kube-scheduler; nil where the
	// API server does not serve device claims.
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

// WithRollbackIfNotRun makes the rollback run for every task that was handed over and will not be bound, even if the
// step never began for it. A plugin needs this if it did something when the session placed the task, such as assuming a
// volume. If the session itself undoes a placement, it calls the plugin's event handler instead (AddEventHandler). A
// Reserver needs neither this option nor a handler.
func WithRollbackIfNotRun() PreBindOption {
	return func(s *preBindStep) { s.rollbackIfNotRun = true }
}

// WithPreCommitCheck sets a function that checks a task again, after the steps of its whole gang have passed and before
// the gang is bound. An error of the function fails the task, like an error of the step. The check detects changes made
// while other members were prepared, which may take minutes. It must be quick and make no remote calls. It is called
// for one member after the other, and may be called several times.
func WithPreCommitCheck(fn PreBindFn) PreBindOption {
	return func(s *preBindStep) { s.preCommitCheck = fn }
}

// BoundFn is called after the task was bound to the node.
type BoundFn func(ctx context.Context, task *api.TaskInfo, nodeName string)

// WithBound sets a function that is called once for each bound task, outside of the session, after the write that binds
// the task has succeeded. For each task that was handed over to be bound, either this function is called or a rollback
// succeeds. The plugin can then drop its state for the task. Other members of the gang wait for the function. The
// context of the function has a deadline.
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
