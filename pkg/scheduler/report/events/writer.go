// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
	"volcano.sh/apis/pkg/client/clientset/versioned/scheme"
)

const (
	// PerSecond and Burst are the limits for the client of a Writer: how many events it writes a second, and at once.
	PerSecond = 250
	Burst     = 1000
	// workers is the maximum number of concurrent writes.
	workers = 8
	// waitingEvents and waitingOfNamespace limit how many events wait, in total and of one namespace.
	waitingEvents      = 1 << 16
	waitingOfNamespace = waitingEvents / 4
	// objectBurst is how many events of one object and type may be recorded in a row. objectPerSecond is how many are
	// allowed after that.
	objectBurst     = 25
	objectPerSecond = 1. / 60
	// writeTimeout limits one try of a write. While the API server does not answer, a write is tried every retryEvery, for
	// at most retryFor.
	writeTimeout = 15 * time.Second
	retryEvery   = time.Second
	retryFor     = 2 * time.Minute
	// stopGrace is the longest time that Stop waits until the events are written. The next leader does not wait for these
	// writes.
	stopGrace = 2 * time.Second
)

// Writer is an event recorder that writes events to the API server. Recording never blocks. Events wait while the API
// server is slow or does not answer; events beyond a limit are dropped.
//
// It has client-go's correlator, but not its broadcaster, which drops events beyond 1,000 without a trace.
type Writer struct {
	client    corev1.EventInterface
	component string
	// observe is called with the result of each event: written, rejected or dropped.
	observe    func(result string)
	correlator *record.EventCorrelator
	running    sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	queue   chan *v1.Event // only a holder of mu sends
	waiting map[string]int // number of events in the queue, by namespace
}

var _ record.EventRecorder = (*Writer)(nil)

// NewWriter returns a Writer whose events name the component. The client is for all namespaces, and has the limits
// PerSecond and Burst. It should be used for events only, so that events do not use up the rate limit of Bindings.
// observe is called with the result of each event: written, rejected or dropped.
func NewWriter(client corev1.EventInterface, component string, observe func(result string)) *Writer {
	return &Writer{
		client: client, component: component, observe: observe, queue: make(chan *v1.Event, waitingEvents), waiting: map[string]int{},
		correlator: record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{
			BurstSize: objectBurst, QPS: objectPerSecond, MaxEvents: objectBurst,
		}),
	}
}

// Start starts the workers. They end after Stop is called. Once the context has ended, they drop the waiting events.
func (w *Writer) Start(ctx context.Context) {
	for range workers {
		w.running.Go(func() {
			for event := range w.queue {
				w.mu.Lock()
				if w.waiting[event.Namespace]--; w.waiting[event.Namespace] == 0 {
					delete(w.waiting, event.Namespace)
				}
				w.mu.Unlock()
				w.observe(w.write(ctx, event))
			}
		})
	}
}

// Stop drops all further events, and writes the waiting events until the context ends, but for at most stopGrace.
func (w *Writer) Stop(ctx context.Context) {
	w.mu.Lock()
	if !w.stopped {
		w.stopped = true
		close(w.queue)
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	go func() {
		w.running.Wait()
		cancel()
	}()
	<-ctx.Done()
}

// Event records the event.
func (w *Writer) Event(object runtime.Object, eventType, reason, message string) {
	w.AnnotatedEventf(object, nil, eventType, reason, "%s", message)
}

// Eventf records the event, with a format.
func (w *Writer) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	w.AnnotatedEventf(object, nil, eventType, reason, format, args...)
}

// AnnotatedEventf records the event, with a format and annotations.
func (w *Writer) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	about, err := reference.GetReference(scheme.Scheme, object)
	if err != nil {
		klog.Background().WithName("events").Error(err, "Dropped an event of an object of unknown kind", "reason", reason)
		w.observe("dropped")
		return
	}
	now, namespace := metav1.Now(), about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	event := &v1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: util.GenerateEventName(about.Name, now.UnixNano()), Annotations: annotations,
		},
		InvolvedObject: *about, Type: eventType, Reason: reason, Message: fmt.Sprintf(format, args...), Count: 1,
		FirstTimestamp: now, LastTimestamp: now, Source: v1.EventSource{Component: w.component}, ReportingController: w.component,
	}
	if !w.enqueue(event) {
		w.observe("dropped")
	}
}

// enqueue adds the event to the queue. It returns false if the queue is full or closed, or has too many events of the
// namespace.
func (w *Writer) enqueue(event *v1.Event) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || len(w.queue) == waitingEvents || w.waiting[event.Namespace] == waitingOfNamespace {
		return false
	}
	w.waiting[event.Namespace]++
	w.queue <- event
	return true
}

// write writes the event, unless its object has used up its number of events. It returns the result.
func (w *Writer) write(ctx context.Context, event *v1.Event) string {
	next, err := w.correlator.EventCorrelate(event)
	if err != nil || next.Skip {
		return "dropped"
	}
	var answer apierrors.APIStatus
	_ = wait.PollUntilContextTimeout(ctx, retryEvery, retryFor, true, func(ctx context.Context) (bool, error) {
		err = w.try(ctx, next)
		return err == nil || errors.As(err, &answer), nil
	})
	if err == nil || apierrors.IsAlreadyExists(err) { // the event exists if an earlier try succeeded without an answer
		return "written"
	}
	if answer == nil {
		return "dropped"
	}
	klog.Background().WithName("events").Error(err, "The API server rejected an event, dropped it", "kind", event.InvolvedObject.Kind,
		"object", klog.KRef(event.InvolvedObject.Namespace, event.InvolvedObject.Name), "reason", event.Reason, "message", event.Message)
	return "rejected"
}

// try creates the event, or updates the count of an equal event if one was written before and still exists.
func (w *Writer) try(ctx context.Context, next *record.EventCorrelateResult) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if next.Event.Count > 1 {
		if _, err := w.client.PatchWithEventNamespaceWithContext(ctx, next.Event, next.Patch); !apierrors.IsNotFound(err) {
			return err
		}
	}
	_, err := w.client.CreateWithEventNamespaceWithContext(ctx, next.Event)
	return err
}
