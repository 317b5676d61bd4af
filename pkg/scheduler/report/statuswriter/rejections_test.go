// SPDX-License-Identifier: Apache-2.0

package statuswriter

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

var (
	errInvalid   = apierrors.NewInvalid(schema.GroupKind{Kind: "PodGroup"}, "g", nil)
	errTooLarge  = apierrors.NewRequestEntityTooLargeError("limit is 3145728")
	errEtcd      = apierrors.NewInternalError(errors.New("etcdserver: request is too large"))
	errForbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "podgroups"}, "g", errBroken)
)

// reject makes the API server answer updates of the resource with the error, and counts them.
func (w *testWriter) reject(resource string, err error) (tries *int) {
	tries = new(int)
	react := func(clienttesting.Action) (bool, runtime.Object, error) {
		*tries++
		return true, nil, err
	}
	w.cluster.Volcano.PrependReactor("update", resource, react)
	w.cluster.Volcano.PrependReactor("patch", resource, react)
	w.cluster.Kube.PrependReactor("update", resource, react)
	return tries
}

// TestRejectedStatusIsDropped checks that a rejected status is dropped. A status that the API server rejects
// permanently is not written again and again, neither by the writer nor because each cycle requests it.
func TestRejectedStatusIsDropped(t *testing.T) {
	pgRejected := "Warning StatusRejected g: the API server rejected the status that the scheduler writes: "
	tests := map[string]struct {
		rejection error
		tries     int
		event     string
	}{
		"an object that is not valid":           {rejection: errInvalid, tries: 1, event: pgRejected + errInvalid.Error()},
		"a request that is too large":           {rejection: errTooLarge, tries: 1, event: pgRejected + errTooLarge.Error()},
		"an object that is too large for etcd":  {rejection: errEtcd, tries: 1, event: pgRejected + errEtcd.Error()},
		"a write that is forbidden for a while": {rejection: errForbidden, tries: forbiddenTries + 1, event: pgRejected + errForbidden.Error()},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *testWriter) {
				w.gangOf1()
				tries := w.reject("podgroups", tt.rejection)
				for range 5 {
					w.desire(phase(scheduling.PodGroupRunning))
					time.Sleep(time.Minute)
					synctest.Wait()
				}
				if *tries != tt.tries || len(w.podGroups) != 0 {
					t.Errorf("it was written %d times and %d statuses are kept, want %d and none", *tries, len(w.podGroups), tt.tries)
				}
				if diff := cmp.Diff([]string{tt.event}, w.cluster.Events.Take()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestWriteIsNotAbandonedForAnOutage checks that rejections that alternate with other errors do not end a write,
// because an API server may answer like this after an outage. Only rejections in a row count.
func TestWriteIsNotAbandonedForAnOutage(t *testing.T) {
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.gangOf1()
		tries := 0
		w.cluster.Volcano.PrependReactor("patch", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
			switch tries++; {
			case tries%2 == 0 && tries < 4*forbiddenTries:
				return true, nil, errForbidden
			case tries < 4*forbiddenTries:
				return true, nil, errBroken
			}
			return false, nil, nil
		})
		w.desire(phase(scheduling.PodGroupRunning))
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := w.cluster.PodGroup("g").Status.Phase; got != v1beta1.PodGroupRunning {
			t.Errorf("the phase is %q after %d tries, want that it is written", got, tries)
		}
		if events := w.cluster.Events.Take(); len(events) > 0 {
			t.Errorf("the event is: %q", events)
		}
	})
}

func TestRejectedPodStatusIsDropped(t *testing.T) {
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.gangOf1()
		tries := w.reject("pods", errInvalid)
		for range 5 {
			if _, err := w.UpdatePodStatus(unscheduled("")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		if *tries != 1 || len(w.pods) != 0 {
			t.Errorf("it was written %d times and %d statuses are kept, want once and none", *tries, len(w.pods))
		}
	})
}

// TestRejectionHoldsForOneWrite checks that a rejection applies to one write only: the write is tried again if the
// status or the object changes, or after rejectedFor.
func TestRejectionHoldsForOneWrite(t *testing.T) {
	tests := map[string]struct {
		change func(w *testWriter)
		status func(*scheduling.PodGroupStatus)
	}{
		"another status": {status: phase(scheduling.PodGroupUnknown)},
		"an object that changed": {
			change: func(w *testWriter) {
				changed := w.cluster.PodGroup("g").DeepCopy()
				changed.Labels = map[string]string{"mended": "true"}
				w.add(changed)
			},
			status: phase(scheduling.PodGroupRunning),
		},
		"a while later": {change: func(*testWriter) { time.Sleep(rejectedFor) }, status: phase(scheduling.PodGroupRunning)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *testWriter) {
				w.gangOf1()
				tries := w.reject("podgroups", errInvalid)
				w.desire(phase(scheduling.PodGroupRunning))
				if tt.change != nil {
					tt.change(w)
				}
				w.desire(tt.status)
				if *tries != 2 {
					t.Errorf("%d tries, want a second one", *tries)
				}
			})
		})
	}
}

// TestStatusOfAnyTenantIsShort checks that a long message is cut in the conditions of a PodGroup and of a pod, and that
// another condition is unchanged.
func TestStatusOfAnyTenantIsShort(t *testing.T) {
	long := strings.Repeat("é", 400_000)
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.gangOf1()
		w.desire(func(status *scheduling.PodGroupStatus) {
			status.Conditions = []scheduling.PodGroupCondition{
				{Type: scheduling.PodGroupUnschedulableType, Reason: "NotEnoughResources", Message: long}, {Type: "Theirs", Message: "short"},
			}
		})
		p := unscheduled("")
		p.Status.Conditions[0].Message = long
		if _, err := w.UpdatePodStatus(p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * Settle)
		synctest.Wait()
		want := fmt.Sprintf("%s... (and %d bytes more)", long[:984], len(long)-984)
		if got := conditionOf(w.cluster, v1beta1.PodGroupUnschedulableType); got != " NotEnoughResources: "+want {
			t.Errorf("condition of the PodGroup has %d bytes and ends with %q", len(got), got[max(len(got)-60, 0):])
		}
		if got := conditionOf(w.cluster, "Theirs"); got != " : short" {
			t.Errorf("another's condition became %q", got)
		}
		if got := podScheduled(w.cluster, "p0"); got != "False Unschedulable: "+want {
			t.Errorf("condition of the pod has %d bytes", len(got))
		}
	})
}
