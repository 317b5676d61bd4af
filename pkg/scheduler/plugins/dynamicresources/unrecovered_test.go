// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// serve sets the tests' scheduler name as the process's own.
func serve(t *testing.T) {
	former := options.ServerOpts
	t.Cleanup(func() { options.ServerOpts = former })
	options.ServerOpts = &options.ServerOption{SchedulerNames: []string{schedtest.SchedulerName}}
}

// left returns the claim as a former leader allocated it.
func left(claim *resourceapi.ResourceClaim) *resourceapi.ResourceClaim {
	claim.Finalizers = []string{resourceapi.Finalizer}
	claim.Annotations = map[string]string{SchedulerAnnotation: schedtest.SchedulerName}
	claim.Status.Allocation = allocationOf("n", "gpu-0")
	return claim
}

// failing makes API calls fail while the returned value is true.
func (w *testCluster) failing(verb, resource string, err error) *atomic.Bool {
	fails := &atomic.Bool{}
	fails.Store(true)
	w.kube.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return fails.Load(), nil, err })
	return fails
}

// mustRecover fails the test if the recovery returns an error, which would prevent sessions, or takes longer than 40 s.
func (w *testCluster) mustRecover() {
	w.t.Helper()
	began := time.Now()
	if err := w.plugin.Recover(w.t.Context()); err != nil {
		w.t.Fatalf("no session opens: %v", err)
	}
	if took := time.Since(began); took > 40*time.Second {
		w.t.Errorf("recovering took %v", took)
	}
}

// TestAnUnrecoveredClaimHoldsBackOnlyItsPods: sessions open even if a claim cannot be recovered. The claim's pods are
// placed after its recovery.
func TestAnUnrecoveredClaimHoldsBackOnlyItsPods(t *testing.T) {
	serve(t)
	conflict := apierrors.NewConflict(resourceapi.Resource("resourceclaims"), "c", errors.New("the tenant patched it"))
	denied := apierrors.NewForbidden(resourceapi.Resource("resourceclaims"), "c", errors.New("policy says no "+strings.Repeat("x", 5000)))
	cases := map[string]struct {
		verb, resource string
		err            error
		want           string
	}{
		"a tenant patches it": {verb: "update", resource: "resourceclaims", err: conflict,
			want: `claim "c": the write of a former scheduler leader could not be withdrawn yet; the scheduler retries it; last error: Operation cannot be fulfilled on resourceclaims.resource.k8s.io "c": the tenant patched it`},
		"a policy rejects it":       {verb: "update", resource: "resourceclaims", err: denied},
		"its pods cannot be listed": {verb: "list", resource: "pods", err: errors.New("the list is too large")},
		"it cannot be read":         {verb: "get", resource: "resourceclaims", err: errors.New("the API server is away")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, append(gpus("n"), left(schedtest.DeviceClaim("c", one())), schedtest.DeviceClaim("d", one())), func(w *testCluster) {
				fails := w.failing(tc.verb, tc.resource, tc.err)
				w.mustRecover()
				w.open()
				own := member("p", "c")
				refused := w.fits(own, "n")
				if !strings.Contains(refused, "former scheduler leader") || len(refused) > 1024 || tc.want != "" && refused != tc.want {
					t.Errorf("the message of its pod is %q, want %q", refused, tc.want)
				}
				if refused := w.fits(member("q", "d"), "n"); refused != "" {
					t.Errorf("a pod of another claim is refused: %s", refused)
				}
				time.Sleep(10 * time.Minute)
				w.open()
				if w.fits(own, "n") == "" {
					t.Error("the pod is placed before its claim is recovered")
				}
				fails.Store(false)
				w.woken.Store(0)
				time.Sleep(2 * time.Minute)
				if w.woken.Load() == 0 {
					t.Error("no session is requested for the pods that waited")
				}
				w.untouched("c")
				w.open()
				w.mustPlace(own, "n")
			})
		})
	}
}

// TestAnUnrecoveredClaimSharesNoResult: equal claims share a cached result, but a pod with a claim that is not
// recovered is rejected.
func TestAnUnrecoveredClaimSharesNoResult(t *testing.T) {
	serve(t)
	p, q := member("p", "made t"), member("q", "made t")
	c := left(made(p, "t", one()))
	c.Status.Allocation = nil // only the finalizer remains
	run(t, append(gpus("n"), c, made(q, "t", one())), func(w *testCluster) {
		w.failing("update", "resourceclaims", errors.New("refused"))
		w.mustRecover()
		w.open()
		if key := w.session.SignClaim(p.Pod, &p.Pod.Spec.ResourceClaims[0]); key != "named p-t" {
			t.Errorf("its key is %q", key)
		}
		if key := w.session.SignClaim(q.Pod, &q.Pod.Spec.ResourceClaims[0]); !strings.HasPrefix(key, "like ") {
			t.Errorf("the other claim's key is %q", key)
		}
	})
}

// TestALeftClaimIsReadAgain checks that each attempt to recover a claim reads it again.
func TestALeftClaimIsReadAgain(t *testing.T) {
	serve(t)
	remove := func(w *testCluster) {
		if err := w.kube.ResourceV1().ResourceClaims(schedtest.Namespace).Delete(w.t.Context(), "c", metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
	cases := map[string]struct {
		meanwhile func(w *testCluster)
		want      string
		writes    bool
	}{
		"it is deleted": {meanwhile: remove, want: `claim "c" does not exist`},
		"its mark is removed": {meanwhile: func(w *testCluster) {
			w.change("c", func(c *resourceapi.ResourceClaim) { delete(c.Annotations, SchedulerAnnotation) })
		}},
		"a bound pod uses it": {meanwhile: func(w *testCluster) {
			w.change("c", func(c *resourceapi.ResourceClaim) {
				c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "x", UID: "x"}}
			})
		}},
		"nothing": {meanwhile: func(*testCluster) {}, writes: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, append(gpus("n"), left(schedtest.DeviceClaim("c", one()))), func(w *testCluster) {
				fails := w.failing("update", "resourceclaims", errors.New("refused"))
				w.mustRecover()
				fails.Store(false)
				tc.meanwhile(w)
				w.kube.ClearActions()
				time.Sleep(time.Minute)
				wrote := strings.Contains(strings.Join(w.calls(), ","), "update")
				if wrote != tc.writes {
					t.Errorf("the claim is written: %v, want %v", wrote, tc.writes)
				}
				w.open()
				if got := w.fits(member("p", "c"), "n"); got != tc.want {
					t.Errorf("the message of its pod is %q, want %q", got, tc.want)
				}
			})
		})
	}
}

// TestAReloadKeepsTheRetries checks that a claim whose recovery failed still holds back its pod after a reload, and
// that the retries continue. The reload creates a new instance of the plugin, which does not recover again.
func TestAReloadKeepsTheRetries(t *testing.T) {
	serve(t)
	run(t, append(gpus("n"), left(schedtest.DeviceClaim("c", one()))), func(w *testCluster) {
		fails := w.failing("update", "resourceclaims", errors.New("refused"))
		spec := Spec()
		former := w.build(spec, nil)
		w.plugin = former
		synctest.Wait()
		w.mustRecover()
		w.plugin = w.build(spec, nil)
		former.Close()
		w.open()
		if w.fits(member("p", "c"), "n") == "" {
			t.Error("the new configuration places its pod")
		}
		fails.Store(false)
		time.Sleep(2 * time.Minute)
		w.untouched("c")
		w.open()
		w.mustPlace(member("p", "c"), "n")
	})
}

// withoutThePlugin closes the plugin, as a configuration without it does, and builds a new instance an hour later. It
// then opens a session with the given tasks, which are being bound.
func (w *testCluster) withoutThePlugin(spec framework.PluginSpec, bound ...*api.TaskInfo) {
	w.plugin.Close()
	time.Sleep(time.Hour)
	w.plugin = w.build(spec, nil)
	job := api.NewJobInfo("g")
	for _, task := range bound {
		task.Status = api.Binding
		job.AddTaskInfo(task)
	}
	w.jobs = map[api.JobID]*api.JobInfo{job.UID: job}
	w.open()
}

// TestAReloadThatAddsThePluginAgainKeepsTheClaims: the plugin does not recover again, but claims that are not recovered
// still hold back their pods.
func TestAReloadThatAddsThePluginAgainKeepsTheClaims(t *testing.T) {
	serve(t)
	run(t, append(gpus("n"), left(schedtest.DeviceClaim("c", one()))), func(w *testCluster) {
		fails := w.failing("update", "resourceclaims", errors.New("refused"))
		spec := Spec()
		w.plugin.Close()
		w.plugin = w.build(spec, nil)
		synctest.Wait()
		w.mustRecover()
		w.withoutThePlugin(spec)
		if w.fits(member("p", "c"), "n") == "" {
			t.Error("the pod of a claim that is not recovered is placed")
		}
		fails.Store(false)
		time.Sleep(time.Minute)
		w.untouched("c")
		w.open()
		w.mustPlace(member("p", "c"), "n")
	})
}

// TestAPodThatAnotherPluginPlacedKeepsItsClaim: while the configuration lacked the plugin, another plugin placed a pod
// whose claim is not recovered. The pod is still being bound when the plugin returns, so its claim is not changed.
func TestAPodThatAnotherPluginPlacedKeepsItsClaim(t *testing.T) {
	serve(t)
	p, c := member("p", "c"), left(schedtest.DeviceClaim("c", one()))
	p.Pod.UID = "p"
	c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "p"}}
	run(t, append(gpus("n"), c, p.Pod.DeepCopy()), func(w *testCluster) {
		fails := w.failing("update", "resourceclaims", errors.New("refused"))
		spec := Spec()
		w.plugin.Close()
		w.plugin = w.build(spec, nil)
		synctest.Wait()
		w.mustRecover()
		w.open()
		if refused := w.fits(p, "n"); !strings.Contains(refused, "former scheduler leader") {
			t.Fatalf("before the change of the configuration, the message of its pod is %q", refused)
		}
		w.withoutThePlugin(spec, p)
		fails.Store(false)
		w.kube.ClearActions()
		time.Sleep(time.Minute)
		if users := w.users("c"); len(users) != 1 || strings.Contains(strings.Join(w.calls(), ","), "update") {
			t.Errorf("the pods %v may use it after the calls %v, want p, and no update", users, w.calls())
		}
	})
}
