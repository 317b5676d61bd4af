// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// tenant makes random choices as a hostile tenant would.
type tenant struct{ *rand.Rand }

// text returns a text of random length and random bytes.
func (r tenant) text(most int) string {
	alphabet := []string{"x", "%", "é", "\xff", "\x00", "\n", "{{", "\"", "世"}[r.IntN(9)]
	return strings.Repeat(alphabet, 1+r.IntN(most))
}

// name returns a name that the API server accepts.
func (r tenant) name() string { return strings.Repeat("n", 1+r.IntN(240)) }

// TestNoTenantMakesLongMessages checks that no tenant causes long messages. Whatever a tenant's PodGroup, pods and
// steps contain, all reports and writes about them are short and valid. Each object is reported a few times, however
// often the cause is found.
func TestNoTenantMakesLongMessages(t *testing.T) {
	const members, cycles = 5, 6
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := tenant{rand.New(rand.NewPCG(seed, 13))}
			withHarness(t, func(t *testing.T, w *harness) {
				group := schedtest.MakePodGroup().Name("g").MinMember(members).Annotation("note", r.text(100_000))
				for range r.IntN(3_000) {
					group.MinTaskMember(r.text(300), 1)
				}
				w.add(schedtest.MakeNode().Name("n").Obj(), group.Obj())
				var names []string
				for i := range members {
					name := fmt.Sprintf("p%d-%s", i, r.name())
					w.add(schedtest.MakePod().Name(name).Group("g").Role(r.text(60)).Req(schedtest.Resources{"cpu": "1"}).Obj())
					names = append(names, name)
				}
				step := binding.Step{Plugin: "storage", PreBind: func(_ context.Context, task *api.TaskInfo, _ string) error {
					if task.Name == names[0] {
						return errors.New(r.text(200_000))
					}
					return nil
				}}
				events := map[string]int{}
				text := r.text(500_000)
				for range cycles {
					w.mustPlace("n", []binding.Step{step}, names...)
					w.cache.SealTransactions()
					synctest.Wait()
					w.cache.RetryAll()
					w.verdict(func(job *api.JobInfo) {
						job.JobFitErrors = text
						setCondition(&job.PodGroup.Status, unschedulable("NotEnoughResources", text))
					})
					time.Sleep(2 * statuswriter.Settle)
					synctest.Wait()
					w.deliver(w.cluster.PodGroup("g"))
					w.sync(names...)
					for _, e := range w.cluster.Events.Take() {
						head, message, _ := strings.Cut(e, ": ")
						expectShort(w.t, "event "+head, message)
						events[head]++
					}
					for _, c := range w.cluster.PodGroup("g").Status.Conditions {
						expectShort(w.t, "condition of the PodGroup", c.Message)
					}
					for _, name := range names {
						for _, c := range w.cluster.Pod(name).Status.Conditions {
							expectShort(w.t, "condition of a pod", c.Message)
						}
					}
				}
				for head, times := range events {
					if times > cycles {
						t.Errorf("%d events in %d cycles: %s", times, cycles, head)
					}
				}
			})
		})
	}
}

// expectShort fails the test if the message is too long or cannot be stored.
func expectShort(t *testing.T, what, message string) {
	t.Helper()
	if len(message) > brief.Most || !utf8.ValidString(message) {
		t.Errorf("%s has %d bytes, valid is %v: %.100q", what, len(message), utf8.ValidString(message), message)
	}
}

// TestAnOverflowingRequestFitsNowhere checks that an overflowing request fits nowhere. Upstream reads 1e18 CPUs as a
// negative amount.
func TestAnOverflowingRequestFitsNowhere(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(schedtest.MakeNode().Name("n").Obj(), schedtest.MakePodGroup().Name("g").Obj(),
			schedtest.MakePod().Name("huge").Group("g").Req(schedtest.Resources{"cpu": "1e18"}).Obj())
		if err := w.place("huge", "n"); err == nil {
			t.Error("it was placed on a node of 8 cpu")
		}
	})
}

// TestGangsTextIsHeldOnce checks that a gang's text is stored once: if the failure of a gang of many pods has a long
// message, its pods without a failure share one text.
func TestGangsTextIsHeldOnce(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(3, 3)
		w.mustPlace("n", []binding.Step{{Plugin: "storage", PreBind: func(_ context.Context, task *api.TaskInfo, _ string) error {
			if task.Name == "p0" {
				return errors.New(strings.Repeat("x", 5_000))
			}
			return nil
		}}}, "p0", "p1", "p2")
		w.cache.SealTransactions()
		synctest.Wait()
		const head = "False SchedulerError: "
		others := strings.TrimPrefix(podScheduled(w.cluster, "p1"), head)
		for _, name := range []string{"p1", "p2"} {
			if got := podScheduled(w.cluster, name); got != head+others {
				t.Errorf("the message of pod %s is %q", name, got)
			}
		}
		if !strings.HasSuffix(others, "rolled back all 3 pods") || len(others) > brief.Most {
			t.Errorf("text of %d bytes does not end with the gang's result: %q", len(others), others)
		}
		if got := podScheduled(w.cluster, "p0"); !strings.HasPrefix(got, "False SchedulerError: pre-bind plugin storage failed") {
			t.Errorf("the message of pod p0 has %d bytes: %q", len(got), got)
		}
	})
}
