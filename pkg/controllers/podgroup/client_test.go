// SPDX-License-Identifier: Apache-2.0

package podgroup

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcfake "volcano.sh/apis/pkg/client/clientset/versioned/fake"
)

const mode = "ibcluster.volcano-prebind.io/mode"

// workload is the metadata of each workload, with one annotation of this project and two others.
var workload = metav1.ObjectMeta{
	Namespace: "ns", Name: "w", UID: "1",
	Annotations: map[string]string{mode: "required", "volcano.sh/sla-waiting-time": "1h", "notvolcano-prebind.io/mode": "none"},
}

func podGroupOf(apiVersion, kind, uid string) *v1beta1.PodGroup {
	return &v1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "podgroup-1", Annotations: map[string]string{"volcano.sh/sla-waiting-time": "1h"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "w", UID: types.UID(uid)}},
	}}
}

func TestPodGroupsInheritAnnotations(t *testing.T) {
	inherited := map[string]string{mode: "required", "volcano.sh/sla-waiting-time": "1h"}
	left := map[string]string{"volcano.sh/sla-waiting-time": "1h"}
	tests := map[string]struct {
		owner runtime.Object
		group *v1beta1.PodGroup
		want  map[string]string
	}{
		"of a ReplicaSet":               {owner: &appsv1.ReplicaSet{ObjectMeta: workload}, group: podGroupOf("apps/v1", "ReplicaSet", "1"), want: inherited},
		"of a StatefulSet":              {owner: &appsv1.StatefulSet{ObjectMeta: workload}, group: podGroupOf("apps/v1", "StatefulSet", "1"), want: inherited},
		"of a DaemonSet":                {owner: &appsv1.DaemonSet{ObjectMeta: workload}, group: podGroupOf("apps/v1", "DaemonSet", "1"), want: inherited},
		"of a Job":                      {owner: &batchv1.Job{ObjectMeta: workload}, group: podGroupOf("batch/v1", "Job", "1"), want: inherited},
		"not of a Job of another group": {owner: &batchv1.Job{ObjectMeta: workload}, group: podGroupOf("example.com/v1", "Job", "1"), want: left},
		"not of a later namesake":       {owner: &batchv1.Job{ObjectMeta: workload}, group: podGroupOf("batch/v1", "Job", "2"), want: left},
		"not of one that is gone":       {group: podGroupOf("batch/v1", "Job", "1"), want: left},
		"not of a pod":                  {group: podGroupOf("v1", "Pod", "1"), want: left},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			kube := fake.NewClientset()
			if tt.owner != nil {
				kube = fake.NewClientset(tt.owner)
			}
			groups := (&client{Interface: vcfake.NewSimpleClientset(), kube: kube}).SchedulingV1beta1().PodGroups("ns")
			made, err := groups.Create(t.Context(), tt.group.DeepCopy(), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, made.Annotations); diff != "" {
				t.Errorf("annotations at the creation (-want +got):\n%s", diff)
			}
			// Upstream updates the PodGroup with the annotations that it knows.
			updated, err := groups.Update(t.Context(), tt.group.DeepCopy(), metav1.UpdateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, updated.Annotations); diff != "" {
				t.Errorf("annotations when updated (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoPodGroupWithoutItsAnnotations checks that a PodGroup is not created without its owner's annotations, since
// the gang could then be placed on any nodes.
func TestNoPodGroupWithoutItsAnnotations(t *testing.T) {
	kube := fake.NewClientset()
	kube.PrependReactor("get", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no route") })
	volcano := vcfake.NewSimpleClientset()
	groups := (&client{Interface: volcano, kube: kube}).SchedulingV1beta1().PodGroups("ns")
	_, err := groups.Create(t.Context(), podGroupOf("batch/v1", "Job", "1"), metav1.CreateOptions{})
	const want = "reading the annotations of Job ns/w for PodGroup podgroup-1: no route"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if actions := volcano.Actions(); len(actions) > 0 {
		t.Errorf("the PodGroup was still written: %v", actions)
	}
}

func TestInPlaceOfUpstreams(t *testing.T) {
	tests := map[string]struct{ selected, want []string }{
		"all, without saying so": {want: []string{"*", "-pg-controller", name}},
		"all":                    {selected: []string{"*"}, want: []string{"*", "-pg-controller", name}},
		"all but others":         {selected: []string{"*", "-gc-controller"}, want: []string{"*", "-gc-controller", "-pg-controller", name}},
		"all but it":             {selected: []string{"*", "-pg-controller"}, want: []string{"*", "-pg-controller", "-" + name}},
		"it alone":               {selected: []string{"pg-controller"}, want: []string{"-pg-controller", name}},
		"it among others":        {selected: []string{"+gc-controller", "+pg-controller"}, want: []string{"+gc-controller", "-pg-controller", name}},
		"others":                 {selected: []string{"gc-controller"}, want: []string{"gc-controller", "-" + name}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, InPlaceOfUpstreams(tt.selected)); diff != "" {
				t.Errorf("controllers (-want +got):\n%s", diff)
			}
		})
	}
}
