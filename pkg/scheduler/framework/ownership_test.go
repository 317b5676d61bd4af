// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestVisitAllVisitsSeveralObjectsAtOnce: marks forged on many objects must not delay the first session by two calls each.
func TestVisitAllVisitsSeveralObjectsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds = 4
		claims := &v1.PersistentVolumeClaimList{Items: make([]v1.PersistentVolumeClaim, rounds*visitsAtOnce)}
		list := func(context.Context, metav1.ListOptions) (runtime.Object, error) { return claims, nil }
		began := time.Now()
		err := VisitAll(t.Context(), "claims", time.Minute, list, func(*v1.PersistentVolumeClaim) error {
			time.Sleep(time.Second)
			return nil
		})
		if took := time.Since(began); err != nil || took != rounds*time.Second {
			t.Errorf("visiting took %v (error %v), want %d rounds of 1 s", took, err, rounds)
		}
	})
}

// TestVisitAllContinuesAfterErrors: one object that cannot be recovered must not keep the others from it, and no error is lost.
func TestVisitAllContinuesAfterErrors(t *testing.T) {
	claims := &v1.PersistentVolumeClaimList{}
	failures := map[string]error{}
	for i := range 3 * visitsAtOnce {
		name := fmt.Sprint("c", i)
		claims.Items = append(claims.Items, v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if i%2 == 0 {
			failures[name] = errors.New(name)
		}
	}
	list := func(context.Context, metav1.ListOptions) (runtime.Object, error) { return claims, nil }
	visited := make(chan string, len(claims.Items))
	err := VisitAll(t.Context(), "claims", time.Minute, list, func(claim *v1.PersistentVolumeClaim) error {
		visited <- claim.Name
		return failures[claim.Name]
	})
	if len(visited) != len(claims.Items) {
		t.Errorf("visited %d of %d claims", len(visited), len(claims.Items))
	}
	for name, failure := range failures {
		if !errors.Is(err, failure) {
			t.Errorf("the error of claim %s is lost", name)
		}
	}
}
