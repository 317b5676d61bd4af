// SPDX-License-Identifier: Apache-2.0

package faultproxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// blackHole is a response writer that discards the response.
type blackHole struct{ header http.Header }

func (b *blackHole) Header() http.Header         { return b.header }
func (b *blackHole) Write(p []byte) (int, error) { return len(p), nil }
func (b *blackHole) WriteHeader(int)             {}

// writeStatus sends the response that the API server would send for the status code of the action.
func writeStatus(w http.ResponseWriter, action Action) {
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure,
		Code:     int32(action.code),
		Reason:   reasonFor(action.code),
		Message:  fmt.Sprintf("fault injected: %d %s", action.code, http.StatusText(action.code)),
	}
	if action.retryAfter > 0 {
		seconds := int32((action.retryAfter + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: seconds}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(action.code)
	// The error is ignored: a client that disconnected needs no response.
	_ = json.NewEncoder(w).Encode(status)
}

func reasonFor(code int) metav1.StatusReason {
	switch code {
	case http.StatusUnauthorized:
		return metav1.StatusReasonUnauthorized
	case http.StatusForbidden:
		return metav1.StatusReasonForbidden
	case http.StatusNotFound:
		return metav1.StatusReasonNotFound
	case http.StatusConflict:
		return metav1.StatusReasonConflict
	case http.StatusUnprocessableEntity:
		return metav1.StatusReasonInvalid
	case http.StatusTooManyRequests:
		return metav1.StatusReasonTooManyRequests
	case http.StatusInternalServerError:
		return metav1.StatusReasonInternalError
	case http.StatusServiceUnavailable:
		return metav1.StatusReasonServiceUnavailable
	case http.StatusGatewayTimeout:
		return metav1.StatusReasonTimeout
	}
	return metav1.StatusReasonUnknown
}
