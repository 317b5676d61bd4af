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

// TestABoundVolumeIsNotGivenAwayBeforeInformersShowIt: claims and volumes come by different watches. Until that of volumes shows a volume
// as reserved it is free for all who look there, and so its claim is held.
func TestABoundVolumeIsNotGivenAwayBeforeInformersShowIt(t *testing.T) {
	objects := with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), schedtest.UnboundClaim("d", "local"), local("v", "n1")})
	run(t, nil, objects, func(w *world) {
		first := member("g-0", "c")
		w.mustPlace(first, "n1")
		show := w.holdBack()
		end := w.preBind(first)
		w.bind("c", "v")
		time.Sleep(time.Minute)
		w.open()
		if w.fits(member("g-1", "d"), "n1") == "" {
			t.Error("the volume of the first claim is given to the second")
		}
		show()
		if err := end(); err != nil {
			t.Error(err)
		}
		w.nothingAssumed()
		w.open()
		if w.fits(member("g-1", "d"), "n1") == "" {
			t.Error("the volume is free")
		}
	})
}

// TestAVolumeThatIsMadeIsAwaited: a pod is not bound before its node's plugins can know the volume, and is at once when they do.
func TestAVolumeThatIsMadeIsAwaited(t *testing.T) {
	run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "made")}), func(w *world) {
		task := member("g-0", "c")
		w.mustPlace(task, "n1")
		end := w.preBind(task)
		show := w.holdBack()
		w.provision("c")
		time.Sleep(time.Minute)
		if w.plugin.volumes.assumptions.of(task.Pod.UID) == nil {
			t.Error("the step has ended, and nobody knows the volume")
		}
		began := time.Now()
		show()
		if err := end(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("the step ended %v after the volume was known", took)
		}
	})
}

// A bind that can no longer succeed does not hold a gang for the whole time limit of the step.
func TestEndOfTheWaitForVolumes(t *testing.T) {
	cases := map[string]struct {
		class     string
		meanwhile func(w *world)
		want      string
	}{
		"the claim has lost its volume": {
			class: "made",
			meanwhile: func(w *world) {
				w.change("c", func(c *v1.PersistentVolumeClaim) {
					boundTo("gone")(c)
					c.Status.Phase = v1.ClaimLost
				})
			},
			want: `claim "c" (storage class "made") has lost its volume "gone"`,
		},
		"the claim is deleted":              {class: "made", meanwhile: func(w *world) { w.remove("c") }, want: `claim "c" (storage class "made") was deleted`},
		"the claim of a volume is deleted":  {class: "local", meanwhile: func(w *world) { w.remove("c") }, want: `claim "c" (storage class "local") was deleted`},
		"the volume is deleted":             {class: "local", meanwhile: func(w *world) { w.removeVolume("v") }, want: `volume "v" of claim "c" (storage class "local") was deleted`},
		"the volume is taken back":          {class: "local", meanwhile: func(w *world) { w.setVolume("v", func(v *v1.PersistentVolume) { v.Spec.ClaimRef = nil }) }, want: `volume "v" is no longer reserved for claim "c" (storage class "local")`},
		"the node is gone":                  {class: "made", meanwhile: func(w *world) { w.removeNode("n1") }, want: `node n1 no longer exists`},
		"the pod is gone":                   {class: "made", meanwhile: func(w *world) { w.removePod("g-0") }, want: `pod "g-0" not found`},
		"the volume is made out of reach":   {class: "made", meanwhile: func(w *world) { w.provisionOn("c", "n2") }, want: `volume "made-for-c" of claim "c" (storage class "made"): the node cannot access it`},
		"the claim is recreated, and bound": {class: "local", meanwhile: func(w *world) { w.remake("c"); w.bind("c", "v") }, want: `claim "c" (storage class "local") was deleted and recreated`},
		"the claim is recreated":            {class: "local", meanwhile: func(w *world) { w.remake("c") }, want: `claim "c" (storage class "local") was deleted and recreated`},
		"the claim is bound to a volume that the node does not reach": {
			class:     "local",
			meanwhile: func(w *world) { w.bind("c", "far") },
			want:      `volume "far" of claim "c" (storage class "local"): the node cannot access it`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := with(someNodes("n1", "n2"), []runtime.Object{schedtest.UnboundClaim("c", tc.class), local("v", "n1"), local("far", "n2")})
			run(t, nil, objects, func(w *world) {
				task := member("g-0", "c")
				w.mustPlace(task, "n1")
				end, began := w.preBind(task), time.Now()
				tc.meanwhile(w)
				err := end()
				if err == nil || err.Error() != tc.want {
					t.Errorf("the step: %v, want %s", err, tc.want)
				}
				if took := time.Since(began); took > 0 {
					t.Errorf("the step took %v", took)
				}
				w.rollBack(task)
				w.nothingAssumed()
			})
		})
	}
}

// TestABoundClaimsDeletedVolumeEndsTheStep: nothing wakes the step for a claim that was bound before, so it must not wait for its volume.
func TestABoundClaimsDeletedVolumeEndsTheStep(t *testing.T) {
	volume, claim := local("v", "n1"), schedtest.UnboundClaim("c", "local")
	schedtest.BindVolume(claim, volume)
	run(t, nil, with(someNodes("n1"), []runtime.Object{claim, volume, schedtest.UnboundClaim("d", "made")}), func(w *world) {
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

// TestAClaimThatIsBoundBeforeTheStep: no further event of the claim arrives, so the step must look before it waits.
func TestAClaimThatIsBoundBeforeTheStep(t *testing.T) {
	run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), local("v", "n1")}), func(w *world) {
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

// TestAllOfThemAreAwaited: one bound claim of several is not all.
func TestAllOfThemAreAwaited(t *testing.T) {
	objects := with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), schedtest.UnboundClaim("d", "made"), local("v", "n1")})
	for first, second := range map[string]string{"c": "d", "d": "c"} {
		t.Run(first+" first", func(t *testing.T) {
			run(t, nil, objects, func(w *world) {
				bind := map[string]func(){"c": func() { w.bind("c", "v") }, "d": func() { w.provision("d") }}
				task := member("g-0", "c", "d")
				w.mustPlace(task, "n1")
				end := w.preBind(task)
				bind[first]()
				time.Sleep(10 * time.Second)
				if w.plugin.volumes.assumptions.of(task.Pod.UID) == nil {
					t.Fatalf("the step has ended, and claim %s is not bound", second)
				}
				bind[second]()
				if err := end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestABoundClaimThatIsDeletedEndsTheWait: claims that were bound when the pod was placed are looked at, too.
func TestABoundClaimThatIsDeletedEndsTheWait(t *testing.T) {
	cases := map[string]struct {
		meanwhile func(w *world)
		want      string
	}{
		"deleted":         {func(w *world) { w.remove("b") }, `claim "b" (storage class "local") was deleted`},
		"recreated":       {func(w *world) { w.remake("b") }, `claim "b" (storage class "local") was deleted and recreated`},
		"no longer bound": {func(w *world) { w.change("b", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "" }) }, `claim "b" (storage class "local") is no longer bound`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := with(someNodes("n1"), []runtime.Object{claimLike("b", "local", boundTo("v")), local("v", "n1"), schedtest.UnboundClaim("c", "made")})
			run(t, nil, objects, func(w *world) {
				task := member("g-0", "b", "c")
				w.mustPlace(task, "n1")
				end := w.preBind(task)
				tc.meanwhile(w)
				w.change("c", func(c *v1.PersistentVolumeClaim) { c.Labels = map[string]string{"an": "event"} })
				if err := end(); err == nil || err.Error() != tc.want {
					t.Errorf("the step: %v, want %s", err, tc.want)
				}
			})
		})
	}
}

// TestTheEndOfAStepEndsItsWait: the step's own wait ends with it.
func TestTheEndOfAStepEndsItsWait(t *testing.T) {
	run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "made")}), func(w *world) {
		task := member("g-0", "c")
		w.mustPlace(task, "n1")
		a := w.plugin.volumes.assumptions.beginPreBind(task.Pod.UID)
		ctx, cancel := context.WithCancel(w.t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.plugin.volumes.bind(ctx, task.Pod, a) }()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("the wait is over: %v", err)
		default:
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the wait ends with %v", err)
		}
	})
}

func (w *world) removeVolume(name string) {
	w.t.Helper()
	if err := w.kube.CoreV1().PersistentVolumes().Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) removeNode(name string) {
	w.t.Helper()
	if err := w.kube.CoreV1().Nodes().Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) removePod(name string) {
	w.t.Helper()
	if err := w.kube.CoreV1().Pods(schedtest.Namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// remake replaces the claim by another one of the same name. No informer sees that there was none in between.
func (w *world) remake(name string) {
	w.t.Helper()
	anew := w.claim(name)
	anew.UID, anew.Annotations = "another", nil
	if err := w.kube.Tracker().Update(v1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), anew, anew.Namespace); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// provisionOn makes the claim's volume on another node than was asked for.
func (w *world) provisionOn(claim, node string) {
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
