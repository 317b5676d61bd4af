// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"volcano.sh/volcano/cmd/webhook-manager/app/options"
	"volcano.sh/volcano/pkg/webhooks/router"
)

func TestLimitBody(t *testing.T) {
	tests := map[string]struct {
		size int
		// chunked reports whether the request is sent without the length of its body.
		chunked  bool
		want     int
		wantRead int
	}{
		"a usual review is handled":                        {size: 4 << 10, want: http.StatusOK, wantRead: 4 << 10},
		"a review of the limit is handled":                 {size: maxBody, want: http.StatusOK, wantRead: maxBody},
		"an oversized review is rejected by its length":    {size: maxBody + 1, want: http.StatusRequestEntityTooLarge, wantRead: -1},
		"an oversized review without a length is rejected": {size: maxBody + 1, chunked: true, want: http.StatusRequestEntityTooLarge, wantRead: -1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			read := -1
			server := httptest.NewServer(http.HandlerFunc(limitBody(func(_ http.ResponseWriter, r *http.Request) {
				data, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				read = len(data)
			})))
			defer server.Close()
			var body io.Reader = bytes.NewReader(make([]byte, tt.size))
			if tt.chunked {
				body = struct{ io.Reader }{body}
			}
			resp, err := http.Post(server.URL, "application/json", body)
			if err != nil {
				t.Fatal(err)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
			if resp.StatusCode != tt.want || read != tt.wantRead {
				t.Errorf("answered %d and the handler read %d bytes, want %d and %d", resp.StatusCode, read, tt.want, tt.wantRead)
			}
		})
	}
}

// TestWebhooksAreBounded checks that every webhook that can be enabled limits the size of a request body
// (CVE-2026-44247). Upstream reads any body to its end.
func TestWebhooksAreBounded(t *testing.T) {
	config := options.NewConfig()
	config.EnabledAdmission = strings.Join([]string{
		"/jobs/mutate", "/jobs/validate", "/podgroups/mutate", "/podgroups/validate", "/queues/mutate", "/queues/validate",
		"/pods/mutate", "/pods/validate", "/jobflows/validate", "/hypernodes/validate", "/cronjobs/validate",
	}, ",")
	if err := router.ForEachAdmission(config, boundBody); err != nil {
		t.Fatal(err)
	}
	err := router.ForEachAdmission(config, func(service *router.AdmissionService) error {
		request := httptest.NewRequest(http.MethodPost, service.Path, bytes.NewReader(make([]byte, maxBody+1)))
		request.Header.Set("Content-Type", "application/json")
		recorder := httptest.NewRecorder()
		service.Handler(recorder, request)
		if recorder.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s answered %d to an oversized review, want 413", service.Path, recorder.Code)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
