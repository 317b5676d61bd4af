// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

var errTooOld = apierrors.NewResourceExpired("too old resource version")

// TestAnInformerIsSoonBackHoweverOftenItFailed checks that an informer recovers soon after any number of failures.
// Every 20 s, the API server restarts and no longer knows the resource version of the informer's watch.
func TestAnInformerIsSoonBackHoweverOftenItFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		var failed time.Time
		var blind []time.Duration
		informer := cache.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				if !failed.IsZero() {
					blind = append(blind, time.Since(failed))
				}
				return &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}, nil
			},
			WatchFuncWithContext: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
				select {
				case <-time.After(20 * time.Second):
				case <-ctx.Done():
				}
				failed = time.Now()
				return nil, errTooOld
			},
		}, &v1.Pod{}, time.Hour, nil)
		if err := RelistSoon(informer); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			informer.RunWithContext(ctx)
		}()
		time.Sleep(5 * time.Minute)
		end()
		<-done
		if len(blind) < 14 {
			t.Errorf("it listed %d times in 5 minutes", len(blind))
		}
		if longest := slices.Max(blind); longest > 2*firstRelist {
			t.Errorf("it was blind for %v", longest)
		}
	})
}

// TestAnInformerThatFailsAtOnceAgainAndAgainPauses checks that an informer whose requests are rejected at once, again
// and again, pauses between them instead of sending twenty a second.
func TestAnInformerThatFailsAtOnceAgainAndAgainPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		lists := 0
		informer := cache.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				lists++
				return nil, apierrors.NewUnauthorized("no such user")
			},
		}, &v1.Pod{}, time.Hour, nil)
		if err := RelistSoon(informer); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			informer.RunWithContext(ctx)
		}()
		time.Sleep(10 * time.Minute)
		end()
		<-done
		if lists < 15 || lists > 50 {
			t.Errorf("it listed %d times in 10 minutes", lists)
		}
	})
}
