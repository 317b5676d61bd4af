// SPDX-License-Identifier: Apache-2.0

// Package history keeps every version of the pods, PodGroups and events of a namespace that a watch has shown, so
// that a test can check past states as well as the present one.
package history

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"
)

// History has the versions of the objects in a namespace. Its methods are safe for concurrent use.
type History struct {
	pods      *log[*corev1.Pod]
	podGroups *log[*v1beta1.PodGroup]
	events    *log[*corev1.Event]
}

// Start begins to record, and ends with the context.
func Start(ctx context.Context, kube kubernetes.Interface, vc vcclient.Interface, namespace string) *History {
	h := &History{pods: newLog[*corev1.Pod](), podGroups: newLog[*v1beta1.PodGroup](), events: newLog[*corev1.Event]()}
	core := kube.CoreV1().RESTClient()
	record(ctx, cache.NewListWatchFromClient(core, "pods", namespace, fields.Everything()), h.pods)
	record(ctx, cache.NewListWatchFromClient(core, "events", namespace, fields.Everything()), h.events)
	groups := vc.SchedulingV1beta1().RESTClient()
	record(ctx, cache.NewListWatchFromClient(groups, "podgroups", namespace, fields.Everything()), h.podGroups)
	return h
}

func record[T metav1.Object](ctx context.Context, source cache.ListerWatcher, into *log[T]) {
	kind := reflect.New(reflect.TypeFor[T]().Elem()).Interface()
	reflector := cache.NewReflectorWithOptions(source, kind, into, cache.ReflectorOptions{Name: "history"})
	go reflector.RunWithContext(ctx)
}

// PodVersions returns the versions of a pod, oldest first.
func (h *History) PodVersions(name string) []*corev1.Pod { return h.pods.versions(name) }

// PodGroupVersions returns the versions of a PodGroup, oldest first.
func (h *History) PodGroupVersions(name string) []*v1beta1.PodGroup {
	return h.podGroups.versions(name)
}

// Pod returns the newest version of a pod, or nil if it does not exist.
func (h *History) Pod(name string) *corev1.Pod { return h.pods.current(name) }

// PodGroup returns the newest version of a PodGroup, or nil if it does not exist.
func (h *History) PodGroup(name string) *v1beta1.PodGroup { return h.podGroups.current(name) }

// Pods returns the newest versions of the existing pods.
func (h *History) Pods() []*corev1.Pod { return h.pods.all() }

// EverBound returns the node of each pod that was bound at any time.
func (h *History) EverBound() map[string]string {
	bound := map[string]string{}
	for _, pod := range h.pods.everything() {
		if pod.Spec.NodeName != "" {
			bound[pod.Name] = pod.Spec.NodeName
		}
	}
	return bound
}

// BoundAt returns the resource version at which the pod was first seen on a node, and whether it was.
func (h *History) BoundAt(pod string) (uint64, bool) {
	for _, version := range h.pods.versions(pod) {
		if version.Spec.NodeName != "" {
			return Version(version), true
		}
	}
	return 0, false
}

// Events returns the newest versions of the events about an object with the reason, or with any reason if it is
// empty.
func (h *History) Events(kind, name, reason string) []*corev1.Event {
	var events []*corev1.Event
	for _, event := range h.events.all() {
		about := event.InvolvedObject
		if about.Kind == kind && about.Name == name && (reason == "" || event.Reason == reason) {
			events = append(events, event)
		}
	}
	return events
}

// Version returns an object's resource version as a number. The versions of all objects of one API server are in one
// order.
func Version(object metav1.Object) uint64 {
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("resource version %q of %s is no number", object.GetResourceVersion(), object.GetName()))
	}
	return version
}

// log is a reflector's store that keeps all versions.
type log[T metav1.Object] struct {
	mu      sync.Mutex
	entries []T
	live    map[string]T
}

var _ cache.ReflectorStore = (*log[*corev1.Pod])(nil)

func newLog[T metav1.Object]() *log[T] { return &log[T]{live: map[string]T{}} }

// Add records a new object.
func (l *log[T]) Add(obj any) error { return l.Update(obj) }

// Update records a version, unless it was seen before.
func (l *log[T]) Update(obj any) error {
	object, ok := obj.(T)
	if !ok {
		return fmt.Errorf("%T is not recorded here", obj)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.take(object)
	return nil
}

func (l *log[T]) take(object T) {
	if last, ok := l.live[object.GetName()]; ok && last.GetResourceVersion() == object.GetResourceVersion() {
		return
	}
	l.live[object.GetName()] = object
	l.entries = append(l.entries, object)
}

// Delete records the deletion of an object.
func (l *log[T]) Delete(obj any) error {
	object, ok := obj.(T)
	if !ok {
		return fmt.Errorf("%T is not recorded here", obj)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, object.GetName())
	return nil
}

// Replace records a whole list, at the start and after a broken watch.
func (l *log[T]) Replace(list []any, _ string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := l.live
	l.live = map[string]T{}
	for _, obj := range list {
		object, ok := obj.(T)
		if !ok {
			return fmt.Errorf("%T is not recorded here", obj)
		}
		if last, ok := gone[object.GetName()]; ok {
			l.live[object.GetName()] = last
		}
		l.take(object)
	}
	return nil
}

// Resync does nothing, because the store has no subscribers.
func (l *log[T]) Resync() error { return nil }

func (l *log[T]) versions(name string) []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	var versions []T
	for _, object := range l.entries {
		if object.GetName() == name {
			versions = append(versions, object)
		}
	}
	return versions
}

func (l *log[T]) current(name string) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live[name]
}

func (l *log[T]) all() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]T, 0, len(l.live))
	for _, object := range l.live {
		all = append(all, object)
	}
	return all
}

func (l *log[T]) everything() []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]T(nil), l.entries...)
}
