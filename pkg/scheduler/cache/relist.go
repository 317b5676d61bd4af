// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
)

const (
	// An informer that failed lists again after a pause that doubles from the first to the second value, with jitter.
	firstRelist  = 50 * time.Millisecond
	lastRelist   = 30 * time.Second
	relistJitter = 0.5
	// steady is how long an informer must have worked, or waited for the API server, for a failure to count as its first.
	steady = time.Second
)

// relistSoon has informers that have not been started list again soon after they failed, as all do when the API server was
// started anew and does not know their version any more. Client-go's own pause doubles up to a minute unless two minutes
// went by without one, and no option changes that: with an API server that is started anew twice in a minute the
// scheduler would be blind for longer than that was away. So an informer that fails once never returns to client-go's pauses.
func relistSoon(informers ...toolscache.SharedIndexInformer) error {
	for _, informer := range informers {
		if err := informer.SetWatchErrorHandlerWithContext(relister{}.keepListing); err != nil {
			return err
		}
	}
	return nil
}

// relister has an informer list again. known, if it is not nil, is true of errors that need not be told each time.
type relister struct {
	known func(kind string, err error) bool
}

// keepListing lists and watches with pauses of ours until ctx ends. It is called with an informer's first error.
func (l relister) keepListing(ctx context.Context, r *toolscache.Reflector, err error) {
	anew := wait.Backoff{Duration: firstRelist, Factor: 2, Jitter: relistJitter, Cap: lastRelist, Steps: 1 << 30}
	pauses := anew
	for {
		switch {
		case err == nil, apierrors.IsResourceExpired(err), apierrors.IsGone(err): // it lists anew
		case l.known != nil && l.known(r.TypeDescription(), err):
		default:
			logger().Error(err, "An informer failed, it lists again", "kind", r.TypeDescription())
		}
		pause := time.NewTimer(pauses.Step())
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
		began := time.Now()
		err = r.ListAndWatchWithContext(ctx)
		if time.Since(began) >= steady {
			pauses = anew
		}
	}
}
