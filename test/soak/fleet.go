// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

const (
	// mostPods is the maximum number of members of all gangs together. They use 72 of 128 CPUs, so each gang fits
	// wherever the others are. This holds even for a gang that requires an InfiniBand cluster of 32 CPUs while two
	// nodes are missing.
	mostPods = 72
	// mostLow is the maximum number of members of all gangs of low priority together. With the others they want more
	// CPUs than there are, so the others need pods of low priority to be evicted.
	mostLow = 72
	// largest is the size of the largest gangs.
	largest = 8
	// lowPriority and usualPriority are the names of PriorityClasses.
	lowPriority, usualPriority = "soak-low", "soak-usual"
)

// gang is a PodGroup and its pods, which request one CPU each.
type gang struct {
	name      string
	size, min int
	queue     string
	// priority is the name of the PriorityClass.
	priority string
	// required keeps the gang in one InfiniBand cluster.
	required bool
	born     time.Time
}

func (g *gang) member(i int) string { return fmt.Sprintf("%s-%d", g.name, i) }

// fleet has the gangs that must exist. Like the controllers of a real cluster, it creates their missing objects.
type fleet struct {
	s *soak

	mu     sync.Mutex
	random *rand.Rand
	gangs  map[string]*gang
	// sizes has the number of members of each gang that was ever submitted.
	sizes   map[string]int
	counter int
	// submitted and retired count gangs.
	submitted, retired int
}

func newFleet(s *soak) *fleet {
	return &fleet{s: s, random: rand.New(rand.NewPCG(s.opts.seed, 2)), gangs: map[string]*gang{}, sizes: map[string]int{}}
}

// churn submits, removes and resizes gangs until the context ends.
func (f *fleet) churn(ctx context.Context) {
	for pause(ctx, f.within(100, 900)) {
		switch n := f.intN(10); {
		case n < 6:
			f.submit()
		case n < 9:
			f.retireOne(ctx)
		default:
			f.resize(ctx)
		}
	}
}

// submit adds a gang if there is room for it.
func (f *fleet) submit() {
	f.mu.Lock()
	defer f.mu.Unlock()
	size, priority, most := 1+f.random.IntN(largest), usualPriority, mostPods
	if f.random.IntN(2) == 0 {
		priority, most = lowPriority, mostLow
	}
	if f.podsLocked(priority)+size > most {
		return
	}
	f.counter++
	f.submitted++
	g := &gang{name: fmt.Sprintf("g%d", f.counter), size: size, min: 1 + f.random.IntN(size), priority: priority, born: time.Now()}
	if f.random.IntN(3) == 0 {
		g.min = size
	}
	f.gangs[g.name], f.sizes[g.name] = g, size
	switch {
	case priority == lowPriority:
		g.min = 1 // The second queue reclaims exactly its share only if any number of pods can be evicted.
	case f.random.IntN(4) == 0:
		g.queue, g.min = secondQueue, size // Members above the minimum count for the queue's share and reclaim nothing.
	case f.random.IntN(3) == 0:
		g.required, g.min = true, size // Members above the minimum may find their cluster full.
	}
}

// podsLocked returns the number of members of the gangs of a priority.
func (f *fleet) podsLocked(priority string) (n int) {
	for _, g := range f.gangs {
		if g.priority == priority {
			n += g.size
		}
	}
	return n
}

// removeLow removes the gangs of low priority.
func (f *fleet) removeLow(ctx context.Context) {
	for _, g := range f.all() {
		if g.priority == lowPriority {
			f.remove(ctx, g)
		}
	}
}

// retireOne removes a random gang, whatever its state is.
func (f *fleet) retireOne(ctx context.Context) {
	if g := f.randomGang(); g != nil {
		f.remove(ctx, g)
	}
}

// remove removes a gang. keepUp deletes the objects whose deletion fails now.
func (f *fleet) remove(ctx context.Context, g *gang) {
	f.mu.Lock()
	delete(f.gangs, g.name)
	f.retired++
	f.mu.Unlock()
	_ = f.s.vc.SchedulingV1beta1().PodGroups(namespace).Delete(ctx, g.name, metav1.DeleteOptions{})
}

// resize changes the minimum of a gang.
func (f *fleet) resize(ctx context.Context) {
	g := f.randomGang()
	if g == nil || g.required || g.queue == secondQueue || g.priority == lowPriority {
		return
	}
	f.mu.Lock()
	g.min = 1 + f.random.IntN(g.size)
	f.mu.Unlock()
	groups := f.s.vc.SchedulingV1beta1().PodGroups(namespace)
	if group, err := groups.Get(ctx, g.name, metav1.GetOptions{}); err == nil {
		group.Spec.MinMember = int32(g.min)
		_, _ = groups.Update(ctx, group, metav1.UpdateOptions{})
	}
}

// randomGang returns a random gang, or nil if there is none.
func (f *fleet) randomGang() *gang {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.gangs) == 0 {
		return nil
	}
	names := slices.Sorted(maps.Keys(f.gangs))
	return f.gangs[names[f.random.IntN(len(names))]]
}

func (f *fleet) all() []*gang {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.gangs))
}

func (f *fleet) intN(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

func (f *fleet) within(low, high int) time.Duration {
	return time.Duration(low+f.intN(high-low)) * time.Millisecond
}

// keepUp creates missing objects and deletes leftover ones, once a second until the context ends. Failed calls are
// repeated the next time.
func (f *fleet) keepUp(ctx context.Context) {
	for pause(ctx, time.Second) {
		f.reconcile(ctx)
	}
}

func (f *fleet) reconcile(ctx context.Context) {
	groups, err := f.s.vc.SchedulingV1beta1().PodGroups(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	pods, err := f.s.kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	there := map[string]bool{}
	for i := range groups.Items {
		there["group/"+groups.Items[i].Name] = true
	}
	for i := range pods.Items {
		there["pod/"+pods.Items[i].Name] = true
	}
	wanted := map[string]bool{}
	for _, g := range f.all() {
		if !there["group/"+g.name] {
			_, _ = f.s.vc.SchedulingV1beta1().PodGroups(namespace).Create(ctx, f.group(g), metav1.CreateOptions{})
		}
		wanted["group/"+g.name] = true
		for i := range g.size {
			wanted["pod/"+g.member(i)] = true
			if !there["pod/"+g.member(i)] {
				_, _ = f.s.kube.CoreV1().Pods(namespace).Create(ctx, g.pod(i), metav1.CreateOptions{})
			}
		}
	}
	for i := range groups.Items {
		if name := groups.Items[i].Name; !wanted["group/"+name] {
			_ = f.s.vc.SchedulingV1beta1().PodGroups(namespace).Delete(ctx, name, metav1.DeleteOptions{})
		}
	}
	for i := range pods.Items {
		if name := pods.Items[i].Name; !wanted["pod/"+name] {
			f.s.deletePod(ctx, namespace, name)
		}
	}
}

func (s *soak) deletePod(ctx context.Context, namespace, name string) {
	err := s.kube.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		s.say("deleting pod %s: %v", name, err)
	}
}

func (f *fleet) group(g *gang) *v1beta1.PodGroup {
	f.mu.Lock()
	defer f.mu.Unlock()
	group := &v1beta1.PodGroup{
		ObjectMeta: metav1.ObjectMeta{Name: g.name},
		Spec:       v1beta1.PodGroupSpec{MinMember: int32(g.min), Queue: g.queue, PriorityClassName: g.priority},
	}
	if g.required {
		group.Annotations = map[string]string{"ibcluster.volcano-prebind.io/mode": "required"}
	}
	return group
}

func (g *gang) pod(i int) *corev1.Pod {
	pod := podOf(g.name, g.member(i), "1")
	pod.Spec.PriorityClassName = g.priority
	return pod
}

// podOf returns a pod of a gang that requests this amount of CPU.
func podOf(gang, name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1beta1.KubeGroupNameAnnotationKey: gang}},
		Spec: corev1.PodSpec{
			SchedulerName: schedulerName,
			Containers: []corev1.Container{{
				Name: "main", Image: "simulated",
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
			}},
		},
	}
}
