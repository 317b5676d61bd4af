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
	// steady is how long an informer must have worked, or waited for the API server, before the pauses after its next
	// failure start with firstRelist again.
	steady = time.Second
)

// RelistSoon makes informers list again soon after a failure. The informers must not have been started. All informers
// fail when the API server restarts and no longer has the version of their watches. Client-go's pauses after failures
// double up to a minute, and are short again only after two minutes without a failure; no option changes that. So after
// two restarts in a minute, the process would see no changes for longer than the outage. RelistSoon installs the handler
// of Relist: after its first failure, an informer pauses for firstRelist to lastRelist instead.
func RelistSoon(informers ...cache.SharedIndexInformer) error {
	for _, informer := range informers {
		if err := informer.SetWatchErrorHandlerWithContext(Relist(nil)); err != nil {
			return err
		}
	}
	return nil
}

// Relist returns a handler for the first error of an informer. The handler then lists and watches in the informer's
// place, with shorter pauses, until the informer's context ends. If known reports that an error is expected, the error
// is not logged; known may be nil.
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
