// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestVisitAllVisitsSeveralObjectsAtOnce checks that VisitAll visits several objects at once. Forged annotations on
// many objects must not delay the first session by two calls each.
func TestVisitAllVisitsSeveralObjectsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds = 4
		claims := &v1.PersistentVolumeClaimList{Items: make([]v1.PersistentVolumeClaim, rounds*visitsAtOnce)}
		list := func(context.Context, metav1.ListOptions) (runtime.Object, error) { return claims, nil }
		began := time.Now()
		err := VisitAll(t.Context(), "claims", list, func(*v1.PersistentVolumeClaim) { time.Sleep(time.Second) })
		if took := time.Since(began); err != nil || took != rounds*time.Second {
			t.Errorf("visiting took %v (error %v), want %d rounds of 1 s", took, err, rounds)
		}
	})
}

// TestVisitAllReadsPages checks that VisitAll reads pages. An object can have 1.5 MB, so no list may contain all
// objects, not even after a page has expired.
func TestVisitAllReadsPages(t *testing.T) {
	var expired error
	var limits []int64
	list := func(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
		limits = append(limits, options.Limit)
		page := &v1.PersistentVolumeClaimList{Items: make([]v1.PersistentVolumeClaim, 2)}
		if options.Continue != "" {
			return page, expired
		}
		page.Continue = "more"
		return page, nil
	}
	for _, expired = range []error{nil, apierrors.NewResourceExpired("too late")} {
		limits = nil
		var visited atomic.Int64
		err := VisitAll(t.Context(), "claims", list, func(*v1.PersistentVolumeClaim) { visited.Add(1) })
		if !errors.Is(err, expired) {
			t.Errorf("got error %v, want %v", err, expired)
		}
		if want := int64(4); expired == nil && visited.Load() != want {
			t.Errorf("visited %d claims, want %d", visited.Load(), want)
		}
		if diff := cmp.Diff([]int64{pageSize, pageSize}, limits); diff != "" {
			t.Errorf("limits (-want +got):\n%s", diff)
		}
	}
}
