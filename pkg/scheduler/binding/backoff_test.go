// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// withBackoff runs f with a Backoff of 1 s to 60 s without jitter, and a counter of the wake-ups.
func withBackoff(t *testing.T, f func(t *testing.T, b *Backoff, wakes func() int64)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var wakes atomic.Int64
		b := NewBackoff(time.Second, time.Minute, 0, func() { wakes.Add(1) })
		defer b.Stop()
		f(t, b, func() int64 {
			synctest.Wait()
			return wakes.Load()
		})
	})
}

func blocked(b *Backoff, gang api.JobID) bool {
	_, _, blocked := b.Blocked(gang)
	return blocked
}

func TestBackoffDoublesUpToTheLongest(t *testing.T) {
	withBackoff(t, func(t *testing.T, b *Backoff, wakes func() int64) {
		var got []time.Duration
		for range 9 {
			until := b.Failed(gang, "no room")
			got = append(got, time.Until(until))
			time.Sleep(time.Until(until))
			synctest.Wait()
		}
		var want []time.Duration
		for _, s := range []int{1, 2, 4, 8, 16, 32, 60, 60, 60} {
			want = append(want, time.Duration(s)*time.Second)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("unexpected waits (-want +got):\n%s", diff)
		}
		if wakes() != 9 {
			t.Errorf("woken %d times, want 9", wakes())
		}
	})
}

func TestBackoffBlocksUntilItsTime(t *testing.T) {
	withBackoff(t, func(t *testing.T, b *Backoff, wakes func() int64) {
		until := b.Failed(gang, "no room")
		reason, got, isBlocked := b.Blocked(gang)
		if reason != "no room" || !got.Equal(until) || !isBlocked {
			t.Errorf("Blocked returned %q, %v, %v", reason, got, isBlocked)
		}
		if blocked(b, "ns/other") {
			t.Error("a gang that never failed is blocked")
		}
		time.Sleep(time.Second - 1)
		if !blocked(b, gang) || wakes() != 0 {
			t.Errorf("freed early, woken %d times", wakes())
		}
		time.Sleep(1)
		if blocked(b, gang) || wakes() != 1 {
			t.Errorf("not freed, woken %d times", wakes())
		}
	})
}

func TestBackoffRetries(t *testing.T) {
	tests := map[string]struct {
		retry func(b *Backoff)
		want  []api.JobID // still blocked
		wakes int64
	}{
		"now, of one gang": {func(b *Backoff) { b.RetryNow("x") }, []api.JobID{"y", "z"}, 1},
		"now, of gangs that failed together": {func(b *Backoff) {
			together := []api.JobID{"x", "z"}
			b.FailedWith(together, "x", "no room")
			b.FailedWith(together, "z", "no room")
			b.RetryNow("z")
		}, []api.JobID{"y"}, 1},
		"now, of gangs that once failed together": {func(b *Backoff) {
			b.FailedWith([]api.JobID{"x", "z"}, "z", "no room")
			b.Failed("z", "no room")
			b.RetryNow("x")
		}, []api.JobID{"y", "z"}, 1},
		"of the gangs of a node":       {func(b *Backoff) { b.RetryNode("n2") }, []api.JobID{"z"}, 1},
		"of all":                       {func(b *Backoff) { b.RetryAll() }, nil, 1},
		"of a node that no gang named": {func(b *Backoff) { b.RetryNode("n9") }, []api.JobID{"x", "y", "z"}, 0},
		"of a gang that is unknown":    {func(b *Backoff) { b.RetryNow("w") }, []api.JobID{"x", "y", "z"}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			withBackoff(t, func(t *testing.T, b *Backoff, wakes func() int64) {
				b.Failed("x", "no room", "n1", "n2")
				b.Failed("y", "no room", "n2")
				b.Failed("z", "no room")
				tc.retry(b)
				var got []api.JobID
				for _, gang := range []api.JobID{"x", "y", "z"} {
					if blocked(b, gang) {
						got = append(got, gang)
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("unexpected blocked gangs (-want +got):\n%s", diff)
				}
				if got := wakes(); got != tc.wakes {
					t.Errorf("woken %d times, want %d", got, tc.wakes)
				}
			})
		})
	}
}

func TestBackoffRetryKeepsTheExponentAndForgetDoesNot(t *testing.T) {
	withBackoff(t, func(t *testing.T, b *Backoff, _ func() int64) {
		b.Failed(gang, "no room")
		b.RetryNow(gang)
		if got := time.Until(b.Failed(gang, "no room")); got != 2*time.Second {
			t.Errorf("wait after RetryNow is %v, want 2s", got)
		}
		b.Forget(gang)
		if blocked(b, gang) {
			t.Error("blocked after Forget")
		}
		if got := time.Until(b.Failed(gang, "no room")); got != time.Second {
			t.Errorf("wait after Forget is %v, want 1s", got)
		}
	})
}

func TestBackoffJitterSpreadsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBackoff(time.Second, time.Minute, 0.5, func() {})
		defer b.Stop()
		waits := map[time.Duration]bool{}
		for i := range 100 {
			wait := time.Until(b.Failed(api.JobID(fmt.Sprint(i)), "no room"))
			if wait < time.Second || wait > 1500*time.Millisecond {
				t.Errorf("wait %v is not between 1s and 1.5s", wait)
			}
			waits[wait] = true
		}
		if len(waits) < 50 {
			t.Errorf("only %d different waits of 100", len(waits))
		}
	})
}

func TestBackoffForgetsLongAgoFailures(t *testing.T) {
	withBackoff(t, func(t *testing.T, b *Backoff, _ func() int64) {
		for i := range 1000 {
			b.Failed(api.JobID(fmt.Sprint(i)), "no room")
		}
		time.Sleep(memory*time.Minute + time.Second)
		synctest.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.gangs) != 0 {
			t.Errorf("%d gangs are still remembered", len(b.gangs))
		}
	})
}

func TestBackoffDoesNotWakeAfterStop(t *testing.T) {
	withBackoff(t, func(t *testing.T, b *Backoff, wakes func() int64) {
		b.Failed(gang, "no room")
		b.Stop()
		b.RetryAll()
		b.Failed(gang, "no room")
		time.Sleep(time.Hour)
		if wakes() != 0 {
			t.Errorf("woken %d times after Stop", wakes())
		}
	})
}

func TestRetrySoonKeepsTheFirstWait(t *testing.T) {
	tests := map[string]struct {
		failures int
		// after is the time between the last failure and the call of RetrySoon.
		after, want time.Duration
	}{
		"at once after a failure, the wait shrinks to a first one": {failures: 4, after: 0, want: time.Second},
		"later the wait ends at once":                              {failures: 4, after: 3 * time.Second, want: 3 * time.Second},
		"a first wait is not made longer":                          {failures: 1, after: 0, want: time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withBackoff(t, func(t *testing.T, b *Backoff, wakes func() int64) {
				for range tt.failures {
					b.Failed(gang, "no room")
				}
				begun := time.Now()
				time.Sleep(tt.after)
				b.RetrySoon(gang)
				for blocked(b, gang) {
					time.Sleep(10 * time.Millisecond)
				}
				if got := time.Since(begun); got != tt.want {
					t.Errorf("the wait lasted %v, want %v", got, tt.want)
				}
				synctest.Wait()
				if wakes() == 0 {
					t.Error("the loop was not woken when the wait ended")
				}
			})
		})
	}
}

// TestChangeDuringATryMakesTheNextWaitShort checks that a change during a try makes the next wait short, because the
// try may not have seen the change.
func TestChangeDuringATryMakesTheNextWaitShort(t *testing.T) {
	tests := map[string]struct {
		change func(b *Backoff)
		want   time.Duration
	}{
		"nothing changed":        {change: func(*Backoff) {}, want: 8 * time.Second},
		"the node it failed on":  {change: func(b *Backoff) { b.RetryNode("n") }, want: time.Second},
		"the gang":               {change: func(b *Backoff) { b.RetryNow(gang) }, want: time.Second},
		"one of its pods":        {change: func(b *Backoff) { b.RetrySoon(gang) }, want: time.Second},
		"a node it is not about": {change: func(b *Backoff) { b.RetryNode("m") }, want: 8 * time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withBackoff(t, func(t *testing.T, b *Backoff, _ func() int64) {
				for range 3 {
					b.Failed(gang, "no room", "n")
				}
				b.RetryNow(gang) // The gang is being tried from here on.
				tt.change(b)
				if got := time.Until(b.Failed(gang, "no room", "n")); got != tt.want {
					t.Errorf("the next wait is %v, want %v", got, tt.want)
				}
				if got := time.Until(b.Failed(gang, "no room", "n")); got != 16*time.Second {
					t.Errorf("the wait after that is %v, want 16s", got)
				}
			})
		})
	}
}

// TestChangesByTheClockDoNotMakeALoop checks that periodic changes do not make a loop. An agent that writes to the
// node every 5 s used to cause a try every 5 s. The gang's own step, which writes at each try, used to cause tries
// without a pause.
func TestChangesByTheClockDoNotMakeALoop(t *testing.T) {
	tests := map[string]struct {
		// try is called at each try, and tick every 5 s.
		try, tick func(b *Backoff)
		most      int
	}{
		"nothing changes":          {most: 11},
		"an agent writes the node": {tick: func(b *Backoff) { b.RetryNodeSoon("n") }, most: 25},
		"a step writes its node":   {try: func(b *Backoff) { b.RetryNodeSoon("n") }, most: 25},
		"a step writes its pod":    {try: func(b *Backoff) { b.RetrySoon(gang) }, most: 25},
		"both":                     {try: func(b *Backoff) { b.RetrySoon(gang) }, tick: func(b *Backoff) { b.RetryNodeSoon("n") }, most: 25},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withBackoff(t, func(t *testing.T, b *Backoff, _ func() int64) {
				tries := 0
				for begin, last := time.Now(), time.Now(); time.Since(begin) < 5*time.Minute; time.Sleep(100 * time.Millisecond) {
					if tt.tick != nil && time.Since(last) >= 5*time.Second {
						last = time.Now()
						tt.tick(b)
					}
					if blocked(b, gang) {
						continue
					}
					tries++
					if tt.try != nil {
						tt.try(b)
					}
					b.Failed(gang, "no room", "n")
					if tt.try != nil {
						tt.try(b) // The rollback writes too.
					}
				}
				if tries > tt.most {
					t.Errorf("%d tries in 5 minutes, want at most %d", tries, tt.most)
				}
			})
		})
	}
}

// TestAChangeOfANodeEndsTheWaitSoon checks that a change of a node ends the wait soon, even if an agent has written
// to the node all the time.
func TestAChangeOfANodeEndsTheWaitSoon(t *testing.T) {
	withBackoff(t, func(t *testing.T, b *Backoff, _ func() int64) {
		for range 4 {
			b.Failed(gang, "no room", "n")
		}
		begun := time.Now()
		b.RetryNodeSoon("m")
		time.Sleep(500 * time.Millisecond)
		if !blocked(b, gang) {
			t.Error("a node it did not fail on ended the wait")
		}
		b.RetryNodeSoon("n")
		for blocked(b, gang) {
			time.Sleep(10 * time.Millisecond)
		}
		if got := time.Since(begun); got != time.Second {
			t.Errorf("the wait lasted %v, want 1s", got)
		}
		if got := b.Avoid(gang); len(got) != 0 {
			t.Errorf("the node that changed is still avoided: %v", got)
		}
	})
}

func TestNodesToAvoid(t *testing.T) {
	tests := map[string]struct {
		then func(b *Backoff)
		want []string
	}{
		"those it failed on":                          {func(*Backoff) {}, []string{"n1", "n2"}},
		"those of failures in a row":                  {func(b *Backoff) { b.Failed(gang, "no room", "n0", "n3") }, []string{"n0", "n1", "n2", "n3"}},
		"the last ones when nothing else was left":    {func(b *Backoff) { b.Failed(gang, "no room", "n2") }, []string{"n2"}},
		"the others when one has changed":             {func(b *Backoff) { b.RetryNode("n1") }, []string{"n2"}},
		"those that have not changed since":           {func(b *Backoff) { b.RetryNode("n1"); b.Failed(gang, "no room", "n1") }, []string{"n1", "n2"}},
		"all of them after another member came":       {func(b *Backoff) { b.RetryNow(gang) }, []string{"n1", "n2"}},
		"none after it succeeded":                     {func(b *Backoff) { b.Forget(gang) }, nil},
		"a failure that is no node's changes nothing": {func(b *Backoff) { b.Failed(gang, "no room") }, []string{"n1", "n2"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withBackoff(t, func(t *testing.T, b *Backoff, _ func() int64) {
				b.Failed(gang, "no room", "n2", "n1")
				tt.then(b)
				if diff := cmp.Diff(tt.want, b.Avoid(gang)); diff != "" {
					t.Errorf("nodes to avoid (-want +got):\n%s", diff)
				}
				if other := b.Avoid("ns/other"); other != nil {
					t.Errorf("a gang that never failed is to avoid %v", other)
				}
			})
		})
	}
}

// TestAnAvoidedNodeThatChangesEndsTheWait checks that a change of an avoided node ends the wait of a gang whose last
// failure was on another node.
func TestAnAvoidedNodeThatChangesEndsTheWait(t *testing.T) {
	withBackoff(t, func(t *testing.T, b *Backoff, wakes func() int64) {
		b.Failed(gang, "no room", "n1")
		b.RetryNow(gang)
		b.Failed(gang, "no room", "n2")
		b.RetryNode("n1")
		if blocked(b, gang) {
			t.Error("the gang still waits")
		}
	})
}

// TestTheLeastThatAWaitLasts checks that the minimum wait grows with each wait that is cut short and shrinks with
// each full wait. It is the first wait again after a change that the gang's own steps did not cause.
func TestTheLeastThatAWaitLasts(t *testing.T) {
	withBackoff(t, func(t *testing.T, b *Backoff, _ func() int64) {
		wait := func() time.Duration {
			began := time.Now()
			_, until, _ := b.Blocked(gang)
			time.Sleep(time.Until(until))
			synctest.Wait()
			return until.Sub(began).Round(time.Second)
		}
		var got []time.Duration
		cut := func() {
			b.Failed(gang, "no room")
			b.RetrySoon(gang)
			got = append(got, wait())
		}
		for range 6 {
			cut()
		}
		for range 2 {
			b.Failed(gang, "no room")
			wait()
		}
		cut()
		b.Failed(gang, "no room")
		b.RetryNow(gang)
		cut()
		var want []time.Duration
		for _, s := range []int{1, 1, 2, 4, 8, 16, 8, 1} {
			want = append(want, time.Duration(s)*time.Second)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("waits that were cut short (-want +got):\n%s", diff)
		}
	})
}
