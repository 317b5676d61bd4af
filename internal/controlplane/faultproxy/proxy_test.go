// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"bufio"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// fakeServer is an API server that accepts every request and records it.
type fakeServer struct {
	*httptest.Server

	mu   sync.Mutex
	seen []string
	auth string
}

func newFakeServer(t *testing.T) *fakeServer {
	s := &fakeServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *fakeServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r.Method+" "+r.URL.Path)
	s.auth = r.Header.Get("Authorization")
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		fmt.Fprintln(w, "first")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
}

func (s *fakeServer) requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// newProxy starts a proxy in front of the server, and returns it with the configuration of a client that uses it.
func newProxy(t *testing.T, server *fakeServer, http1 bool) (*Proxy, *rest.Config) {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}, BearerToken: "secret", QPS: -1}
	proxy, err := Start(Options{Upstream: config, Certificate: server.TLS.Certificates[0], Seed: 1, HTTP1: http1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	through := rest.CopyConfig(config)
	through.Host = proxy.URL()
	through.Timeout = 20 * time.Second
	return proxy, through
}

func bind(ctx context.Context, t *testing.T, config *rest.Config, pod string) error {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.CoreV1().Pods("ns").Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: "ns"},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n"},
	}, metav1.CreateOptions{})
}

const bindingPath = "/api/v1/namespaces/ns/pods/p/binding"

func TestActions(t *testing.T) {
	tests := map[string]struct {
		action Action
		// check returns an error unless the client got the result that the action is documented to cause.
		check func(error) error
		// reaches reports whether the server gets the request.
		reaches bool
	}{
		"a rule without an action lets pass": {
			check:   wantNone,
			reaches: true,
		},
		"an answer is an API error": {
			action: Answer(http.StatusConflict, 0),
			check:  wantErr("a conflict", apierrors.IsConflict),
		},
		"an answer may ask for patience": {
			action: Answer(http.StatusTooManyRequests, 1500*time.Millisecond),
			check: wantErr("too many requests, retry after 2 s", func(err error) bool {
				seconds, ok := apierrors.SuggestsClientDelay(err)
				return apierrors.IsTooManyRequests(err) && ok && seconds == 2
			}),
		},
		"a drop before keeps the write from the server": {
			action: DropBefore(),
			check:  wantErr("no API status", isTransport),
		},
		"a drop after hides a write that took place": {
			action:  DropAfter(),
			check:   wantErr("no API status", isTransport),
			reaches: true,
		},
		"a delay passes on": {
			action:  Delay(time.Millisecond),
			check:   wantNone,
			reaches: true,
		},
	}
	for name, tt := range tests {
		for _, http1 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, http1 %t", name, http1), func(t *testing.T) {
				server := newFakeServer(t)
				proxy, config := newProxy(t, server, http1)
				// client-go would wait for Retry-After by itself, but the test needs the first answer.
				config.WrapTransport = withoutRetry
				rule := proxy.Add(Rule{Method: http.MethodPost, Path: "/binding$", Action: tt.action})
				if err := tt.check(bind(t.Context(), t, config, "p")); err != nil {
					t.Error(err)
				}
				if got := len(server.requests()) == 1; got != tt.reaches {
					t.Errorf("the server saw %q", server.requests())
				}
				if rule.Hits() != 1 {
					t.Errorf("Hits() = %d, want 1", rule.Hits())
				}
			})
		}
	}
}

// withoutRetry removes the Retry-After header, which client-go obeys. The status in the body stays.
func withoutRetry(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil {
			resp.Header.Del("Retry-After")
		}
		return resp, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func wantNone(err error) error { return err }

func wantErr(what string, is func(error) bool) func(error) error {
	return func(err error) error {
		if err == nil || !is(err) {
			return fmt.Errorf("error is %v, want %s", err, what)
		}
		return nil
	}
}

func isTransport(err error) bool { return apierrors.ReasonForError(err) == metav1.StatusReasonUnknown }

func TestHoldIsAGate(t *testing.T) {
	server := newFakeServer(t)
	proxy, config := newProxy(t, server, false)
	gate := proxy.Add(Rule{Path: "/binding$", Action: Hold()})
	done := make(chan error, 1)
	go func() { done <- bind(context.WithoutCancel(t.Context()), t, config, "p") }()
	await(t, gate.Reached())
	if got := server.requests(); len(got) != 0 {
		t.Fatalf("the server saw %q through a closed gate", got)
	}
	gate.Release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := bind(t.Context(), t, config, "p"); err != nil {
		t.Errorf("after the release: %v", err)
	}
	if gate.Hits() != 1 {
		t.Errorf("Hits() = %d, want 1: an open gate takes nothing", gate.Hits())
	}
}

// TestHeldRequestOfAClientThatLeftNeverArrives checks that the write of a client that gives up while its request is
// held is not applied later.
func TestHeldRequestOfAClientThatLeftNeverArrives(t *testing.T) {
	server := newFakeServer(t)
	proxy, config := newProxy(t, server, false)
	gate := proxy.Add(Rule{Path: "/pods/gone/binding$", Action: Hold()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- bind(ctx, t, config, "gone") }()
	await(t, gate.Reached())
	cancel()
	if err := <-done; err == nil {
		t.Error("a request that was given up succeeded")
	}
	// The proxy notices later than the client that the request was given up. A release before that would forward the
	// request.
	await(t, gate.Abandoned())
	gate.Release()
	// Closing the proxy does not wait until the server has received all requests. So send one more request, and wait
	// for its response.
	if err := bind(t.Context(), t, config, "p"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"POST " + bindingPath}, server.requests()); diff != "" {
		t.Errorf("requests at the server (-want +got):\n%s", diff)
	}
}

func TestRuleScope(t *testing.T) {
	conflict := Answer(http.StatusConflict, 0)
	tests := map[string]struct {
		rule Rule
		// want has one character for the result of binding each of the pods p0 to p5: F for a failure, a dot for a
		// success.
		want string
	}{
		"everything":            {Rule{Action: conflict}, "FFFFFF"},
		"another method":        {Rule{Method: http.MethodDelete, Action: conflict}, "......"},
		"a path":                {Rule{Path: "/pods/p[24]/", Action: conflict}, "..F.F."},
		"a predicate on bodies": {Rule{Match: func(r Request) bool { return strings.Contains(string(r.Body), "p3") }, Action: conflict}, "...F.."},
		"after some":            {Rule{Skip: 2, Action: conflict}, "..FFFF"},
		"so many":               {Rule{Limit: 2, Action: conflict}, "FF...."},
		"some after some":       {Rule{Skip: 1, Limit: 2, Action: conflict}, ".FF..."},
		"a share, by the seed":  {Rule{Probability: 0.5, Action: conflict}, "F...F."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			proxy, config := newProxy(t, newFakeServer(t), false)
			proxy.Add(tt.rule)
			got := ""
			for i := range 6 {
				if err := bind(t.Context(), t, config, fmt.Sprintf("p%d", i)); err != nil {
					got += "F"
				} else {
					got += "."
				}
			}
			if got != tt.want {
				t.Errorf("outcomes %s, want %s", got, tt.want)
			}
		})
	}
}

func TestClearLetsGo(t *testing.T) {
	proxy, config := newProxy(t, newFakeServer(t), false)
	gate := proxy.Add(Rule{Action: Hold()})
	done := make(chan error, 1)
	go func() { done <- bind(context.WithoutCancel(t.Context()), t, config, "p") }()
	await(t, gate.Reached())
	proxy.Clear()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestPassesTokensAndStreamsWatches(t *testing.T) {
	server := newFakeServer(t)
	_, config := newProxy(t, server, false)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	client.Timeout = 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/api/v1/pods?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	// The server has not finished its answer, so the line arrives only if the proxy streams.
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || line != "first\n" {
		t.Errorf("first line of the watch: %q, %v", line, err)
	}
	if server.auth != "Bearer secret" {
		t.Errorf("the server received %q", server.auth)
	}
}

func TestCounts(t *testing.T) {
	proxy, config := newProxy(t, newFakeServer(t), false)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct{ method, path string }{
		{http.MethodPost, bindingPath},
		{http.MethodPost, bindingPath},
		{http.MethodPatch, "/api/v1/namespaces/ns/pods/p/status"},
		{http.MethodPut, "/apis/scheduling.volcano.sh/v1beta1/namespaces/ns/podgroups/g"},
		{http.MethodGet, "/api/v1/nodes"},
		{http.MethodGet, "/healthz"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), r.method, config.Host+r.path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Error(err)
		}
		resp.Body.Close()
	}
	want := map[Count]int{
		{"create", "pods/binding"}: 2,
		{"patch", "pods/status"}:   1,
		{"update", "podgroups"}:    1,
		{"list", "nodes"}:          1,
		{"get", "/healthz"}:        1,
	}
	if diff := cmp.Diff(want, proxy.Counts()); diff != "" {
		t.Errorf("Counts() (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"pods/binding": 2, "pods/status": 1, "podgroups": 1}, proxy.Writes()); diff != "" {
		t.Errorf("Writes() (-want +got):\n%s", diff)
	}
	proxy.ResetCounts()
	if got := proxy.Counts(); len(got) != 0 {
		t.Errorf("after a reset: %v", got)
	}
}

// TestDeadServer checks that the proxy makes up no answer when the server cannot be reached: the client gets a
// connection error.
func TestDeadServer(t *testing.T) {
	server := newFakeServer(t)
	_, config := newProxy(t, server, false)
	server.Close()
	if err := bind(t.Context(), t, config, "p"); err == nil || !isTransport(err) {
		t.Errorf("error is %v, want an error of the transport", err)
	}
}

func await(t *testing.T, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came within 20 s")
	}
}
