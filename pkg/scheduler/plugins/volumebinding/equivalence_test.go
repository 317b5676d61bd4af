// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// waiting makes the tasks pending tasks of one job in the following sessions.
func (w *testCluster) waiting(tasks ...*api.TaskInfo) {
	job := api.NewJobInfo("g")
	for _, task := range tasks {
		job.AddTaskInfo(task)
	}
	w.jobs = map[api.JobID]*api.JobInfo{"g": job}
	w.open()
}

// zoneWide makes the capacity one that all nodes reach.
func zoneWide(objects []runtime.Object) []runtime.Object {
	objects[1].(*storagev1.CSIStorageCapacity).NodeTopology = &metav1.LabelSelector{}
	return objects
}

// TestWhichVerdictsAreKept: a filter result is cached if the pod's claims are its own, and if placements on other nodes
// cannot change the result.
func TestWhichVerdictsAreKept(t *testing.T) {
	claims := func(class string, mutate func(*v1.PersistentVolumeClaim)) []runtime.Object {
		return []runtime.Object{claimLike("c0", class, mutate), claimLike("c1", class, mutate)}
	}
	asIs := func(*v1.PersistentVolumeClaim) {}
	own := [][]string{{"c0"}, {"c1"}}
	reserved := local("v", "n1")
	reserved.Spec.ClaimRef = &v1.ObjectReference{Namespace: schedtest.Namespace, Name: "c0"}
	largest := zoneWide(capacity("1Mi", "n1"))
	largest[1].(*storagev1.CSIStorageCapacity).MaximumVolumeSize = new(schedtest.UnboundClaim("", "").Spec.Resources.Requests[v1.ResourceStorage])
	former := local("v", "n1")
	former.Spec.ClaimRef, former.Status.Phase = &v1.ObjectReference{Namespace: schedtest.Namespace, Name: "c0", UID: "former"}, v1.VolumeReleased
	cases := map[string]struct {
		objects []runtime.Object
		pods    [][]string
		asked   bool
	}{
		"no claims":               {pods: [][]string{{}, {}}},
		"volumes that are made":   {objects: claims("made", asIs), pods: own},
		"bound claims":            {objects: append(claims("local", boundTo("v")), local("v", "n1")), pods: own},
		"volumes of single nodes": {objects: append(claims("local", asIs), local("v", "n1"), local("w", "n2")), pods: own},
		"a volume of two nodes":   {objects: append(claims("local", asIs), schedtest.FreeVolume("v", "local", "n1", "n2")), pods: own, asked: true},
		"a volume of two nodes among others": {objects: append(claims("local", asIs), schedtest.FreeVolume("v", "local", "n1", "n2"),
			local("w", "n1"), local("x", "n2"), schedtest.FreeVolume("y", "local", "n3"), schedtest.FreeVolume("z", "local", "n4")), pods: own, asked: true},
		"a volume of any node": {objects: append(claims("local", asIs), schedtest.FreeVolume("v", "local")), pods: own, asked: true},
		"a volume of two nodes that is another's": {objects: append(claims("local", asIs), func() runtime.Object {
			pv := schedtest.FreeVolume("v", "local", "n1", "n2")
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: schedtest.Namespace, Name: "other", UID: "other"}
			return pv
		}()), pods: own},
		"a claim that two share":                 {objects: claims("made", asIs), pods: [][]string{{"c0"}, {"c0"}}, asked: true},
		"a volume of a former claim of its name": {objects: append(claims("local", asIs), former), pods: own},
		"a volume reserved for it":               {objects: append(claims("local", asIs), reserved), pods: own, asked: true},
		"a selected node": {objects: claims("made", func(c *v1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, "n1")
		}), pods: own, asked: true},
		"for one pod at a time": {objects: claims("made", func(c *v1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
		}), pods: own},
		"for one pod at a time, and two name it": {objects: append(claims("made", func(c *v1.PersistentVolumeClaim) {
			c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
		}), member("g-0", "c0").Pod, member("other", "c0").Pod), pods: own, asked: true},
		"a claim that is missing":                            {pods: own, asked: true},
		"capacity of a node":                                 {objects: slices.Concat(claims("made", asIs), capacity("1Gi", "n1")), pods: own},
		"capacity of all nodes for one more":                 {objects: slices.Concat(claims("made", asIs), zoneWide(capacity("3Gi", "n1"))), pods: own},
		"capacity of all nodes for these":                    {objects: slices.Concat(claims("made", asIs), zoneWide(capacity("2Gi", "n1"))), pods: own, asked: true},
		"capacity of all nodes for one of them":              {objects: slices.Concat(claims("made", asIs), zoneWide(capacity("1Gi", "n1"))), pods: own, asked: true},
		"capacity of all nodes for none":                     {objects: slices.Concat(claims("made", asIs), zoneWide(capacity("1Mi", "n1"))), pods: own},
		"little capacity of all nodes, and a largest volume": {objects: slices.Concat(claims("made", asIs), largest), pods: own, asked: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, nil, with(someNodes("n1", "n2"), tc.objects), func(w *testCluster) {
				first, second := member("g-0", tc.pods[0]...), member("g-1", tc.pods[1]...)
				w.waiting(first, second)
				if got := w.session.uncacheable(first); got != tc.asked {
					t.Errorf("uncacheable: %v, want %v", got, tc.asked)
				}
			})
		})
	}
}

// TestClaimsInATransactionAreAskedForEachTime: a result is not cached while the rollback of a former placement with the
// claim has not ended.
func TestClaimsInATransactionAreAskedForEachTime(t *testing.T) {
	run(t, nil, with(someNodes("n1"), []runtime.Object{schedtest.UnboundClaim("c0", "made"), schedtest.UnboundClaim("c1", "made")}), func(w *testCluster) {
		first, again := member("g-0", "c0"), member("g-0-again", "c0")
		w.mustPlace(first, "n1")
		w.waiting(again)
		if !w.session.uncacheable(again) {
			t.Error("the result for a claim that another pod holds is cached")
		}
		if key := w.session.SignVolume(again.Pod, &again.Pod.Spec.Volumes[0]); key != "named c0" {
			t.Errorf("the claim has the signature %q, want its own", key)
		}
	})
}

// TestEqualClaimsHaveOneKey: unbound claims that only one pod uses have equal signatures if their requests are equal.
// Bound claims have different signatures if their volumes are on different nodes. This applies also to claims of
// ephemeral volumes, which the pod does not name.
func TestEqualClaimsHaveOneKey(t *testing.T) {
	block, attributes := v1.PersistentVolumeBlock, "gold"
	cases := map[string]struct {
		mutate func(*v1.PersistentVolumeClaim)
		same   bool
	}{
		"nothing else":     {mutate: func(*v1.PersistentVolumeClaim) {}, same: true},
		"labels":           {mutate: func(c *v1.PersistentVolumeClaim) { c.Labels = map[string]string{"of": "it"} }, same: true},
		"the class":        {mutate: func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("made") }},
		"the size":         {mutate: sized("2Gi")},
		"the access modes": {mutate: func(c *v1.PersistentVolumeClaim) { c.Spec.AccessModes[0] = v1.ReadWriteMany }},
		"the volume mode":  {mutate: func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }},
		"the selector":     {mutate: func(c *v1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }},
		"the attributes":   {mutate: func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = &attributes }},
		"that it is bound": {mutate: boundTo("v")},
		"that no node is selected": {mutate: func(c *v1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, "")
		}},
		"that it is selected": {mutate: func(c *v1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, "n1")
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, nil, with(someNodes("n1"), []runtime.Object{local("v", "n1"), schedtest.UnboundClaim("c0", "local"), claimLike("c1", "local", tc.mutate)}), func(w *testCluster) {
				key := func(claim string) string {
					pod := member("of-"+claim, claim).Pod
					return w.session.SignVolume(pod, &pod.Spec.Volumes[0])
				}
				if same := key("c0") == key("c1"); same != tc.same {
					t.Errorf("the signatures are %q and %q, want them equal: %v", key("c0"), key("c1"), tc.same)
				}
			})
		})
	}
	t.Run("bound ephemeral volumes", func(t *testing.T) {
		objects := with(someNodes("n1"), []runtime.Object{local("v0", "n1"), local("v1", "n2")})
		keys := map[string]bool{}
		for i := range 2 {
			objects = append(objects, claimLike(fmt.Sprintf("g-%d-scratch", i), "local", boundTo(fmt.Sprintf("v%d", i))))
		}
		run(t, nil, objects, func(w *testCluster) {
			for i := range 2 {
				pod := member(fmt.Sprintf("g-%d", i)).Pod
				keys[w.session.SignVolume(pod, &v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}})] = true
			}
		})
		if len(keys) != 2 {
			t.Errorf("volumes on different nodes have one signature: %v", keys)
		}
	})
}
