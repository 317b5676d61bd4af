// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/cmd/scheduler/app/options"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// TestRegressionWildcardListen is for upstream's defect wildcard-listen (docs/internals/upstream-defects.md): its
// servers listen on all interfaces by default.
func TestRegressionWildcardListen(t *testing.T) {
	tests := map[string]struct{ address, want, err string }{
		"no host is loopback":      {address: ":8080", want: "127.0.0.1:8080"},
		"a named address is meant": {address: "10.1.2.3:8080", want: "10.1.2.3:8080"},
		"all can be named":         {address: "0.0.0.0:8080", want: "0.0.0.0:8080"},
		"all of IPv6 can be named": {address: "[::]:8080", want: "[::]:8080"},
		"no port":                  {address: "localhost", err: `--healthz-address is "localhost", not host:port`},
		"nothing":                  {address: "", err: `--healthz-address is "", not host:port`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := listenAddress("healthz-address", tt.address)
			if got != tt.want || (err == nil) != (tt.err == "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("listenAddress returned %q, %v; want %q, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestServersAreBoundInTime(t *testing.T) {
	server := newServer(http.NotFoundHandler())
	if server.ReadHeaderTimeout <= 0 || server.ReadTimeout <= 0 || server.WriteTimeout <= 0 || server.IdleTimeout <= 0 {
		t.Errorf("a timeout is missing: %v header, %v read, %v write, %v idle",
			server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout, server.IdleTimeout)
	}
}

func TestDebugHandler(t *testing.T) {
	tests := map[string]struct {
		metrics, profiling bool
		want               map[string]int
	}{
		"metrics alone":   {metrics: true, want: map[string]int{"/metrics": 200, "/debug/pprof/": 404, "/debug/pprof/cmdline": 404}},
		"profiling alone": {profiling: true, want: map[string]int{"/metrics": 404, "/debug/pprof/": 200, "/debug/pprof/cmdline": 200}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			handler := debugHandler(tt.metrics, tt.profiling, &debugged{pending: report.NewPendingGangs(nil)})
			for path, want := range tt.want {
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
				if answer.Code != want {
					t.Errorf("%s answers %d, want %d", path, answer.Code, want)
				}
			}
		})
	}
}

// freeAddress returns a loopback address on which no process listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// TestDefaultServers checks that health is on, and metrics and profiling are off, by default.
func TestDefaultServers(t *testing.T) {
	opts := parse(t)
	opts.HealthzBindAddress, opts.ListenAddress = freeAddress(t), freeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := startServers(ctx, opts, newWatchdog(), &debugged{pending: report.NewPendingGangs(nil)}); err != nil {
		t.Fatal(err)
	}
	answer, err := http.Get("http://" + opts.HealthzBindAddress + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("health answers %s", answer.Status)
	}
	if conn, err := net.Dial("tcp", opts.ListenAddress); err == nil {
		conn.Close()
		t.Error("the server for metrics and profiling listens although both are off")
	}
	cancel()
	eventually(t, func() bool {
		conn, err := net.Dial("tcp", opts.HealthzBindAddress)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

func TestServerErrorsNameTheFlag(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tests := map[string]struct {
		opts options.ServerOption
		want string
	}{
		"health":  {options.ServerOption{EnableHealthz: true, HealthzBindAddress: taken.Addr().String()}, "--healthz-address"},
		"metrics": {options.ServerOption{EnableMetrics: true, ListenAddress: taken.Addr().String()}, "--listen-address"},
		"certificates": {options.ServerOption{
			EnableHealthz: true, HealthzBindAddress: "127.0.0.1:0", CaCertData: []byte("x"), CertData: []byte("x"), KeyData: []byte("x"),
		}, "--tls-cert-file"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := startServers(t.Context(), &Options{ServerOption: &tt.opts}, newWatchdog(), &debugged{pending: report.NewPendingGangs(nil)})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one that names %s", err, tt.want)
			}
		})
	}
}

// TestGangsAreShownOnLoopbackAlone checks that gangs are shown on loopback addresses only, since every tenant's pods
// can reach the pod's address.
func TestGangsAreShownOnLoopbackAlone(t *testing.T) {
	tests := map[string]struct {
		at   net.IP
		path string
		want int
	}{
		"gangs on loopback":            {at: net.IPv4(127, 0, 0, 1), path: "/debug/gangs", want: http.StatusOK},
		"gangs on IPv6 loopback":       {at: net.IPv6loopback, path: "/debug/gangs", want: http.StatusOK},
		"gangs at the pod's address":   {at: net.IPv4(10, 1, 2, 3), path: "/debug/gangs", want: http.StatusForbidden},
		"groups at the pod's address":  {at: net.IPv4(10, 1, 2, 3), path: "/debug/nodegroups", want: http.StatusForbidden},
		"gangs at no known address":    {path: "/debug/gangs", want: http.StatusForbidden},
		"metrics at the pod's address": {at: net.IPv4(10, 1, 2, 3), path: "/metrics", want: http.StatusOK},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			handler := gangsOnLoopback(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			ctx := t.Context()
			if tt.at != nil {
				ctx = context.WithValue(ctx, http.LocalAddrContextKey, &net.TCPAddr{IP: tt.at, Port: 8080})
			}
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, tt.path, nil).WithContext(ctx))
			if answer.Code != tt.want {
				t.Errorf("%s is answered with %d, want %d", tt.path, answer.Code, tt.want)
			}
		})
	}
}

// outsideAddress returns an address of this machine that is not loopback, or nil.
func outsideAddress(t *testing.T) net.IP {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok && network.IP.To4() != nil && network.IP.IsGlobalUnicast() {
			return network.IP
		}
	}
	return nil
}

// TestServersRefuseGangsOutsideLoopback sends requests to the servers that startServers starts. A machine may have
// loopback addresses only. TestListenHandlerRefusesGangsOutsideLoopback tests the refusals on any machine.
func TestServersRefuseGangsOutsideLoopback(t *testing.T) {
	listens, clients := map[string]string{"all addresses": "0.0.0.0"}, map[string]string{"loopback": "127.0.0.1"}
	if outside := outsideAddress(t); outside != nil {
		listens["one address"], clients["outside"] = outside.String(), outside.String()
	}
	// The environment may name a proxy, which the default client would use for an address that is not loopback.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for name, host := range listens {
		t.Run(name, func(t *testing.T) {
			_, port, err := net.SplitHostPort(freeAddress(t))
			if err != nil {
				t.Fatal(err)
			}
			opts := parse(t)
			opts.EnableHealthz, opts.EnableMetrics, opts.ListenAddress = false, true, net.JoinHostPort(host, port)
			if err := startServers(t.Context(), opts, newWatchdog(), &debugged{pending: report.NewPendingGangs(nil)}); err != nil {
				t.Fatal(err)
			}
			status := func(host, path string) int {
				answer, err := client.Get("http://" + net.JoinHostPort(host, port) + path)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				return answer.StatusCode
			}
			want := map[string]map[string]int{
				"outside": {"/debug/gangs": http.StatusForbidden, "/debug/nodegroups": http.StatusForbidden, "/metrics": http.StatusOK},
				// The process does not lead, so /debug/gangs refers to the leader.
				"loopback": {"/debug/gangs": http.StatusServiceUnavailable, "/debug/nodegroups": http.StatusOK, "/metrics": http.StatusOK},
			}
			for from, address := range clients {
				got := map[string]int{}
				for path := range want[from] {
					got[path] = status(address, path)
				}
				if diff := cmp.Diff(want[from], got); diff != "" {
					t.Errorf("status codes from %s (-want +got):\n%s", from, diff)
				}
			}
		})
	}
}

func TestListenHandlerRefusesGangsOutsideLoopback(t *testing.T) {
	opts := parse(t)
	opts.EnableMetrics = true
	handler := listenHandler(opts, &debugged{pending: report.NewPendingGangs(nil)})
	ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 8080})
	for path, want := range map[string]int{
		"/debug/gangs": http.StatusForbidden, "/debug/nodegroups": http.StatusForbidden, "/metrics": http.StatusOK,
	} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil).WithContext(ctx))
		if answer.Code != want {
			t.Errorf("%s is answered with %d, want %d", path, answer.Code, want)
		}
	}
}

func TestBesideOnLoopback(t *testing.T) {
	for address, want := range map[string]string{
		"10.1.2.3:8080": "127.0.0.1:8080", "[fd00::1]:8080": "127.0.0.1:8080",
		":8080": "", "0.0.0.0:8080": "", "[::]:8080": "", "127.0.0.1:8080": "", "[::1]:8080": "", "localhost:8080": "",
	} {
		if got := besideOnLoopback(address); got != want {
			t.Errorf("beside %s it listens on %q, want %q", address, got, want)
		}
	}
}
