// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestInheritedAnnotationsAreNotWrittenAgain checks that events of members write nothing when the PodGroup has
// annotations that no member has. When the workload loses the annotation, the next event removes it from the
// PodGroup.
func TestInheritedAnnotationsAreNotWrittenAgain(t *testing.T) {
	const key = "ibcluster.volcano-prebind.io/mode"
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "job", UID: "uid-job", Annotations: map[string]string{key: "required"}}}
	withController(t, func(w *harness) {
		w.member("p", minimum(1), func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
		})
		w.settle()
		if got := w.group("g").Annotations[key]; got != "required" {
			t.Fatalf("the PodGroup has the workload's annotation as %q, want required", got)
		}
		event := func() []string {
			w.changePod("p", func(pod *corev1.Pod) { metav1.SetMetaDataLabel(&pod.ObjectMeta, "changed", pod.Labels["changed"]+"x") })
			w.writes()
			w.settle()
			return w.writes()
		}
		if written := event(); len(written) > 0 {
			t.Errorf("an event of a member writes %v", written)
		}
		job = job.DeepCopy()
		job.Annotations = nil
		if _, err := w.kube.BatchV1().Jobs(ns).Update(t.Context(), job, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"patch podgroups"}, event()); diff != "" {
			t.Errorf("writes once the workload has lost it (-want +got):\n%s", diff)
		}
		if got, has := w.group("g").Annotations[key]; has {
			t.Errorf("the PodGroup keeps the annotation %q of the workload, which has lost it", got)
		}
	}, job)
}
