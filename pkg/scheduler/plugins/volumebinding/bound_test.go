// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// attached makes the volume a volume of this CSI driver.
func attached(driver, handle string) func(*v1.PersistentVolume) {
	return func(pv *v1.PersistentVolume) {
		pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}
	}
}

// TestBoundClaimsOfEqualVolumesHaveOneKey: bound claims of equal volumes have the same signature, so a restarted gang
// with its volumes is placed as one task class.
func TestBoundClaimsOfEqualVolumesHaveOneKey(t *testing.T) {
	labelled := func(pv *v1.PersistentVolume) { pv.Labels = map[string]string{v1.LabelTopologyZone: "a"} }
	onNode := func(node string) func(*v1.PersistentVolume) {
		return func(pv *v1.PersistentVolume) { pv.Spec.NodeAffinity = local("of", node).Spec.NodeAffinity }
	}
	disk := func(pv *v1.PersistentVolume) {
		pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: pv.Name}}
	}
	as := func(mutate ...func(*v1.PersistentVolume)) []func(*v1.PersistentVolume) { return mutate }
	cases := map[string]struct {
		volumes []func(*v1.PersistentVolume)
		others  []runtime.Object
		same    bool
	}{
		"volumes of one driver":              {volumes: as(attached("d", "0"), attached("d", "1")), same: true},
		"volumes of a node":                  {volumes: as(onNode("n1"), onNode("n1")), same: true},
		"volumes of equal labels":            {volumes: as(labelled, labelled), same: true},
		"a pod that has finished uses one":   {volumes: as(attached("d", "0"), attached("d", "1")), others: []runtime.Object{schedtest.MakePod().Name("other").Volume("c0").Node("n1").Phase(v1.PodFailed).Obj()}, same: true},
		"the driver":                         {volumes: as(attached("d", "0"), attached("e", "1"))},
		"the node":                           {volumes: as(onNode("n1"), onNode("n2"))},
		"the labels":                         {volumes: as(labelled, func(*v1.PersistentVolume) {})},
		"the class":                          {volumes: as(func(pv *v1.PersistentVolume) { pv.Spec.StorageClassName = "other" }, func(*v1.PersistentVolume) {})},
		"a volume that is two to Kubernetes": {volumes: as(attached("d", "0"), attached("d", "0"))},
		"volumes that Kubernetes translates": {volumes: as(disk, disk)},
		"another pod uses one":               {volumes: as(attached("d", "0"), attached("d", "1")), others: []runtime.Object{schedtest.MakePod().Name("other").Volume("c0").Node("n1").Obj()}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			objects := with(someNodes("n1", "n2"), tc.others)
			pods := []*v1.Pod{member("g-0", "c0").Pod, member("g-1", "c1").Pod}
			for i, claim := range []string{"c0", "c1"} {
				pv, bound := schedtest.FreeVolume("v"+claim, "local"), schedtest.UnboundClaim(claim, "local")
				tc.volumes[i](pv)
				schedtest.BindVolume(bound, pv)
				objects = append(objects, pv, bound, pods[i])
			}
			run(t, nil, objects, func(w *testCluster) {
				key := func(i int) string { return w.session.SignVolume(pods[i], &pods[i].Spec.Volumes[0]) }
				if same := key(0) == key(1); same != tc.same {
					t.Errorf("the signatures are %q and %q, want them equal: %v", key(0), key(1), tc.same)
				}
			})
		})
	}
}

// TestReach checks which nodes Reach returns for a pod, from the bound volumes of its claims. allocate tries the pod on
// no other nodes.
func TestReach(t *testing.T) {
	bound := func(name string, mutate func(*v1.PersistentVolume), nodes ...string) []runtime.Object {
		pv, claim := schedtest.FreeVolume("v-"+name, "local", nodes...), schedtest.UnboundClaim(name, "local")
		mutate(pv)
		schedtest.BindVolume(claim, pv)
		return []runtime.Object{pv, claim}
	}
	asItIs := func(*v1.PersistentVolume) {}
	disk := func(pv *v1.PersistentVolume) {
		pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d"}}
	}
	cases := map[string]struct {
		objects []runtime.Object
		claims  []string
		want    []string
	}{
		"no claim":                       {},
		"a claim without a volume":       {objects: []runtime.Object{schedtest.UnboundClaim("c", "local")}, claims: []string{"c"}},
		"a volume of all nodes":          {objects: bound("c", asItIs), claims: []string{"c"}},
		"a volume of one":                {objects: bound("c", asItIs, "n2"), claims: []string{"c"}, want: []string{"n2"}},
		"the volume of fewer":            {objects: slices.Concat(bound("c", asItIs, "n1", "n2"), bound("d", asItIs, "n2")), claims: []string{"c", "d"}, want: []string{"n2"}},
		"one that Kubernetes translates": {objects: bound("c", disk, "n2"), claims: []string{"c"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, nil, with(someNodes("n1", "n2", "n3"), tc.objects), func(w *testCluster) {
				task := member("g-0", tc.claims...)
				if err := w.session.prePredicate(task); err != nil {
					t.Fatal(err)
				}
				reach := w.session.Reach(task)
				var got []string
				if reach != nil {
					got = reach.Nodes
					if reach.Refusal.Status[0].Plugin != Name {
						t.Errorf("the refusal is attributed to plugin %q", reach.Refusal.Status[0].Plugin)
					}
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("reached nodes (-want +got):\n%s", diff)
				}
				for _, node := range []string{"n1", "n2", "n3"} {
					if fits := w.fits(task, node) == ""; reach != nil && fits != slices.Contains(got, node) {
						t.Errorf("the filter accepts node %s: %v", node, fits)
					}
				}
			})
		})
	}
}
