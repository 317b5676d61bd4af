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
	// eventWorkers bounds event writes under way at once, eventsPerSecond and eventBurst how many there are.
	eventWorkers    = 8
	eventsPerSecond = 250
	eventBurst      = 1000
	// eventTimeout bounds one write.
	eventTimeout = 15 * time.Second
	// waitingEvents bounds the events that wait to be written, see mailbox.
	waitingEvents = 1 << 15
	// eventTries bounds how often an event is tried that the API server answers with an error. While it does not answer
	// at all, events wait.
	eventTries = 6
	// eventFirstRetry and eventLastRetry are the waits between tries, which double.
	eventFirstRetry = 100 * time.Millisecond
	eventLastRetry  = 10 * time.Second
	// eventGrace is how long Stop lets events go out that wait: the next leader does not wait for them.
	eventGrace = 2 * time.Second
	// objectBurst is how many events of one object are written in a row, and objectRefill how long it takes until there
	// may be another.
	objectBurst  = 25
	objectRefill = time.Minute
)

// Sink stores an event in the API server.
type Sink func(ctx context.Context, event *v1.Event) error

// ToAPI stores events with the client, which is for them alone: events do not take the place of Bindings in a client's rate limit.
func ToAPI(client kubernetes.Interface) Sink {
	return func(ctx context.Context, event *v1.Event) error {
		_, err := client.CoreV1().Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
		return err
	}
}

// Writer is the outlet to the API server. Nothing is lost while the API server is slow or away, up to a bound; what
// is lost is told to the recorder, so that the next cycle that finds it tells it again.
//
// client-go's broadcaster would drop what does not fit into its queue of 1,000, and what an object says beyond a few
// messages in five minutes, without a word to the one who told it.
type Writer struct {
	sink    Sink
	source  string
	box     *mailbox
	limiter flowcontrol.RateLimiter
	// observe is told what became of each event: written, refused or lost.
	observe func(result string)
	workers sync.WaitGroup

	mu sync.Mutex
	// budgets bound what is said of one object, by subject.
	budgets *lru.Cache
	// stamp is the time, in nanoseconds, that the last event was named after.
	stamp int64
	// again is closed, and another one takes its place, when events that failed are not to wait any more.
	again chan struct{}
}

// budget is how many events of an object may be written as of a time.
type budget struct {
	left float64
	at   time.Time
}

// NewWriter makes the writer of events that come from the source; observe is told what became of each: written, refused or lost.
func NewWriter(s Sink, source string, observe func(result string)) *Writer {
	return &Writer{
		sink: s, source: source, observe: observe, box: newMailbox(waitingEvents), budgets: lru.New(rememberedEvents),
		again: make(chan struct{}), limiter: flowcontrol.NewTokenBucketRateLimiter(eventsPerSecond, eventBurst),
	}
}

// Start starts the workers, which end with the context or after stop.
func (w *Writer) Start(ctx context.Context) {
	for range eventWorkers {
		w.workers.Go(func() {
			for l := w.box.take(ctx); l != nil; l = w.box.take(ctx) {
				w.write(ctx, l)
				w.box.written(l)
			}
		})
	}
}

// Stop writes what waits, as far as the context and the grace let it.
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

// Send puts the event into the box, if its object can afford it.
func (w *Writer) Send(e Notice, done func(there bool)) {
	about, err := reference.GetReference(scheme.Scheme, e.Object)
	if err != nil {
		klog.Background().WithName("events").Error(err, "An event is about an object of unknown kind", "reason", e.Reason, "message", e.Message)
		done(true)
		return
	}
	now := time.Now()
	l := &letter{
		about: *about, annotations: e.Annotations, eventType: e.Type, reason: e.Reason, message: e.Message,
		first: now, last: now, times: 1, done: []func(bool){done},
	}
	if !w.affords(subjectOf(*about), now) || !w.box.post(l) {
		w.observe("dropped")
		done(false)
	}
}

// affords takes one event off the object's budget, if there is any left.
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

// write writes the event, again with backoff while that may help.
func (w *Writer) write(ctx context.Context, l *letter) {
	event := w.event(l)
	wait := eventFirstRetry
	for tries := 1; ; {
		again := w.nextRetry()
		err := w.try(ctx, event)
		if err == nil || apierrors.IsAlreadyExists(err) { // an earlier try has got there
			w.settle(l, "written", nil)
			return
		}
		if answered(err) {
			tries++
		}
		last := ctx.Err() != nil || tries > eventTries
		switch {
		case apiwrite.RefusedForGood(err), apierrors.IsNotFound(err), last && apierrors.IsForbidden(err):
			w.settle(l, "rejected", err)
			return
		case last:
			w.settle(l, "dropped", err)
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

// RetryNow has the events that failed, and wait to be tried again, tried now, also those whose try is under way and fails. If
// they fail again they wait as after a first failure.
func (w *Writer) RetryNow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.again)
	w.again = make(chan struct{})
}

// nextRetry is closed by the next RetryNow.
func (w *Writer) nextRetry() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.again
}

// settle ends the letter. What was refused for good is not to be told again.
func (w *Writer) settle(l *letter, result string, err error) {
	if err != nil {
		klog.Background().WithName("events").Error(err, "An event is not written", "kind", l.about.Kind, "object", klog.KRef(l.about.Namespace, l.about.Name),
			"reason", l.reason, "message", l.message)
	}
	w.observe(result)
	for _, done := range l.done {
		done(result != "dropped")
	}
}

// answered is true if the error is the API server's own.
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

func (w *Writer) event(l *letter) *v1.Event {
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

// nextStamp tells events apart that were told at one time.
func (w *Writer) nextStamp(told time.Time) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stamp = max(w.stamp+1, told.UnixNano())
	return w.stamp
}
