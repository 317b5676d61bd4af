// SPDX-License-Identifier: Apache-2.0

package apiwrite

import (
	"encoding/json"
	"hash/fnv"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RejectedForGood reports whether err means that the API server will reject the same write each time. This includes
// internal errors which the API server returns for an object that is too large for etcd.
func RejectedForGood(err error) bool {
	switch {
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err),
		apierrors.IsMethodNotSupported(err), apierrors.IsNotAcceptable(err), apierrors.IsUnsupportedMediaType(err):
		return true
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown || apierrors.IsInternalError(err):
		return strings.Contains(err.Error(), "request is too large") || strings.Contains(err.Error(), "larger than max")
	default:
		return false
	}
}

// Digest returns a hash of the values, to find out whether they differ from earlier values.
func Digest(values ...any) uint64 {
	hash := fnv.New64a()
	_ = json.NewEncoder(hash).Encode(values) // encoding does not fail: all values have a JSON form
	return hash.Sum64()
}

// OlderVersion reports whether resource version a is older than b. The API server's versions are decimal numbers that grow; any
// other version counts as not older.
func OlderVersion(a, b string) bool {
	na, errA := strconv.ParseUint(a, 10, 64)
	nb, errB := strconv.ParseUint(b, 10, 64)
	return errA == nil && errB == nil && na < nb
}
