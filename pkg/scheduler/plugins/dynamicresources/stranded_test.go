// SPDX-License-Identifier: Apache-2.0

package dynamicresources

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// allocatedOn allocates a device of the node to the claim, as Kubernetes' scheduler does for the pods.
func allocatedOn(node string, claim *resourceapi.ResourceClaim, pods ...string) *resourceapi.ResourceClaim {
	claim.Finalizers = []string{resourceapi.Finalizer}
	claim.Status.Allocation = allocationOf(node, "gpu-0")
	claim.Status.Allocation.NodeSelector = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
	}}}
	for _, pod := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod)})
	}
	return claim
}

// TestAClaimWhoseNodeNoLongerExists: the claim is deallocated. Otherwise its pod would wait without end, because no
// controller deallocates a claim that a pod still needs.
func TestAClaimWhoseNodeNoLongerExists(t *testing.T) {
	p, q := member("p", "made t"), member("q", "shared")
	self := string(p.Pod.UID)
	byLabel := allocatedOn("gone", made(p, "t", one()))
	byLabel.Status.Allocation.NodeSelector.NodeSelectorTerms[0] = v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpExists}}}
	marked := allocatedOn("gone", made(p, "t", one()))
	marked.Annotations = map[string]string{SchedulerAnnotation: "volcano"}
	for name, tc := range map[string]struct {
		pod   *api.TaskInfo
		claim *resourceapi.ResourceClaim
		freed bool
	}{
		"unreserved":                  {p, allocatedOn("gone", made(p, "t", one())), true},
		"reserved for its pod":        {p, allocatedOn("gone", made(p, "t", one()), self), true},
		"allocated by this scheduler": {p, marked, true},
		"reserved for another":        {p, allocatedOn("gone", made(p, "t", one()), self, "other"), false},
		"on a node that exists":       {p, allocatedOn("m", made(p, "t", one())), false},
		"of nodes with a label":       {p, byLabel, false},
		"that is not its pod's alone": {q, allocatedOn("gone", schedtest.DeviceClaim("shared", one())), false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, append(gpus("n", "m"), tc.claim.DeepCopy(), tc.pod.Pod.DeepCopy()), func(w *testCluster) {
				if got := w.fits(tc.pod, "n"); got == "" {
					t.Fatal("the pod fits a node that does not reach its devices")
				}
				synctest.Wait()
				w.open()
				if !tc.freed {
					if diff := cmp.Diff(tc.claim.Status, w.claim(tc.claim.Name).Status); diff != "" {
						t.Errorf("status (-want +got):\n%s", diff)
					}
					return
				}
				w.untouched(tc.claim.Name)
				w.mustPlace(tc.pod, "n")
				w.mustPreBind(tc.pod)
			})
		})
	}
}

// TestAStrandedClaimThatIsWrittenMeanwhile checks that a claim is not deallocated if it was written since it was read,
// possibly for a pod that is being bound.
func TestAStrandedClaimThatIsWrittenMeanwhile(t *testing.T) {
	p := member("p", "made t")
	run(t, append(gpus("n"), allocatedOn("gone", made(p, "t", one())), p.Pod.DeepCopy()), func(w *testCluster) {
		read := w.claim("p-t")
		w.change("p-t", func(c *resourceapi.ResourceClaim) { allocatedOn("n", c, string(p.Pod.UID)) })
		if err := w.plugin.devices.free(w.t.Context(), p.Pod, read); err != nil {
			t.Fatal(err)
		}
		if got := w.claim("p-t"); got.Status.Allocation == nil || len(got.Status.ReservedFor) != 1 {
			t.Errorf("the status is %v, want that of the last write", got.Status)
		}
	})
}

// TestAHeldClaimIsNotStranded checks that a claim is not deallocated while a placed pod holds it, because its step may
// be writing.
func TestAHeldClaimIsNotStranded(t *testing.T) {
	p := member("p", "made t")
	claim := allocatedOn("n", made(p, "t", one()))
	run(t, append(gpus("n"), claim), func(w *testCluster) {
		w.mustPlace(p, "n")
		if err := w.kube.Tracker().Delete(v1.SchemeGroupVersion.WithResource("nodes"), "", "n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if w.plugin.devices.isStranded(p.Pod.UID, podClaim{claim, true}) {
			t.Error("a claim that a pod holds is stranded")
		}
		w.take(p)
		if !w.plugin.devices.isStranded(p.Pod.UID, podClaim{claim, true}) {
			t.Error("a claim that no pod holds is not stranded")
		}
	})
}

// TestAClaimIsFreedByWhatTheAPIServerHas: watches of nodes, claims and pods lag behind one another. A claim of a new
// node, or of a pod that was already bound, was once deallocated while the pod used it.
func TestAClaimIsFreedByWhatTheAPIServerHas(t *testing.T) {
	p := member("p", "made t")
	bound, recreated := p.Pod.DeepCopy(), p.Pod.DeepCopy()
	bound.Spec.NodeName, recreated.UID = "gone", "another"
	for name, tc := range map[string]struct {
		node  string
		live  *v1.Pod
		freed bool
	}{
		"the pod waits and its node is gone": {"gone", p.Pod.DeepCopy(), true},
		"the node exists":                    {"n", p.Pod.DeepCopy(), false},
		"the pod is bound":                   {"gone", bound, false},
		"the pod was made again":             {"gone", recreated, false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, append(gpus("n"), allocatedOn(tc.node, made(p, "t", one()), string(p.Pod.UID)), tc.live), func(w *testCluster) {
				if err := w.plugin.devices.free(w.t.Context(), p.Pod, w.claim("p-t")); err != nil {
					t.Fatal(err)
				}
				if got := w.claim("p-t").Status.Allocation == nil; got != tc.freed {
					t.Errorf("deallocated %v, want %v", got, tc.freed)
				}
			})
		})
	}
}
