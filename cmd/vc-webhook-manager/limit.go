// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	"volcano.sh/volcano/pkg/webhooks/router"
)

// maxBody limits the size of an AdmissionReview, in bytes. The API server accepts objects of up to 3 MiB
// (k8s.io/apiserver's MaxRequestBodyBytes), and the review of an update contains the old and the new object.
const maxBody = 7 << 20

// boundBody makes the service reject requests with a body over maxBody. It must be called before upstream starts the
// HTTP server, because the server then uses the service's handler.
func boundBody(service *router.AdmissionService) error {
	service.Handler = limitBody(service.Handler)
	return nil
}

// limitBody returns a handler that responds with 413 to a body over maxBody, without reading the rest of the body. It
// responds with 400 to a body that cannot be read, because next would treat such a body as empty. It calls next for
// other requests, with the body that was read.
func limitBody(next router.AdmissionHandler) router.AdmissionHandler {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > maxBody {
			reject(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the review has %d bytes, must have at most %d", r.ContentLength, maxBody))
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge):
			reject(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the review has more than %d bytes, the limit", tooLarge.Limit))
			return
		case err != nil:
			reject(w, http.StatusBadRequest, fmt.Sprintf("the review cannot be read: %v", err))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next(w, r)
	}
}

// reject responds with an error status and closes the connection, because the rest of the body was not read.
func reject(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Connection", "close")
	http.Error(w, message, code)
}
