// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestClaimsThatTakeLongToBeLookedAt checks the limits on the size of a claim's selector and access modes.
func TestClaimsThatTakeLongToBeLookedAt(t *testing.T) {
	values := func(n int) func(*v1.PersistentVolumeClaim) {
		return func(c *v1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "k", Operator: metav1.LabelSelectorOpNotIn, Values: slices.Repeat([]string{"a"}, n)},
			}}
		}
	}
	modes := func(n int) func(*v1.PersistentVolumeClaim) {
		return func(c *v1.PersistentVolumeClaim) {
			c.Spec.AccessModes = slices.Repeat([]v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, n)
		}
	}
	tests := map[string]struct {
		change func(*v1.PersistentVolumeClaim)
		want   string
	}{
		"some values":       {values(mostRequirements), ""},
		"many values":       {values(mostRequirements + 1), `claim "c" (storage class "local") has a selector of 101 requirements and values, must be at most 100`},
		"some access modes": {modes(mostAccessModes), ""},
		"many access modes": {modes(mostAccessModes + 1), `claim "c" (storage class "local") has 17 access modes, must be at most 16`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := checkSize(claimLike("c", "local", tc.change))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestDisksAreLookedAtAlone: only disks can conflict with disks of other pods, and a pod may have only a limited number
// of them.
func TestDisksAreLookedAtAlone(t *testing.T) {
	disk := func(name, id string) v1.Volume {
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: id}}}
	}
	node := api.NewNodeInfo(schedtest.MakeNode().Name("n").Obj())
	there := schedtest.MakePod().Name("there").Node("n").Phase(v1.PodRunning).Obj()
	there.Spec.Volumes = []v1.Volume{{Name: "empty", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}, disk("b", "2"), disk("a", "1")}
	if err := node.AddTask(api.NewTaskInfo(there)); err != nil {
		t.Fatal(err)
	}
	pod := func(volumes ...v1.Volume) *v1.Pod {
		pod := schedtest.MakePod().Name("p").Obj()
		pod.Spec.Volumes = volumes
		return pod
	}
	var many []v1.Volume
	for i := range mostDisks + 1 {
		many = append(many, disk(fmt.Sprint("m", i), fmt.Sprint("m", i)))
	}
	tests := map[string]struct {
		pod  *v1.Pod
		want string
	}{
		"none":          {pod(v1.Volume{Name: "empty", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}), ""},
		"of its own":    {pod(disk("x", "3")), ""},
		"another pod's": {pod(disk("z", "2"), disk("y", "1")), "node(s) with a pod that uses the disk of volume \"y\""},
		"a hundred":     {pod(many[1:]...), ""},
		"more":          {pod(many...), "the pod has more disks than the limit of 100"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := diskConflict(tc.pod, node, false); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
