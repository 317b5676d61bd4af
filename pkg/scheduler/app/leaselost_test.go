// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/volcano/pkg/scheduler/api"
	vccache "volcano.sh/volcano/pkg/scheduler/cache"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// ended returns the error of the function that has ended.
func ended(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("it does not end")
		return nil
	}
}

// inSteps returns an action that once places the pods of gang g on node n and submits them in a transaction with this
// step. The function of returns the scheduler.
func inSteps(t *testing.T, of func() *scheduler, step binding.Step) framework.Action {
	done := false
	return action{"in-steps", func(ssn *framework.Session) {
		job := ssn.Jobs["ns/g"]
		if done || job == nil {
			return
		}
		done = true
		for _, task := range job.Tasks {
			task.NodeName = "n"
			if err := of().cache.AddToTransaction(&vccache.BindContext{TaskInfo: task}, nil, nil, []binding.Step{step}); err != nil {
				t.Error(err)
			}
		}
	}}
}

// TestALostLeaseAborts checks that after the loss of the lease, transactions in flight are abandoned at once, nothing
// more is written, and the process gets an error.
func TestALostLeaseAborts(t *testing.T) {
	cluster := gangOf(1)
	begun, aborted := make(chan struct{}), make(chan struct{})
	cfg := builtIn(t, "in-steps")
	cfg.Tiers = nil
	var s *scheduler
	s = newIdleScheduler(t, cluster, inSteps(t, func() *scheduler { return s }, binding.Step{
		Plugin: "p", Timeout: time.Hour, PreBind: func(ctx context.Context, _ *api.TaskInfo, _ string) error {
			close(begun)
			<-ctx.Done()
			close(aborted)
			return nil // The step succeeds, but too late.
		},
	}))
	if err := s.use(cfg); err != nil {
		t.Fatal(err)
	}
	lifetime, loseLease := context.WithCancel(context.Background())
	defer loseLease()
	done := make(chan error, 1)
	go func() { done <- s.run(t.Context(), lifetime) }()
	<-begun
	loseLease()
	select {
	case <-aborted:
	case <-time.After(20 * time.Second):
		t.Fatal("the step in flight goes on")
	}
	if err := ended(t, done); !errors.Is(err, errLeaseLost) {
		t.Errorf("the run ended with %v, want %v", err, errLeaseLost)
	}
	grace, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.cache.Drain(grace); err != nil {
		t.Error(err)
	}
	if node := cluster.Pod("p0").Spec.NodeName; node != "" {
		t.Errorf("the pod was bound to %s after the lease was lost", node)
	}
}

// TestAStartThatWaitsCanBeEnded checks that a start that waits can be ended. The list of PodGroups is rejected, as if
// the CRD were missing, so the cache never syncs.
func TestAStartThatWaitsCanBeEnded(t *testing.T) {
	tests := map[string]struct {
		end  func(told, lease context.CancelFunc)
		want error
	}{
		"by SIGTERM":      {end: func(told, _ context.CancelFunc) { told() }},
		"by a lost lease": {end: func(_, lease context.CancelFunc) { lease() }, want: errLeaseLost},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := gangOf(1)
			cluster.Volcano.PrependReactor("list", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("the server could not find the requested resource")
			})
			s := newIdleScheduler(t, cluster)
			if err := s.use(builtIn(t, "allocate")); err != nil {
				t.Fatal(err)
			}
			told, tell := context.WithCancel(t.Context())
			defer tell()
			lease, loseLease := context.WithCancel(context.Background())
			defer loseLease()
			done := make(chan error, 1)
			go func() { done <- s.run(told, lease) }()
			eventually(t, func() bool {
				what, _ := s.starting.waitsFor()
				return strings.Contains(what, "PodGroup") && !strings.Contains(what, "Pod,")
			})
			tt.end(tell, loseLease)
			if err := ended(t, done); !errors.Is(err, tt.want) {
				t.Errorf("the run ended with %v, want %v", err, tt.want)
			}
			if what, _ := s.starting.waitsFor(); what != "" {
				t.Errorf("it still waits for %s", what)
			}
		})
	}
}
