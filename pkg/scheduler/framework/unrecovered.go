// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// Leftover identifies an object that a former leader wrote for pods that it may not have bound: a claim or, if Volume is
// set, a volume that is reserved for the claim.
type Leftover struct {
	Claim  types.NamespacedName
	Volume string
}

// Withdrawer is the part of a plugin that withdraws a former leader's writes.
type Withdrawer interface {
	// ListPods lists one page of the pods in the namespace that a withdrawal depends on.
	ListPods(ctx context.Context, namespace string, options metav1.ListOptions) (*v1.PodList, error)
	// PodKeys returns what a withdrawal needs to know of one listed pod, for example the names of the claims that the
	// pod uses. A withdrawal gets the keys of all listed pods in one set.
	PodKeys(pod *v1.Pod) []string
	// WithdrawAgain reads the object from the API server and withdraws the former leader's writes. pods are the keys
	// (PodKeys) of the listed pods in the namespace of the object's claim. It returns nil if nothing is left to withdraw.
	// Each call has a deadline.
	WithdrawAgain(ctx context.Context, of Leftover, pods sets.Set[string]) error
}

// Unrecovered holds the claims whose writes of a former leader could not be withdrawn yet, and withdraws these writes in
// the background. Tenants can make a withdrawal fail for any length of time, for example with conflicts. So no session
// waits for a claim. Instead the plugin refuses the pods that use the claim (Check).
//
// Invariant: claims are added only by Recover, before the plugin's first session. A claim is removed after the last write
// of its withdrawal has ended. In between the plugin places no pod that uses the claim, so a withdrawal never meets writes
// of this leader's plugin. Another plugin may place such pods while no configuration in use has the plugin: see Resume.
type Unrecovered struct {
	plugin     string
	withdrawer Withdrawer
	// wake requests a session.
	wake func()
	// passing has an element while a recovery pass withdraws writes. Two passes at once could withdraw a write twice.
	passing chan struct{}

	mu sync.Mutex
	// reasons are, for each claim and each volume that is reserved for it, why the former leader's write could not be
	// withdrawn. The volume's name is empty for the claim itself.
	reasons map[types.NamespacedName]map[string]error
	// instances is the number of instances of the plugin in use. stop ends the goroutine that retries withdrawals; nil
	// while no such goroutine runs.
	instances int
	stop      context.CancelFunc
	// inFlight are the pods that were being bound when withdrawals were resumed, and in all sessions since then. While
	// such a pod has no node, nothing is withdrawn in its namespace: another plugin may still write for it, or roll back.
	inFlight sets.Set[types.UID]
}

// NewUnrecovered returns an empty Unrecovered for the plugin.
func NewUnrecovered(plugin string, withdrawer Withdrawer, wake func()) *Unrecovered {
	return &Unrecovered{
		plugin: plugin, withdrawer: withdrawer, wake: wake, passing: make(chan struct{}, 1),
		reasons: map[types.NamespacedName]map[string]error{},
	}
}

// Join records that a new instance of the plugin uses u.
func (u *Unrecovered) Join() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.instances++
}

// Leave records that an instance of the plugin was closed. After the last instance, withdrawals are no longer retried,
// because another plugin may now write to the claims. u keeps the claims: a later configuration may have the plugin
// again, and the plugin then does not recover again.
func (u *Unrecovered) Leave() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.instances--; u.instances > 0 || u.stop == nil {
		return
	}
	u.stop()
	u.stop = nil
}

// Resume starts the retries of withdrawals again after the last instance of the plugin had left. The plugin calls it
// with the session's jobs whenever a session opens. Meanwhile another plugin may have placed pods that use the claims.
// So nothing is withdrawn in a namespace before the bind transactions of its pods have ended.
func (u *Unrecovered) Resume(jobs map[api.JobID]*api.JobInfo) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.reasons) == 0 || u.stop != nil && len(u.inFlight) == 0 {
		return
	}
	binding := sets.Set[types.UID]{}
	for _, job := range jobs {
		for _, task := range job.TaskStatusIndex[api.Binding] {
			binding.Insert(task.Pod.UID)
		}
	}
	if u.stop != nil {
		u.inFlight = u.inFlight.Intersection(binding)
		return
	}
	u.inFlight = binding
	u.start()
}

// Check returns an error, for users, if a former leader's writes for the claim are not withdrawn yet.
func (u *Unrecovered) Check(claim types.NamespacedName) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	reasons := u.reasons[claim]
	if len(reasons) == 0 {
		return nil
	}
	volume := slices.Min(slices.Collect(maps.Keys(reasons)))
	what := "the write of"
	if volume != "" {
		what = fmt.Sprintf("the reservation of volume %s by", brief.Value(volume))
	}
	if err := reasons[volume]; !errors.Is(err, errNoTime) {
		return fmt.Errorf("%s a former scheduler leader could not be withdrawn yet; the scheduler retries it; last error: %s", what, brief.Part(err.Error()))
	}
	return fmt.Errorf("%s a former scheduler leader is not withdrawn yet: time ran out at the start of this leader; the scheduler retries it", what)
}

// Recover runs the first recovery pass. visit must call Visit of the pass for each object with a former leader's writes.
// An error of visit means that the objects could not be listed. Otherwise withdrawals that failed are retried in the
// background until they succeed, or until the last instance of the plugin leaves.
func (u *Unrecovered) Recover(visit func(pass *RecoveryPass) error) error {
	u.passing <- struct{}{}
	defer func() { <-u.passing }()
	if err := visit(u.newPass(firstPass, firstPassOfNamespace)); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.reasons) == 0 || u.instances == 0 || u.stop != nil {
		return nil
	}
	u.report()
	u.start()
	return nil
}

// start starts the goroutine that retries withdrawals. The caller holds u.mu.
func (u *Unrecovered) start() {
	ctx, stop := context.WithCancel(context.Background())
	u.stop = stop
	go u.retry(ctx)
}

// mostReported is the maximum number of claims that a log line names.
const mostReported = 10

// report logs which claims have a former leader's writes that could not be withdrawn. The caller holds u.mu.
func (u *Unrecovered) report() {
	claims, reason := brief.List{First: mostReported}, ""
	for claim, reasons := range u.reasons {
		claims.Add(claim.String())
		for _, err := range reasons {
			reason = brief.Part(err.Error())
		}
	}
	klog.InfoS("Writes of a former leader could not be withdrawn yet; their claims' pods wait for retries", "plugin", u.plugin,
		"claims", strings.Join(claims.Items(), ", ")+claims.More(), "reasonOfOne", reason)
}

// The pause before the first retry of failed withdrawals is firstRetry. It doubles with each retry, up to retryPause.
const (
	firstRetry = time.Second
	retryPause = time.Minute
)

// retry runs recovery passes until all writes of the former leader are withdrawn, or ctx ends.
func (u *Unrecovered) retry(ctx context.Context) {
	for pause := firstRetry; !u.isDone(ctx); pause = min(2*pause, retryPause) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		u.again(ctx)
	}
}

// isDone reports whether the goroutine that retries withdrawals is to end: ctx has ended, or no claim is left in u. In
// the latter case isDone records that the goroutine no longer runs.
func (u *Unrecovered) isDone(ctx context.Context) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if ctx.Err() != nil {
		return true
	}
	if len(u.reasons) > 0 {
		return false
	}
	u.stop()
	u.stop = nil
	return true
}

// again runs a recovery pass over all objects whose withdrawal failed before: one object after the other within a
// namespace, and several namespaces at once.
func (u *Unrecovered) again(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case u.passing <- struct{}{}:
	}
	defer func() { <-u.passing }()
	var visits errgroup.Group
	visits.SetLimit(visitsAtOnce)
	pass := u.newPass(math.MaxInt64, retryOfNamespace)
	for _, objects := range u.byNamespaceFewestFirst() {
		visits.Go(func() error {
			for _, object := range objects {
				if ctx.Err() != nil {
					break
				}
				pass.Visit(ctx, object, func(ctx context.Context, pods sets.Set[string]) error {
					return u.withdrawer.WithdrawAgain(ctx, object, pods)
				})
			}
			return nil
		})
	}
	_ = visits.Wait() // the functions return no errors
}

// byNamespaceFewestFirst returns all objects whose withdrawal failed before, by the namespace of their claims. Namespaces
// with few objects come first, so that they do not wait for slow ones with many. The order within a namespace is random,
// so that each object is visited before long, even if a recovery pass has too little time for all of them.
func (u *Unrecovered) byNamespaceFewestFirst() [][]Leftover {
	u.mu.Lock()
	defer u.mu.Unlock()
	objects := map[string][]Leftover{}
	for claim, reasons := range u.reasons {
		for volume := range reasons {
			objects[claim.Namespace] = append(objects[claim.Namespace], Leftover{claim, volume})
		}
	}
	return slices.SortedFunc(maps.Values(objects), func(a, b []Leftover) int { return cmp.Compare(len(a), len(b)) })
}

// errNoTime is the error of objects for which a recovery pass had no time.
var errNoTime = errors.New("the recovery pass has no time left")
