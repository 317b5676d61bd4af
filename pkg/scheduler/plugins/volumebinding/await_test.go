// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestABoundVolumeIsNotGivenAwayBeforeInformersShowIt: claims and volumes have separate watches. Until the watch of
// volumes shows the reservation, the volume looks free to the plugin, so the claim stays held.
func TestABoundVolumeIsNotGivenAwayBeforeInformersShowIt(t *testing.T) {
	objects := with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), schedtest.UnboundClaim("d", "local"), local("v", "n1")})
	run(t, nil, objects, func(w *testCluster) {
		first := member("g-0", "c")
		w.mustPlace(first, "n1")
		show := w.holdBack()
		end := w.preBind(first)
		w.bind("c", "v")
		time.Sleep(time.Minute)
		w.open()
		if w.fits(member("g-1", "d"), "n1") == "" {
			t.Error("the second claim gets the volume of the first")
		}
		show()
		if err := end(); err != nil {
			t.Error(err)
		}
		w.nothingAssumed()
		w.open()
		if w.fits(member("g-1", "d"), "n1") == "" {
			t.Error("the second claim gets the bound volume")
		}
	})
}

// TestAVolumeThatIsMadeIsAwaited: the step ends as soon as informers show the new volume, and not before.
func TestAVolumeThatIsMadeIsAwaited(t *testing.T) {
	run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "made")}), func(w *testCluster) {
		task := member("g-0", "c")
		w.mustPlace(task, "n1")
		end := w.preBind(task)
		show := w.holdBack()
		w.provision("c")
		time.Sleep(time.Minute)
		if w.plugin.volumes.assumptions.of(task.Pod.UID) == nil {
			t.Error("the step has ended before informers showed the volume")
		}
		began := time.Now()
		show()
		if err := end(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the step ended %v after informers showed the volume", took)
		}
	})
}

// TestEndOfTheWaitForVolumes: a bind that can no longer succeed does not hold a gang for the whole time limit of the
// step.
func TestEndOfTheWaitForVolumes(t *testing.T) {
	cases := map[string]struct {
		class     string
		meanwhile func(w *testCluster)
		want      string
	}{
		"the claim has lost its volume": {
			class: "made",
			meanwhile: func(w *testCluster) {
				w.change("c", func(c *v1.PersistentVolumeClaim) {
					boundTo("gone")(c)
					c.Status.Phase = v1.ClaimLost
				})
			},
			want: `claim "c" (storage class "made") has lost its volume "gone"`,
		},
		"the claim is deleted":              {class: "made", meanwhile: func(w *testCluster) { w.remove("c") }, want: `claim "c" (storage class "made") was deleted`},
		"the claim of a volume is deleted":  {class: "local", meanwhile: func(w *testCluster) { w.remove("c") }, want: `claim "c" (storage class "local") was deleted`},
		"the volume is deleted":             {class: "local", meanwhile: func(w *testCluster) { w.removeVolume("v") }, want: `volume "v" of claim "c" (storage class "local") was deleted`},
		"the volume is taken back":          {class: "local", meanwhile: func(w *testCluster) { w.setVolume("v", func(v *v1.PersistentVolume) { v.Spec.ClaimRef = nil }) }, want: `volume "v" is no longer reserved for claim "c" (storage class "local")`},
		"the node is gone":                  {class: "made", meanwhile: func(w *testCluster) { w.removeNode("n1") }, want: `node n1 no longer exists`},
		"the pod is gone":                   {class: "made", meanwhile: func(w *testCluster) { w.removePod("g-0") }, want: `pod "g-0" not found`},
		"the volume is made out of reach":   {class: "made", meanwhile: func(w *testCluster) { w.provisionOn("c", "n2") }, want: `volume "made-for-c" of claim "c" (storage class "made"): the node cannot access it`},
		"the claim is recreated, and bound": {class: "local", meanwhile: func(w *testCluster) { w.remake("c"); w.bind("c", "v") }, want: `claim "c" (storage class "local") was deleted and recreated`},
		"the claim is recreated":            {class: "local", meanwhile: func(w *testCluster) { w.remake("c") }, want: `claim "c" (storage class "local") was deleted and recreated`},
		"the claim is bound to a volume that the node does not reach": {
			class:     "local",
			meanwhile: func(w *testCluster) { w.bind("c", "far") },
			want:      `volume "far" of claim "c" (storage class "local"): the node cannot access it`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := with(someNodes("n1", "n2"), []runtime.Object{schedtest.UnboundClaim("c", tc.class), local("v", "n1"), local("far", "n2")})
			run(t, nil, objects, func(w *testCluster) {
				task := member("g-0", "c")
				w.mustPlace(task, "n1")
				end, began := w.preBind(task), time.Now()
				tc.meanwhile(w)
				err := end()
				if err == nil || err.Error() != tc.want {
					t.Errorf("the step returned %v, want %s", err, tc.want)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("the step took %v, want it to end at once", took)
				}
				w.rollBack(task)
				w.nothingAssumed()
			})
		})
	}
}

// TestABoundClaimsDeletedVolumeEndsTheStep: no event wakes the step for a claim that was bound before, so it must not
// wait for the claim's volume.
func TestABoundClaimsDeletedVolumeEndsTheStep(t *testing.T) {
	volume, claim := local("v", "n1"), schedtest.UnboundClaim("c", "local")
	schedtest.BindVolume(claim, volume)
	run(t, nil, with(someNodes("n1"), []runtime.Object{claim, volume, schedtest.UnboundClaim("d", "made")}), func(w *testCluster) {
		task := member("g-0", "c", "d")
		w.mustPlace(task, "n1")
		end, began := w.preBind(task), time.Now()
		w.removeVolume("v")
		w.provision("d")
		want := `volume "v" of claim "c" (storage class "local") was deleted`
		if err := end(); err == nil || err.Error() != want || time.Since(began) > 0 {
			t.Errorf("the step ended after %v: %v, want %s at once", time.Since(began), err, want)
		}
	})
}

// TestAClaimThatIsBoundBeforeTheStep: no further event of the claim arrives, so the step must check the claim before it
// waits.
func TestAClaimThatIsBoundBeforeTheStep(t *testing.T) {
	run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), local("v", "n1")}), func(w *testCluster) {
		first, second := member("g-0", "c"), member("g-1", "c")
		w.mustPlace(first, "n1")
		w.mustPlace(second, "n1")
		end := w.preBind(first)
		w.bind("c", "v")
		if err := end(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := w.preBind(second)(); err != nil || time.Since(began) > 0 {
			t.Errorf("the second step took %v: %v", time.Since(began), err)
		}
		w.nothingAssumed()
	})
}

// TestAllOfThemAreAwaited checks that the step waits until all claims are bound, not only one.
func TestAllOfThemAreAwaited(t *testing.T) {
	objects := with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), schedtest.UnboundClaim("d", "made"), local("v", "n1")})
	for first, second := range map[string]string{"c": "d", "d": "c"} {
		t.Run(first+" first", func(t *testing.T) {
			run(t, nil, objects, func(w *testCluster) {
				bind := map[string]func(){"c": func() { w.bind("c", "v") }, "d": func() { w.provision("d") }}
				task := member("g-0", "c", "d")
				w.mustPlace(task, "n1")
				end := w.preBind(task)
				bind[first]()
				time.Sleep(10 * time.Second)
				if w.plugin.volumes.assumptions.of(task.Pod.UID) == nil {
					t.Fatalf("the step has ended although claim %s is not bound", second)
				}
				bind[second]()
				if err := end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestABoundClaimThatIsDeletedEndsTheWait checks that the step also watches claims that were bound when the pod was
// placed.
func TestABoundClaimThatIsDeletedEndsTheWait(t *testing.T) {
	cases := map[string]struct {
		meanwhile func(w *testCluster)
		want      string
	}{
		"deleted":         {func(w *testCluster) { w.remove("b") }, `claim "b" (storage class "local") was deleted`},
		"recreated":       {func(w *testCluster) { w.remake("b") }, `claim "b" (storage class "local") was deleted and recreated`},
		"no longer bound": {func(w *testCluster) { w.change("b", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "" }) }, `claim "b" (storage class "local") is no longer bound`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := with(someNodes("n1"), []runtime.Object{claimLike("b", "local", boundTo("v")), local("v", "n1"), schedtest.UnboundClaim("c", "made")})
			run(t, nil, objects, func(w *testCluster) {
				task := member("g-0", "b", "c")
				w.mustPlace(task, "n1")
				end := w.preBind(task)
				tc.meanwhile(w)
				w.change("c", func(c *v1.PersistentVolumeClaim) { c.Labels = map[string]string{"an": "event"} })
				if err := end(); err == nil || err.Error() != tc.want {
					t.Errorf("the step returned %v, want %s", err, tc.want)
				}
			})
		})
	}
}

// TestTheEndOfAStepEndsItsWait checks that the wait for the volumes ends with the step's context.
func TestTheEndOfAStepEndsItsWait(t *testing.T) {
	run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "made")}), func(w *testCluster) {
		task := member("g-0", "c")
		w.mustPlace(task, "n1")
		a := w.plugin.volumes.assumptions.beginPreBind(task.Pod.UID)
		ctx, cancel := context.WithCancel(w.t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.plugin.volumes.bind(ctx, task.Pod, a) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("the wait ended before its context: %v", err)
		default:
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the wait ended with %v", err)
		}
	})
}

func (w *testCluster) removeVolume(name string) {
	w.t.Helper()
	if err := w.kube.CoreV1().PersistentVolumes().Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *testCluster) removeNode(name string) {
	w.t.Helper()
	if err := w.kube.CoreV1().Nodes().Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *testCluster) removePod(name string) {
	w.t.Helper()
	if err := w.kube.CoreV1().Pods(schedtest.Namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// remake replaces the claim by another one of the same name. Informers see no deletion in between.
func (w *testCluster) remake(name string) {
	w.t.Helper()
	recreated := w.claim(name)
	recreated.UID, recreated.Annotations = "another", nil
	if err := w.kube.Tracker().Update(v1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), recreated, recreated.Namespace); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// provisionOn creates the claim's volume on another node than the selected one.
func (w *testCluster) provisionOn(claim, node string) {
	w.t.Helper()
	c := w.claim(claim)
	made := schedtest.FreeVolume("made-for-"+claim, *c.Spec.StorageClassName, node)
	made.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID}
	if _, err := w.kube.CoreV1().PersistentVolumes().Create(w.t.Context(), made, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.change(claim, func(c *v1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase = made.Name, v1.ClaimBound
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnBindCompleted, "yes")
	})
}
