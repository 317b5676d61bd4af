// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestWhichRequestsWaitOutAnOutage(t *testing.T) {
	const up = 10 * time.Minute
	tests := map[string]struct {
		method, url string
		server      server
		want        int
		// within is the longest time from the end of the outage to the answer. -1 means that the answer is returned at
		// once, during the outage.
		within time.Duration
	}{
		"a list of pods":                    {url: "/api/v1/pods?limit=500", server: server{up: up}, want: 200, within: 2 * time.Second},
		"a list of custom resources":        {url: "/apis/scheduling.volcano.sh/v1beta1/podgroups", server: server{up: up}, want: 200, within: 2 * time.Second},
		"a list while it answers 503":       {url: "/api/v1/pods", server: server{up: up, down: 503}, want: 200, within: 2 * time.Second},
		"a list while it starts":            {url: "/apis/scheduling.volcano.sh/v1beta1/podgroups", server: server{up: up, down: 503, retryAfter: "5"}, want: 200, within: 2 * time.Second},
		"a list while it answers 500":       {url: "/api/v1/pods", server: server{up: up, down: 500}, want: 200, within: 2 * time.Second},
		"a list while it has too much":      {url: "/api/v1/pods", server: server{up: up, down: 429, retryAfter: "20"}, want: 200, within: 21 * time.Second},
		"a list that is forbidden does not": {url: "/api/v1/pods", server: server{up: up, down: 403}, want: 403, within: -1},
		"a kind that is not there does not": {url: "/apis/topology.volcano.sh/v1alpha1/hypernodes", server: server{up: up, down: 404}, want: 404, within: -1},
		"a get does not":                    {url: "/api/v1/nodes/n", server: server{up: up}, within: -1},
		"a list of a namespace does not":    {url: "/api/v1/namespaces/ns/configmaps", server: server{up: up}, within: -1},
		"a lease does not":                  {url: "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l", server: server{up: up}, within: -1},
		"discovery does not":                {url: "/apis/scheduling.volcano.sh/v1beta1", server: server{up: up}, within: -1},
		"a write does not":                  {method: http.MethodPost, url: "/api/v1/namespaces", server: server{up: up}, within: -1},
		"a watch of a server soon back":     {url: "/api/v1/pods?watch=true", server: server{up: time.Second}, want: 200, within: 1500 * ms},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				method := tt.method
				if method == "" {
					method = http.MethodGet
				}
				up, o := tt.server.up, New(t.Context())
				status, took := ask(t.Context(), t, o, &tt.server, method, tt.url)
				if status != tt.want {
					t.Errorf("the answer is %d, want %d", status, tt.want)
				}
				if late := took - up; tt.within < 0 && took > 0 || tt.within >= 0 && (late < 0 || late > tt.within) {
					t.Errorf("the answer took %v of an outage of %v", took, up)
				}
			})
		})
	}
}

// TestAWatchOfALongOutageIsStale checks that a watch of a long outage is answered as stale, so the informer's own
// pause passes during the outage.
func TestAWatchOfALongOutageIsStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{up: time.Hour}
		o := New(t.Context())
		client, err := kubernetes.NewForConfig(o.Wrap(&rest.Config{Host: "https://server", Transport: s}))
		if err != nil {
			t.Fatal(err)
		}
		s.begin = time.Now()
		_, err = client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
		if !apierrors.IsResourceExpired(err) {
			t.Errorf("the watch ended with %v, want that its version is expired", err)
		}
		if took := time.Since(s.begin); took < watchExpiry || took > watchExpiry+2*time.Second {
			t.Errorf("the watch was tried for %v", took)
		}
	})
}

func TestPausesOfAnOutageAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{up: time.Minute}
		ask(t.Context(), t, New(t.Context()), s, http.MethodGet, "/api/v1/pods")
		for i := 1; i < len(s.asked); i++ {
			if pause := s.asked[i] - s.asked[i-1]; pause < firstPause || pause > lastPause+lastPause/2 {
				t.Errorf("pause %d is %v", i, pause)
			}
		}
		if len(s.asked) > 100 {
			t.Errorf("%d requests in a minute", len(s.asked))
		}
	})
}

// TestARetryAfterIsFollowed checks that a Retry-After of up to 30 s is obeyed, and that a longer one counts as 30 s. It
// also checks that the body of each answer is closed, because its connection would be lost otherwise.
func TestARetryAfterIsFollowed(t *testing.T) {
	tests := map[string]struct {
		header      string
		least, most time.Duration
	}{
		"some seconds":      {header: "20", least: 20 * time.Second, most: 20 * time.Second},
		"a day":             {header: "86400", least: longestRetryAfter, most: longestRetryAfter},
		"less than nothing": {header: "-5", least: firstPause, most: lastPause + lastPause/2},
		"no number":         {header: "soon", least: firstPause, most: lastPause + lastPause/2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{up: 5 * time.Minute, down: http.StatusTooManyRequests, retryAfter: tt.header}
				ask(t.Context(), t, New(t.Context()), s, http.MethodGet, "/api/v1/pods")
				if len(s.asked) < 2 {
					t.Errorf("asked after %v only", s.asked)
				}
				for i := 1; i < len(s.asked); i++ {
					if pause := s.asked[i] - s.asked[i-1]; pause < tt.least || pause > tt.most {
						t.Errorf("pause %d is %v, want %v to %v", i, pause, tt.least, tt.most)
					}
				}
				if s.unread > 0 {
					t.Errorf("%d of %d answers are not closed", s.unread, len(s.asked))
				}
			})
		})
	}
}

func TestWaitingForTheAPIServerEnds(t *testing.T) {
	tests := map[string]func(request, life context.CancelFunc){
		"with its request":    func(request, _ context.CancelFunc) { request() },
		"with those who wait": func(_, life context.CancelFunc) { life() },
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				request, endRequest := context.WithCancel(t.Context())
				defer endRequest()
				life, endLife := context.WithCancel(t.Context())
				defer endLife()
				time.AfterFunc(time.Minute, func() { end(endRequest, endLife) })
				status, took := ask(request, t, New(life), &server{up: time.Hour}, http.MethodGet, "/api/v1/pods")
				if status != 0 || took != time.Minute {
					t.Errorf("the request ended with %d after %v, want no answer after a minute", status, took)
				}
			})
		})
	}
}

// brokenBody is a watch whose connection breaks after its text.
type brokenBody struct{ io.Reader }

func (b brokenBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		return n, errors.New("connection reset by peer")
	}
	return n, err
}

func (brokenBody) Close() error { return nil }

// TestABrokenWatchEnds checks that a broken watch ends without an error. An informer takes an error, or a watch that
// was too short, as a failure and pauses. Events that arrived with the error are not lost.
func TestABrokenWatchEnds(t *testing.T) {
	for name, body := range map[string]io.Reader{
		"after its text": strings.NewReader("events"), "with its text": iotest.DataErrReader(strings.NewReader("events")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{body: brokenBody{body}}
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/api/v1/pods?watch=1", nil)
				if err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				response, err := (&outageTransport{s, New(t.Context())}).RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				if !bytes.Equal(text, []byte("events")) || err != nil {
					t.Errorf("the watch gave %q and ended with %v", text, err)
				}
				if lasted := time.Since(begin); lasted <= time.Second {
					t.Errorf("the watch lasted %v: too brief", lasted)
				}
			})
		})
	}
}

// TestTheFirstAnswerAfterAnOutageEndsThePausesOfAll checks that the first answer after an outage ends the pauses of
// all requests, except requests with a Retry-After from the API server.
func TestTheFirstAnswerAfterAnOutageEndsThePausesOfAll(t *testing.T) {
	const paths = 50
	tests := map[string]struct {
		retryAfter string
		within     time.Duration
	}{
		"they ask at once":                       {within: 200 * ms},
		"a pause that was asked for is kept":     {retryAfter: "20", within: 20 * time.Second},
		"also when it is shorter than their own": {retryAfter: "1", within: time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := New(t.Context())
				var over time.Time
				o.WhenOver(func() { over = time.Now() })
				up := time.Now().Add(time.Minute)
				var all sync.WaitGroup
				for i := range paths {
					s := &server{up: time.Minute}
					if tt.retryAfter != "" {
						s.down, s.retryAfter = http.StatusTooManyRequests, tt.retryAfter
					}
					all.Go(func() { ask(t.Context(), t, o, s, http.MethodGet, "/api/v1/kind"+strconv.Itoa(i)) })
				}
				all.Wait()
				if late := over.Sub(up); over.IsZero() || late > tt.within {
					t.Errorf("all are answered %v after the API server's return, want within %v", late, tt.within)
				}
			})
		})
	}
}

// TestPausesStartOverWhenOthersAreAnswered checks that pauses start over when other requests are answered: a starting
// server serves its resources one after the other.
func TestPausesStartOverWhenOthersAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New(t.Context())
		var all sync.WaitGroup
		var first time.Duration
		all.Go(func() { _, first = ask(t.Context(), t, o, &server{up: time.Minute}, http.MethodGet, "/api/v1/pods") })
		last := &server{up: 70 * time.Second, down: http.StatusServiceUnavailable}
		all.Go(func() { ask(t.Context(), t, o, last, http.MethodGet, "/apis/scheduling.volcano.sh/v1beta1/queues") })
		all.Wait()
		next, _ := slices.BinarySearch(last.asked, first)
		if at := last.asked[next]; at > first+10*ms {
			t.Errorf("it is asked %v after the answer to the other", at-first)
		}
		if pause := last.asked[next+1] - last.asked[next]; pause > 2*firstPause {
			t.Errorf("the pause after that is %v", pause)
		}
		if n := len(last.asked); n > 100 {
			t.Errorf("%d requests in 70 seconds", n)
		}
	})
}

// stages is a transport whose answer changes over time. Each status, 0 for none, is the answer until its time.
type stages []struct {
	until  time.Time
	status int
}

func (s stages) RoundTrip(*http.Request) (*http.Response, error) {
	for _, stage := range s {
		if time.Now().After(stage.until) {
			continue
		}
		if stage.status == 0 {
			return nil, errAway
		}
		return &http.Response{StatusCode: stage.status, Status: http.StatusText(stage.status), Body: http.NoBody}, nil
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestARejectionOfAStartingAPIServerIsNoAnswer checks that a rejection by a starting API server does not end the
// outage. The server listens before it knows its roles, and a rejected informer would pause.
func TestARejectionOfAStartingAPIServerIsNoAnswer(t *testing.T) {
	tests := map[string]struct {
		rejection int
		lasts     time.Duration
		want      int
		// late is the longest time between the API server's return and the answer.
		late time.Duration
	}{
		"it does not know its roles":             {rejection: 403, lasts: time.Second, want: 200, late: 3 * time.Second},
		"it does not know who asks":              {rejection: 401, lasts: time.Second, want: 200, late: 3 * time.Second},
		"it rejects for good":                    {rejection: 403, lasts: time.Hour, want: 403, late: starting + 2*(lastPause+lastPause/2)},
		"that the kind is not there is for good": {rejection: 404, lasts: time.Hour, want: 404, late: 2 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := New(t.Context())
				told := 0
				o.WhenOver(func() { told++ })
				up := time.Now().Add(time.Minute)
				answers := stages{{up, 0}, {up.Add(tt.lasts), tt.rejection}}
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/api/v1/pods", nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err := (&outageTransport{answers, o}).RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				if response.StatusCode != tt.want {
					t.Errorf("the answer is %d, want %d", response.StatusCode, tt.want)
				}
				if late := time.Since(up); late > tt.late {
					t.Errorf("the answer came %v after the return", late)
				}
				if told != 1 {
					t.Errorf("the end was reported %d times, want once", told)
				}
				_ = response.Body.Close()
				time.Sleep(time.Minute)
				if status, _ := ask(t.Context(), t, o, &server{up: time.Hour, down: 403}, http.MethodGet, "/api/v1/pods"); status != 403 {
					t.Errorf("a rejection long after the outage is answered with %d", status)
				}
			})
		})
	}
}

// TestAStartingAPIServerIsAskedAgainSoon checks that clients soon repeat requests to a starting API server. client-go
// waits for the server's Retry-After before it sends a request again.
func TestAStartingAPIServerIsAskedAgainSoon(t *testing.T) {
	tests := map[string]struct {
		status      int
		after, want string
	}{
		"it says five seconds":             {503, "5", "1"},
		"it says one":                      {503, "1", "1"},
		"it says nothing":                  {503, "", ""},
		"one that has too much is obeyed":  {429, "5", "5"},
		"and so is one with another error": {504, "5", "5"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://server/api/v1/nodes/n", nil)
				if err != nil {
					t.Fatal(err)
				}
				response, err := (&outageTransport{&server{up: time.Hour, begin: time.Now(), down: tt.status, retryAfter: tt.after}, New(t.Context())}).RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				if got := response.Header.Get("Retry-After"); got != tt.want {
					t.Errorf("Retry-After is %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestARequestThatIsGivenUpIsNotWaitedFor checks that a request whose context has ended does not delay the end of the
// outage. Recovering plugins send such requests.
func TestARequestThatIsGivenUpIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New(t.Context())
		var told atomic.Int32
		o.WhenOver(func() { told.Add(1) })
		brief, end := context.WithTimeout(t.Context(), 10*time.Second)
		defer end()
		var all sync.WaitGroup
		all.Go(func() { ask(brief, t, o, &server{up: time.Minute}, http.MethodGet, "/api/v1/configmaps") })
		all.Go(func() { ask(t.Context(), t, o, &server{up: time.Minute}, http.MethodGet, "/api/v1/pods") })
		time.Sleep(30 * time.Second)
		if told.Load() != 0 {
			t.Error("the end was reported while pods were not answered")
		}
		all.Wait()
		if told.Load() != 1 {
			t.Errorf("the end was reported %d times, want once", told.Load())
		}
	})
}

// returning is a transport that fails until it is up, and then answers with the status.
type returning struct {
	up     time.Time
	status int
}

func (r *returning) RoundTrip(*http.Request) (*http.Response, error) {
	if time.Now().Before(r.up) {
		return nil, errAway
	}
	return &http.Response{StatusCode: r.status, Status: http.StatusText(r.status), Body: io.NopCloser(strings.NewReader("{}"))}, nil
}
