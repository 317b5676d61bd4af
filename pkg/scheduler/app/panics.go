// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	_ "github.com/volcano-prebind/volcano-prebind/internal/assertions" // replaces upstream's assertion, which would panic on sums of floats
	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/cache"
)

// keepGoing keeps the process alive where upstream would exit because of one object.
//
// A panic on a goroutine of Kubernetes' libraries, such as an informer or predicates that run in parallel, ends that
// work item instead of the process, which would meet the same object again after a restart. Package assertions covers
// the other cases.
func keepGoing() {
	utilruntime.ReallyCrash = false
}

// panicked handles a cycle that panicked. turn is the gang that was being scheduled; empty if unknown. Tasks that were
// already handed over are bound or rolled back like in any other transaction, other placements are undone, and the search
// for the object that caused the panic begins.
func (s *scheduler) panicked(turn api.JobID, what string, stack []byte) {
	what = describePanic(s.registry.Action(), what, stack)
	klog.ErrorS(nil, "Scheduling cycle panicked", "panic", what, "turn", turn, "stack", string(stack))
	s.registry.UndoPlacements()
	s.cache.SealTransactions()
	s.watchdog.panicked(what)
	s.metrics.Cycle("panic")
	culprit, another := s.cache.Quarantine().CyclePanicked(turn, what)
	if culprit {
		s.watchdog.progressed()
	}
	if another {
		s.loop.wake(cache.WakeNow)
	}
}

// pluginFrame finds the plugin in a stack.
var pluginFrame = regexp.MustCompile(`/pkg/scheduler/plugins/([a-z0-9-]+)[./]`)

// describePanic returns a message about the place and the cause of a panic in a cycle.
func describePanic(action, what string, stack []byte) string {
	where := "opening the session"
	if action != "" {
		where = "action " + action
	}
	if plugin := pluginFrame.FindSubmatch(stack); plugin != nil {
		where += ", plugin " + string(plugin[1])
	}
	return fmt.Sprintf("scheduling panicked (%s): %s", where, brief.Part(what))
}

// orphanPanics are panics on goroutines that a cycle starts and waits for. Kubernetes' libraries report a panic only after
// they have released the waiting goroutine, when the cycle may already process another gang. So an orphan panic is not
// attributed to a gang.
type orphanPanics struct {
	mu    sync.Mutex
	first *orphanPanic
}

type orphanPanic struct {
	what  string
	stack []byte
}

const (
	// straggling is how long a cycle that may have had orphan panics waits for a report of one before it ends. So a late
	// report is not attributed to the next cycle.
	straggling = 20 * time.Millisecond
	// stragglers bounds how often the wait is repeated because a panic was reported.
	stragglers = 50
)

// catch records panics that Kubernetes' libraries recover.
func (s *orphanPanics) catch() {
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, func(_ context.Context, p any) {
		s.record(orphanPanic{fmt.Sprint(p), debug.Stack()})
	})
}

// record records the first panic of a cycle. Later panics of the cycle are mostly the same: parallel work of a cycle, by
// upstream and by Kubernetes' plugins, runs one function for many items.
func (s *orphanPanics) record(p orphanPanic) {
	if !strings.Contains(string(p.stack), "workqueue.ParallelizeUntil") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = &p
	}
}

// all returns the first panic of a cycle that has ended; nil if none was recorded. If there was one, or if matters says
// that the cause of panics is being searched for, all waits until no more panics are reported.
func (s *orphanPanics) all(matters bool) *orphanPanic {
	first := s.takeRecorded()
	for range stragglers {
		if first == nil && !matters {
			break
		}
		<-time.After(straggling)
		next := s.takeRecorded()
		if next == nil {
			break
		}
		first = cmp.Or(first, next)
	}
	return first
}

// takeRecorded returns the recorded panic, if any, and clears it.
func (s *orphanPanics) takeRecorded() *orphanPanic {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.first
	s.first = nil
	return first
}
