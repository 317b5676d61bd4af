// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"volcano.sh/volcano/cmd/controller-manager/app/options"
	"volcano.sh/volcano/pkg/controllers/framework"
	"volcano.sh/volcano/pkg/kube"

	"github.com/volcano-prebind/volcano-prebind/internal/outage"
)

func TestEnabled(t *testing.T) {
	tests := map[string]struct {
		selected []string
		want     bool
	}{
		"nothing is selected":          {want: true},
		"all":                          {selected: []string{"*"}, want: true},
		"by name":                      {selected: []string{"gang-controller"}, want: true},
		"by name with a sign":          {selected: []string{"+gang-controller"}, want: true},
		"another":                      {selected: []string{"job-controller"}},
		"all but it":                   {selected: []string{"*", "-gang-controller"}},
		"the first that names it wins": {selected: []string{"gang-controller", "-gang-controller"}, want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := enabled("gang-controller", tt.selected); got != tt.want {
				t.Errorf("enabled is %t, want %t", got, tt.want)
			}
		})
	}
}

// TestAllInformersOfControllersAreSoonBack checks that all informers of the controllers work soon after the API
// server rejected the watch of each resource four times as too old. With client-go's pauses the fifth watch would
// begin after 12 s or later.
func TestAllInformersOfControllersAreSoonBack(t *testing.T) {
	const rejections = 4
	var mu sync.Mutex
	watches := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !outage.IsWatch(r) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"metadata":{"resourceVersion":"1"},"items":[]}`))
			return
		}
		mu.Lock()
		watches[r.URL.Path]++
		reject := watches[r.URL.Path] <= rejections
		mu.Unlock()
		if reject {
			http.Error(w, "too old", http.StatusGone)
			return
		}
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	opts := options.NewServerOption()
	opts.KubeClientOptions = kube.ClientOptions{Master: server.URL, QPS: 1000, Burst: 1000}
	opts.Controllers = []string{"*"}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	controllers, err := controllerOptions(&rest.Config{Host: server.URL, QPS: -1}, opts)
	if err != nil {
		t.Fatal(err)
	}
	startControllers(ctx, controllers, opts.Controllers)
	kinds := []string{"pods", "nodes", "replicasets", "jobs", "podgroups", "queues", "commands", "hypernodes", "jobflows", "priorityclasses"}
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		mu.Lock()
		now := maps.Clone(watches)
		mu.Unlock()
		missing := slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool {
			for path := range now {
				if strings.HasSuffix(path, "/"+kind) {
					return true
				}
			}
			return false
		})
		behind := slices.DeleteFunc(slices.Sorted(maps.Keys(now)), func(path string) bool { return now[path] > rejections })
		if len(missing) == 0 && len(behind) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not watched: %q; rejected and not watched again: %q; watches by path: %v", missing, behind, now)
		}
	}
}

// podWatcher is a controller with a pod informer.
type podWatcher struct{ pods cache.SharedIndexInformer }

func (*podWatcher) Name() string { return "pod-watcher" }

func (w *podWatcher) Initialize(opts *framework.ControllerOption) error {
	w.pods = opts.SharedInformerFactory.Core().V1().Pods().Informer()
	return nil
}

func (w *podWatcher) Run(stop <-chan struct{}) { w.pods.Run(stop) }

// TestControllersSeeTheClusterSoonAfterAnOutage checks that the controllers' informers are synchronized soon after an
// outage, because their requests wait for the API server. With client-go's own pauses, which begin at 0.8 s and double,
// the sixth list would be sent after more than 20 s.
func TestControllersSeeTheClusterSoonAfterAnOutage(t *testing.T) {
	const rejections = 6
	var lists atomic.Int32
	listed := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case outage.IsWatch(r) && r.URL.Query().Has("sendInitialEvents"):
			http.Error(w, "not served", http.StatusBadRequest)
		case outage.IsWatch(r):
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case lists.Add(1) <= rejections:
			http.Error(w, "starting", http.StatusServiceUnavailable)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
			close(listed)
		}
	}))
	defer server.Close()
	if err := framework.RegisterController(&podWatcher{}); err != nil {
		t.Fatal(err)
	}
	opts := options.NewServerOption()
	opts.KubeClientOptions = kube.ClientOptions{Master: server.URL, QPS: 50, Burst: 100}
	opts.Controllers = []string{"pod-watcher"}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, opts) }()
	select {
	case <-listed:
	case err := <-ended:
		t.Fatalf("the controllers ended: %v", err)
	case <-time.After(20 * time.Second):
		t.Errorf("pods were listed %d times and not once with success", lists.Load())
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the controllers that were stopped ended with %v", err)
	}
}
