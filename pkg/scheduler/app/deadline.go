// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/volcano-prebind/volcano-prebind/internal/outage"
)

// callDeadline bounds every call to the API server except watches. Upstream makes many calls with a context that never
// ends.
const callDeadline = 60 * time.Second

// withDeadline returns a copy of config whose clients give every call except watches the deadline.
func withDeadline(config *rest.Config, deadline time.Duration) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &deadlineTransport{next: next, deadline: deadline}
	})
	return config
}

type deadlineTransport struct {
	next     http.RoundTripper
	deadline time.Duration
}

// RoundTrip sends the request with a deadline that also covers reading the response. A watch is sent without a
// deadline.
func (t *deadlineTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if outage.IsWatch(request) {
		return t.next.RoundTrip(request)
	}
	ctx, cancel := context.WithTimeout(request.Context(), t.deadline)
	response, err := t.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	response.Body = &cancelOnClose{response.Body, cancel}
	return response, nil
}

type cancelOnClose struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelOnClose) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
