// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"crypto/tls"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Backoff returns the pauses between attempts to reach an API server that is unavailable.
func Backoff() wait.Backoff {
	return wait.Backoff{Duration: firstPause, Factor: 2, Jitter: pauseJitter, Cap: lastPause, Steps: 1 << 30}
}

// Away reports whether the error may be due to an outage of the API server: the server could not be reached, or was not
// ready.
func Away(err error) bool {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true
	}
	code := status.Status().Code
	return code >= 500 || code == 429
}
