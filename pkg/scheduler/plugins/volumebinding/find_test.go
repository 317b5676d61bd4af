// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"slices"
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

// boundTo makes a claim one that has its volume.
func boundTo(name string) func(*v1.PersistentVolumeClaim) {
	return func(c *v1.PersistentVolumeClaim) {
		c.Spec.VolumeName, c.Status.Phase = name, v1.ClaimBound
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnBindCompleted, "yes")
	}
}

// classes are those that tests use.
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

// TestVerdicts: what a pod's claims need is found, and what is refused names the claim and its class.
func TestVerdicts(t *testing.T) {
	cases := map[string]struct {
		objects []runtime.Object
		claims  []string
		want    string
	}{
		"a local volume on the node": {
			objects: []runtime.Object{schedtest.UnboundClaim("c", "local"), local("v", "n1")},
		},
		"a local volume on another node": {
			objects: []runtime.Object{schedtest.UnboundClaim("c", "local"), local("v", "n2")},
			want:    `node(s) have no free volume, and cannot be given one, for claim "c" (storage class "local")`,
		},
		"one volume for two claims of a pod": {
			objects: []runtime.Object{schedtest.UnboundClaim("c", "local"), schedtest.UnboundClaim("d", "local"), local("v", "n1")},
			claims:  []string{"c", "d"},
			want:    `node(s) have no free volume, and cannot be given one, for claim "c" (storage class "local"), claim "d" (storage class "local")`,
		},
		"a volume that can be made": {objects: []runtime.Object{schedtest.UnboundClaim("c", "made")}},
		"a volume that can be made elsewhere only": {
			objects: []runtime.Object{schedtest.UnboundClaim("c", "elsewhere")},
			want:    `node(s) have no free volume, and cannot be given one, for claim "c" (storage class "elsewhere")`,
		},
		"a volume that is being made elsewhere": {
			objects: []runtime.Object{claimLike("c", "made", func(c *v1.PersistentVolumeClaim) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, "n2")
			})},
			want: `node(s) other than n2, which was selected for claim "c" (storage class "made")`,
		},
		"enough capacity": {objects: slices.Concat(capacity("1Gi", "n1"), []runtime.Object{schedtest.UnboundClaim("c", "made")})},
		"too little capacity": {
			objects: slices.Concat(capacity("1Mi", "n1"), []runtime.Object{schedtest.UnboundClaim("c", "made")}),
			want:    `node(s) have too little storage left for claim "c" (storage class "made")`,
		},
		"a bound claim": {objects: []runtime.Object{claimLike("c", "local", boundTo("v")), local("v", "n1")}},
		"a bound claim whose volume the node does not reach": {
			objects: []runtime.Object{claimLike("c", "local", boundTo("v")), local("v", "n2")},
			want:    `node(s) cannot access the volume of claim "c" (storage class "local")`,
		},
		"a bound claim whose volume is gone": {
			objects: []runtime.Object{claimLike("c", "local", boundTo("v"))},
			want:    `claim "c" (storage class "local") is bound to volume "v", which does not exist`,
		},
		"a lost claim": {
			objects: []runtime.Object{claimLike("c", "local", func(c *v1.PersistentVolumeClaim) {
				c.Spec.VolumeName, c.Status.Phase = "v", v1.ClaimLost
			})},
			want: `claim "c" (storage class "local") has lost its volume "v"`,
		},
		"a claim that is being deleted": {
			objects: []runtime.Object{claimLike("c", "local", func(c *v1.PersistentVolumeClaim) {
				c.DeletionTimestamp, c.Finalizers = &schedtest.Created, []string{"kubernetes.io/pvc-protection"}
			}), local("v", "n1")},
			want: `claim "c" (storage class "local") is being deleted`,
		},
		"a missing claim": {want: `claim "c" of the pod's volume "c" does not exist`},
		"a missing class": {
			objects: []runtime.Object{schedtest.UnboundClaim("c", "nowhere")},
			want:    `claim "c" (storage class "nowhere") is not bound: its class does not exist`,
		},
		"no class": {
			objects: []runtime.Object{schedtest.UnboundClaim("c", "")},
			want:    `claim "c" (no storage class) is not bound: without a class, a volume must be made for it`,
		},
		"a class that binds at once": {
			objects: []runtime.Object{schedtest.UnboundClaim("c", "now")},
			want:    `waiting for claim "c" (storage class "now") with Immediate binding to be bound`,
		},
		"a claim that is to be made on no node": {
			objects: []runtime.Object{claimLike("c", "local", func(c *v1.PersistentVolumeClaim) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, "")
			}), local("v", "n1")},
			want: `claim "c" (storage class "local") has an empty annotation volume.kubernetes.io/selected-node`,
		},
		"a claim that selects by what the volume has": {
			objects: []runtime.Object{claimLike("c", "local", selecting(mostRequirements)), local("v", "n1")},
		},
		"a claim that selects by what the volume has not": {
			objects: []runtime.Object{claimLike("c", "local", func(c *v1.PersistentVolumeClaim) {
				c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "x"}}
			}), local("v", "n1")},
			want: `node(s) have no free volume, and cannot be given one, for claim "c" (storage class "local")`,
		},
		"a claim that selects by more than anybody does": {
			objects: []runtime.Object{claimLike("c", "local", selecting(mostRequirements+1)), local("v", "n1")},
			want:    `claim "c" (storage class "local") has a selector of 101 requirements and values; no more than 100 are looked at`,
		},
		"a claim for a certain volume": {
			objects: []runtime.Object{claimLike("c", "local", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }), local("v", "n1")},
			want:    `claim "c" (storage class "local") asks for volume "v" and is not bound to it yet`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, nil, slices.Concat(someNodes("n1", "n2"), classes(), tc.objects), func(w *world) {
				if tc.claims == nil {
					tc.claims = []string{"c"}
				}
				task := member("g-0", tc.claims...)
				if got := w.fits(task, "n1"); got != tc.want {
					t.Errorf("on n1: %q\nwant  %q", got, tc.want)
				}
				if err := w.place(task, "n1"); (err == nil) != (tc.want == "") {
					t.Errorf("placed with error %v, of what is refused with %q", err, tc.want)
				}
				if tc.want != "" {
					w.nothingAssumed()
				}
			})
		})
	}
}

// selecting has the claim select by so many requirements, which a volume without labels meets.
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

// TestASelectorIsReadOnce: not for each node, however much a tenant writes there.
func TestASelectorIsReadOnce(t *testing.T) {
	allocations := func(requirements int) (n float64) {
		objects := with(someNodes("n1"), []runtime.Object{claimLike("c", "local", selecting(requirements)), local("v", "n1")})
		run(t, nil, objects, func(w *world) {
			task := member("g-0", "c")
			w.mustPlace(task, "n1")
			w.take(task)
			n = testing.AllocsPerRun(10, func() { _ = w.session.predicate(task, w.session.users.nodes["n1"]) })
		})
		return n
	}
	if few, many := allocations(1), allocations(mostRequirements); many > few+mostRequirements/2 { // others allocate meanwhile, too
		t.Errorf("%v allocations for a node with a selector of %d requirements, %v with one of 1", many, mostRequirements, few)
	}
}

// TestMoreClaimsThanAnybodyHas: the pod fits nowhere, and is told why, whatever its claims are.
func TestMoreClaimsThanAnybodyHas(t *testing.T) {
	var names []string
	objects := with(someNodes("n1"))
	for i := range mostClaims + 1 {
		name := fmt.Sprint("c", i)
		names, objects = append(names, name), append(objects, schedtest.UnboundClaim(name, "made"))
	}
	run(t, nil, objects, func(w *world) {
		if got, want := w.fits(member("g-0", names...), "n1"), "the pod's volumes have 1001 claims; no more than 1000 are looked after"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := w.fits(member("g-1", append(names[1:], names[1])...), "n1"); got != "" {
			t.Errorf("a pod with 1000 claims, one of them twice, is refused: %s", got)
		}
	})
}

// TestEphemeralVolumes: the claim of a pod's own volume must be there and be the pod's.
func TestEphemeralVolumes(t *testing.T) {
	pod := schedtest.MakePod().Group("g").Name("g-0").Obj()
	pod.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
	owned := func(uid string) *v1.PersistentVolumeClaim {
		return claimLike("g-0-scratch", "local", func(c *v1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(uid == "own")}}
		})
	}
	cases := map[string]struct {
		claim []runtime.Object
		want  string
	}{
		"its own":      {claim: []runtime.Object{owned("own")}},
		"not made yet": {want: `claim "g-0-scratch" of the pod's ephemeral volume "scratch" has not been made yet`},
		"another's": {
			claim: []runtime.Object{owned("another")},
			want:  `claim "g-0-scratch" (storage class "local") is not that of the pod's ephemeral volume: PVC ns/g-0-scratch was not created for pod ns/g-0 (pod is not owner)`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, nil, slices.Concat(someNodes("n1"), classes(), []runtime.Object{local("v", "n1")}, tc.claim), func(w *world) {
				task := member("g-0")
				task.Pod.Spec.Volumes = pod.Spec.Volumes
				if got := w.fits(task, "n1"); got != tc.want {
					t.Errorf("on n1: %q\nwant  %q", got, tc.want)
				}
			})
		})
	}
}

// TestManyClaimsAreNamedInFewWords: a message is bounded however many claims a pod has.
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
