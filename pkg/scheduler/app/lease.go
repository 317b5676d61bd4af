// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// guardedLock ends an election that cannot succeed, because the lease may not be read or written, or its namespace does
// not exist. Without guardedLock, the elector would retry forever, and the process would look healthy. An API server
// that has just started may at first reject requests that it allows later, so only lasting rejections count. Once this
// process has held the lease, the elector itself gives up in time. The lock also reports each renewal to the fence.
//
// The elector calls all methods on one goroutine.
type guardedLock struct {
	resourcelock.Interface
	// rejectionLimit is how long the API server must have rejected all reads, or all writes, of the lease before the election
	// ends.
	rejectionLimit time.Duration
	// rejected is called once, when the API server has rejected reads or writes of the lease for the duration in
	// rejectionLimit.
	rejected func(error)
	fence    *fence

	reading, writing rejections
	held, ended      bool
}

// rejections records since when the API server has rejected calls of one kind: reads or writes of the lease. since is zero
// if the last call was not rejected.
type rejections struct{ since time.Time }

// Get implements resourcelock.Interface.
func (l *guardedLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.record(&l.reading, err, apierrors.IsForbidden(err))
	return record, raw, err
}

// Create implements resourcelock.Interface.
func (l *guardedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	begun := now()
	err := l.Interface.Create(ctx, record)
	l.record(&l.writing, err, apierrors.IsForbidden(err) || apierrors.IsNotFound(err))
	l.written(record, begun, err)
	return err
}

// Update implements resourcelock.Interface.
func (l *guardedLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity != l.Identity() {
		l.fence.left() // stops writes before another process may take the lease
	}
	begun := now()
	err := l.Interface.Update(ctx, record)
	l.record(&l.writing, err, apierrors.IsForbidden(err))
	l.written(record, begun, err)
	return err
}

// written records that this process holds the lease, if a write of the lease succeeded. The write began at begun.
func (l *guardedLock) written(record resourcelock.LeaderElectionRecord, begun moment, err error) {
	if err != nil || record.HolderIdentity != l.Identity() {
		return
	}
	l.held = true
	l.fence.held(begun)
}

func (l *guardedLock) record(calls *rejections, err error, rejection bool) {
	switch {
	case l.held || l.ended:
	case !rejection:
		calls.since = time.Time{}
	case calls.since.IsZero():
		calls.since = time.Now()
		klog.ErrorS(err, "The lease cannot be used; the process ends if this lasts", "lease", l.Describe(), "rejectionLimit", l.rejectionLimit)
	case time.Since(calls.since) >= l.rejectionLimit:
		l.ended = true
		l.rejected(fmt.Errorf("the lease %s cannot be used: %w; allow the scheduler's account to get, create and update leases in that namespace, "+
			"or set --leader-elect-resource-namespace", l.Describe(), err))
	}
}
