// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
)

// The first session waits for each plugin's first recovery pass (RecoveryPass). A reload of the configuration waits for
// the passes of new plugins, for at most a minute in all. So a first pass has little time, also for one namespace,
// whatever tenants do. A pass that retries gives a namespace more time, because it delays only other retries. The next
// retry waits for the slowest namespace. So the time for one namespace also limits how long that namespace can delay
// the retries of others.
const (
	firstPass            = 20 * time.Second
	firstPassOfNamespace = 10 * time.Second
	retryOfNamespace     = 30 * time.Second
)

// RecoveryPass is one attempt to withdraw all writes of a former leader. It reads the pods of each namespace once.
type RecoveryPass struct {
	unrecovered *Unrecovered
	// end is when the recovery pass stops withdrawing writes. perNamespace limits its time for the objects of one
	// namespace.
	end          time.Time
	perNamespace time.Duration

	mu         sync.Mutex
	namespaces map[string]*namespacePass
}

// namespacePass is the part of a recovery pass in one namespace. pods and err, the result of listing the namespace's
// pods, are set when listed is closed.
type namespacePass struct {
	end    time.Time
	listed chan struct{}
	pods   sets.Set[string]
	err    error
}

func (u *Unrecovered) newPass(all, perNamespace time.Duration) *RecoveryPass {
	return &RecoveryPass{unrecovered: u, end: time.Now().Add(all), perNamespace: perNamespace, namespaces: map[string]*namespacePass{}}
}

// Visit calls withdraw for the object, with the keys of the pods in its namespace (Withdrawer.PodKeys). It records an
// error of withdraw, or that the pods could not be listed. If the time for the namespace or for the recovery pass is
// over, Visit does not call withdraw, and records that time ran out.
func (p *RecoveryPass) Visit(ctx context.Context, of Leftover, withdraw func(ctx context.Context, pods sets.Set[string]) error) {
	namespace, isFirst := p.in(of.Claim.Namespace)
	ctx, cancel := context.WithDeadline(ctx, namespace.end)
	defer cancel()
	if isFirst {
		namespace.pods, namespace.err = p.unrecovered.listPods(ctx, of.Claim.Namespace)
		close(namespace.listed)
	}
	<-namespace.listed // ends at the latest when the pass's time for the namespace is over
	err := namespace.err
	switch {
	case err != nil:
	case ctx.Err() != nil:
		err = errNoTime
	default:
		err = withdraw(ctx, namespace.pods)
	}
	p.record(of, err)
}

// in returns the part of the pass in the namespace. isFirst reports whether this is the first call for the namespace.
func (p *RecoveryPass) in(name string) (namespace *namespacePass, isFirst bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	namespace = p.namespaces[name]
	if namespace != nil {
		return namespace, false
	}
	namespace = &namespacePass{end: time.Now().Add(p.perNamespace), listed: make(chan struct{})}
	if p.end.Before(namespace.end) {
		namespace.end = p.end
	}
	p.namespaces[name] = namespace
	return namespace, true
}

// record records the result of a visit: an error, or that nothing is left to withdraw.
func (p *RecoveryPass) record(of Leftover, err error) {
	u := p.unrecovered
	u.mu.Lock()
	defer u.mu.Unlock()
	reasons := u.reasons[of.Claim]
	former := reasons[of.Volume]
	switch {
	case err == nil && former == nil:
	case err == nil:
		if delete(reasons, of.Volume); len(reasons) == 0 {
			delete(u.reasons, of.Claim)
		}
		klog.InfoS("Withdrew a former leader's write of a claim, for which its pods waited", "plugin", u.plugin, "claim", of.Claim, "volume", of.Volume)
		u.wake()
	case former != nil && (errors.Is(err, errNoTime) || errors.Is(err, context.Canceled)):
		// keeps the object's error of an earlier pass, which says more than that this pass had no time or was ended
	case reasons == nil:
		u.reasons[of.Claim] = map[string]error{of.Volume: err}
	default:
		reasons[of.Volume] = err
	}
}

// listPods returns the keys that a withdrawal needs of the pods in the namespace (Withdrawer.PodKeys). It fails while a
// pod is still being bound whose bind transaction began before withdrawals were resumed.
func (u *Unrecovered) listPods(ctx context.Context, namespace string) (sets.Set[string], error) {
	if ctx.Err() != nil {
		return nil, errNoTime
	}
	keys := sets.Set[string]{}
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return u.withdrawer.ListPods(ctx, namespace, options)
	}
	u.mu.Lock()
	inFlight := u.inFlight
	u.mu.Unlock()
	beingBound := ""
	err := eachListed(ctx, list, func(pod *v1.Pod) {
		if pod.Spec.NodeName == "" && inFlight.Has(pod.UID) {
			beingBound = pod.Name
		}
		keys.Insert(u.withdrawer.PodKeys(pod)...)
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("listing pods of namespace %s: %w", namespace, err)
	case beingBound != "":
		return nil, fmt.Errorf("pod %s/%s is being bound", namespace, beingBound)
	}
	return keys, nil
}
