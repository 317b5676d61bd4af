// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
)

// outageTransport sends requests with the transport next. Requests of informers wait for the end of an outage.
type outageTransport struct {
	next   http.RoundTripper
	outage *Outage
}

func (t *outageTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if !ofInformer(request) {
		response, err := t.next.RoundTrip(request)
		shortenRetryAfter(response)
		return response, err
	}
	began := time.Now()
	watch := IsWatch(request)
	pauses := Backoff()
	for {
		others := t.outage.nextAnswer()
		response, err := t.next.RoundTrip(request)
		var least time.Duration
		var reason string
		switch {
		case err != nil:
			reason = err.Error()
		case response.StatusCode == http.StatusTooManyRequests:
			least, reason = retryAfter(response), rejection(response)
		case response.StatusCode >= http.StatusInternalServerError,
			(response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden) && t.outage.unready():
			reason = rejection(response)
		default:
			return t.answered(request, response, began, watch), nil
		}
		t.outage.failed(request.URL.Path, reason, true)
		if watch && time.Since(began) > watchExpiry {
			return stale(request), nil
		}
		if !t.sleep(request.Context(), least, nil) || !t.sleep(request.Context(), pauses.Step()-least, others) {
			t.outage.abandoned(request.URL.Path)
			return nil, fmt.Errorf("waiting for the API server ended: %s", reason)
		}
		select {
		case <-others:
			pauses = Backoff()
		default:
		}
	}
}

// answered records the result of an informer's request to which the API server has responded, and returns the response.
func (t *outageTransport) answered(request *http.Request, response *http.Response, began time.Time, watch bool) *http.Response {
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

// sleep waits for the duration d, or until the channel cut is closed. It returns false if the request's context, or the
// context of all informers, ends first.
func (t *outageTransport) sleep(ctx context.Context, d time.Duration, cut <-chan struct{}) bool {
	passed, stop := pause.After(d)
	defer stop()
	select {
	case <-passed:
		return true
	case <-cut:
		return true
	case <-ctx.Done():
	case <-t.outage.life.Done():
	}
	return false
}

// watchBody is the body of a response to a watch. If the connection breaks, the body ends without an error. It ends
// only when the watch has lasted so long that the informer does not treat its end as a failure.
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

// ofInformer reports whether the request lists or watches all objects of a kind, which only informers do.
func ofInformer(request *http.Request) bool {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	collection := len(parts) == 3 && parts[0] == "api" || len(parts) == 4 && parts[0] == "apis"
	return request.Method == http.MethodGet && collection
}

// IsWatch reports whether the request opens a watch.
func IsWatch(request *http.Request) bool {
	query := request.URL.Query()
	return query.Has("watch") && query.Get("watch") != "false"
}

// rejection returns the status and the beginning of the body of a response, and closes the body.
func rejection(response *http.Response) string {
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

// shortenRetryAfter limits the Retry-After in the response of an API server that is starting, because client-go waits for
// this time before it sends the request again.
func shortenRetryAfter(response *http.Response) {
	if response != nil && response.StatusCode == http.StatusServiceUnavailable && retryAfter(response) > startingRetryAfter {
		response.Header.Set("Retry-After", strconv.Itoa(int(startingRetryAfter.Seconds())))
	}
}

// stale returns the response that the API server gives to a watch whose resource version is too old.
func stale(request *http.Request) *http.Response {
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"the API server was unavailable"}`
	return &http.Response{
		Status: "410 Gone", StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
		ContentLength: int64(len(body)), Request: request,
	}
}
