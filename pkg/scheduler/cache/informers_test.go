// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"testing"

	toolscache "k8s.io/client-go/tools/cache"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestInformersOfPluginsRun: those that a plugin asks for before the cache is started run with the others, and those of a plugin that
// a reload brings in once it says so; what nobody said does not.
func TestInformersOfPluginsRun(t *testing.T) {
	cluster := schedtest.NewCluster()
	c := mustWrap(t, cluster, quiet{}, func(Urgency) {})
	storage := c.InformerFactory().Storage().V1()
	early, late, silent := storage.CSIDrivers().Informer(), storage.CSIStorageCapacities, storage.VolumeAttributesClasses
	if err := c.StartInformers(early); err != nil || early.HasSynced() {
		t.Errorf("it runs before the cache: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := c.Start(ctx, ctx); err != nil {
		t.Fatal(err)
	}
	made, other := late().Informer(), silent().Informer()
	for range 2 { // saying it again does nothing
		if err := c.StartInformers(early, made); err != nil {
			t.Fatal(err)
		}
	}
	if !toolscache.WaitForCacheSync(t.Context().Done(), early.HasSynced, made.HasSynced) {
		t.Error("the informers do not run")
	}
	if other.HasSynced() {
		t.Error("an informer runs that nobody needs")
	}
}
