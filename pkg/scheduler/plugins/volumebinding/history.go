// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"cmp"
	"context"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
)

// neverBound reports whether the volume was unbound in all versions between the two, according to a watch. It returns
// false if the first is empty, or if the API server no longer has all versions: a volume that was bound may hold data.
func (v *volumes) neverBound(ctx context.Context, name, from, to string) (bool, error) {
	if from == "" {
		return false, nil
	}
	versions, err := v.kube.CoreV1().PersistentVolumes().Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(), ResourceVersion: from,
	})
	if forgotten(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("reading the history of volume %s: %w", name, err)
	}
	defer versions.Stop()
	for event := range versions.ResultChan() {
		if event.Type == watch.Error {
			if err = apierrors.FromObject(event.Object); forgotten(err) {
				return false, nil
			}
			break
		}
		volume, ok := event.Object.(*v1.PersistentVolume)
		if !ok {
			continue
		}
		if volume.Status.Phase == v1.VolumeBound {
			return false, nil
		}
		if volume.ResourceVersion == to {
			return true, nil
		}
	}
	return false, fmt.Errorf("reading the history of volume %s: the watch ended early: %w", name, cmp.Or(err, context.Cause(ctx), io.ErrUnexpectedEOF))
}

func forgotten(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }
