// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	commonutil "volcano.sh/volcano/pkg/util"
)

// lease is a resource lock whose calls return what the test sets.
type lease struct {
	get, create, update func() error
	// given reports whether the lease was released.
	given bool
}

func (l *lease) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return nil, nil, l.get()
}
func (l *lease) Create(context.Context, resourcelock.LeaderElectionRecord) error { return l.create() }
func (l *lease) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.given = record.HolderIdentity == ""
	if l.update == nil {
		return nil
	}
	return l.update()
}
func (l *lease) RecordEvent(string) {}
func (l *lease) Identity() string   { return "me" }
func (l *lease) Describe() string   { return "kube-public/volcano" }

var leases = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func forbidden() error { return apierrors.NewForbidden(leases, "volcano", errors.New("no role")) }
func notFound() error  { return apierrors.NewNotFound(leases, "volcano") }

// TestElectionThatCannotBeWonEnds checks that an election ends if it cannot be won. With a lease in a namespace where
// it may not write, the scheduler used to wait for ever and report itself healthy.
func TestElectionThatCannotBeWonEnds(t *testing.T) {
	tests := map[string]lease{
		"it may not be read":         {get: forbidden},
		"it may not be made":         {get: notFound, create: forbidden},
		"there is no such namespace": {get: notFound, create: notFound},
	}
	for name, lock := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				err := standBy(t, &lock, func(context.Context, context.Context) error { return errors.New("it leads") })
				if err == nil || !strings.HasPrefix(err.Error(), "the lease kube-public/volcano cannot be used: ") {
					t.Errorf("the election ends with %v", err)
				}
				if took := time.Since(start); took < 15*time.Second || took > 30*time.Second {
					t.Errorf("it takes %s, want a little more than the duration of a lease", took)
				}
			})
		})
	}
}

// TestRejectionsThatPass checks that temporary rejections do not end the election. An API server that has just
// started rejects requests until it has read the roles.
func TestRejectionsThatPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		lock := &lease{
			get: notFound,
			create: func() error {
				if time.Since(start) < 10*time.Second {
					return forbidden()
				}
				return nil
			},
		}
		led := errors.New("it leads")
		if err := standBy(t, lock, func(context.Context, context.Context) error { return led }); !errors.Is(err, led) {
			t.Errorf("the election ends with %v, want that it is won", err)
		}
	})
}

// TestRejectionsWithAPause checks that rejections with answers between them do not count as a lasting rejection.
func TestRejectionsWithAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		lock := &lease{get: func() error {
			if calls++; calls%4 == 0 {
				return errors.New("no route")
			}
			return forbidden()
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		if err := standByUntil(ctx, lock, nil); err != nil {
			t.Errorf("the election ends with %v", err)
		}
	})
}

func standBy(t *testing.T, lock resourcelock.Interface, lead func(context.Context, context.Context) error) error {
	t.Helper()
	return standByUntil(t.Context(), lock, lead)
}

func standByUntil(ctx context.Context, lock resourcelock.Interface, lead func(context.Context, context.Context) error) error {
	opts := &Options{ServerOption: options.NewServerOption()}
	commonutil.LeaderElectionDefault(&opts.LeaderElection)
	return (&process{opts: opts}).elect(ctx, lock, lead)
}
