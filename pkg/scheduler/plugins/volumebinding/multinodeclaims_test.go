// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func ofSeveralNodes(c *v1.PersistentVolumeClaim) {
	c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
}

// provisionFor creates and binds a volume for the claim, as a provisioner would. Only the given nodes reach the volume;
// all nodes if none are given.
func (w *testCluster) provisionFor(claim string, nodes ...string) {
	w.t.Helper()
	c := w.claim(claim)
	made := schedtest.FreeVolume("made-for-"+claim, *c.Spec.StorageClassName, nodes...)
	made.Spec.AccessModes = c.Spec.AccessModes
	made.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name, UID: c.UID}
	if _, err := w.kube.CoreV1().PersistentVolumes().Create(w.t.Context(), made, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.bind(claim, made.Name)
}

// TestAGangOverSeveralNodesSharesANewClaim: members on two nodes share a claim whose volume is created for the first
// member's node. The step of the other member waits for the volume, and fails if its node does not reach it.
func TestAGangOverSeveralNodesSharesANewClaim(t *testing.T) {
	cases := map[string]struct {
		// lost reports whether the first member is rolled back before any step begins.
		lost    bool
		reached []string
		refused bool
	}{
		"all nodes reach the volume":            {},
		"both nodes do":                         {reached: []string{"n1", "n2"}},
		"the member of its node is rolled back": {lost: true},
		"only the node that was selected does":  {reached: []string{"n1"}, refused: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := with(someNodes("n1", "n2"), []runtime.Object{claimLike("c", "made", ofSeveralNodes)})
			run(t, map[string]any{bindTimeoutArgument: 600}, objects, func(w *testCluster) {
				first, second := member("g-0", "c"), member("g-1", "c")
				w.mustPlace(first, "n1")
				w.mustPlace(second, "n2")
				w.written()
				var ends []func() error
				if tc.lost {
					w.rollBack(first)
				} else {
					ends = append(ends, w.preBind(first))
				}
				last := w.preBind(second)
				if diff := cmp.Diff([]string{"persistentvolumeclaims c"}, w.written()); diff != "" {
					t.Errorf("written (-want +got):\n%s", diff)
				}
				if selected := w.claim("c").Annotations[volume.AnnSelectedNode]; selected != "n1" {
					t.Errorf("node %q is selected, want that of the first member", selected)
				}
				time.Sleep(5 * time.Second)
				w.provisionFor("c", tc.reached...)
				for _, end := range ends {
					if err := end(); err != nil {
						t.Error(err)
					}
				}
				if err := last(); tc.refused != errors.Is(err, errUnreached) {
					t.Errorf("the step of the other member returned %v", err)
				}
				if tc.refused {
					w.rollBack(second)
					w.open()
					if got := w.fits(member("g-1", "c"), "n2"); !strings.Contains(got, "cannot access the volume") {
						t.Errorf("the result on n2 in the next session is %q", got)
					}
				}
				w.nothingAssumed()
			})
		})
	}
}

// TestWhereANewClaimOfSeveralNodesMayBe: further members with a new claim may be on any node that its class permits. If
// the claim is for one node, they must be on the node of the first member.
func TestWhereANewClaimOfSeveralNodesMayBe(t *testing.T) {
	zonal := schedtest.LateClass("zonal", provisioner)
	zonal.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: v1.LabelHostname, Values: []string{"n1", "n2"}}}}}
	cases := map[string]struct {
		class  string
		mutate func(*v1.PersistentVolumeClaim)
		want   map[string]bool
	}{
		"for several nodes":          {"made", ofSeveralNodes, map[string]bool{"n1": true, "n2": true, "n3": true}},
		"for several that only read": {"made", func(c *v1.PersistentVolumeClaim) { c.Spec.AccessModes[0] = v1.ReadOnlyMany }, map[string]bool{"n1": true, "n2": true, "n3": true}},
		"for several of two nodes":   {"zonal", ofSeveralNodes, map[string]bool{"n1": true, "n2": true}},
		"for one node":               {"made", func(*v1.PersistentVolumeClaim) {}, map[string]bool{"n1": true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, nil, with(someNodes("n1", "n2", "n3"), []runtime.Object{zonal, claimLike("c", tc.class, tc.mutate)}), func(w *testCluster) {
				w.mustPlace(member("g-0", "c"), "n1")
				for _, node := range []string{"n1", "n2", "n3"} {
					if fits := w.fits(member("g-1", "c"), node) == ""; fits != tc.want[node] {
						t.Errorf("the pod fits on %s: %v, want %v", node, fits, tc.want[node])
					}
				}
			})
		})
	}
}
