// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
)

const (
	// maxWait is the time after which a gang of the victim counts as never bound.
	maxWait = 20 * time.Second
	// breath is the pause between two gangs of the victim.
	breath = 50 * time.Millisecond
)

// errNotBound is the error for a gang that was not bound within maxWait.
var errNotBound = errors.New("not bound")

// victim submits gangs as an ordinary user does. But it calls the API server as an administrator, so that calls of the
// tenant cannot delay its calls: the test measures the scheduler.
type victim struct {
	kube kubernetes.Interface
	vc   vcclient.Interface
	// calls are the scheduler's calls for the gangs.
	calls *calls
	// resident are the UIDs of pods that run from the start.
	resident map[types.UID]string

	mu      sync.Mutex
	counter int
	// binds has the gang of each pod that is not bound yet, and shows the gang of each object that no watch has shown
	// yet. Keys are kind and name.
	binds, shows map[string]*waiting
}

// waiting is a gang that waits for its last bind.
type waiting struct {
	left int
	done chan struct{}
	at   time.Time
	// unseen is the number of the gang's objects that a plain watch of the namespace has not shown. shown is the time
	// of the last one.
	unseen int
	shown  time.Time
}

// measured has the times of a bound gang: when its objects were created, when a scheduler could first know them, and
// when it was bound.
type measured struct {
	kind, name            string
	created, known, bound time.Time
}

// knownAt returns the earliest time at which a scheduler could know of the gang's last object. An object that the
// watch showed only after the last bind was known by the time of that bind.
func (b *waiting) knownAt(created time.Time) time.Time {
	switch {
	case b.unseen > 0 || b.shown.After(b.at):
		return b.at
	case b.shown.Before(created):
		return created
	default:
		return b.shown
	}
}

// kinds are the kinds of gangs that the victim submits in turn.
var kinds = []string{"cpu", "gpu", "claim"}

// small returns the victim's n-th small gang of that kind.
func small(kind string, n int) gang {
	g := ofVictim(fmt.Sprintf("small-%d", n), 3, 1)
	switch kind {
	case "gpu":
		g.pod = func(_ int, pod *corev1.Pod) { ask(pod, gpuResource, "100") }
	case "claim":
		g = ofVictim(g.name, 2, 1)
		g.pod = func(_ int, pod *corev1.Pod) { withDevice(pod, pod.Name) }
	}
	return g
}

// wide returns a gang that needs half of the cluster, with room beside it on each node.
func wide(n int) gang {
	return ofVictim(fmt.Sprintf("wide-%d", n), 2*nodeCount, 8)
}

// whole returns a gang that needs every node except for the room of the resident pods.
func whole(n int) gang {
	return ofVictim(fmt.Sprintf("whole-%d", n), nodeCount, 28)
}

// ofVictim returns a gang of pods with this number of CPUs each. Its PodGroup has the minResources that admission
// needs.
func ofVictim(name string, size, cpus int) gang {
	return gang{name: name, size: size, cpu: fmt.Sprint(cpus), queue: victimQueue, class: highClass, group: func(group *v1beta1.PodGroup) {
		group.Spec.MinResources = &corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(size * cpus))}
	}}
}

// newVictim follows the victim's pods and starts the resident ones.
func newVictim(ctx context.Context, kube kubernetes.Interface, vc vcclient.Interface, calls *calls) (*victim, error) {
	v := &victim{kube: kube, vc: vc, calls: calls, binds: map[string]*waiting{}, shows: map[string]*waiting{}, resident: map[types.UID]string{}}
	if err := v.watch(ctx); err != nil {
		return nil, err
	}
	err := eventually(ctx, time.Minute, func() error {
		_, err := kube.CoreV1().ServiceAccounts(victimNamespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return nil, err
	}
	g := ofVictim("resident", 4, 1)
	g.pod = func(_ int, pod *corev1.Pod) { ask(pod, gpuResource, "100") }
	if _, err := v.bind(ctx, g, maxWait); err != nil {
		return nil, fmt.Errorf("gang %s: %w", g.name, err)
	}
	pods, err := kube.CoreV1().Pods(victimNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		v.resident[pods.Items[i].UID] = pods.Items[i].Name
	}
	return v, nil
}

// next returns the number of the victim's next gang.
func (v *victim) next() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.counter++
	return v.counter
}

// bind submits the gang and measures it, or returns errNotBound.
func (v *victim) bind(ctx context.Context, g gang, maxWait time.Duration) (measured, error) {
	b, pods := v.await(g)
	if _, err := v.vc.SchedulingV1beta1().PodGroups(victimNamespace).Create(ctx, g.podGroup(), metav1.CreateOptions{}); err != nil {
		return measured{}, err
	}
	for _, pod := range pods {
		if len(pod.Spec.ResourceClaims) > 0 {
			if _, err := v.kube.ResourceV1().ResourceClaims(victimNamespace).Create(ctx, deviceClaim(pod.Name, ""), metav1.CreateOptions{}); err != nil {
				return measured{}, err
			}
		}
	}
	for _, pod := range pods {
		if _, err := v.kube.CoreV1().Pods(victimNamespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return measured{}, err
		}
	}
	created := time.Now()
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return measured{}, ctx.Err()
	case <-timer.C:
		return measured{name: g.name, created: created, known: created, bound: created.Add(maxWait)}, fmt.Errorf("%s: %w within %s: %s", g.name, errNotBound, maxWait, v.whyNot(ctx, g.name))
	case <-b.done:
		v.mu.Lock()
		defer v.mu.Unlock()
		return measured{name: g.name, created: created, known: b.knownAt(created), bound: b.at}, nil
	}
}

// whyNot returns the message on the PodGroup.
func (v *victim) whyNot(ctx context.Context, name string) string {
	group, err := v.vc.SchedulingV1beta1().PodGroups(victimNamespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	text := []string{"phase " + string(group.Status.Phase)}
	for _, c := range group.Status.Conditions {
		text = append(text, fmt.Sprintf("%s %s: %.300s", c.Type, c.Reason, c.Message))
	}
	return strings.Join(text, "; ")
}

// remove deletes the gang's objects and waits until its pods do not exist.
func (v *victim) remove(ctx context.Context, g gang) error {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	for i := range g.size {
		pod := g.member(i)
		if err := v.kube.CoreV1().Pods(victimNamespace).Delete(ctx, pod.Name, now); unless(err, apierrors.IsNotFound) != nil {
			return err
		}
		if len(pod.Spec.ResourceClaims) > 0 {
			if err := v.kube.ResourceV1().ResourceClaims(victimNamespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}); unless(err, apierrors.IsNotFound) != nil {
				return err
			}
		}
	}
	v.forget(g)
	return unless(v.vc.SchedulingV1beta1().PodGroups(victimNamespace).Delete(ctx, g.name, metav1.DeleteOptions{}), apierrors.IsNotFound)
}

// unless returns the error, or nil if it is of that kind.
func unless(err error, is func(error) bool) error {
	if is(err) {
		return nil
	}
	return err
}

// stream submits small gangs one after another for the window, and adds their delays and the API server's shares to
// the round.
func (v *victim) stream(ctx context.Context, window time.Duration, r *round) error {
	taken, err := v.submit(ctx, window)
	if failed := v.calls.read(); failed != nil {
		return errors.Join(err, failed)
	}
	for _, m := range taken {
		calls := v.calls.within(m.name, m.known, m.bound)
		r.delays[m.kind] = append(r.delays[m.kind], m.bound.Sub(m.known)-calls)
		r.api = append(r.api, m.known.Sub(m.created)+calls)
	}
	return err
}

// submit submits small gangs for the window. A gang that is not bound ends it.
func (v *victim) submit(ctx context.Context, window time.Duration) (taken []measured, err error) {
	end := time.Now().Add(window)
	for n := 0; time.Now().Before(end) || n < len(kinds); n++ {
		kind := kinds[n%len(kinds)]
		g := small(kind, v.next())
		m, err := v.bind(ctx, g, maxWait)
		if err != nil && !errors.Is(err, errNotBound) {
			return taken, err
		}
		m.kind = kind
		taken = append(taken, m)
		if err := errors.Join(err, v.remove(ctx, g)); err != nil {
			return taken, err
		}
		if err := pause(ctx, breath); err != nil {
			return taken, err
		}
	}
	return taken, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
