// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func claimLike(name, class string, mutate func(*v1.PersistentVolumeClaim)) *v1.PersistentVolumeClaim {
	claim := schedtest.UnboundClaim(name, class)
	mutate(claim)
	return claim
}

// boundTo makes the claim bound to this volume.
func boundTo(name string) func(*v1.PersistentVolumeClaim) {
	return func(c *v1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase = name, v1.ClaimBound
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnBindCompleted, "yes")
	}
}

// classes returns the storage classes of the tests.
func classes() []runtime.Object {
	elsewhere := schedtest.LateClass("elsewhere", provisioner)
	elsewhere.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{
		{Key: v1.LabelHostname, Values: []string{"n2"}},
	}}}
	return []runtime.Object{schedtest.LateClass("local", noProvisioner), schedtest.LateClass("made", provisioner), immediate("now"), elsewhere}
}

func capacity(left string, of string) []runtime.Object {
	amount := resource.MustParse(left)
	return []runtime.Object{
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: provisioner}, Spec: storagev1.CSIDriverSpec{StorageCapacity: new(true)}},
		&storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Name: "of-" + of, Namespace: schedtest.Namespace}, StorageClassName: "made", Capacity: &amount,
			NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelHostname: of}},
		},
	}
}

// selecting gives the claim a selector with this number of requirements, which a volume without labels meets.
func selecting(requirements int) func(*v1.PersistentVolumeClaim) {
	return func(c *v1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{}
		for i := range requirements {
			c.Spec.Selector.MatchExpressions = append(c.Spec.Selector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: fmt.Sprint("label-", i), Operator: metav1.LabelSelectorOpDoesNotExist,
			})
		}
	}
}

// TestASelectorIsReadOnce checks that a claim's selector is not parsed for each node, however large it is.
func TestASelectorIsReadOnce(t *testing.T) {
	allocations := func(requirements int) (n float64) {
		objects := with(someNodes("n1"), []runtime.Object{claimLike("c", "local", selecting(requirements)), local("v", "n1")})
		run(t, nil, objects, func(w *testCluster) {
			task := member("g-0", "c")
			w.mustPlace(task, "n1")
			w.take(task)
			n = testing.AllocsPerRun(10, func() { _ = w.session.predicate(task, w.session.users.nodes["n1"]) })
		})
		return n
	}
	// Other goroutines allocate, too.
	if few, many := allocations(1), allocations(mostRequirements); many > few+mostRequirements/2 {
		t.Errorf("the filter makes %v allocations with a selector of %d requirements, and %v with one requirement", many, mostRequirements, few)
	}
}

// TestMoreClaimsThanAnybodyHas checks the limit on the claims of a pod, and its message.
func TestMoreClaimsThanAnybodyHas(t *testing.T) {
	var names []string
	objects := with(someNodes("n1"))
	for i := range mostClaims + 1 {
		name := fmt.Sprint("c", i)
		names, objects = append(names, name), append(objects, schedtest.UnboundClaim(name, "made"))
	}
	run(t, nil, objects, func(w *testCluster) {
		if got, want := w.fits(member("g-0", names...), "n1"), "the pod has 1001 claims, must be at most 1000"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := w.fits(member("g-1", append(names[1:], names[1])...), "n1"); got != "" {
			t.Errorf("a pod with 1000 claims, of which one is used twice, is refused: %s", got)
		}
	})
}

// TestManyClaimsAreNamedInFewWords checks that a message names only some of many claims.
func TestManyClaimsAreNamedInFewWords(t *testing.T) {
	var claims []*v1.PersistentVolumeClaim
	for i := range 5 {
		claims = append(claims, schedtest.UnboundClaim(fmt.Sprint(i), "x"))
	}
	want := `claim "0" (storage class "x"), claim "1" (storage class "x"), claim "2" (storage class "x"), 2 more`
	if got := describeAll(claims); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
