// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/volcano-prebind/volcano-prebind/internal/pause"
)

const (
	// An informer that failed lists again after firstRelist. The pause doubles, with jitter, up to lastRelist.
	firstRelist  = 50 * time.Millisecond
	lastRelist   = 30 * time.Second
	relistJitter = 0.5
	// steady is how long an informer must have worked, or waited for the API server, so that the next failure counts as
	// its first.
	steady = time.Second
)

// RelistSoon makes informers that have not been started list again soon after a failure. All of them fail when the API
// server restarts and does not have their version. Client-go's own pause doubles up to a minute unless two minutes pass
// without one, and no option changes that: after an API server that restarts twice in a minute, the process would not
// see changes for longer than the outage. With this handler an informer that has failed once never returns to
// client-go's pauses.
func RelistSoon(informers ...cache.SharedIndexInformer) error {
	for _, informer := range informers {
		if err := informer.SetWatchErrorHandlerWithContext(Relist(nil)); err != nil {
			return err
		}
	}
	return nil
}

// Relist returns a handler for the first error of an informer. The handler then lists and watches with shorter pauses
// until the informer's context ends. known, if it is not nil, reports whether an error need not be logged.
func Relist(known func(kind string, err error) bool) cache.WatchErrorHandlerWithContext {
	return func(ctx context.Context, r *cache.Reflector, err error) {
		first := wait.Backoff{Duration: firstRelist, Factor: 2, Jitter: relistJitter, Cap: lastRelist, Steps: 1 << 30}
		pauses := first
		for {
			switch {
			case err == nil, apierrors.IsResourceExpired(err), apierrors.IsGone(err):
			case known != nil && known(r.TypeDescription(), err):
			default:
				klog.FromContext(ctx).Error(err, "An informer failed, listing again", "kind", r.TypeDescription())
			}
			if !pause.For(ctx, pauses.Step()) {
				return
			}
			began := time.Now()
			err = r.ListAndWatchWithContext(ctx)
			if time.Since(began) >= steady {
				pauses = first
			}
		}
	}
}
