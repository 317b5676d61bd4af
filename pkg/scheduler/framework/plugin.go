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

// Plugin takes part in scheduling sessions. One instance lives as long as the configuration that names it; a
// session is opened and closed around it once per cycle, always from the same goroutine.
type Plugin interface {
	// Name is the plugin's name in volcano-scheduler.conf.
	Name() string
	// OnSessionOpen registers the plugin's functions and pre-bind steps for this session.
	OnSessionOpen(ssn *Session)
	// OnSessionClose ends the plugin's part in the session. Pre-bind steps may still be running: they outlive
	// the session they were registered in and must not hold on to it.
	OnSessionClose(ssn *Session)
}

// Starter is a plugin that needs the other plugins of its session. OnSessionStart is called when all have opened, before the first action.
type Starter interface {
	OnSessionStart(ssn *Session)
}

// Action is one stage of a scheduling cycle.
type Action interface {
	// Name is the action's name in volcano-scheduler.conf.
	Name() string
	// Execute runs the stage on the session.
	Execute(ssn *Session)
}

// Recoverer is a plugin that can find and undo, or adopt, what a former leader prepared and did not bind.
// Recover is called after the caches are full and before the first session of a leader; the session waits for it.
// An error is retried with backoff: no session opens before every Recoverer has succeeded.
type Recoverer interface {
	Recover(ctx context.Context) error
}

// Closer is a plugin that keeps something beyond its sessions which has to end when its configuration is replaced, such as a goroutine
// or a handler of an informer.
//
// Close is called once: after a reload has put another configuration in force, on the goroutine of sessions and with none open; or, if
// the configuration that the plugin was built for is refused, at once. No session opens with the plugin any more. Members in flight
// are not waited for: their steps and rollbacks, and what is told of them, may be called on the plugin after Close, so what those need
// must outlive it. Close does not block. A scheduler that ends closes nothing.
type Closer interface {
	Close()
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

// PreBinder is one plugin's pre-bind step with a deadline and an undo.
//
// Steps of a task run one after the other in the order of plugins in the conf, after its gang was allocated and
// before any member is bound; tasks run in parallel, so a step must be safe for concurrent use. The task is the
// step's own: annotations it sets on task.Pod travel in the Binding and are on the pod in the same write that
// sets its node. A step must be idempotent and light; it may wait, since it runs off the session loop.
type PreBinder interface {
	// PreBind prepares the task for the node. An error, a panic or a missed deadline fails the task.
	PreBind(ctx context.Context, task *api.TaskInfo, nodeName string) error
	// Rollback undoes PreBind for a task that will not be bound, including a PreBind that failed half-way. It is
	// called after PreBind has returned, and again with backoff until it returns nil or a NotFound API error. It is not
	// called when PreBind has not begun, unless the step was added with WithRollbackUnbegun.
	Rollback(ctx context.Context, task *api.TaskInfo, nodeName string) error
}

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
// volume. A placement that the session takes back before that is told to the plugin's event handler (AddEventHandler). AddReserver
// does both.
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
