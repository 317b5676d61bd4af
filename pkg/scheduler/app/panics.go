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

// panicked ends a cycle that panicked: what was handed over by then is bound or rolled back like any other transaction,
// what was placed only is taken back, and the culprit is looked for.
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

// strays are panics on goroutines that a cycle starts and waits for. Kubernetes' libraries tell of a panic only after they
// have let go of whoever waits, so that the cycle may have gone on with another gang's turn by then: a stray is nobody's.
type strays struct {
	mu    sync.Mutex
	first *stray
}

type stray struct {
	what  string
	stack []byte
}

const (
	// straggling is how long nothing must have been told of a stray panic for the next cycle not to be blamed for it.
	straggling = 20 * time.Millisecond
	// stragglers bounds how often that is waited for.
	stragglers = 50
)

// catch has the process tell of panics that Kubernetes' libraries recover.
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

// all returns the first panic of a cycle that has ended, nil when there was none. When there was one, or it matters whether
// there was because a culprit is searched for, it waits until no more is told.
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
