// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

const (
	// A request that failed is sent again after a pause that doubles from the first to the second value, with jitter.
	firstPause  = 50 * time.Millisecond
	lastPause   = time.Second
	pauseJitter = 0.5
	// longestRetryAfter bounds what a Retry-After of the API server is followed for, and startingRetryAfter one that starts: it
	// says five seconds, and is ready after a fraction of one.
	longestRetryAfter  = 30 * time.Second
	startingRetryAfter = time.Second
	// starting is how long an API server that is back may refuse what it allowed before, since it does not know its roles yet.
	starting = 5 * time.Second
	// staleWatch is how long a watch is tried for. The API server that comes back after longer than that would call the
	// version stale at which it is to begin, and the informer would list.
	staleWatch = 2 * time.Second
	// briefWatch is what an informer calls too brief for a watch, and a failure: one second and a bit.
	briefWatch = 1100 * time.Millisecond
	// snippet bounds what is told of an answer.
	snippet = 200
)

// outage keeps informers from falling asleep while the API server is away. An informer that fails pauses for up to a
// minute, which no option of client-go shortens, and takes minutes to forget it; then each of them comes back at its own
// time, and the scheduler sees parts of the cluster. So their requests do not fail: a list waits, inside the request, until
// the API server answers it or the informers end, and a watch that breaks just ends, after which the informer begins
// another.
//
// Each asks again and again, with pauses. The first that is answered ends the pauses of all.
//
// A watch that cannot be begun for some time is told that its version is stale, as it would be in the end: the one pause
// that an informer makes then passes while the API server is still away.
//
// It also knows what the API server does not let informers list, for those who wait for their caches to fill.
type outage struct {
	// life ends all waiting.
	life context.Context

	mu      sync.Mutex
	failing map[string]failure
	// began is when the API server went away last, and back when it gave an answer again; zero when it has not.
	began, back time.Time
	// over is told of the end of an outage that was long enough for gangs to fail again and again.
	over func()
	// answer is closed, and another one takes its place, when a path is answered that was not.
	answer chan struct{}
}

// failure is what requests for a collection fail of.
type failure struct {
	since  time.Time
	reason string
	// passing says that the API server could not be reached or had no answer, rather than refused.
	passing bool
}

// newOutage returns an outage whose waits end with life.
func newOutage(life context.Context) *outage {
	return &outage{life: life, failing: map[string]failure{}, over: func() {}, answer: make(chan struct{})}
}

// whenOver has f called when the API server has answered all informers after an outage. It is called on a goroutine of
// an informer and must not block.
func (o *outage) whenOver(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = f
}

// wrap makes informers with the config wait out outages. Other requests are sent as they are: gets and writes fail at
// once, and whoever makes them decides. Only what a starting API server asks them to wait for is made shorter.
func (o *outage) wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &patientTransport{next, o} })
	return config
}

// refused names the collections that cannot be listed and says why, sorted and joined; it is empty when all can.
func (o *outage) refused() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []string
	for _, path := range slices.Sorted(maps.Keys(o.failing)) {
		f := o.failing[path]
		all = append(all, fmt.Sprintf("%s: %s (for %s)", path, f.reason, time.Since(f.since).Round(time.Second)))
	}
	return strings.Join(all, "; ")
}

// failed notes a failure, and tells the log about the first of an outage. A refusal is an answer too: it may end one.
func (o *outage) failed(path, reason string, passing bool) {
	o.note(path, &failure{since: time.Now(), reason: reason, passing: passing})
}

// succeeded notes that the path is answered as it should be.
func (o *outage) succeeded(path string) { o.note(path, nil) }

// gaveUp notes that a request for the path has ended unanswered: the outage is over without an answer to it, unless another
// one asks.
func (o *outage) gaveUp(path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f, known := o.failing[path]; known {
		f.passing = false
		o.failing[path] = f
	}
}

// note notes what requests for the path fail of, nil for nothing, and tells of the end of an outage.
func (o *outage) note(path string, f *failure) {
	if over := o.put(path, f); over != nil {
		over()
	}
}

// put is note, and returns who is to be told when that ends an outage that was long enough.
func (o *outage) put(path string, f *failure) (over func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.away()
	former, known := o.failing[path]
	if f == nil {
		delete(o.failing, path)
	} else {
		if known {
			f.since = former.since
		}
		o.failing[path] = *f
	}
	if former.passing && (f == nil || !f.passing) {
		o.returned()
		close(o.answer)
		o.answer = make(chan struct{})
	}
	switch away := o.away(); {
	case away && !before:
		klog.InfoS("The API server is away: informers wait for it", "request", path, "reason", f.reason)
		o.began, o.back = time.Now(), time.Time{}
	case before && !away:
		lasted := time.Since(o.began)
		klog.InfoS("The API server is back, and has answered all informers", "after", lasted.Round(time.Millisecond))
		if lasted >= staleWatch {
			return o.over
		}
	}
	return nil
}

// returned notes that the API server gives answers after an outage. It is called with mu held.
func (o *outage) returned() {
	if o.back.IsZero() && !o.began.IsZero() {
		o.back = time.Now()
	}
}

// unready says whether a refusal may be the answer of an API server that has just started.
func (o *outage) unready() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.returned()
	return !o.back.IsZero() && time.Since(o.back) < starting
}

// nextAnswer is closed when a path is answered that was not.
func (o *outage) nextAnswer() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.answer
}

// away says whether requests fail because the API server does not answer. It is called with mu held.
func (o *outage) away() bool {
	for _, f := range o.failing {
		if f.passing {
			return true
		}
	}
	return false
}

type patientTransport struct {
	next   http.RoundTripper
	outage *outage
}

func (t *patientTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if !ofInformer(request) {
		response, err := t.next.RoundTrip(request)
		hurry(response)
		return response, err
	}
	began := time.Now()
	watch := isWatch(request)
	pauses := apiServerBackoff()
	for {
		others := t.outage.nextAnswer()
		response, err := t.next.RoundTrip(request)
		var least time.Duration
		var reason string
		switch {
		case err != nil:
			reason = err.Error()
		case response.StatusCode == http.StatusTooManyRequests:
			least, reason = retryAfter(response), refusal(response)
		case response.StatusCode >= http.StatusInternalServerError,
			(response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden) && t.outage.unready():
			reason = refusal(response)
		default:
			return t.answered(request, response, began, watch), nil
		}
		t.outage.failed(request.URL.Path, reason, true)
		if watch && time.Since(began) > staleWatch {
			return stale(request), nil
		}
		if !t.sleep(request.Context(), least, nil) || !t.sleep(request.Context(), pauses.Step()-least, others) {
			t.outage.gaveUp(request.URL.Path)
			return nil, fmt.Errorf("waiting for the API server ended: %s", reason)
		}
		select {
		case <-others:
			pauses = apiServerBackoff()
		default:
		}
	}
}

// answered notes what became of the request.
func (t *patientTransport) answered(request *http.Request, response *http.Response, began time.Time, watch bool) *http.Response {
	switch {
	case response.StatusCode < http.StatusBadRequest, response.StatusCode == http.StatusGone:
		t.outage.succeeded(request.URL.Path)
	default:
		t.outage.failed(request.URL.Path, response.Status, false)
	}
	if watch && response.StatusCode == http.StatusOK {
		response.Body = &watchBody{ReadCloser: response.Body, brief: began.Add(briefWatch), sleep: func(d time.Duration) {
			t.sleep(request.Context(), d, nil)
		}}
	}
	return response
}

// sleep says whether the pause went by, or was cut short, before the request or the informers ended.
func (t *patientTransport) sleep(ctx context.Context, pause time.Duration, cut <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-cut:
		return true
	case <-ctx.Done():
	case <-t.outage.life.Done():
	}
	return false
}

// watchBody ends where its connection breaks, and not before an informer calls it a watch.
type watchBody struct {
	io.ReadCloser
	brief time.Time
	sleep func(time.Duration)
}

func (b *watchBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || n > 0 {
		return n, nil
	}
	if left := time.Until(b.brief); left > 0 {
		b.sleep(left)
	}
	return 0, io.EOF
}

// ofInformer says whether the request lists or watches all objects of a kind, which only informers do.
func ofInformer(request *http.Request) bool {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	collection := len(parts) == 3 && parts[0] == "api" || len(parts) == 4 && parts[0] == "apis"
	return request.Method == http.MethodGet && collection
}

func isWatch(request *http.Request) bool {
	query := request.URL.Query()
	return query.Has("watch") && query.Get("watch") != "false"
}

// refusal says what the answer was, and ends it.
func refusal(response *http.Response) string {
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, snippet))
	if err != nil {
		return response.Status
	}
	return response.Status + ": " + strings.ToValidUTF8(string(text), "?")
}

func retryAfter(response *http.Response) time.Duration {
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, longestRetryAfter)
}

// hurry bounds what an API server that starts asks clients to wait for: client-go does so before it sends a request again.
func hurry(response *http.Response) {
	if response != nil && response.StatusCode == http.StatusServiceUnavailable && retryAfter(response) > startingRetryAfter {
		response.Header.Set("Retry-After", strconv.Itoa(int(startingRetryAfter.Seconds())))
	}
}

// stale is the API server's answer to a watch that is to begin at a version it does not know any more.
func stale(request *http.Request) *http.Response {
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"the API server was away"}`
	return &http.Response{
		Status: "410 Gone", StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)), Request: request,
	}
}
