// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/compatibility"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"

	"github.com/volcano-prebind/volcano-prebind/internal/outage"
)

// logEvery is how often the scheduler logs, before its first cycle, what it waits for.
const logEvery = 10 * time.Second

// startup records what the scheduler waits for before its first cycle.
type startup struct {
	mu    sync.Mutex
	what  func() string
	since time.Time
}

// waitsFor returns what the scheduler waits for before its first cycle, and since when; empty once this process
// schedules.
func (s *startup) waitsFor() (what string, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.what == nil {
		return "", time.Time{}
	}
	return s.what(), s.since
}

// during runs f. While f runs, during records what the scheduler waits for, and logs it every logEvery.
func (s *startup) during(what func() string, f func() error) error {
	s.set(what)
	defer s.set(nil)
	ctx, stop := context.WithCancel(context.Background())
	var logging sync.WaitGroup
	logging.Go(func() {
		tick := time.NewTicker(logEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				what, since := s.waitsFor()
				klog.InfoS("Scheduling has not begun", "waitsFor", what, "for", time.Since(since).Round(time.Second))
			}
		}
	})
	defer logging.Wait()
	defer stop()
	return f()
}

func (s *startup) set(what func() string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.what, s.since = what, time.Now()
}

// matchFeatureGates sets Kubernetes' feature gates to their defaults in the API server's version. So the scheduler does
// not use features that an older cluster lacks. It waits for an unavailable API server until ctx ends.
func matchFeatureGates(ctx context.Context, config *rest.Config) error {
	server, err := serverVersion(ctx, config)
	if err != nil {
		return err
	}
	registry := compatibility.NewComponentGlobalsRegistry()
	version := compatibility.NewEffectiveVersionFromString(server.Major+"."+strings.TrimRight(server.Minor, "+"), "", "")
	if err := registry.Register(compatibility.DefaultKubeComponent, version, utilfeature.DefaultMutableFeatureGate); err != nil {
		return fmt.Errorf("matching feature gates to Kubernetes %s: %w", server.GitVersion, err)
	}
	if err := registry.Set(); err != nil {
		return err
	}
	return matchDeviceClaims(ctx, config)
}

// matchDeviceClaims disables dynamic resource allocation if the API server does not serve the version of
// resource.k8s.io that this scheduler uses. An API server of any version may have the feature disabled, and informers
// would then wait forever.
func matchDeviceClaims(ctx context.Context, config *rest.Config) error {
	gates := utilfeature.DefaultMutableFeatureGate
	if !gates.Enabled(features.DynamicResourceAllocation) {
		return nil
	}
	served, err := serves(ctx, config, resourcev1.SchemeGroupVersion)
	switch {
	case err != nil:
		return err
	case !served:
		klog.InfoS("The API server does not serve claims for devices, disabled the feature gate", "group", resourcev1.SchemeGroupVersion, "gate", features.DynamicResourceAllocation)
		return gates.SetFromMap(map[string]bool{string(features.DynamicResourceAllocation): false})
	case !gates.Enabled(features.DRADeviceTaints):
		return nil
	}
	if served, err = serves(ctx, config, resourcev1alpha3.SchemeGroupVersion); err == nil && !served {
		err = fmt.Errorf("feature gate %s is enabled, but the API server does not serve %s; serve it, or disable the gate",
			features.DRADeviceTaints, resourcev1alpha3.SchemeGroupVersion)
	}
	return err
}

// serves reports whether the API server serves this version of an API group. If the API server forbids the check,
// serves returns true.
func serves(ctx context.Context, config *rest.Config, group schema.GroupVersion) (bool, error) {
	_, err := readPath(ctx, config, "/apis/"+group.String())
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err == nil, apierrors.IsForbidden(err):
		return true, nil
	}
	return false, fmt.Errorf("checking whether the API server serves %s: %w", group, err)
}

func serverVersion(ctx context.Context, config *rest.Config) (*apiversion.Info, error) {
	text, err := readPath(ctx, config, "/version")
	if err != nil {
		return nil, fmt.Errorf("reading the API server's version: %w", err)
	}
	var info apiversion.Info
	if err := json.Unmarshal(text, &info); err != nil {
		return nil, fmt.Errorf("reading the API server's version: %w", err)
	}
	return &info, nil
}

// readPath returns the API server's response for the path. It waits for an unavailable API server until ctx ends.
func readPath(ctx context.Context, config *rest.Config, path string) (text []byte, err error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the discovery client: %w", err)
	}
	logged := false
	err = outage.Backoff().DelayFunc().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		var err error
		text, err = client.RESTClient().Get().AbsPath(path).DoRaw(ctx)
		switch {
		case err == nil:
			return true, nil
		case !outage.Away(err):
			return false, err
		case !logged && ctx.Err() == nil:
			klog.InfoS("Waiting for the API server to become available", "server", config.Host, "reason", err.Error())
			logged = true
		}
		return false, nil
	})
	return text, err
}
