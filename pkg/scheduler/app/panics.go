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

	_ "github.com/volcano-prebind/volcano-prebind/internal/assertions" // stops upstream's assertions from panicking on rounding errors
	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/cache"
)

// keepGoing prevents a panic in Kubernetes' libraries from ending the process, where upstream would exit.
//
// A panic on a goroutine of these libraries, such as an informer or predicates that run in parallel, ends only the
// goroutine's work item. After a restart, the process would meet the same object and panic again.
func keepGoing() {
	utilruntime.ReallyCrash = false
}

// panicked handles a cycle that panicked. turn is the gang that was being scheduled; empty if unknown. what is the value
// of the panic, as text. Tasks that were already handed over are bound or rolled back as in any other transaction, and
// other placements are undone. Then the search for the object that caused the panic begins.
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

// pluginFrame matches a stack that contains a plugin's code, and captures the plugin's name.
var pluginFrame = regexp.MustCompile(`/pkg/scheduler/plugins/([a-z0-9-]+)[./]`)

// describePanic returns a message about a panic in a cycle. It names the action that ran and the plugin whose code is
// on the stack, and contains what, the text of the panic.
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

// orphanPanics are panics on goroutines that a cycle starts and waits for. Kubernetes' libraries report such a panic
// only after they have released the waiting goroutine. The cycle may already process another gang then, so an orphan
// panic is not attributed to a gang.
type orphanPanics struct {
	mu    sync.Mutex
	first *orphanPanic
}

type orphanPanic struct {
	what  string
	stack []byte
}

const (
	// straggling is how long a cycle waits at its end for late reports of panics on goroutines that it started. Without
	// the wait, such a panic would be attributed to the next cycle.
	straggling = 20 * time.Millisecond
	// stragglers bounds how often a cycle waits at its end for late reports of panics (straggling). It waits again each
	// time a panic was reported during the last wait.
	stragglers = 50
)

// catch registers a handler that records the panics that Kubernetes' libraries recover from.
func (s *orphanPanics) catch() {
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, func(_ context.Context, p any) {
		s.record(orphanPanic{fmt.Sprint(p), debug.Stack()})
	})
}

// record records the first panic of a cycle, if it occurred in parallel work. Later panics of the cycle mostly have the
// same cause, because parallel work runs one function for many items.
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

// all returns the first panic that was reported for goroutines of a cycle that has ended; nil if none was. It waits for
// late reports if a panic was reported, or if matters is set: the cause of panics is being searched for.
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

// takeRecorded returns the first recorded panic on a goroutine that the cycle started, if any, and clears it.
func (s *orphanPanics) takeRecorded() *orphanPanic {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.first
	s.first = nil
	return first
}
