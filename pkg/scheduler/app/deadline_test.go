// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestEveryCallHasADeadline(t *testing.T) {
	release, watching := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/silent" {
			<-release
			return
		}
		_, _ = io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		if r.URL.Query().Get("watch") == "true" {
			close(watching)
		}
		<-release
		_, _ = io.WriteString(w, " and half")
	}))
	defer server.Close()
	defer func() {
		select {
		case <-release:
		default:
			close(release)
		}
	}()
	get := func(path string) (string, error) {
		config := withDeadline(&rest.Config{Host: server.URL}, 250*time.Millisecond)
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Get(server.URL + path)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return string(body), err
	}
	if _, err := get("/silent"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call without an answer ended with %v", err)
	}
	if body, err := get("/slow"); !errors.Is(err, context.DeadlineExceeded) || body != "half" {
		t.Errorf("reading an answer that does not end gave %q and ended with %v", body, err)
	}
	if _, err := get("/slow?watch=false"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a call that is no watch ended with %v", err)
	}
	ended := make(chan error)
	go func() {
		body, err := get("/slow?watch=true")
		if err == nil && body != "half and half" {
			err = errors.New("the watch read " + body)
		}
		ended <- err
	}()
	<-watching
	if _, err := get("/silent"); !errors.Is(err, context.DeadlineExceeded) { // This fails after the deadline.
		t.Errorf("a call without an answer ended with %v", err)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("a watch that lasted longer than the deadline ended with %v", err)
	}
}
