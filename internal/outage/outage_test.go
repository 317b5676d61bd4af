// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const ms = time.Millisecond

var errAway = errors.New("connection refused")

// server is a transport that fails until it is up, and records when it was called.
type server struct {
	begin time.Time
	up    time.Duration
	// down is the status of the answers before the time up; 0 means no answer.
	down       int
	retryAfter string
	asked      []time.Duration
	body       io.ReadCloser
	// unread counts the answers before the time up whose bodies have not been closed.
	unread int
}

// answer is a response body of a server that is not up.
type answer struct {
	io.Reader
	server *server
}

func (a answer) Close() error { a.server.unread--; return nil }

func (s *server) RoundTrip(*http.Request) (*http.Response, error) {
	s.asked = append(s.asked, time.Since(s.begin))
	body := s.body
	if body == nil {
		body = io.NopCloser(strings.NewReader("{}"))
	}
	switch {
	case time.Since(s.begin) >= s.up:
		return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
	case s.down == 0:
		return nil, errAway
	default:
		s.unread++
		return &http.Response{
			StatusCode: s.down, Status: http.StatusText(s.down), Body: answer{strings.NewReader("not now"), s},
			Header: http.Header{"Retry-After": {s.retryAfter}},
		}, nil
	}
}

// ask sends a request through an outage transport. It returns the status of the answer, which is 0 for none, and how
// long the request took.
func ask(ctx context.Context, t *testing.T, o *Outage, s *server, method, url string) (status int, took time.Duration) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, "https://server"+url, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.begin = time.Now()
	response, err := (&outageTransport{s, o}).RoundTrip(request)
	if err != nil {
		return 0, time.Since(s.begin)
	}
	defer response.Body.Close()
	return response.StatusCode, time.Since(s.begin)
}

func TestRejectedRequestsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New(t.Context())
		ask(t.Context(), t, o, &server{up: time.Hour, down: 404}, http.MethodGet, "/apis/topology.volcano.sh/v1alpha1/hypernodes")
		ask(t.Context(), t, o, &server{up: time.Hour, down: 403}, http.MethodGet, "/api/v1/pods")
		time.Sleep(time.Minute)
		want := "/api/v1/pods: Forbidden (for 1m0s); /apis/topology.volcano.sh/v1alpha1/hypernodes: Not Found (for 1m0s)"
		if diff := cmp.Diff(want, o.Rejected()); diff != "" {
			t.Errorf("rejected paths (-want +got):\n%s", diff)
		}
		ask(t.Context(), t, o, &server{}, http.MethodGet, "/api/v1/pods")
		ask(t.Context(), t, o, &server{}, http.MethodGet, "/apis/topology.volcano.sh/v1alpha1/hypernodes")
		if got := o.Rejected(); got != "" {
			t.Errorf("%s is still reported", got)
		}
	})
}

// TestAFailingRequestIsReported checks that Rejected reports a path that keeps failing, since when it fails and its
// last error. The answer that a version is stale does not count as a failure.
func TestAFailingRequestIsReported(t *testing.T) {
	tests := map[string]struct {
		answers []int
		want    string
	}{
		"forbidden for a while":  {answers: []int{403, 403, 404}, want: "/api/v1/pods: Not Found (for 20s)"},
		"forbidden, and not now": {answers: []int{403, 200}},
		"forbidden, and stale":   {answers: []int{403, 410}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := New(t.Context())
				for i, answer := range tt.answers {
					if i > 0 {
						time.Sleep(10 * time.Second)
					}
					s := &server{up: time.Hour, down: answer}
					if got, _ := ask(t.Context(), t, o, s, http.MethodGet, "/api/v1/pods"); got != answer {
						t.Fatalf("the answer is %d, want %d", got, answer)
					}
				}
				if got := o.Rejected(); got != tt.want {
					t.Errorf("rejected is %q, want %q", got, tt.want)
				}
			})
		})
	}
}

func TestTheEndOfAnOutageIsReportedOnce(t *testing.T) {
	tests := map[string]struct {
		away time.Duration
		down int
		want int
	}{
		"after a long one":        {away: time.Minute, want: 1},
		"after one of errors":     {away: time.Minute, down: 503, want: 1},
		"not after a short one":   {away: 200 * ms},
		"not when there was none": {away: 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := 0
				o := New(t.Context())
				o.WhenOver(func() { told++ })
				var all sync.WaitGroup
				for _, url := range []string{"/api/v1/pods", "/api/v1/nodes", "/apis/scheduling.volcano.sh/v1beta1/podgroups"} {
					all.Go(func() { ask(t.Context(), t, o, &server{up: tt.away, down: tt.down}, http.MethodGet, url) })
				}
				all.Wait()
				ask(t.Context(), t, o, &server{}, http.MethodGet, "/api/v1/pods")
				if told != tt.want {
					t.Errorf("the end was reported %d times, want %d", told, tt.want)
				}
			})
		})
	}
}

// TestAnAnswerOfAnyKindEndsAnOutage checks that an answer with any status ends an outage: an API server that rejects
// a request can be reached again.
func TestAnAnswerOfAnyKindEndsAnOutage(t *testing.T) {
	const pods, nodes = "/api/v1/pods", "/api/v1/nodes"
	tests := map[string]struct {
		// last is the status for the path that is answered last, and before the status for the path answered before
		// it.
		last, before int
		want         int32
	}{
		"the last is allowed":                   {last: 200, before: 200, want: 1},
		"the last is forbidden":                 {last: 403, before: 200, want: 1},
		"the last is not there any more":        {last: 404, before: 200, want: 1},
		"the last is stale":                     {last: 410, before: 200, want: 1},
		"all are forbidden":                     {last: 403, before: 403, want: 1},
		"the last is allowed, one is forbidden": {last: 200, before: 403, want: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told atomic.Int32
				o := New(t.Context())
				o.WhenOver(func() { told.Add(1) })
				answer := func(path string, after time.Duration, status int) {
					transport := &returning{up: time.Now().Add(after), status: status}
					request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server"+path, nil)
					if err != nil {
						t.Error(err)
						return
					}
					response, err := (&outageTransport{transport, o}).RoundTrip(request)
					if err != nil {
						t.Error(err)
						return
					}
					_ = response.Body.Close()
				}
				var all sync.WaitGroup
				all.Go(func() { answer(pods, time.Minute, tt.before) })
				all.Go(func() { answer(nodes, 2*time.Minute, tt.last) })
				time.Sleep(90 * time.Second)
				if told.Load() != 0 {
					t.Error("the end was reported while nodes were not answered")
				}
				all.Wait()
				answer(nodes, 0, http.StatusForbidden)
				answer(nodes, 0, http.StatusOK)
				if got := told.Load(); got != tt.want {
					t.Errorf("the end was reported %d times, want %d", got, tt.want)
				}
			})
		})
	}
}
