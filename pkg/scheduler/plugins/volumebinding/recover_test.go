// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-helpers/storage/volume"
	"volcano.sh/volcano/cmd/scheduler/app/options"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestRecover checks that recovery withdraws the selected nodes and reservations of a former leader for pods that it
// did not bind, and nothing else.
func TestRecover(t *testing.T) {
	former := options.ServerOpts
	defer func() { options.ServerOpts = former }()
	options.ServerOpts = &options.ServerOption{SchedulerNames: []string{schedtest.SchedulerName}}
	selected := func(mark string) func(*v1.PersistentVolumeClaim) {
		return func(c *v1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{volume.AnnSelectedNode: "n1"}
			if mark != "" {
				c.Annotations[SchedulerAnnotation] = mark
			}
		}
	}
	reserved := func(mark string, phase v1.PersistentVolumePhase) *v1.PersistentVolume {
		v := local("v", "n1")
		claim := schedtest.UnboundClaim("c", "local")
		v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
		v.Annotations = map[string]string{SchedulerAnnotation: mark, ClaimAnnotation: string(claim.UID), volume.AnnBoundByController: "yes"}
		v.Status.Phase = phase
		return v
	}
	waits := schedtest.MakePod().Group("g").Name("g-0").Volume("c").Obj()
	runs := schedtest.MakePod().Group("g").Name("g-1").Volume("c").Node("n1").Phase(v1.PodRunning).Obj()
	ended := schedtest.MakePod().Group("g").Name("g-2").Volume("c").Node("n1").Phase(v1.PodSucceeded).Obj()
	cases := map[string]struct {
		objects []runtime.Object
		keeps   bool
	}{
		"a selected node of a pod that waits":        {objects: []runtime.Object{claimLike("c", "made", selected(schedtest.SchedulerName)), waits}},
		"a selected node without a pod":              {objects: []runtime.Object{claimLike("c", "made", selected(schedtest.SchedulerName))}},
		"a selected node of a pod that has ended":    {objects: []runtime.Object{claimLike("c", "made", selected(schedtest.SchedulerName)), ended}},
		"a selected node of a pod that is bound":     {objects: []runtime.Object{claimLike("c", "made", selected(schedtest.SchedulerName)), waits, runs}, keeps: true},
		"a selected node of another scheduler":       {objects: []runtime.Object{claimLike("c", "made", selected("other")), waits}, keeps: true},
		"a selected node without a mark":             {objects: []runtime.Object{claimLike("c", "made", selected("")), waits}, keeps: true},
		"a volume reserved for a pod that waits":     {objects: []runtime.Object{schedtest.UnboundClaim("c", "local"), reserved(schedtest.SchedulerName, v1.VolumeAvailable), waits}},
		"a volume reserved for a claim that is gone": {objects: []runtime.Object{schedtest.UnboundClaim("c", "other"), reserved(schedtest.SchedulerName, v1.VolumeAvailable)}},
		"a volume reserved for a pod that is bound":  {objects: []runtime.Object{schedtest.UnboundClaim("c", "local"), reserved(schedtest.SchedulerName, v1.VolumeAvailable), runs}, keeps: true},
		"a volume that is bound":                     {objects: []runtime.Object{schedtest.UnboundClaim("c", "local"), reserved(schedtest.SchedulerName, v1.VolumeBound), waits}, keeps: true},
		"a volume that is released":                  {objects: []runtime.Object{reserved(schedtest.SchedulerName, v1.VolumeReleased)}, keeps: true},
		"a volume of another scheduler":              {objects: []runtime.Object{schedtest.UnboundClaim("c", "local"), reserved("other", v1.VolumeAvailable), waits}, keeps: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, nil, with(someNodes("n1"), tc.objects), func(w *testCluster) {
				if err := w.plugin.Recover(w.t.Context()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				written := w.written()
				if keeps := len(written) == 0; keeps != tc.keeps {
					t.Fatalf("wrote %v, want no writes: %v", written, tc.keeps)
				}
				if events := w.events.Take(); len(events) > 0 {
					t.Errorf("events %q", events)
				}
				if tc.keeps {
					return
				}
				w.untouched("c", "")
				volumes, err := w.kube.CoreV1().PersistentVolumes().List(w.t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range volumes.Items {
					w.untouched("c", v.Name)
				}
				if err := w.plugin.Recover(w.t.Context()); err != nil || len(w.written()) > 0 {
					t.Errorf("the second recovery wrote something or returned %v", err)
				}
			})
		})
	}
}

// TestWritesAreRecovered checks that recovery finds the annotations that the step writes.
func TestWritesAreRecovered(t *testing.T) {
	former := options.ServerOpts
	defer func() { options.ServerOpts = former }()
	options.ServerOpts = &options.ServerOption{SchedulerNames: []string{schedtest.SchedulerName}}
	for name, own := range map[string]string{"alone": "", "among several of its name": "scheduler-1"} {
		t.Run(name, func(t *testing.T) {
			if own != "" {
				t.Setenv("MULTI_SCHEDULER_ENABLE", "true")
				t.Setenv("SCHEDULER_POD_NAME", own)
			}
			objects := with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), schedtest.UnboundClaim("d", "made"), local("v", "n1")})
			run(t, map[string]any{bindTimeoutArgument: 1}, objects, func(w *testCluster) {
				task := member("g-0", "c", "d")
				w.mustPlace(task, "n1")
				if err := w.preBind(task)(); err == nil { // then the scheduler crashes
					t.Fatal("the step succeeded, want an error")
				}
				if own != "" {
					t.Setenv("SCHEDULER_POD_NAME", "scheduler-2")
					if err := w.plugin.Recover(w.t.Context()); err != nil || w.volume("v").Spec.ClaimRef == nil {
						t.Errorf("another scheduler of that name withdrew the reservation, or its recovery failed: %v", err)
					}
					t.Setenv("SCHEDULER_POD_NAME", own)
				}
				if err := w.plugin.Recover(w.t.Context()); err != nil {
					t.Fatal(err)
				}
				w.untouched("c", "v")
				w.untouched("d", "")
			})
		})
	}
}

// TestUnread: a scheduler without permission to read all resources reports the missing ones, in the error of the
// recovery and in the messages of pods with claims.
func TestUnread(t *testing.T) {
	run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "made")}), func(w *testCluster) {
		forbidden := func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(storagev1.Resource("csidrivers"), "", errors.New("no role"))
		}
		w.kube.PrependReactor("list", "csidrivers", forbidden)
		ctx, end := context.WithCancel(w.t.Context())
		factory := informers.NewSharedInformerFactory(w.kube, time.Hour)
		defer factory.Shutdown()
		defer end()
		w.plugin = w.build(Spec(), nil, factory)
		factory.Start(ctx.Done())
		synctest.Wait()
		w.open()
		if got, want := w.fits(member("g-0", "c"), "n1"), "the scheduler has not read all csidrivers yet"; got != want {
			t.Errorf("the pod's message is %q, want %q", got, want)
		}
		reload, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := w.plugin.Recover(reload); err == nil || !strings.HasPrefix(err.Error(), "csidrivers cannot be read; allow the scheduler to list and watch them: ") {
			t.Errorf("the recovery returned %v", err)
		}
	})
}

// TestRecoverReadsTheAPIServer checks that recovery withdraws the former leader's last writes, which informers may not
// show yet.
func TestRecoverReadsTheAPIServer(t *testing.T) {
	former := options.ServerOpts
	defer func() { options.ServerOpts = former }()
	options.ServerOpts = &options.ServerOption{SchedulerNames: []string{schedtest.SchedulerName}}
	run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c", "local"), local("v", "n1")}), func(w *testCluster) {
		defer w.holdBack()()
		claim := w.claim("c")
		w.setVolume("v", func(v *v1.PersistentVolume) {
			v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
			v.Annotations = map[string]string{SchedulerAnnotation: schedtest.SchedulerName, ClaimAnnotation: string(claim.UID), volume.AnnBoundByController: "yes"}
		})
		if err := w.plugin.Recover(w.t.Context()); err != nil {
			t.Fatal(err)
		}
		w.untouched("c", "v")
	})
}
