// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/utils/lru"
	"volcano.sh/apis/pkg/client/clientset/versioned/scheme"

	"github.com/volcano-prebind/volcano-prebind/internal/apiwrite"
)

const (
	// eventWorkers is the maximum number of concurrent event writes. eventsPerSecond and eventBurst limit the rate of
	// event writes.
	eventWorkers    = 8
	eventsPerSecond = 250
	eventBurst      = 1000
	// eventTimeout limits the duration of one event write.
	eventTimeout = 15 * time.Second
	// waitingEvents limits the number of waiting events (field most of the mailbox).
	waitingEvents = 1 << 15
	// eventTries limits how often an event is written while the API server answers with an error. Tries without an answer
	// do not count, so events wait while the API server is unavailable.
	eventTries = 6
	// eventFirstRetry and eventLastRetry are the shortest and the longest wait between tries of a write. The wait doubles
	// with each try.
	eventFirstRetry = 100 * time.Millisecond
	eventLastRetry  = 10 * time.Second
	// eventGrace is the longest time that Stop waits until the events are written. The next leader does not wait for these
	// writes.
	eventGrace = 2 * time.Second
	// objectBurst is how many events of one object may be recorded in a row. objectRefill is the time after which one more
	// event of the object is allowed.
	objectBurst  = 25
	objectRefill = time.Minute
)

// Sink stores an event in the API server.
type Sink func(ctx context.Context, event *v1.Event) error

// ToAPI returns a Sink that stores events with the client. The client should be used for events only, so that events do
// not use up the rate limit of Bindings.
func ToAPI(client kubernetes.Interface) Sink {
	return func(ctx context.Context, event *v1.Event) error {
		_, err := client.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
		return err
	}
}

// Writer is the outlet that writes events to the API server. While the API server is slow or unavailable, events wait;
// only events beyond a limit are lost. The Writer reports a lost event to the recorder, so that the next cycle that
// finds the cause of the event records it again.
//
// client-go's broadcaster cannot replace it: it silently drops events beyond its queue of 1,000 events, and
// beyond a few messages per object in five minutes.
type Writer struct {
	sink    Sink
	source  string
	box     *mailbox
	limiter flowcontrol.RateLimiter
	// observe is called with the result of each event: written, rejected or dropped.
	observe func(result string)
	workers sync.WaitGroup

	mu sync.Mutex
	// budgets has, by object, how many further events of the object are accepted. Values are of type budget.
	budgets *lru.Cache
	// stamp is the time, in nanoseconds, that the name of the last event contains.
	stamp int64
	// again is a channel on which failed events wait for their next try. RetryNow closes the channel and replaces it.
	again chan struct{}
}

// budget is the number of further events of an object that are accepted. The field left has this number at the time in
// the field at; after that time, it grows by 1 for each objectRefill.
type budget struct {
	left float64
	at   time.Time
}

// NewWriter returns a Writer whose events name source as their component. observe is called with the result of each
// event: written, rejected or dropped.
func NewWriter(s Sink, source string, observe func(result string)) *Writer {
	return &Writer{
		sink: s, source: source, observe: observe, box: newMailbox(waitingEvents), budgets: lru.New(rememberedEvents),
		again: make(chan struct{}), limiter: flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, eventBurst),
	}
}

// Start starts the workers. They end when the context ends or after Stop is called.
func (w *Writer) Start(ctx context.Context) {
	for range eventWorkers {
		w.workers.Go(func() {
			for l := w.box.next(ctx); l != nil; l = w.box.next(ctx) {
				w.write(ctx, l)
				w.box.written(l)
			}
		})
	}
}

// Stop writes the waiting events until the context ends, but for at most eventGrace.
func (w *Writer) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, eventGrace)
	defer cancel()
	w.box.close()
	done := make(chan struct{})
	go func() {
		w.workers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Send adds the event to the mailbox if the budget of the event's object allows another event.
func (w *Writer) Send(e Notice, done func(there bool)) {
	about, err := reference.GetReference(scheme.Scheme, e.Object)
	if err != nil {
		klog.Background().WithName("events").Error(err, "Dropped an event of an object of unknown kind", "reason", e.Reason, "message", e.Message)
		done(true)
		return
	}
	now := time.Now()
	l := &queuedEvent{
		about: *about, annotations: e.Annotations, eventType: e.Type, reason: e.Reason, message: e.Message,
		first: now, last: now, times: 1, done: []func(bool){done},
	}
	if !w.affords(subjectOf(*about), now) || !w.box.post(l) {
		w.observe("dropped")
		done(false)
	}
}

// affords takes one event from the budget of the object. It returns false if the budget is used up.
func (w *Writer) affords(about subject, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := budget{left: objectBurst, at: now}
	if last, ok := w.budgets.Get(about); ok {
		b = last.(budget)
		b.left = min(b.left+float64(now.Sub(b.at))/float64(objectRefill), objectBurst)
		b.at = now
	}
	if b.left < 1 {
		w.budgets.Add(about, b)
		return false
	}
	b.left--
	w.budgets.Add(about, b)
	return true
}

// write writes the event to the API server, with retries and backoff.
func (w *Writer) write(ctx context.Context, l *queuedEvent) {
	event := w.event(l)
	wait := eventFirstRetry
	for tries := 1; ; {
		again := w.nextRetry()
		err := w.try(ctx, event)
		if err == nil || apierrors.IsAlreadyExists(err) { // the event exists if an earlier try succeeded without an answer
			w.endDelivery(l, "written", nil)
			return
		}
		if answered(err) {
			tries++
		}
		last := ctx.Err() != nil || tries > eventTries
		switch {
		case apiwrite.RejectedForGood(err), apierrors.IsNotFound(err), last && apierrors.IsForbidden(err):
			w.endDelivery(l, "rejected", err)
			return
		case last:
			w.endDelivery(l, "dropped", err)
			return
		}
		select {
		case <-time.After(wait):
			wait = min(2*wait, eventLastRetry)
		case <-again:
			wait = eventFirstRetry
		case <-ctx.Done():
		}
	}
}

// RetryNow ends the waits of failed events, so that they are retried at once. An event whose current try fails is also
// retried at once. If an event fails again, it waits as long as after a first failure.
func (w *Writer) RetryNow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.again)
	w.again = make(chan struct{})
}

// nextRetry returns a channel that the next call of RetryNow closes.
func (w *Writer) nextRetry() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.again
}

// endDelivery reports the result of the event to the function observe, for metrics, and to the event's recorder. An
// event that the API server permanently rejected counts as delivered, so that it is not recorded again.
func (w *Writer) endDelivery(l *queuedEvent, result string, err error) {
	if err != nil {
		klog.Background().WithName("events").Error(err, "Dropped an event", "kind", l.about.Kind, "object", klog.KRef(l.about.Namespace, l.about.Name),
			"reason", l.reason, "message", l.message)
	}
	w.observe(result)
	for _, done := range l.done {
		done(result != "dropped")
	}
}

// answered reports whether the error was returned by the API server. It returns false if, for example, the connection
// failed.
func answered(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status)
}

func (w *Writer) try(ctx context.Context, event *v1.Event) error {
	if err := w.limiter.Wait(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, eventTimeout)
	defer cancel()
	return w.sink(ctx, event)
}

func (w *Writer) event(l *queuedEvent) *v1.Event {
	namespace := l.about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &v1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: util.GenerateEventName(l.about.Name, w.nextStamp(l.first)), Annotations: l.annotations,
		},
		InvolvedObject: l.about, Type: l.eventType, Reason: l.reason, Message: l.message,
		FirstTimestamp: metav1.NewTime(l.first), LastTimestamp: metav1.NewTime(l.last), Count: l.times,
		Source: v1.EventSource{Component: w.source}, ReportingController: w.source,
	}
}

// nextStamp returns a unique time in nanoseconds for the name of an event.
func (w *Writer) nextStamp(at time.Time) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stamp = max(w.stamp+1, at.UnixNano())
	return w.stamp
}
