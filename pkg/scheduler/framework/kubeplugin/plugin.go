// SPDX-License-Identifier: Apache-2.0

package kubeplugin

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework/workbudget"
)

// Factory builds a plugin of kube-scheduler's framework, as a factory in kube-scheduler's registry does. Methods of the
// Handle that are not supported here panic.
type Factory func(h k8sframework.Handle) (k8sframework.Plugin, error)

// Option configures the adapted plugin.
type Option func(*plugin)

// WithWeight multiplies the plugin's scores, which are 0 to 100. The default is 1; 0 disables the scores.
func WithWeight(weight int) Option { return func(p *plugin) { p.weight = weight } }

// WithTimeout bounds one call of PreBind, and one call of Unreserve in a rollback. The default is
// framework.DefaultStepTimeout.
func WithTimeout(d time.Duration) Option { return func(p *plugin) { p.timeout = d } }

// WithCaching allows allocate to cache the results of Filter and Score. scope says which tasks share a result: all
// tasks of a class, or the tasks of a class in one job. reads are the only labels and annotations of pods that Filter
// and Score read. The plugin must give equal pods equal results, regardless of placements on other nodes.
func WithCaching(scope framework.CacheScope, reads framework.PodKeys) Option {
	return func(p *plugin) { p.caching = &caching{scope: scope, reads: reads} }
}

// caching holds the settings of WithCaching, as a framework.Signer.
type caching struct {
	framework.DefaultSigner
	scope framework.CacheScope
	reads framework.PodKeys
}

// SignTask implements framework.Signer.
func (c *caching) SignTask(*api.TaskInfo) framework.CacheScope { return c.scope }

// PodKeys implements framework.Signer.
func (c *caching) PodKeys() framework.PodKeys { return c.reads }

// signing is the plugin's value for one session (framework.SessionScoped) if its results may be cached (WithCaching).
type signing struct {
	*session
	*caching
}

// New builds a plugin of kube-scheduler's framework and adapts it to this project. name is the plugin's name in the
// conf. Call New in the Builder that PluginSpec.Load returns. If the adapted plugin has a method Recover(ctx) error, the result is a
// framework.Recoverer. If the adapted plugin is an io.Closer, it is closed when a reload replaces the configuration.
//
// Filter and Score are called for each task, unless WithCaching allows caching.
func New(name string, h framework.Handle, build Factory, opts ...Option) (framework.Plugin, error) {
	p := &plugin{name: name, handle: newHandle(h), weight: 1, timeout: framework.DefaultStepTimeout, held: map[types.UID]*taskState{}}
	for _, opt := range opts {
		opt(p)
	}
	if p.weight < 0 || p.weight > framework.MaxWeight {
		return nil, fmt.Errorf("plugin %s: weight is %d, must be from 0 to %d", name, p.weight, framework.MaxWeight)
	}
	made, err := built(build, p.handle)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", name, err)
	}
	p.closer, _ = made.(io.Closer)
	if p.points, err = pointsOf(made); err != nil {
		p.Close()
		return nil, fmt.Errorf("plugin %s: %w", name, err)
	}
	if recoverer, ok := made.(framework.Recoverer); ok {
		return recovering{transacting{p}, recoverer}, nil
	}
	if p.points.reserve != nil || p.points.preBind != nil || p.points.postBind != nil {
		return transacting{p}, nil
	}
	return p, nil
}

func built(build Factory, h k8sframework.Handle) (_ k8sframework.Plugin, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its constructor panicked: %v", p)
		}
	}()
	return build(h)
}

// plugin adapts a plugin of kube-scheduler's framework. It lives as long as its configuration. If its pre-bind steps
// still run then, it lives until they end.
type plugin struct {
	points  points
	name    string
	handle  *handle
	weight  int
	timeout time.Duration
	// caching has the settings of WithCaching; nil without it.
	caching *caching
	// session is the plugin's value for the open session; nil if none is open.
	session *session
	// budgets limits the time of PreEnqueue, PreFilter and Filter in the current session. Between sessions it has the values of
	// the last session.
	budgets *workbudget.Budgets
	// closer is the plugin that is adapted; nil if it is not an io.Closer.
	closer io.Closer

	// mu guards held, which maps tasks with a reservation of the plugin to their states. A state stays until the task's
	// placement is taken back, or until the task was bound or rolled back.
	mu   sync.Mutex
	held map[types.UID]*taskState
}

// transacting is a plugin that reserves, or has a pre-bind step.
type transacting struct{ *plugin }

type recovering struct {
	transacting
	framework.Recoverer
}

var (
	_ framework.SessionScoped   = (*plugin)(nil)
	_ framework.PreBindOptioner = transacting{}
	_ framework.Closer          = (*plugin)(nil)
	_ framework.Reserver        = (*session)(nil)
	_ framework.Reserver        = signing{}
	_ framework.Signer          = signing{}
	_ framework.Recoverer       = recovering{}
)

// Name implements framework.Plugin.
func (p *plugin) Name() string { return p.name }

// OnSessionOpen implements framework.Plugin.
func (p *plugin) OnSessionOpen(ssn *framework.Session) {
	p.handle.open(ssn.NodeMap)
	p.budgets = workbudget.New(filters, filterBudget, p.budgets)
	s := &session{plugin: p, nodes: ssn.NodeMap, tasks: map[types.UID]*taskState{}}
	p.session = s
	ssn.AddPrePredicateFn(p.name, s.prePredicate)
	if p.points.preFilter != nil || p.points.filter != nil {
		ssn.AddPredicateFn(p.name, s.predicate)
	}
	if p.points.score != nil && p.weight > 0 {
		ssn.AddBatchNodeOrderFn(p.name, s.scores)
	}
}

// OnSessionClose implements framework.Plugin.
func (p *plugin) OnSessionClose(*framework.Session) {
	p.handle.open(nil)
	p.session = nil
}

// InSession implements framework.SessionScoped.
func (p *plugin) InSession() any {
	if p.caching == nil {
		return p.session
	}
	return signing{p.session, p.caching}
}

// Close implements framework.Closer.
func (p *plugin) Close() {
	if p.closer == nil {
		return
	}
	if err := p.closer.Close(); err != nil {
		klog.ErrorS(err, "Closing a plugin of kube-scheduler's framework failed", "plugin", p.name)
	}
}

// remember keeps the state of the task with this UID until forget is called.
func (p *plugin) remember(uid types.UID, state *taskState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[uid] = state
}

func (p *plugin) forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, uid)
}

// heldFor returns the state of the task if the plugin has reserved for the task; otherwise nil.
func (p *plugin) heldFor(uid types.UID) *taskState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[uid]
}

// filterTimeout is the time limit of one call of PreEnqueue and PreFilter, or of Filter. filterBudget limits the time of slow calls
// in a session, for each namespace and for all namespaces together. A call is slow beyond its first millisecond.
const (
	filterTimeout = time.Second
	filterBudget  = time.Second
)

var filters = workbudget.Work{One: "filter", Many: "filters"}

// background is the context of calls in the session loop. These calls must not block.
var background = context.Background()
