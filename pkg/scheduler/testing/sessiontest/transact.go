// SPDX-License-Identifier: Apache-2.0

package sessiontest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// Fate prescribes how a gang's bind transaction ends for each member.
type Fate struct {
	// Minimum is how many members must pass their pre-bind steps; with fewer, no member is bound.
	Minimum int
	// Lost are the members, by "namespace/name", that can no longer be bound when the transaction starts, each with the
	// reason.
	Lost map[string]error
	// Rejected are the members, by "namespace/name", whose Binding the API server rejects permanently.
	Rejected map[string]bool
}

// Transaction is a running transaction of a gang.
type Transaction struct {
	Engine *binding.Engine
	gang   api.JobID
	fate   Fate
	result chan binding.Result
}

// Transact runs a bind transaction for the gang's pods that the session has handed over. It uses its own binding
// engine, so the session may already be closed.
func Transact(s *Session, gang api.JobID, fate Fate) *Transaction {
	t := &Transaction{gang: gang, fate: fate, result: make(chan binding.Result, 1)}
	t.Engine = binding.New(t, t, t, unobserved{})
	tx := &binding.Transaction{Gang: gang, Lost: map[*binding.Member]error{}}
	handed := s.Handed()
	for _, name := range slices.Sorted(maps.Keys(handed)) {
		bind := handed[name]
		if bind.Task.Job != gang {
			continue
		}
		m := binding.NewMember(bind.Task, bind.Node, bind.Steps)
		if err := fate.Lost[name]; err != nil {
			tx.Lost[m] = err
		}
		tx.Members = append(tx.Members, m)
	}
	if err := t.Engine.Submit(tx); err != nil {
		panic(err)
	}
	return t
}

// Wait waits until the transaction has ended, and returns its result.
func (t *Transaction) Wait() binding.Result { return <-t.result }

// Quorum implements binding.Gatekeeper.
func (t *Transaction) Quorum(_ context.Context, _ *binding.Transaction, passed []*binding.Member) error {
	if len(passed) < t.fate.Minimum {
		return fmt.Errorf("%d of %d members are well", len(passed), t.fate.Minimum)
	}
	return nil
}

// Bind implements binding.Binder.
func (t *Transaction) Bind(_ context.Context, m *binding.Member) error {
	if t.fate.Rejected[key(m.Task)] {
		return apierrors.NewBadRequest("rejected")
	}
	return nil
}

// GetBinding implements binding.Binder.
func (t *Transaction) GetBinding(context.Context, *binding.Member) (binding.PodBinding, error) {
	return binding.PodBinding{}, nil
}

// Bound implements binding.Ledger.
func (t *Transaction) Bound(*binding.Member) {}

// Released implements binding.Ledger.
func (t *Transaction) Released(*binding.Member, error) {}

// Ended implements binding.Ledger.
func (t *Transaction) Ended(r binding.Result) { t.result <- r }

type unobserved struct{}

func (unobserved) StepDone(string, error, time.Duration)  {}
func (unobserved) RollbackDone(string, error)             {}
func (unobserved) Delayed(*binding.Member, binding.Delay) {}
func (unobserved) DelayEnded(*binding.Member, error)      {}
func (unobserved) TransactionDone(binding.Result)         {}
func (unobserved) InFlight(int)                           {}
