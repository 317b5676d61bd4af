// SPDX-License-Identifier: Apache-2.0

package statuswriter

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"volcano.sh/apis/pkg/apis/scheduling"
)

// TestMessages compares the events of objects whose status the API server rejects.
func TestMessages(t *testing.T) {
	podGroup := func(w *testWriter) { w.desire(phase(scheduling.PodGroupRunning)) }
	pod := func(w *testWriter) {
		if _, err := w.UpdatePodStatus(unscheduled("")); err != nil {
			w.t.Fatal(err)
		}
	}
	tests := map[string]struct {
		resource string
		write    func(w *testWriter)
		err      error
		want     string
	}{
		"an invalid status": {
			"podgroups", podGroup, apierrors.NewInvalid(schema.GroupKind{Group: "scheduling.volcano.sh", Kind: "PodGroup"}, "g", nil),
			`Warning StatusRejected g: the API server rejected the status that the scheduler writes: PodGroup.scheduling.volcano.sh "g" is invalid`,
		},
		"a status that is too large": {
			"podgroups", podGroup, apierrors.NewRequestEntityTooLargeError("limit is 3145728"),
			"Warning StatusRejected g: the API server rejected the status that the scheduler writes: Request entity too large: limit is 3145728",
		},
		"a write that is forbidden": {
			"podgroups", podGroup, apierrors.NewForbidden(podGroupResource, "g", errors.New("the quota is exceeded")),
			`Warning StatusRejected g: the API server rejected the status that the scheduler writes: podgroups.scheduling.volcano.sh "g" is forbidden: the quota is exceeded`,
		},
		"the status of a pod": {
			"pods", pod, apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "p0", nil),
			`Warning StatusRejected p0: the API server rejected the status that the scheduler writes: Pod "p0" is invalid`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, w *testWriter) {
				w.gangOf1()
				w.reject(tt.resource, tt.err)
				tt.write(w)
				time.Sleep(time.Hour)
				synctest.Wait()
				if diff := cmp.Diff([]string{tt.want}, w.cluster.Events.Take()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestMessagesOfErrors compares the errors of failed writes, which the log lists until a write succeeds.
func TestMessagesOfErrors(t *testing.T) {
	got := map[string]string{}
	inCluster(t, func(t *testing.T, w *testWriter) {
		w.gangOf1()
		broken := apierrors.NewInternalError(errors.New("etcd has no leader"))
		for _, resource := range []string{"podgroups", "pods", "queues"} {
			w.reject(resource, broken)
		}
		w.desire(phase(scheduling.PodGroupRunning))
		if _, err := w.UpdatePodStatus(unscheduled("")); err != nil {
			t.Fatal(err)
		}
		for key := range w.podGroups {
			got["a PodGroup"] = fmt.Sprint(w.writePodGroup(t.Context(), key))
		}
		for key := range w.pods {
			got["a pod"] = fmt.Sprint(w.writePod(t.Context(), key))
		}
		queue := objectKey{queueKind, "", "default"}
		w.queues[queue] = &desiredQueue{allocated: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}
		got["a queue"] = fmt.Sprint(w.writeQueue(t.Context(), queue))
		delete(w.queues, queue)
	})
	want := map[string]string{
		"a PodGroup": "patching the status of PodGroup ns/g: Internal error occurred: etcd has no leader",
		"a pod":      "updating the status of pod ns/p0: Internal error occurred: etcd has no leader",
		"a queue":    "updating queue default: Internal error occurred: etcd has no leader",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
