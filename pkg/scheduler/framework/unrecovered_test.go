// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"volcano.sh/volcano/pkg/scheduler/api"

	pausing "github.com/volcano-prebind/volcano-prebind/internal/pause"
)

// withdrawals is a Withdrawer whose calls take time and fail as the test requires.
type withdrawals struct {
	// large is the namespace whose pods take longer to list than a pass lasts.
	large string
	woken atomic.Int64

	// deaf reports whether withdrawals continue after their context has ended. atOnce counts the withdrawals that run,
	// and mostAtOnce is the largest such number so far.
	deaf               atomic.Bool
	atOnce, mostAtOnce atomic.Int64

	// mu guards the fields below. takes is how long the withdrawal of an object takes. fails has the claims whose
	// withdrawal fails. done counts the withdrawals by claim, and lists counts the calls of ListPods by namespace.
	mu    sync.Mutex
	takes time.Duration
	fails map[string]bool
	done  map[string]int
	lists map[string]int
}

func (w *withdrawals) ListPods(ctx context.Context, namespace string, options metav1.ListOptions) (*v1.PodList, error) {
	w.mu.Lock()
	w.lists[namespace]++
	w.mu.Unlock()
	if namespace == w.large {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	list := &v1.PodList{Items: []v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "pod" + options.Continue, UID: types.UID("pod" + options.Continue)}}}}
	if options.Continue == "" {
		list.Continue = "-of-page-2"
	}
	return list, nil
}

func (w *withdrawals) PodKeys(pod *v1.Pod) []string { return []string{pod.Name} }

func (w *withdrawals) WithdrawAgain(ctx context.Context, of Leftover, pods sets.Set[string]) error {
	if !pods.HasAll("pod", "pod-of-page-2") {
		return fmt.Errorf("the pods are %v", pods)
	}
	if running := w.atOnce.Add(1); running > w.mostAtOnce.Load() {
		w.mostAtOnce.Store(running)
	}
	defer w.atOnce.Add(-1)
	if w.deaf.Load() {
		ctx = context.WithoutCancel(ctx)
	}
	w.mu.Lock()
	w.done[of.Claim.Name]++
	fails, takes := w.fails[of.Claim.Name], w.takes
	w.mu.Unlock()
	if !pausing.For(ctx, takes) {
		return ctx.Err()
	}
	if fails {
		return errors.New("refused")
	}
	return nil
}

func (w *withdrawals) fail(claim string, fails bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails[claim] = fails
}

func (w *withdrawals) take(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.takes = d
}

// attempts returns the number of attempts for the claim since the last call.
func (w *withdrawals) attempts(claim string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.done[claim]
	delete(w.done, claim)
	return n
}

func claimNamed(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// withUnrecovered runs the test in a synctest bubble, with an instance of the plugin in use.
func withUnrecovered(t *testing.T, act func(t *testing.T, u *Unrecovered, w *withdrawals)) {
	synctest.Test(t, func(t *testing.T) {
		w := &withdrawals{fails: map[string]bool{}, done: map[string]int{}, lists: map[string]int{}}
		u := NewUnrecovered("p", w, func() { w.woken.Add(1) })
		u.Join()
		act(t, u, w)
		u.Leave()
	})
}

// mustRecover runs the first pass over the claims, with the concurrency of VisitAll, and returns how long it took.
func mustRecover(t *testing.T, u *Unrecovered, w *withdrawals, claims ...types.NamespacedName) time.Duration {
	t.Helper()
	began := time.Now()
	err := u.Recover(func(pass *RecoveryPass) error {
		var visits sync.WaitGroup
		slots := make(chan struct{}, visitsAtOnce)
		for _, claim := range claims {
			slots <- struct{}{}
			visits.Go(func() {
				pass.Visit(t.Context(), Leftover{Claim: claim}, func(ctx context.Context, pods sets.Set[string]) error {
					return w.WithdrawAgain(ctx, Leftover{Claim: claim}, pods)
				})
				<-slots
			})
		}
		visits.Wait()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return time.Since(began)
}

// TestClaimsAreRetriedWithGrowingPauses checks that claims are retried with growing pauses of at most a minute until
// each has been withdrawn, and that nothing runs afterwards.
func TestClaimsAreRetriedWithGrowingPauses(t *testing.T) {
	withUnrecovered(t, func(t *testing.T, u *Unrecovered, w *withdrawals) {
		w.fail("bad", true)
		mustRecover(t, u, w, claimNamed("ns", "bad"), claimNamed("ns", "good"))
		if u.Check(claimNamed("ns", "good")) != nil || u.Check(claimNamed("ns", "bad")) == nil || u.Check(claimNamed("other", "bad")) != nil {
			t.Error("not exactly the claim whose withdrawal failed is held back")
		}
		var got []int
		w.attempts("bad")
		for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 56 * time.Second, time.Minute, 10 * time.Minute} {
			time.Sleep(pause)
			synctest.Wait()
			got = append(got, w.attempts("bad"))
		}
		if n := w.attempts("good"); n != 1 {
			t.Errorf("the other claim was withdrawn %d times, want once", n)
		}
		if diff := cmp.Diff([]int{1, 1, 1, 3, 1, 10}, got); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
		if w.woken.Load() != 0 {
			t.Error("sessions are requested without a cause")
		}
		w.fail("bad", false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := u.Check(claimNamed("ns", "bad")); err != nil || w.woken.Load() != 1 {
			t.Errorf("it is held back with %v, and %d sessions were requested", err, w.woken.Load())
		}
		w.attempts("bad")
		time.Sleep(time.Hour)
		if n := w.attempts("bad"); n != 0 {
			t.Errorf("%d attempts after the end", n)
		}
	})
}

// TestTheFirstPassIsBounded checks that the first recovery pass (Recover), which withdraws a former leader's writes before
// the first session, takes a bounded time for each namespace and in total. A claim that does not fit into this time costs
// no call then, and is withdrawn later in the background.
func TestTheFirstPassIsBounded(t *testing.T) {
	many := func(namespaces, claims int) (all []types.NamespacedName) {
		for n := range namespaces {
			for c := range claims {
				all = append(all, claimNamed(fmt.Sprint("tenant-", n), fmt.Sprintf("c-%d-%d", n, c)))
			}
		}
		return append(all, claimNamed("victim", "c"))
	}
	for name, tc := range map[string]struct {
		claims []types.NamespacedName
		takes  time.Duration
		large  string
		most   time.Duration
		// calls is the maximum number of calls. atOnce reports whether the first pass withdraws the victim's claim.
		calls  int
		atOnce bool
	}{
		"a slow claim in each of some namespaces": {claims: many(20, 1), takes: time.Second, most: 2 * time.Second, calls: 21, atOnce: true},
		"a namespace with many slow claims":       {claims: many(1, 100_000), takes: time.Second, most: firstPassOfNamespace + time.Second, calls: 200, atOnce: true},
		"a namespace with many pods":              {claims: many(1, 1000), large: "tenant-0", most: firstPassOfNamespace, calls: 1, atOnce: true},
		"many namespaces with slow claims":        {claims: many(100, 1000), takes: time.Second, most: firstPass, calls: 16 * 20},
	} {
		t.Run(name, func(t *testing.T) {
			withUnrecovered(t, func(t *testing.T, u *Unrecovered, w *withdrawals) {
				w.large = tc.large
				w.take(tc.takes)
				took := mustRecover(t, u, w, tc.claims...)
				if took > tc.most {
					t.Errorf("it took %v, want at most %v", took, tc.most)
				}
				calls := 0
				for _, n := range w.done {
					calls += n
				}
				if calls > tc.calls {
					t.Errorf("%d claims were tried, want at most %d", calls, tc.calls)
				}
				for namespace, n := range w.lists {
					if n > 2 {
						t.Errorf("%d pages of pods of namespace %s were read, want 2", n, namespace)
					}
				}
				victim := claimNamed("victim", "c")
				if held := u.Check(victim) != nil; held == tc.atOnce {
					t.Errorf("after the first pass the victim's claim is held back: %v", held)
				}
				w.take(0)
				time.Sleep(time.Minute)
				synctest.Wait()
				if err := u.Check(victim); err != nil {
					t.Errorf("after a minute the victim's claim is held back: %v", err)
				}
			})
		})
	}
}

// TestNamespacesWithFewClaimsAreRetriedFirst checks that a retry withdraws the writes in a namespace with one claim
// first, however many namespaces have many slow claims.
func TestNamespacesWithFewClaimsAreRetriedFirst(t *testing.T) {
	withUnrecovered(t, func(t *testing.T, u *Unrecovered, w *withdrawals) {
		claims := []types.NamespacedName{claimNamed("victim", "c")}
		for n := range 10 * visitsAtOnce {
			for c := range 50 {
				claims = append(claims, claimNamed(fmt.Sprint("tenant-", n), fmt.Sprintf("c-%d-%d", n, c)))
			}
		}
		w.take(time.Hour)
		mustRecover(t, u, w, claims...)
		w.take(time.Second)
		time.Sleep(firstRetry + 2*time.Second)
		synctest.Wait()
		if err := u.Check(claims[0]); err != nil {
			t.Errorf("after the first calls of a retry the claim is still held back: %v", err)
		}
	})
}

// TestAFormerErrorOutlastsARetryWithoutTime checks that a claim keeps its last error if a recovery pass has no time
// left for the claim. The message for users then still names a cause.
func TestAFormerErrorOutlastsARetryWithoutTime(t *testing.T) {
	withUnrecovered(t, func(t *testing.T, u *Unrecovered, w *withdrawals) {
		w.fail("bad", true)
		mustRecover(t, u, w, claimNamed("ns", "bad"))
		former := u.Check(claimNamed("ns", "bad")).Error()
		pass := u.newPass(0, 0)
		pass.Visit(t.Context(), Leftover{Claim: claimNamed("ns", "bad")}, nil)
		pass.Visit(t.Context(), Leftover{Claim: claimNamed("ns", "new")}, nil)
		if now := u.Check(claimNamed("ns", "bad")).Error(); now != former {
			t.Errorf("%q became %q", former, now)
		}
		want := "the write of a former scheduler leader is not withdrawn yet: time ran out at the start of this leader; the scheduler retries it"
		if got := u.Check(claimNamed("ns", "new")).Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestRetriesBelongToTheInstancesInUse checks that failed withdrawals are retried while an instance of the plugin is in
// use. Retries continue across a reload, and end with a configuration without the plugin. A later configuration with
// the plugin retries the same claims from its first session on.
func TestRetriesBelongToTheInstancesInUse(t *testing.T) {
	withUnrecovered(t, func(t *testing.T, u *Unrecovered, w *withdrawals) {
		claim := claimNamed("ns", "bad")
		w.fail("bad", true)
		mustRecover(t, u, w, claim)
		former := u.Check(claim).Error()
		u.Join() // The instance of the next configuration joins.
		u.Leave()
		u.Resume(nil) // Its first session begins.
		w.attempts("bad")
		w.take(10 * time.Second)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if w.attempts("bad") != 1 || u.Check(claim) == nil {
			t.Error("a reload ends the retries, or there are two")
		}
		u.Leave() // Leave comes during an attempt.
		time.Sleep(time.Hour)
		u.Join()
		if n := w.attempts("bad"); n != 0 {
			t.Errorf("%d attempts after the last instance was closed", n)
		}
		if err := u.Check(claim); err == nil || err.Error() != former {
			t.Errorf("it is held back with %v, want %s", err, former)
		}
		w.take(0)
		u.Resume(nil)
		u.Resume(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := w.attempts("bad"); n != 1 {
			t.Errorf("%d attempts after a second in which the plugin is in use again, want 1", n)
		}
		w.fail("bad", false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := u.Check(claim); err != nil {
			t.Error(err)
		}
		u.Resume(nil) // Nothing is left to retry.
		w.attempts("bad")
		time.Sleep(time.Hour)
		if n := w.attempts("bad"); n != 0 {
			t.Errorf("%d attempts after the end", n)
		}
	})
}

// TestNothingIsWithdrawnWhileAnotherPluginMayWrite checks that nothing is withdrawn while a pod is being bound that was
// already being bound when the plugin came into use again. Another plugin may have placed that pod, and may still write
// for it. Pods that are bound later have passed this plugin's filter, so withdrawals do not wait for them.
func TestNothingIsWithdrawnWhileAnotherPluginMayWrite(t *testing.T) {
	binding := func(pods ...string) map[api.JobID]*api.JobInfo {
		job := api.NewJobInfo("ns/gang")
		for _, pod := range pods {
			task := &api.TaskInfo{UID: api.TaskID(pod), Job: job.UID, Resreq: api.EmptyResource(), Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(pod)}}}
			task.Status = api.Binding
			job.AddTaskInfo(task)
		}
		return map[api.JobID]*api.JobInfo{job.UID: job}
	}
	withUnrecovered(t, func(t *testing.T, u *Unrecovered, w *withdrawals) {
		claim := claimNamed("ns", "bad")
		w.fail("bad", true)
		mustRecover(t, u, w, claim)
		u.Leave()
		u.Join()
		w.fail("bad", false)
		w.attempts("bad")
		u.Resume(binding("pod"))
		for range 3 {
			u.Resume(binding("pod", "pod-of-page-2"))
			time.Sleep(retryPause)
			synctest.Wait()
			if n := w.attempts("bad"); n != 0 {
				t.Errorf("%d attempts while the pod is being bound, want none", n)
			}
		}
		want := "the write of a former scheduler leader could not be withdrawn yet; the scheduler retries it; last error: pod ns/pod is being bound"
		if err := u.Check(claim); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		u.Resume(binding("pod-of-page-2")) // The transaction of the first pod was rolled back.
		u.Resume(binding("pod", "pod-of-page-2"))
		time.Sleep(retryPause)
		synctest.Wait()
		if n, err := w.attempts("bad"), u.Check(claim); n != 1 || err != nil {
			t.Errorf("%d attempts after the pod was rolled back, want 1; %v", n, err)
		}
	})
}

// TestARecoveryWaitsForARetryUnderWay checks that Recover waits for a retry that still runs, because two passes must
// not withdraw at the same time. The plugin recovers twice if the first configuration was rejected because another
// plugin failed to recover.
func TestARecoveryWaitsForARetryUnderWay(t *testing.T) {
	withUnrecovered(t, func(t *testing.T, u *Unrecovered, w *withdrawals) {
		w.fail("bad", true)
		mustRecover(t, u, w, claimNamed("ns", "bad"))
		w.take(10 * time.Second)
		w.deaf.Store(true)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if w.atOnce.Load() != 1 {
			t.Fatal("no retry is under way")
		}
		u.Leave()
		u.Join()
		mustRecover(t, u, w, claimNamed("ns", "bad"))
		if most := w.mostAtOnce.Load(); most != 1 {
			t.Errorf("%d withdrawals of the claim ran at once, want 1", most)
		}
	})
}

// TestObjectsThatCannotBeListed checks that Recover fails if objects cannot be listed, and that nothing is retried in
// the background until it is called again.
func TestObjectsThatCannotBeListed(t *testing.T) {
	withUnrecovered(t, func(t *testing.T, u *Unrecovered, w *withdrawals) {
		w.fail("bad", true)
		failure := errors.New("no list")
		err := u.Recover(func(pass *RecoveryPass) error {
			pass.Visit(t.Context(), Leftover{Claim: claimNamed("ns", "bad")}, func(context.Context, sets.Set[string]) error { return errors.New("refused") })
			return failure
		})
		if !errors.Is(err, failure) {
			t.Errorf("Recover returns %v", err)
		}
		time.Sleep(time.Hour)
		if n := w.attempts("bad"); n != 0 {
			t.Errorf("%d attempts in the background", n)
		}
		w.fail("bad", false)
		mustRecover(t, u, w, claimNamed("ns", "bad"))
		if err := u.Check(claimNamed("ns", "bad")); err != nil {
			t.Error(err)
		}
	})
}
