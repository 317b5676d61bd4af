// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// lag delays the informers' events of claims until the returned function is called.
func (w *testCluster) lag() (end func()) {
	delivered := make(chan struct{})
	w.delivered.Store(&delivered)
	return func() {
		close(delivered)
		synctest.Wait()
	}
}

// gap runs the function meanwhile, and makes the informers miss the changes of claims that it causes. Then the
// informers list all claims again.
func (w *testCluster) gap(meanwhile func()) {
	w.missed.Store(true)
	meanwhile()
	synctest.Wait()
	w.missed.Store(false)
	w.expired <- struct{}{}
	time.Sleep(time.Minute) // informers wait before they list again
	synctest.Wait()
}

func (w *testCluster) watchClaims(action clienttesting.Action) (bool, watch.Interface, error) {
	watched := action.(clienttesting.WatchActionImpl)
	claims, err := w.kube.Tracker().Watch(watched.Resource, watched.Namespace, watched.ListOptions)
	if err != nil {
		return true, nil, err
	}
	events := make(chan watch.Event)
	late := watch.NewProxyWatcher(events)
	go func() {
		defer claims.Stop()
		for {
			select {
			case <-w.expired:
				events <- watch.Event{Type: watch.Error, Object: &apierrors.NewResourceExpired("too old").ErrStatus}
				return
			case event := <-claims.ResultChan():
				<-*w.delivered.Load()
				if w.missed.Load() {
					continue
				}
				select {
				case events <- event:
				case <-late.StopChan():
					return
				}
			case <-late.StopChan():
				return
			}
		}
	}()
	return true, late, nil
}

// TestWritesCountBeforeInformersDeliverThem: a pod with a shared claim was bound, but informers do not show the
// allocation yet. No other claim gets these devices, and further pods with the shared claim use them.
func TestWritesCountBeforeInformersDeliverThem(t *testing.T) {
	for name, meanwhile := range map[string]func(w *testCluster, p1 *api.TaskInfo){
		"another pod comes to share it": func(w *testCluster, p1 *api.TaskInfo) {
			w.mustPlace(p1, "n")
		},
		"another pod is placed by it, and taken back": func(w *testCluster, p1 *api.TaskInfo) {
			w.mustPlace(p1, "n")
			w.take(p1)
		},
		"the other member is rolled back": func(w *testCluster, p1 *api.TaskInfo) {
			w.mustPlace(p1, "n")
			w.mustPreBind(p1)
			w.rollBack(p1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p0, p1, p2 := member("p0", "shared"), member("p1", "shared"), member("p2", "made t")
			run(t, append(gpus("n"), schedtest.DeviceClaim("shared", one()), made(p2, "t", one())), func(w *testCluster) {
				end := w.lag()
				defer end()
				w.mustPlace(p0, "n")
				w.mustPreBind(p0)
				w.plugin.bound(w.t.Context(), p0, "n")
				w.open()
				meanwhile(w, p1)
				w.mustPlace(p2, "n")
				for claim, want := range map[string][]string{"shared": {"gpu-0"}, "p2-t": {"gpu-1"}} {
					if diff := cmp.Diff(want, w.devicesOf(claim)); diff != "" {
						t.Errorf("devices of claim %s (-want +got):\n%s", claim, diff)
					}
				}
			})
		})
	}
}

// TestTheOtherMemberIsRolledBackAfterTheFirstIsBound checks that no other pod gets the devices of the bound member.
func TestTheOtherMemberIsRolledBackAfterTheFirstIsBound(t *testing.T) {
	p0, p1, p2 := member("p0", "shared"), member("p1", "shared"), member("p2", "made t")
	run(t, append(gpus("n"), schedtest.DeviceClaim("shared", one()), made(p2, "t", one())), func(w *testCluster) {
		end := w.lag()
		defer end()
		w.mustPlace(p0, "n")
		w.mustPlace(p1, "n")
		w.mustPreBind(p0)
		w.mustPreBind(p1)
		w.plugin.bound(w.t.Context(), p0, "n")
		w.rollBack(p1)
		w.mustPlace(p2, "n")
		if diff := cmp.Diff([]string{"gpu-1"}, w.devicesOf("p2-t")); diff != "" {
			t.Errorf("devices (-want +got):\n%s", diff)
		}
	})
}

// TestAPodPlacedAgainBeforeInformersDeliver checks that a claim whose write was withdrawn is written again before the
// pod may be bound.
func TestAPodPlacedAgainBeforeInformersDeliver(t *testing.T) {
	takes := map[string]func(w *testCluster, p *api.TaskInfo){
		"rolled back": func(w *testCluster, p *api.TaskInfo) { w.rollBack(p) },
		"withdrawn by the next leader": func(w *testCluster, p *api.TaskInfo) {
			w.plugin = w.build(Spec(), nil)
			synctest.Wait()
			if err := w.plugin.Recover(w.t.Context()); err != nil {
				w.t.Fatal(err)
			}
		},
	}
	before := options.ServerOpts
	defer func() { options.ServerOpts = before }()
	options.ServerOpts = &options.ServerOption{SchedulerNames: []string{schedtest.SchedulerName}}
	for name, take := range takes {
		t.Run(name, func(t *testing.T) {
			p := member("p", "made t")
			run(t, append(gpus("n"), made(p, "t", one())), func(w *testCluster) {
				w.mustPlace(p, "n")
				w.mustPreBind(p)
				end := w.lag()
				defer end()
				take(w, p)
				w.open()
				w.mustPlace(p, "n")
				w.mustPreBind(p)
				if diff := cmp.Diff([]string{"p"}, w.users("p-t")); diff != "" {
					t.Errorf("the claim is reserved for (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestARollbackWhileASessionTriesAPodThatSharesTheClaim: a trial places a pod that shares a claim with another pod. The
// rollback of that other pod withdraws its writes of the claim, because the trial may be reverted. The pre-bind step of
// the pod in the trial writes the allocation again.
func TestARollbackWhileASessionTriesAPodThatSharesTheClaim(t *testing.T) {
	begun, tried := member("begun", "shared"), member("tried", "shared")
	run(t, append(gpus("n"), schedtest.DeviceClaim("shared", one())), func(w *testCluster) {
		w.mustPlace(begun, "n")
		w.mustPreBind(begun)
		w.open()
		w.mustPlace(tried, "n")
		w.rollBack(begun)
		w.untouched("shared")
		w.mustPreBind(tried)
		if diff := cmp.Diff([]string{"tried"}, w.users("shared")); diff != "" || w.claim("shared").Status.Allocation == nil {
			t.Errorf("the claim is reserved for (-want +got):\n%s", diff)
		}
		w.mustPlace(begun, "n") // placed again; its earlier write no longer exists
		w.mustPreBind(begun)
		if diff := cmp.Diff([]string{"tried", "begun"}, w.users("shared")); diff != "" {
			t.Errorf("the claim is reserved for (-want +got):\n%s", diff)
		}
		w.rollBack(begun)
		w.rollBack(tried)
		w.mustPlace(begun, "n")
		w.mustPreBind(begun)
		w.open()
		w.mustPlace(tried, "n")
		w.rollBack(begun)
		w.take(tried)
		w.untouched("shared")
		w.nothingAssumed()
	})
}

// TestAClaimThatReplacesOneWhoseDeletionWasMissed checks that the devices of a deleted claim are free if informers
// missed the deletion and show a new claim of the same name.
func TestAClaimThatReplacesOneWhoseDeletionWasMissed(t *testing.T) {
	p, old := member("p", "made t"), schedtest.DeviceClaim("c", schedtest.DeviceRequest("r", "gpu", 2))
	old.Status.Allocation = allocationOf("n", "gpu-0", "gpu-1")
	run(t, append(gpus("n"), old, made(p, "t", one())), func(w *testCluster) {
		if w.fits(p, "n") == "" {
			t.Fatal("the devices of an allocated claim are free")
		}
		w.gap(func() {
			if err := w.kube.ResourceV1().ResourceClaims(schedtest.Namespace).Delete(w.t.Context(), "c", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			next := schedtest.DeviceClaim("c", one())
			next.UID, next.ResourceVersion = "next", "5000"
			if err := w.kube.Tracker().Add(next); err != nil {
				t.Fatal(err)
			}
		})
		w.open()
		if got := w.fits(p, "n"); got != "" {
			t.Errorf("devices of a deleted claim are not free: %s", got)
		}
		w.nothingAssumed()
	})
}

// TestConditionsOfAnEarlierAllocationDoNotCount checks that the step ignores conditions of an earlier allocation, which
// informers may still show.
func TestConditionsOfAnEarlierAllocationDoNotCount(t *testing.T) {
	p := member("p", "made t")
	slice := schedtest.NodeDevices("n", "gpu-0")
	slice.Spec.Devices[0].BindingConditions, slice.Spec.Devices[0].BindingFailureConditions = []string{"attached"}, []string{"broken"}
	objects := append(someNodes("n"), schedtest.DeviceClass("gpu"), slice, made(p, "t", one()))
	runWith(t, framework.Arguments{bindingTimeoutArgument: 10}, objects, func(w *testCluster) {
		w.plugin.devices.catalog.features.DeviceBinding, w.plugin.devices.catalog.features.DeviceStatus = true, true
		w.mustPlace(p, "n")
		end := w.preBind(p)
		w.change("p-t", func(c *resourceapi.ResourceClaim) {
			c.Status.Devices = []resourceapi.AllocatedDeviceStatus{{Driver: schedtest.DeviceDriver, Pool: "n", Device: "gpu-0",
				Conditions: []metav1.Condition{{Type: "attached", Status: metav1.ConditionTrue}}}}
		})
		if err := end(); err != nil {
			t.Fatal(err)
		}
		deliver := w.lag()
		defer deliver()
		w.rollBack(p)
		w.mustPlace(p, "n")
		if err := w.preBind(p)(); err == nil || err.Error() != `claim "p-t" (request "r", class "gpu"): devices did not meet their binding conditions in time (10s)` {
			t.Errorf("the step does not wait for the devices to be prepared again: %v", err)
		}
	})
}

// TestAPodPlacedAgainWhileASessionTriesAnother checks that a shared claim is written again after a rollback, even if a
// session holds it for another pod in a trial.
func TestAPodPlacedAgainWhileASessionTriesAnother(t *testing.T) {
	begun, tried := member("begun", "shared"), member("tried", "shared")
	run(t, append(gpus("n"), schedtest.DeviceClaim("shared", one())), func(w *testCluster) {
		w.mustPlace(begun, "n")
		w.mustPreBind(begun)
		w.open()
		w.mustPlace(tried, "n")
		w.rollBack(begun)
		w.mustPlace(begun, "n")
		w.mustPreBind(begun)
		if diff := cmp.Diff([]string{"begun"}, w.users("shared")); diff != "" {
			t.Errorf("the claim is reserved for (-want +got):\n%s", diff)
		}
	})
}

// TestAReservationThatOthersTookBack: another client removed the pod from the claim's users, but informers still show
// the pod as a user. The pre-bind step reserves the claim for the pod again.
func TestAReservationThatOthersTookBack(t *testing.T) {
	p, claim := member("p", "c"), schedtest.DeviceClaim("c", one())
	claim.Status.Allocation = allocationOf("n", "gpu-0")
	claim.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: p.Name, UID: p.Pod.UID}}
	run(t, append(gpus("n"), claim), func(w *testCluster) {
		end := w.lag()
		defer end()
		w.change("c", func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor = nil })
		w.mustPlace(p, "n")
		w.mustPreBind(p)
		if diff := cmp.Diff([]string{"p"}, w.users("c")); diff != "" {
			t.Errorf("the claim is reserved for (-want +got):\n%s", diff)
		}
	})
}

// TestRecoverBeforeInformersDeliver checks that recovery also withdraws the last writes of a former leader, which
// informers do not show yet.
func TestRecoverBeforeInformersDeliver(t *testing.T) {
	before := options.ServerOpts
	defer func() { options.ServerOpts = before }()
	options.ServerOpts = &options.ServerOption{SchedulerNames: []string{schedtest.SchedulerName}}
	p := member("p", "made t")
	run(t, append(gpus("n"), made(p, "t", one())), func(w *testCluster) {
		end := w.lag()
		defer end()
		w.mustPlace(p, "n")
		w.mustPreBind(p)
		w.plugin = w.build(Spec(), nil)
		synctest.Wait()
		if err := w.plugin.Recover(w.t.Context()); err != nil {
			t.Fatal(err)
		}
		w.untouched("p-t")
	})
}
