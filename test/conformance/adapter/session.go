// SPDX-License-Identifier: Apache-2.0

package adapter

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/preempt"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/cache"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/evictionbackoff"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/nodeorder"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/transaction"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

const (
	// Variable selects whose sessions are opened, and Upstream selects upstream's.
	Variable = "CONFORMANCE_SESSIONS"
	Upstream = "upstream"
	// Mark is the line that reports a session.
	Mark = "CONFORMANCE: session"
	// volumesTime is how long upstream's volume binder may take to fill its caches from watches while a session
	// opens. Nothing reports when they are full, and upstream's tests rely on a fast machine.
	volumesTime = 500 * time.Millisecond
)

// opened is an open session of ours.
type opened struct {
	*framework.Session
	registry *framework.Registry
	// actions are this project's actions, which run in place of upstream's of the same name.
	actions map[string]vcframework.Action
	cache   *cache.Cache
}

// state is shared by the tests of a package, since upstream's framework offers no other place for it.
var state = struct {
	sync.Mutex
	sessions map[*vcframework.Session]*opened
	caches   map[*vccache.SchedulerCache]*cache.Cache
	// started has the caches that tests have started, until our cache over them is created.
	started map[*vccache.SchedulerCache]<-chan struct{}
}{
	sessions: map[*vcframework.Session]*opened{}, caches: map[*vccache.SchedulerCache]*cache.Cache{},
	started: map[*vccache.SchedulerCache]<-chan struct{}{},
}

// Run is called in place of the cache's Run. Our cache is created from the objects that tests have put into
// upstream's, so it starts with the first session.
func Run(upstream *vccache.SchedulerCache, stop <-chan struct{}) {
	if os.Getenv(Variable) == Upstream {
		upstream.Run(stop)
		return
	}
	state.Lock()
	defer state.Unlock()
	state.started[upstream] = stop
}

// OpenSession is called in place of upstream's. It panics on an invalid configuration.
func OpenSession(upstream *vccache.SchedulerCache, tiers []conf.Tier, configurations []conf.Configuration) *vcframework.Session {
	fmt.Printf("\n%s\n", Mark)
	defer awaitVolumes(upstream)
	c := cacheOver(upstream)
	if c == nil {
		return vcframework.OpenSession(upstream, tiers, configurations)
	}
	registry := framework.NewRegistry()
	registry.Reporter = report.NewPendingGangs(nil)
	if _, ok := vcframework.GetPluginBuilder(nodeorder.Name); ok {
		registry.RegisterPlugin(nodeorder.Spec())
	}
	registry.RegisterPlugin(transaction.Spec(c))
	registry.RegisterPlugin(evictionbackoff.Spec())
	actions := register(registry)
	tiers = append([]conf.Tier{evictionbackoff.Tier(), transaction.Tier(0)}, tiers...)
	profile, err := registry.Build(framework.ProfileInput{Tiers: tiers, Configurations: configurations}, c.Handle())
	if err != nil {
		panic(err)
	}
	ssn := registry.OpenSession(c, profile)
	state.Lock()
	defer state.Unlock()
	state.sessions[ssn.Session] = &opened{ssn, registry, actions, c}
	return ssn.Session
}

// register registers this project's actions. It returns them as upstream's framework calls them.
func register(registry *framework.Registry) map[string]vcframework.Action {
	actions := map[string]vcframework.Action{}
	for _, action := range []framework.Action{allocate.New(), preempt.New(nil), preempt.NewReclaim(nil)} {
		registry.RegisterAction(action)
		actions[action.Name()], _ = vcframework.GetAction(action.Name())
	}
	return actions
}

func awaitVolumes(upstream *vccache.SchedulerCache) {
	kube := upstream.Client()
	if kube == nil {
		return
	}
	volumes, err := kube.CoreV1().PersistentVolumes().List(context.Background(), metav1.ListOptions{})
	if err == nil && len(volumes.Items) > 0 {
		<-time.After(volumesTime)
	}
}

// cacheOver returns our cache over upstream's, and creates it in the first call. It returns nil if sessions are
// upstream's, or if ours cannot wrap upstream's cache.
func cacheOver(upstream *vccache.SchedulerCache) *cache.Cache {
	if os.Getenv(Variable) == Upstream {
		return nil
	}
	state.Lock()
	defer state.Unlock()
	if _, ok := state.caches[upstream]; !ok {
		state.caches[upstream] = wrap(upstream, state.started[upstream])
		delete(state.started, upstream)
	}
	return state.caches[upstream]
}

func find(ssn *vcframework.Session) *opened {
	state.Lock()
	defer state.Unlock()
	return state.sessions[ssn]
}

// Execute is called in place of the action's Execute.
func Execute(action vcframework.Action, ssn *vcframework.Session) {
	if o := find(ssn); o != nil {
		if ours := o.actions[action.Name()]; ours != nil {
			action = ours
		}
		o.Execute(action)
		return
	}
	action.Execute(ssn)
}

// Seal is called when all actions of a test have run, as in our loop.
func Seal(ssn *vcframework.Session) {
	if o := find(ssn); o != nil {
		o.cache.SealTransactions()
	}
}

// CloseSession is called in place of upstream's.
func CloseSession(ssn *vcframework.Session) {
	o := find(ssn)
	if o == nil {
		vcframework.CloseSession(ssn)
		return
	}
	o.registry.CloseSession(o.Session)
	state.Lock()
	defer state.Unlock()
	delete(state.sessions, ssn)
}
