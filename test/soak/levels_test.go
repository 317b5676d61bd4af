// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

func TestEndOfChapter(t *testing.T) {
	tests := map[string]struct {
		levels []level
		leaks  bool
	}{
		"level":                  {levels: grow(7, 0, 0)},
		"noise is no leak":       {levels: grow(7, 10, 1<<20)},
		"goroutines that add up": {levels: grow(7, 60, 0), leaks: true},
		"memory that adds up":    {levels: grow(7, 0, 20<<20), leaks: true},
		"too short to tell":      {levels: grow(6, 60, 20<<20)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &soak{out: io.Discard, levels: map[int][]level{1: tt.levels}}
			s.endOfChapter()
			if got := len(s.violations) > 0; got != tt.leaks {
				t.Errorf("got %v, want a leak: %t", s.violations, tt.leaks)
			}
		})
	}
}

// grow returns levels that grow by this amount from one to the next.
func grow(count int, goroutines, heap float64) []level {
	levels := make([]level, count)
	for i := range levels {
		levels[i] = level{goroutines: 200 + float64(i)*goroutines, heap: 50<<20 + float64(i)*heap}
	}
	return levels
}

func TestCountEvictions(t *testing.T) {
	event := func(name, gang, message string, count int32) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, InvolvedObject: corev1.ObjectReference{Name: gang},
			Reason: "PodsEvicted", Message: message, Count: count,
		}
	}
	for name, c := range map[string]struct {
		events []runtime.Object
		want   evictions
		err    string
	}{
		"none":       {},
		"some":       {events: []runtime.Object{event("a", "g1", "action preempt evicts 3 pods for the gang", 2), event("b", "g1", "action reclaim evicts 1 pod for the gang", 0)}, want: evictions{1, 7}},
		"too many":   {events: []runtime.Object{event("a", "g1", "action preempt evicts 4 pods for the gang", 1)}, err: "which has 3 members"},
		"unreadable": {events: []runtime.Object{event("a", "g1", "evicted", 1)}, err: "does not say"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := countEvictions(t.Context(), fake.NewClientset(c.events...), map[string]int{"g1": 3})
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, %v; want %v and error %q", got, err, c.want, c.err)
			}
		})
	}
}
