// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var errTooOld = apierrors.NewResourceExpired("too old resource version")

// TestAllInformersAreSoonBack checks that all informers work soon after the API server has rejected their resource
// version as too old four times in a row. With client-go's pauses, that would take longer than the test waits.
func TestAllInformersAreSoonBack(t *testing.T) {
	const failures = 4
	cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj())
	var mu sync.Mutex
	watches := map[string]int{}
	for _, fake := range []*clienttesting.Fake{&cluster.Kube.Fake, &cluster.Volcano.Fake} {
		fake.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
			mu.Lock()
			defer mu.Unlock()
			watches[action.GetResource().Resource]++
			return watches[action.GetResource().Resource] <= failures, nil, errTooOld
		})
	}
	c := mustWrap(t, cluster, quiet{}, func(Urgency) {})
	if err := c.Start(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		mu.Lock()
		now := maps.Clone(watches)
		mu.Unlock()
		behind := false
		for _, n := range now {
			behind = behind || n <= failures
		}
		if _, there := now["hypernodes"]; there && len(now) >= 10 && !behind {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("watches by kind, want more than %d each: %v", failures, now)
		}
	}
}

// TestEachKindIsListedAndWatchedOnce checks that each kind is listed and watched only once, so that all parts of the
// scheduler see the same stream of changes.
func TestEachKindIsListedAndWatchedOnce(t *testing.T) {
	cluster := schedtest.NewCluster(schedtest.MakeQueue().Name("root").Obj(), schedtest.MakeQueue().Name(schedtest.Queue).Obj())
	var mu sync.Mutex
	requests := map[string]int{}
	note := func(action clienttesting.Action) {
		mu.Lock()
		defer mu.Unlock()
		requests[action.GetVerb()+" "+action.GetResource().Resource]++
	}
	for _, fake := range []*clienttesting.Fake{&cluster.Kube.Fake, &cluster.Volcano.Fake} {
		fake.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			note(action)
			return false, nil, nil
		})
		fake.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
			note(action)
			return false, nil, nil
		})
	}
	c := mustWrap(t, cluster, quiet{}, func(Urgency) {})
	if err := c.Start(t.Context(), t.Context()); err != nil {
		t.Fatal(err)
	}
	cluster.Put(schedtest.MakePodGroup().Name("g").Obj())
	cluster.Put(schedtest.MakeHyperNode().Name("h").Tier(1).Obj())
	eventually(t, "both have seen the changes", func() bool {
		_, err := c.sources.volcano.Scheduling().V1beta1().PodGroups().Lister().PodGroups(schedtest.Namespace).Get("g")
		_, err2 := c.hyperNodes.all.Get("h")
		c.books.Lock()
		defer c.books.Unlock()
		job := c.books.Jobs.Get(gang)
		return err == nil && err2 == nil && job != nil && job.PodGroup != nil
	})
	mu.Lock()
	defer mu.Unlock()
	for _, kind := range []string{"pods", "nodes", "podgroups", "queues", "hypernodes"} {
		if requests["watch "+kind] == 0 {
			t.Errorf("%s are not watched", kind)
		}
	}
	for request, n := range requests {
		if n != 1 {
			t.Errorf("%d times: %s", n, request)
		}
	}
}
