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

	_ "github.com/volcano-prebind/volcano-prebind/internal/assertions" // upstream must not panic at a sum of floats
	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/cache"
)

// keepGoing keeps the process alive where upstream would end it because of one object.
//
// A panic on a goroutine of Kubernetes' libraries, of an informer or of predicates that run in parallel, ends that item
// instead of the process, which would meet the same object again when it starts. Package assertions does the rest.
func keepGoing() {
	utilruntime.ReallyCrash = false
}

// panicked ends a cycle that panicked: tasks already handed over are bound or rolled back like any other transaction, other
// placements are undone, and the culprit is searched for.
func (s *scheduler) panicked(turn api.JobID, what string, stack []byte) {
	what = describePanic(s.registry.Action(), what, stack)
	klog.ErrorS(nil, "Scheduling cycle panicked", "panic", what, "turn", turn, "stack", string(stack))
	s.registry.GiveBack()
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

// describePanic says for people where a cycle panicked, and what with.
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

// strays are panics on goroutines that a cycle starts and waits for. Kubernetes' libraries report a panic only after they
// have released the waiting goroutine, so the cycle may already work on another gang: a stray panic is not attributed to a
// gang.
type strays struct {
	mu    sync.Mutex
	first *stray
}

type stray struct {
	what  string
	stack []byte
}

const (
	// straggling is how long no stray panic must be reported before the next cycle runs, so that it is not blamed for a
	// late report.
	straggling = 20 * time.Millisecond
	// stragglers bounds how often that is waited for.
	stragglers = 50
)

// catch records panics that Kubernetes' libraries recover.
func (s *strays) catch() {
	utilruntime.PanicHandlers = append(utilruntime.PanicHandlers, func(_ context.Context, p any) {
		s.note(stray{fmt.Sprint(p), debug.Stack()})
	})
}

// note remembers the first panic of a cycle: work of a cycle that is done in parallel, by upstream and by Kubernetes'
// plugins, is done by this one function.
func (s *strays) note(p stray) {
	if !strings.Contains(string(p.stack), "workqueue.ParallelizeUntil") {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = &p
	}
}

// all returns the first panic of a cycle that has ended, nil when there was none. If there was one, or if it matters
// because a culprit is searched for, it waits until no more are reported.
func (s *strays) all(matters bool) *stray {
	first := s.take()
	for range stragglers {
		if first == nil && !matters {
			break
		}
		<-time.After(straggling)
		next := s.take()
		if next == nil {
			break
		}
		first = cmp.Or(first, next)
	}
	return first
}

// take returns the panic that was remembered, if there was one, and forgets it.
func (s *strays) take() *stray {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.first
	s.first = nil
	return first
}
