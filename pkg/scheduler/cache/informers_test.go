// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/client/clientset/versioned"
	"github.com/volcano-prebind/volcano-prebind/pkg/client/informers/externalversions"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestInformersOfPluginsRun checks that informers of plugins run. Informers that a plugin requests before the cache
// starts run with the others. Informers of a plugin that a reload adds run once the plugin requests them, and no
// others do.
func TestInformersOfPluginsRun(t *testing.T) {
	cluster := schedtest.NewCluster()
	c := mustWrap(t, cluster, quiet{}, func(Urgency) {})
	storage := c.handle.InformerFactory().Storage().V1()
	early, late, silent := storage.CSIDrivers().Informer(), storage.CSIStorageCapacities, storage.VolumeAttributesClasses
	if err := c.handle.StartInformers(early); err != nil || early.HasSynced() {
		t.Errorf("it runs before the cache: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := c.Start(ctx, ctx); err != nil {
		t.Fatal(err)
	}
	made, other := late().Informer(), silent().Informer()
	for range 2 { // The second call does nothing.
		if err := c.handle.StartInformers(early, made); err != nil {
			t.Fatal(err)
		}
	}
	if !toolscache.WaitForCacheSync(t.Context().Done(), early.HasSynced, made.HasSynced) {
		t.Error("the informers do not run")
	}
	if other.HasSynced() {
		t.Error("an unneeded informer runs")
	}
}

// deviceInformer returns an informer of another factory that uses the clients of the handle.
func deviceInformer(t *testing.T, c *Cache) toolscache.SharedIndexInformer {
	t.Helper()
	client, err := versioned.NewForConfig(c.handle.RestConfig())
	if err != nil {
		t.Fatal(err)
	}
	return externalversions.NewSharedInformerFactory(client, 0).Scheduling().V1alpha1().Devices().Informer()
}

// TestInformersOfOtherFactoriesRun checks that informers of other factories run. A plugin's objects have been listed
// when the start, or the reload that adds the plugin, continues.
func TestInformersOfOtherFactoriesRun(t *testing.T) {
	cluster := schedtest.NewCluster()
	cluster.Devices.Put(&v1alpha1.Device{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	c := mustWrap(t, cluster, quiet{}, func(Urgency) {})
	early := deviceInformer(t, c)
	if err := c.handle.StartInformers(early); err != nil {
		t.Fatal(err)
	}
	if err := c.handle.AwaitInformers(t.Context()); err != nil || early.HasSynced() { // AwaitInformers does not wait for an informer that does not run.
		t.Errorf("it runs before the cache: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := c.Start(ctx, ctx); err != nil {
		t.Fatal(err)
	}
	late := deviceInformer(t, c)
	for range 2 { // The second call does nothing.
		if err := c.handle.StartInformers(early, late); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.handle.AwaitInformers(ctx); err != nil {
		t.Fatal(err)
	}
	for name, informer := range map[string]toolscache.SharedIndexInformer{"before the start": early, "after it": late} {
		if diff := cmp.Diff([]string{"n1"}, informer.GetStore().ListKeys()); diff != "" {
			t.Errorf("requested %s, devices (-want +got):\n%s", name, diff)
		}
	}
}

// TestAnInformerThatItsPluginRunsIsRejected checks that the cache does not start if a plugin itself runs an informer
// that it passes to StartInformers. After an error, such an informer would list again later than the others.
func TestAnInformerThatItsPluginRunsIsRejected(t *testing.T) {
	cluster := schedtest.NewCluster()
	c := mustWrap(t, cluster, quiet{}, func(Urgency) {})
	informer := deviceInformer(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go informer.RunWithContext(ctx)
	eventually(t, "the informer runs", func() bool { return informer.SetTransform(nil) != nil }) // This error shows that the informer runs.
	if err := c.handle.StartInformers(informer); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(ctx, ctx); err == nil {
		t.Error("it is taken")
	}
}

// TestStartDoesNotWaitForUnlistableKinds checks that a start waits for a list only if the API server may serve it
// later.
func TestStartDoesNotWaitForUnlistableKinds(t *testing.T) {
	devices := v1alpha1.Resource("devices")
	tests := map[string]struct {
		err    error
		waited bool
	}{
		"no such kind":                 {err: apierrors.NewNotFound(devices, "")},
		"not allowed":                  {err: apierrors.NewForbidden(devices, "", nil)},
		"the API server is away":       {err: errors.New("connection refused"), waited: true},
		"the API server is overloaded": {err: apierrors.NewTooManyRequestsError("later"), waited: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := mustWrap(t, schedtest.NewCluster(), quiet{}, func(Urgency) {})
			refuse := make(chan error, 3)
			for range cap(refuse) {
				refuse <- tt.err
			}
			again := make(chan struct{})
			informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
					select {
					case err := <-refuse:
						return nil, err
					default:
					}
					if !tt.waited {
						<-again
					}
					return &v1alpha1.DeviceList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
				},
				WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
			}, &v1alpha1.Device{}, 0, nil)
			if err := c.handle.StartInformers(informer); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if err := c.Start(ctx, ctx); err != nil {
				t.Fatal(err)
			}
			if got := informer.HasSynced(); got != tt.waited {
				t.Errorf("the list is read %t when the cache has started, want %t", got, tt.waited)
			}
			close(again)
			eventually(t, "the list is read", informer.HasSynced)
		})
	}
}

// TestStartReportsTheInformersItWaitsFor checks that a start reports the informers that it awaits. The wait ends when
// the start is cancelled.
func TestStartReportsTheInformersItWaitsFor(t *testing.T) {
	c := mustWrap(t, schedtest.NewCluster(), quiet{}, func(Urgency) {})
	silent := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}, &v1alpha1.Device{}, 0, nil)
	if err := c.handle.StartInformers(silent); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx, t.Context()) }()
	eventually(t, "the start says what it waits for", func() bool { return slices.Equal([]string{"objects that plugins watch"}, c.NotSynced()) })
	cancel()
	if err := <-done; err == nil {
		t.Error("the start has gone on")
	}
}

// TestUnlistableKindsStopOnlyReloadsThatNeedThem checks that kinds that cannot be listed stop only reloads that need
// them. A reload that waits for the list without success is refused. The next reload, which does not need the list,
// succeeds.
func TestUnlistableKindsStopOnlyReloadsThatNeedThem(t *testing.T) {
	c := mustWrap(t, schedtest.NewCluster(), quiet{}, func(Urgency) {})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := c.Start(ctx, ctx); err != nil {
		t.Fatal(err)
	}
	broken := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return nil, apierrors.NewInternalError(errors.New("conversion webhook is down"))
		},
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}, &v1alpha1.Device{}, 0, nil)
	reload := func(asks ...toolscache.SharedIndexInformer) error {
		if err := c.handle.StartInformers(asks...); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		return c.handle.AwaitInformers(ctx)
	}
	if err := reload(broken); err == nil {
		t.Error("the reload that needs it has gone on")
	}
	if err := reload(deviceInformer(t, c)); err != nil {
		t.Errorf("a reload that does not need it: %v", err)
	}
	if err := reload(broken); err == nil {
		t.Error("the reload that asks for it again has gone on")
	}
}

// TestHandle checks that a plugin can change its copy of the REST config, and can wake the loop.
func TestHandle(t *testing.T) {
	var woken []Urgency
	c := mustWrap(t, schedtest.NewCluster(), quiet{}, func(u Urgency) { woken = append(woken, u) })
	config := c.handle.RestConfig()
	host := config.Host
	config.Host = "elsewhere"
	if got := c.handle.RestConfig().Host; got != host || host == "" {
		t.Errorf("the next plugin's host is %q, want %q", got, host)
	}
	c.handle.Wake()
	if diff := cmp.Diff([]Urgency{WakeNow}, woken); diff != "" {
		t.Errorf("wake-ups (-want +got):\n%s", diff)
	}
}

// TestListErrorsAreReported checks that list errors are reported, except the error that a kind is not served, which may
// last for the life of the process. Once the informer has synced, that error is reported, too.
func TestListErrorsAreReported(t *testing.T) {
	cluster := schedtest.NewCluster()
	cluster.Devices.Put(&v1alpha1.Device{})
	informer := &pluginInformer{SharedIndexInformer: deviceInformer(t, mustWrap(t, cluster, quiet{}, func(Urgency) {}))}
	gone, away := apierrors.NewNotFound(v1alpha1.Resource("devices"), ""), errors.New("connection refused")
	told := func() []bool {
		return []bool{!informer.isRejected("", gone), !informer.isRejected("", gone), !informer.isRejected("", away)}
	}
	if diff := cmp.Diff([]bool{false, false, true}, told()); diff != "" {
		t.Errorf("before the first list, whether each error is reported (-want +got):\n%s", diff)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go informer.RunWithContext(ctx)
	eventually(t, "the list is read", informer.HasSynced)
	if diff := cmp.Diff([]bool{true, true, true}, told()); diff != "" {
		t.Errorf("after the first list, whether each error is reported (-want +got):\n%s", diff)
	}
}
