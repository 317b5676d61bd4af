// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// errNoServer is the error of a client when the API server cannot be reached.
var errNoServer = errors.New("connection refused")

// eventStore is an API server for events. It answers with an error until it is up.
type eventStore struct {
	corev1.EventInterface

	up time.Time

	mu     sync.Mutex
	events []*v1.Event
}

// CreateWithEventNamespaceWithContext stores the event.
func (s *eventStore) CreateWithEventNamespaceWithContext(_ context.Context, event *v1.Event) (*v1.Event, error) {
	if time.Now().Before(s.up) {
		return nil, errNoServer
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, event)
	return event, nil
}

// arrived returns the events that have arrived.
func (s *eventStore) arrived() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for _, e := range s.events {
		list = append(list, fmt.Sprintf("%s %s x%d: %s", e.Reason, e.InvolvedObject.Name, e.Count, e.Message))
	}
	return list
}
