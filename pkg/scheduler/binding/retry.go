// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
)

const (
	// longestDelay caps the Retry-After of the API server.
	longestDelay = time.Minute
	// forbiddenFor is how long Bindings may be forbidden before the answer is final. An API server that has just started
	// forbids every request until it has loaded its roles, which takes a second or two.
	forbiddenFor = 5 * time.Second
)

// answer says whether a Binding that returned an error was, or may still be, applied.
type answer int

const (
	// unclear means that the Binding may have been applied. The error is a server error, a timeout, a lost connection,
	// or a conflict, which an earlier try of this engine may have caused.
	unclear answer = iota
	// rejected means that the Binding was not applied, and never will be.
	rejected
	// postponed means that the Binding was not applied, but may be later.
	postponed
)

func classify(err error) answer {
	code := statusCode(err)
	switch {
	case code == http.StatusTooManyRequests, code == http.StatusUnauthorized, code == http.StatusForbidden:
		return postponed
	case code == http.StatusConflict, code == http.StatusRequestTimeout:
		return unclear
	case code >= 400 && code < 500:
		return rejected
	}
	return unclear
}

// tries counts the Bindings sent for one member.
type tries struct {
	sent, most int
	// forbidden is when the current series of forbidden answers began; zero if the last answer was a different error.
	forbidden time.Time
}

// last reports whether the engine sends no further Binding after this error: it has sent too many, or the Binding is
// rejected for good.
func (t *tries) last(err error) bool {
	t.sent++
	if statusCode(err) != http.StatusForbidden {
		t.forbidden = time.Time{}
		return classify(err) == rejected || t.sent >= t.most
	}
	if t.forbidden.IsZero() {
		t.forbidden = time.Now()
	}
	return time.Since(t.forbidden) >= forbiddenFor
}

// transient reports whether the error may pass, and comes from the API server or the network path to it.
func transient(err error) bool {
	code := statusCode(err)
	return code >= 500 || code == http.StatusTooManyRequests || code == http.StatusUnauthorized ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		utilnet.IsTimeout(err) || unanswered(err)
}

// unanswered reports whether the request got no answer, because no connection was made or the connection was lost.
func unanswered(err error) bool {
	if statusCode(err) != 0 {
		return false
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || utilnet.IsConnectionRefused(err) ||
		utilnet.IsProbableEOF(err) || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err)
}

// statusCode returns the HTTP status of the API server's answer; 0 when the error contains no answer.
func statusCode(err error) int32 {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Code
	}
	return 0
}

// pauses are the waits between the tries of one call. They grow with each try. When RetryNow ends a pause, the next
// pauses are short again.
type pauses struct {
	e              *Engine
	first, backoff wait.Backoff
	// again is closed by the next RetryNow after the last try began.
	again <-chan struct{}
	// endedEarly reports whether RetryNow ended the last pause before its time.
	endedEarly bool
	// changed, unless it is nil, is a further channel whose values end a pause, such as roster.changed.
	changed <-chan struct{}
}

// pauses returns the pauses between the tries of one call, before its first try.
func (e *Engine) pauses(backoff wait.Backoff) *pauses {
	p := &pauses{e: e, first: backoff, backoff: backoff}
	p.rearm()
	return p
}

func (p *pauses) rearm() {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	p.again = p.e.again
}

// pause waits before the next try, and returns false when ctx ends first.
func (p *pauses) pause(ctx context.Context, err error) bool {
	return p.atLeast(ctx, err, 0)
}

// atLeast waits before the next try, and returns false when ctx ends first. RetryNow does not shorten the pause below
// least.
func (p *pauses) atLeast(ctx context.Context, err error, least time.Duration) bool {
	defer p.rearm()
	delay := retryDelay(err, &p.backoff)
	least = min(least, delay)
	if !pause.For(ctx, least) {
		return false
	}
	passed, stop := pause.After(delay - least)
	defer stop()
	p.endedEarly = false
	select {
	case <-passed:
	case <-p.changed:
	case <-p.again:
		p.backoff, p.endedEarly = p.first, true
	case <-ctx.Done():
		return false
	}
	return true
}

// retryDelay returns the pause after the error: the backoff, or longer when the API server asks for it.
func retryDelay(err error, backoff *wait.Backoff) time.Duration {
	delay := backoff.Step()
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		delay = max(delay, min(time.Duration(seconds)*time.Second, longestDelay))
	}
	return delay
}
