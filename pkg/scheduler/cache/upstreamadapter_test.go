// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAForwardedGangNamesItsCluster checks that the pods and the PodGroup of a forwarded gang get an annotation with
// its cluster, and that objects that have replaced them do not.
func TestAForwardedGangNamesItsCluster(t *testing.T) {
	another := func(object runtime.Object) func(*harness) { return func(w *harness) { w.cluster.Put(object) } }
	group := schedtest.MakePodGroup().Name("g").Obj()
	group.UID = "another"
	tests := map[string]struct {
		noPods  bool
		happens func(*harness)
		// refused is the error, or empty.
		refused string
		want    map[string]string
	}{
		"as the session saw it":          {want: map[string]string{"p0": "silo", "PodGroup g": "silo"}},
		"another pod has its name":       {happens: another(pod(0).UID("another").Obj()), refused: `forwarding pod ns/p0 to cluster silo: Operation cannot be fulfilled on pods "p0": its uid is another, not ns-p0`, want: map[string]string{}},
		"another PodGroup has its name":  {happens: another(group), refused: `forwarding PodGroup ns/g to cluster silo: Operation cannot be fulfilled on podgroups.scheduling.volcano.sh "g": its uid is another, not ns-g`, want: map[string]string{"p0": "silo"}},
		"its pods have not been created": {noPods: true, want: map[string]string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(1, 1)
				if tt.noPods {
					w.remove(pod(0).Obj())
				}
				job := w.cache.Snapshot().Jobs[gang]
				if tt.happens != nil {
					tt.happens(w)
				}
				err := w.cache.BindPodGroup(job, "silo")
				refused := ""
				if err != nil {
					refused = err.Error()
				}
				if diff := cmp.Diff(tt.refused, refused); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
				got := map[string]string{}
				if len(job.Tasks) > 0 {
					note(got, "p0", w.cluster.Pod("p0").Annotations)
				}
				note(got, "PodGroup g", w.cluster.PodGroup("g").Annotations)
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("clusters (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func note(clusters map[string]string, name string, annotations map[string]string) {
	if cluster := annotations[batch.ForwardClusterKey]; cluster != "" {
		clusters[name] = cluster
	}
}

// TestIsJobTerminated checks that a job is terminated when neither its PodGroup nor any of its pods exists.
func TestIsJobTerminated(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		if !w.cache.IsJobTerminated(gang) {
			t.Error("a job of which nothing was ever there is not terminated")
		}
		w.gangOf(1, 1)
		if w.cache.IsJobTerminated(gang) {
			t.Error("a job with a PodGroup and a pod is terminated")
		}
		w.remove(schedtest.MakePodGroup().Name("g").Obj())
		if w.cache.IsJobTerminated(gang) {
			t.Error("a job with a pod is terminated")
		}
		w.remove(pod(0).Obj())
		if !w.cache.IsJobTerminated(gang) {
			t.Error("a job without PodGroup and pods is not terminated")
		}
	})
}
