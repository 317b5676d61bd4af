// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-helpers/storage/volume"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// serve sets the tests' scheduler name as the process's own.
func serve(t *testing.T) {
	former := options.ServerOpts
	t.Cleanup(func() { options.ServerOpts = former })
	options.ServerOpts = &options.ServerOption{SchedulerNames: []string{schedtest.SchedulerName}}
}

// leftClaim returns a claim for which a former leader selected a node.
func leftClaim(name string) *v1.PersistentVolumeClaim {
	return claimLike(name, "made", func(c *v1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{volume.AnnSelectedNode: "n1", SchedulerAnnotation: schedtest.SchedulerName}
	})
}

// leftVolume returns a volume that a former leader reserved for the claim.
func leftVolume(name string, claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	v := local(name, "n1")
	v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	v.Annotations = map[string]string{SchedulerAnnotation: schedtest.SchedulerName, ClaimAnnotation: string(claim.UID), volume.AnnBoundByController: "yes"}
	return v
}

// failing makes API calls fail while the returned value is true.
func (w *testCluster) failing(verb, resource string, err error) *atomic.Bool {
	fails := &atomic.Bool{}
	fails.Store(true)
	w.kube.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return fails.Load(), nil, err })
	return fails
}

// mustRecover fails the test if the recovery returns an error, which would prevent sessions, or takes too long.
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
	conflict := apierrors.NewConflict(v1.Resource("persistentvolumeclaims"), "c", errors.New("the tenant patched it"))
	denied := apierrors.NewForbidden(v1.Resource("persistentvolumeclaims"), "c", errors.New("policy says no "+strings.Repeat("x", 5000)))
	cases := map[string]struct {
		verb, resource string
		err            error
		reserved       bool
		want           string
	}{
		"a tenant patches it": {verb: "update", resource: "persistentvolumeclaims", err: conflict,
			want: `claim "c" (storage class "made"): the write of a former scheduler leader could not be withdrawn yet; the scheduler retries it; last error: Operation cannot be fulfilled on persistentvolumeclaims "c": the tenant patched it`},
		"a policy rejects it":                   {verb: "update", resource: "persistentvolumeclaims", err: denied},
		"its pods cannot be listed":             {verb: "list", resource: "pods", err: errors.New("the list is too large")},
		"its volume cannot be written":          {verb: "update", resource: "persistentvolumes", err: conflict, reserved: true},
		"its volume, and pods cannot be listed": {verb: "list", resource: "pods", err: errors.New("the list is too large"), reserved: true},
		"its volume, and claims cannot be read": {verb: "get", resource: "persistentvolumeclaims", err: errors.New("the API server is away"), reserved: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{leftClaim("c"), schedtest.UnboundClaim("d", "made")}
			if tc.reserved {
				c := schedtest.UnboundClaim("c", "local")
				objects = []runtime.Object{c, leftVolume("v", c), schedtest.UnboundClaim("d", "made")}
			}
			run(t, nil, with(someNodes("n1"), objects), func(w *testCluster) {
				fails := w.failing(tc.verb, tc.resource, tc.err)
				w.mustRecover()
				w.open()
				own := member("g-0", "c")
				refused := w.fits(own, "n1")
				if !strings.Contains(refused, "former scheduler leader") || len(refused) > 1024 || tc.want != "" && refused != tc.want {
					t.Errorf("the message of its pod is %q, want %q", refused, tc.want)
				}
				if refused := w.fits(member("h-0", "d"), "n1"); refused != "" {
					t.Errorf("a pod of another claim is refused: %s", refused)
				}
				time.Sleep(10 * time.Minute)
				w.open()
				if w.fits(own, "n1") == "" {
					t.Error("the claim's pod is placed before the claim is recovered")
				}
				fails.Store(false)
				w.woken.Store(0)
				time.Sleep(2 * time.Minute)
				if w.woken.Load() == 0 {
					t.Error("no session is requested for the pods that waited")
				}
				if tc.reserved {
					w.untouched("c", "v")
				} else {
					w.untouched("c", "")
				}
				w.open()
				w.mustPlace(own, "n1")
			})
		})
	}
}

// TestAnUnrecoveredClaimSharesNoResult: equal claims share a cached result, but a pod with a claim that is not
// recovered is rejected.
func TestAnUnrecoveredClaimSharesNoResult(t *testing.T) {
	serve(t)
	c := schedtest.UnboundClaim("c", "local")
	v := leftVolume("v", c)
	v.Spec.StorageClassName = "other" // so that the volume does not distinguish the claims
	run(t, nil, with(someNodes("n1"), []runtime.Object{c, v, schedtest.UnboundClaim("d", "local")}), func(w *testCluster) {
		w.failing("update", "persistentvolumes", errors.New("refused"))
		w.mustRecover()
		w.open()
		key := func(claim string) string {
			pod := member("g-"+claim, claim).Pod
			return w.session.SignVolume(pod, &pod.Spec.Volumes[0])
		}
		if key("c") != "named c" || key("d") == "named d" {
			t.Errorf("the signatures are %q and %q", key("c"), key("d"))
		}
	})
}

// TestALargeNamespaceDoesNotDelayOthers: pods are listed page by page, and claims of other namespaces are recovered
// meanwhile.
func TestALargeNamespaceDoesNotDelayOthers(t *testing.T) {
	serve(t)
	var objects []runtime.Object
	for i := range 100 {
		c := leftClaim(fmt.Sprint("c", i))
		c.Namespace = "a-large-one"
		objects = append(objects, c)
	}
	run(t, nil, with(someNodes("n1"), objects, []runtime.Object{leftClaim("c")}), func(w *testCluster) {
		w.kube.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if limit := action.(clienttesting.ListActionImpl).ListOptions.Limit; limit == 0 || limit > 100 {
				t.Errorf("a page of pods may have %d pods, want 1 to 100", limit)
			}
			if action.GetNamespace() == "a-large-one" {
				return true, nil, errors.New("context deadline exceeded")
			}
			return false, nil, nil
		})
		w.mustRecover()
		w.untouched("c", "")
		w.open()
		w.mustPlace(member("g-0", "c"), "n1")
	})
}

// TestALeftClaimIsReadAgain checks that each attempt to recover a claim reads it again.
func TestALeftClaimIsReadAgain(t *testing.T) {
	serve(t)
	cases := map[string]struct {
		meanwhile func(w *testCluster)
		want      string
		writes    bool
	}{
		"it is deleted": {meanwhile: func(w *testCluster) { w.remove("c") }, want: `claim "c" of the pod's volume "c" does not exist`},
		"it is created again": {meanwhile: func(w *testCluster) {
			w.remove("c")
			if _, err := w.kube.CoreV1().PersistentVolumeClaims(schedtest.Namespace).Create(w.t.Context(), schedtest.UnboundClaim("c", "made"), metav1.CreateOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}},
		"its mark is removed": {meanwhile: func(w *testCluster) {
			w.change("c", func(c *v1.PersistentVolumeClaim) { delete(c.Annotations, SchedulerAnnotation) })
		}},
		"a bound pod uses it": {meanwhile: func(w *testCluster) {
			if err := w.kube.Tracker().Add(schedtest.MakePod().Group("g").Name("g-1").Volume("c").Node("n1").Phase(v1.PodRunning).Obj()); err != nil {
				w.t.Fatal(err)
			}
		}},
		"nothing": {meanwhile: func(*testCluster) {}, writes: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, nil, with(someNodes("n1"), []runtime.Object{leftClaim("c")}), func(w *testCluster) {
				fails := w.failing("update", "persistentvolumeclaims", errors.New("refused"))
				w.mustRecover()
				fails.Store(false)
				tc.meanwhile(w)
				w.kube.ClearActions()
				time.Sleep(time.Minute)
				if written := w.written(); (len(written) > 0) != tc.writes {
					t.Errorf("wrote %v, want writes %v", written, tc.writes)
				}
				w.open()
				if got := w.fits(member("g-0", "c"), "n1"); got != tc.want {
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
	run(t, nil, with(someNodes("n1"), []runtime.Object{leftClaim("c")}), func(w *testCluster) {
		fails := w.failing("update", "persistentvolumeclaims", errors.New("refused"))
		spec := Spec()
		former := w.build(spec, nil, w.factory)
		w.plugin = former
		w.mustRecover()
		w.plugin = w.build(spec, nil, w.factory)
		former.Close()
		w.open()
		if w.fits(member("g-0", "c"), "n1") == "" {
			t.Error("the new configuration places the claim's pod")
		}
		fails.Store(false)
		time.Sleep(2 * time.Minute)
		w.untouched("c", "")
		w.open()
		w.mustPlace(member("g-0", "c"), "n1")
	})
}

// TestAReloadThatAddsThePluginAgainKeepsTheClaims: an instance of the plugin that a reload adds does not recover again,
// but retries the claims that are not recovered. If a pod that another plugin placed meanwhile is still being bound,
// its claim keeps the selected node.
func TestAReloadThatAddsThePluginAgainKeepsTheClaims(t *testing.T) {
	serve(t)
	for name, tc := range map[string]struct {
		bound bool
		want  string
	}{
		"no pod is being bound":      {},
		"a pod of it is being bound": {bound: true, want: "n1"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := member("g-0", "c")
			run(t, nil, with(someNodes("n1"), []runtime.Object{leftClaim("c"), pod.Pod.DeepCopy()}), func(w *testCluster) {
				fails := w.failing("update", "persistentvolumeclaims", errors.New("refused"))
				spec := Spec()
				w.plugin.Close()
				w.plugin = w.build(spec, nil, w.factory)
				w.mustRecover()
				w.plugin.Close()
				time.Sleep(time.Hour)
				w.plugin = w.build(spec, nil, w.factory)
				if tc.bound {
					pod.Status = api.Binding
				}
				job := api.NewJobInfo("g", pod)
				w.jobs = map[api.JobID]*api.JobInfo{job.UID: job}
				w.open()
				if w.fits(member("h-0", "c"), "n1") == "" {
					t.Error("another pod with the claim is placed")
				}
				fails.Store(false)
				time.Sleep(time.Minute)
				claim, err := w.kube.CoreV1().PersistentVolumeClaims(schedtest.Namespace).Get(t.Context(), "c", metav1.GetOptions{})
				if err != nil {
					t.Fatal(err)
				}
				if node := claim.Annotations[volume.AnnSelectedNode]; node != tc.want {
					t.Errorf("the claim's selected node is %q, want %q", node, tc.want)
				}
			})
		})
	}
}
