// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	commonutil "volcano.sh/volcano/pkg/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/debug"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
)

// Timeouts of the HTTP servers. The write timeout allows for a CPU profile that takes 60 s.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	writeTimeout      = 90 * time.Second
	idleTimeout       = 2 * time.Minute
	serverGrace       = 2 * time.Second
)

// debugged is the data that the debug endpoints show.
type debugged struct {
	pending *report.PendingGangs
	// gangs is nil while the process does not lead.
	gangs atomic.Pointer[debug.View]
}

// startServers starts the health server and the metrics and profiling server, according to the flags. Both servers
// listen when startServers returns, and stop when ctx ends.
func startServers(ctx context.Context, o *Options, health http.Handler, shown *debugged) error {
	if o.EnableHealthz {
		mux := http.NewServeMux()
		mux.Handle("/healthz", health)
		tlsConfig, err := healthTLS(o)
		if err != nil {
			return err
		}
		if err := serve(ctx, "healthz-address", o.HealthzBindAddress, mux, tlsConfig); err != nil {
			return err
		}
	}
	if !o.EnableMetrics && !o.EnablePprof {
		return nil
	}
	handler := listenHandler(o, shown)
	if err := serve(ctx, "listen-address", o.ListenAddress, handler, nil); err != nil {
		return err
	}
	if beside := besideOnLoopback(o.ListenAddress); beside != "" {
		if err := serve(ctx, "listen-address", beside, handler, nil); err != nil {
			klog.ErrorS(err, "Listening on loopback failed; /debug/gangs and /debug/nodegroups are not served", "address", beside)
		}
	}
	return nil
}

// listenHandler returns the handler of the server on --listen-address.
func listenHandler(o *Options, shown *debugged) http.Handler {
	return gangsOnLoopback(debugHandler(o.EnableMetrics, o.EnablePprof, shown))
}

// gangsOnLoopback serves /debug/gangs and /debug/nodegroups on the loopback address only. These pages show the gangs of
// all namespaces, and every pod of the cluster can reach the address of the scheduler's pod. Users who may forward
// ports of the pod can still read the pages, because kubectl port-forward uses loopback.
func gangsOnLoopback(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if (r.URL.Path == "/debug/gangs" || r.URL.Path == "/debug/nodegroups") && (at == nil || !at.IP.IsLoopback()) {
			http.Error(w, r.URL.Path+" is served on the loopback address only; use kubectl port-forward", http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// besideOnLoopback returns the loopback address with the port of address, for a second listener. It returns "" if
// address itself accepts connections to loopback, or if its host is no IP address.
func besideOnLoopback(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || ip.IsLoopback() || ip.IsUnspecified() {
		return ""
	}
	return net.JoinHostPort("127.0.0.1", port)
}

func debugHandler(metrics, profiling bool, shown *debugged) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/nodegroups", func(w http.ResponseWriter, r *http.Request) { explain(w, r, shown.pending.Explanations()) })
	mux.HandleFunc("GET /debug/gangs", func(w http.ResponseWriter, r *http.Request) { showGangs(w, r, shown.gangs.Load()) })
	if metrics {
		mux.Handle("/metrics", commonutil.PromHandler())
	}
	if profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// explain responds with the gangs that fit into no node group, and why, according to the last closed session. The query
// parameters namespace and podgroup select gangs.
func explain(w http.ResponseWriter, r *http.Request, explanations []framework.GangExplanation) {
	gangs := slices.DeleteFunc(explanations, func(e framework.GangExplanation) bool {
		namespace, podGroup := r.URL.Query().Get("namespace"), r.URL.Query().Get("podgroup")
		return namespace != "" && namespace != e.Namespace || podGroup != "" && podGroup != e.PodGroup
	})
	slices.SortFunc(gangs, func(l, r framework.GangExplanation) int {
		return cmp.Or(cmp.Compare(l.Namespace, r.Namespace), cmp.Compare(l.PodGroup, r.PodGroup))
	})
	writeJSON(w, r, gangs)
}

func writeJSON(w http.ResponseWriter, r *http.Request, value any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		klog.V(2).InfoS("Writing an answer failed", "path", r.URL.Path, "err", err)
	}
}

// healthTLS returns the TLS configuration of the health server; nil unless all three certificate flags are set.
// Upstream does the same.
func healthTLS(o *Options) (*tls.Config, error) {
	if len(o.CaCertData) == 0 || len(o.CertData) == 0 || len(o.KeyData) == 0 {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(o.CertData, o.KeyData)
	if err != nil {
		return nil, fmt.Errorf("reading --tls-cert-file and --tls-private-key-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(o.CaCertData) {
		return nil, errors.New("--ca-cert-file holds no PEM certificate")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair},
		ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven,
	}, nil
}

func serve(ctx context.Context, flag, address string, handler http.Handler, tlsConfig *tls.Config) error {
	address, err := listenAddress(flag, address)
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening on --%s: %w", flag, err)
	}
	if tlsConfig != nil {
		listener = tls.NewListener(listener, tlsConfig)
	}
	server := newServer(handler)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			klog.ErrorS(err, "HTTP server ended", "address", address)
		}
	}()
	context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.Background(), serverGrace)
		defer cancel()
		if err := server.Shutdown(grace); err != nil {
			klog.V(2).InfoS("HTTP server closed with requests in flight", "address", address, "err", err)
		}
	})
	return nil
}

func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
	}
}
