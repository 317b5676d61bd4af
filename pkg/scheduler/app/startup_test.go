// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/volcano-prebind/volcano-prebind/internal/outage"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/metrics"
)

// TestAnAPIServerWithoutClaimsForDevices checks that the scheduler starts with an API server that does not serve
// ResourceClaims. It reads no resource that is not served, because it would wait for such lists for ever.
func TestAnAPIServerWithoutClaimsForDevices(t *testing.T) {
	tests := map[string]struct {
		// serves are the served versions of API group resource.k8s.io. taints reports whether feature gate
		// DRADeviceTaints is on, which needs version v1alpha3, too.
		serves []string
		taints bool
		status int
		want   bool
		err    string
	}{
		"all is served":                       {serves: []string{"v1"}, want: true},
		"an older version is served":          {serves: []string{"v1beta1"}},
		"discovery is forbidden":              {status: http.StatusForbidden, want: true},
		"rules that taint devices, too":       {serves: []string{"v1", "v1alpha3"}, taints: true, want: true},
		"but no rules that taint devices":     {serves: []string{"v1"}, taints: true, want: true, err: "feature gate DRADeviceTaints is enabled, but the API server does not serve resource.k8s.io/v1alpha3"},
		"neither, though rules are asked for": {taints: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DynamicResourceAllocation, true)
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.DRADeviceTaints, tt.taints)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				version, isGroup := strings.CutPrefix(r.URL.Path, "/apis/resource.k8s.io/")
				switch {
				case tt.status != 0 && isGroup:
					w.WriteHeader(tt.status)
				case isGroup && !slices.Contains(tt.serves, version):
					w.WriteHeader(http.StatusNotFound)
				}
				_, _ = w.Write([]byte(`{"major":"1","minor":"34","gitVersion":"v1.34.1"}`))
			}))
			defer server.Close()
			err := matchFeatureGates(t.Context(), &rest.Config{Host: server.URL})
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want %q", err, tt.err)
			}
			if got := utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation); got != tt.want {
				t.Errorf("the gate is on: %v, want %v", got, tt.want)
			}
		})
	}
}

func TestTheStartWaitsForTheAPIServer(t *testing.T) {
	tests := map[string]struct {
		// answers come one after the other, and the last one repeats.
		answers []int
		want    string
	}{
		"that is there":                           {answers: []int{200}},
		"that is not ready yet":                   {answers: []int{503, 500, 429, 200}},
		"but not for one that knows no such user": {answers: []int{401}, want: "credentials"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				i := min(int(asked.Add(1)), len(tt.answers)) - 1
				w.WriteHeader(tt.answers[i])
				_, _ = w.Write([]byte(`{"major":"1","minor":"34","gitVersion":"v1.34.1"}`))
			}))
			defer server.Close()
			info, err := serverVersion(t.Context(), &rest.Config{Host: server.URL})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("the start ended with %v, want %s", err, tt.want)
				}
				return
			}
			if err != nil || info.Minor != "34" {
				t.Errorf("the version is %v, %v", info, err)
			}
		})
	}
}

func TestTheStartDoesNotWaitForAServerItCannotTrust(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	if _, err := serverVersion(t.Context(), &rest.Config{Host: server.URL}); err == nil {
		t.Error("a server with an unknown certificate was trusted")
	}
}

func TestAStartThatWaitsForTheAPIServerEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begin := time.Now()
		_, err := serverVersion(ctx, &rest.Config{Host: "https://server", Transport: roundTripper(func(*http.Request) (*http.Response, error) {
			return nil, errors.New("connection refused")
		})})
		if ended := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || ended != time.Hour {
			t.Errorf("the start ended with %v after %v, want the requested end after an hour", err, ended)
		}
	})
}

// TestTheSchedulerIsConnected checks that the scheduler is connected to its cache, which is notified of the end of an
// outage.
func TestTheSchedulerIsConnected(t *testing.T) {
	kubeMetrics()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict) // Both queues exist.
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409}`))
	}))
	defer server.Close()
	p := &process{
		opts: parse(t), registry: framework.NewRegistry(), metrics: metrics.New(prometheus.NewRegistry()),
		watchdog: newWatchdog(), orphanPanics: &orphanPanics{}, outage: outage.New(t.Context()), rest: &rest.Config{Host: server.URL},
	}
	s, err := newScheduler(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if s.cache == nil || s.outage != p.outage || s.registry != p.registry || s.starting != &p.starting {
		t.Errorf("the scheduler is not connected to its process: %+v", s)
	}
}

func TestStartupReportsWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s startup
		if what, _ := s.waitsFor(); what != "" {
			t.Errorf("before the start it waits for %q", what)
		}
		begin, broken := time.Now(), errors.New("broken")
		err := s.during(func() string { return "Godot" }, func() error {
			time.Sleep(3 * logEvery)
			if what, since := s.waitsFor(); what != "Godot" || !since.Equal(begin) {
				t.Errorf("it waits for %q since %v", what, since)
			}
			return broken
		})
		if !errors.Is(err, broken) {
			t.Errorf("the wait ended with %v", err)
		}
		if what, _ := s.waitsFor(); what != "" {
			t.Errorf("after the start it waits for %q", what)
		}
	})
}
