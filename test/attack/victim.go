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
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
)

const (
	// patience is how long a gang of the victim may take before it counts as never bound.
	patience = 20 * time.Second
	// breath is the pause between two gangs of the victim.
	breath = 50 * time.Millisecond
)

// errNotBound is the verdict on a gang that was not bound within the patience.
var errNotBound = errors.New("not bound")

// victim submits gangs as an ordinary user does. Its calls are an administrator's, whose share of the API server no tenant can take:
// what is measured is the scheduler.
type victim struct {
	kube kubernetes.Interface
	vc   vcclient.Interface
	// resident are the UIDs of pods that run from the start.
	resident map[types.UID]string

	mu      sync.Mutex
	counter int
	awaited map[string]*waiting
}

// waiting is a gang that waits for its last bind.
type waiting struct {
	left int
	done chan struct{}
	at   time.Time
}

// kinds are what the victim submits, in turns.
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

// whole returns a gang that needs each node but for the pods that are resident.
func whole(n int) gang {
	return ofVictim(fmt.Sprintf("whole-%d", n), nodeCount, 28)
}

// ofVictim returns a gang of pods with that many cpus each, which says in its PodGroup what it needs to be let in.
func ofVictim(name string, size, cpus int) gang {
	return gang{name: name, size: size, cpu: fmt.Sprint(cpus), queue: victimQueue, class: highClass, group: func(group *v1beta1.PodGroup) {
		group.Spec.MinResources = &corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprint(size * cpus))}
	}}
}

// newVictim follows the victim's pods and has some of them run for good.
func newVictim(ctx context.Context, kube kubernetes.Interface, vc vcclient.Interface) (*victim, error) {
	v := &victim{kube: kube, vc: vc, awaited: map[string]*waiting{}, resident: map[types.UID]string{}}
	onNode := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewFilteredListWatchFromClient(kube.CoreV1().RESTClient(), "pods", victimNamespace, onNode),
		ObjectType:    &corev1.Pod{},
		Handler:       cache.ResourceEventHandlerFuncs{AddFunc: v.bound},
	})
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil, errors.New("the watch on the victim's pods did not start")
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
	if _, err := v.bind(ctx, g, patience); err != nil {
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

func (v *victim) bound(obj any) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	now := time.Now()
	v.mu.Lock()
	defer v.mu.Unlock()
	if b := v.awaited[pod.Name]; b != nil {
		delete(v.awaited, pod.Name)
		if b.left--; b.left == 0 {
			b.at = now
			close(b.done)
		}
	}
}

// next numbers the victim's gangs.
func (v *victim) next() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.counter++
	return v.counter
}

// bind submits the gang and returns how long its last bind was after its last pod was created, or errNotBound.
func (v *victim) bind(ctx context.Context, g gang, patience time.Duration) (time.Duration, error) {
	b := &waiting{left: g.size, done: make(chan struct{})}
	pods := make([]*corev1.Pod, g.size)
	v.mu.Lock()
	for i := range pods {
		pods[i] = g.member(i)
		v.awaited[pods[i].Name] = b
	}
	v.mu.Unlock()
	if _, err := v.vc.SchedulingV1beta1().PodGroups(victimNamespace).Create(ctx, g.podGroup(), metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	for _, pod := range pods {
		if len(pod.Spec.ResourceClaims) > 0 {
			if _, err := v.kube.ResourceV1().ResourceClaims(victimNamespace).Create(ctx, deviceClaim(pod.Name, ""), metav1.CreateOptions{}); err != nil {
				return 0, err
			}
		}
	}
	for _, pod := range pods {
		if _, err := v.kube.CoreV1().Pods(victimNamespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return 0, err
		}
	}
	created := time.Now()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-timer.C:
		return patience, fmt.Errorf("%s: %w within %s: %s", g.name, errNotBound, patience, v.whyNot(ctx, g.name))
	case <-b.done:
		return max(0, b.at.Sub(created)), nil
	}
}

// whyNot is what the PodGroup says.
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

// remove deletes the gang's objects and waits until its pods are gone.
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
	v.mu.Lock()
	for i := range g.size {
		delete(v.awaited, g.member(i).Name)
	}
	v.mu.Unlock()
	return unless(v.vc.SchedulingV1beta1().PodGroups(victimNamespace).Delete(ctx, g.name, metav1.DeleteOptions{}), apierrors.IsNotFound)
}

// unless returns the error except where it is of that kind.
func unless(err error, is func(error) bool) error {
	if is(err) {
		return nil
	}
	return err
}

// stream submits small gangs one after another for the window and adds their delays to the round. A gang that is not bound ends it.
func (v *victim) stream(ctx context.Context, window time.Duration, r *round) error {
	end := time.Now().Add(window)
	for n := 0; time.Now().Before(end) || n < len(kinds); n++ {
		kind := kinds[n%len(kinds)]
		g := small(kind, v.next())
		delay, err := v.bind(ctx, g, patience)
		if err != nil && !errors.Is(err, errNotBound) {
			return err
		}
		r.delays[kind] = append(r.delays[kind], delay)
		if removing := v.remove(ctx, g); removing != nil {
			return removing
		}
		if err != nil {
			r.lasting = append(r.lasting, err.Error())
			return nil
		}
		if err := pause(ctx, breath); err != nil {
			return err
		}
	}
	return nil
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
