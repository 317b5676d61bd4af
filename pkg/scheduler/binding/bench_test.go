// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// instant is an API server that answers at once, and a ledger that records nothing.
type instant struct{ ended chan struct{} }

func (instant) Quorum(context.Context, *Transaction, []*Member) error   { return nil }
func (instant) Bind(context.Context, *Member) error                     { return nil }
func (instant) GetBinding(context.Context, *Member) (PodBinding, error) { return PodBinding{}, nil }
func (instant) Bound(*Member)                                           {}
func (instant) Released(*Member, error)                                 {}
func (i instant) Ended(Result)                                          { i.ended <- struct{}{} }
func (instant) StepDone(string, error, time.Duration)                   {}
func (instant) RollbackDone(string, error)                              {}
func (instant) Delayed(*Member, Delay)                                  {}
func (instant) DelayEnded(*Member, error)                               {}
func (instant) TransactionDone(Result)                                  {}
func (instant) InFlight(int)                                            {}

// BenchmarkTransaction measures the engine's own cost for a gang of 50, from submission to the end.
func BenchmarkTransaction(b *testing.B) {
	nothing := func(context.Context, *api.TaskInfo, string) error { return nil }
	for _, steps := range []int{0, 1, 3} {
		b.Run(fmt.Sprintf("steps=%d", steps), func(b *testing.B) {
			host := instant{ended: make(chan struct{}, 1)}
			engine := New(host, host, host, host)
			chain := make([]Step, steps)
			for i := range chain {
				chain[i] = Step{Plugin: fmt.Sprintf("step-%d", i), PreBind: nothing, Rollback: nothing}
			}
			members := make([]*Member, 50)
			for i := range members {
				pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("p%d", i), UID: "uid"}}
				members[i] = NewMember(api.NewTaskInfo(pod), "n", chain)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := engine.Submit(&Transaction{Gang: "ns/g", Members: members}); err != nil {
					b.Fatal(err)
				}
				<-host.ended
			}
			if err := engine.Drain(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
