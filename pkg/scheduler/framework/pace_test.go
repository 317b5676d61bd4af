// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// paced is a session of one gang that waits, for what its test says.
type paced struct {
	ssn  *Session
	job  *api.JobInfo
	told tellings
}

func newPaced(t *testing.T) *paced {
	p := &paced{ssn: bare(), job: jobOf(t, 2, 0, api.Pending, api.Pending), told: tellings{}}
	p.job.PodGroup.Status.Phase = scheduling.PodGroupInqueue
	p.ssn.Jobs[p.job.UID] = p.job
	return p
}

// tells is what the gang is told when that is found.
func (p *paced) tells(reason, message string) string {
	p.ssn.waits = map[api.JobID]Wait{p.job.UID: {reason, message}}
	p.ssn.explainWaits(p.told)
	if p.job.JobFitErrors != p.ssn.waits[p.job.UID].Message {
		return "what upstream's plugins find is " + p.job.JobFitErrors
	}
	return p.ssn.waits[p.job.UID].Message
}

// TestAnotherTextIsToldAfterAPause that doubles, though the text changes each second.
func TestAnotherTextIsToldAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPaced(t)
		began, last := time.Now(), ""
		var told []string
		for i := range 4000 {
			found := fmt.Sprint("cpu in use: ", i)
			if text := p.tells(NotEnoughResources, found); text != last {
				if text != found {
					t.Fatalf("second %d: told %q, which is neither the newest text nor the last told", i, text)
				}
				told, last = append(told, time.Since(began).String()), text
			}
			time.Sleep(time.Second)
		}
		want := []string{"0s", "15s", "45s", "1m45s", "3m45s", "7m45s", "15m45s", "23m45s", "31m45s", "39m45s", "47m45s", "55m45s", "1h3m45s"}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("told at (-want +got):\n%s", diff)
		}
	})
}

// TestAReasonThatComesAndGoes each second is told at once, and then as often as any.
func TestAReasonThatComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPaced(t)
		began, last := time.Now(), ""
		var told []string
		for i := range 60 {
			reason := []string{NotEnoughResources, QueueFull}[i%2]
			if text := p.tells(reason, fmt.Sprintf("%s %d", reason, i)); text != last {
				told, last = append(told, time.Since(began).String()+": "+text), text
			}
			time.Sleep(time.Second)
		}
		want := []string{
			"0s: NotEnoughResources 0", "1s: QueueFull 1", "16s: NotEnoughResources 16", "17s: QueueFull 17", "46s: NotEnoughResources 46", "47s: QueueFull 47",
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

func TestWhatIsToldAtOnce(t *testing.T) {
	const found = "3 nodes short of cpu"
	tests := map[string]struct {
		change func(t *testing.T, p *paced)
		reason string
		held   bool
	}{
		"nothing but others changed": {change: func(*testing.T, *paced) {}, held: true},
		"there is another reason":    {change: func(*testing.T, *paced) {}, reason: QueueFull},
		"its minimum changed":        {change: func(_ *testing.T, p *paced) { p.job.PodGroup.Spec.MinMember = 1 }},
		"its annotations changed": {change: func(_ *testing.T, p *paced) {
			p.job.PodGroup.Annotations = map[string]string{"mode": "preferred"}
		}},
		"the scheduler's own annotation changed": {change: func(_ *testing.T, p *paced) {
			p.job.PodGroup.Annotations = map[string]string{api.JobAllocatedHyperNode: "rack"}
		}, held: true},
		"its PodGroup is another": {change: func(_ *testing.T, p *paced) { p.job.PodGroup.UID = "another" }},
		"it has one more pod": {change: func(_ *testing.T, p *paced) {
			p.job.AddTaskInfo(api.NewTaskInfo(schedtest.MakePod().Name("more").Group("g").Obj()))
		}},
		"a pod is another": {change: func(t *testing.T, p *paced) {
			for _, task := range p.job.Tasks {
				if err := p.job.DeleteTaskInfo(task); err != nil {
					t.Fatal(err)
				}
				break
			}
			p.job.AddTaskInfo(api.NewTaskInfo(schedtest.MakePod().Name("more").Group("g").Obj()))
		}},
		"a pod beyond its minimum has a scheduling gate": {change: func(_ *testing.T, p *paced) {
			p.job.PodGroup.Spec.MinMember = 1
			p.tells(NotEnoughResources, "told with the lower minimum")
			for _, task := range p.job.Tasks {
				task.SchGated = true
				break
			}
		}},
		"it was placed in between": {change: func(t *testing.T, p *paced) {
			delete(p.ssn.Jobs, p.job.UID)
			clear(p.ssn.waits)
			if p.ssn.explainWaits(p.told); len(p.told) > 0 {
				t.Error("a gang that does not wait is remembered")
			}
			p.ssn.Jobs[p.job.UID] = p.job
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPaced(t)
				p.tells(NotEnoughResources, "2 nodes short of cpu")
				if tt.change(t, p); tt.reason == "" {
					tt.reason = NotEnoughResources
				}
				if got := p.tells(tt.reason, found) != found; got != tt.held {
					t.Errorf("what is found is held back: %t, want %t", got, tt.held)
				}
				if tt.held {
					return
				}
				time.Sleep(firstPause) // the pause begins anew
				if got := p.tells(tt.reason, "later"); got != "later" {
					t.Errorf("told %q after the first pause", got)
				}
			})
		})
	}
}
