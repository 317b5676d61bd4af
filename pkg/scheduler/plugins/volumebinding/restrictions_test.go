// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestReadWriteOncePod: only one pod with such a claim may have a node, whichever scheduler placed it and on whichever
// node. In a trial this is the member that is placed first.
func TestReadWriteOncePod(t *testing.T) {
	onePod := claimLike("c", "local", func(c *v1.PersistentVolumeClaim) {
		boundTo("v")(c)
		c.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	})
	pod := func(phase v1.PodPhase, node string) *v1.Pod {
		return schedtest.MakePod().Group("other").Name("other").Volume("c").Node(node).Phase(phase).Obj()
	}
	const want = `claim "c" (storage class "local") is ReadWriteOncePod and in use by pod "other"`
	cases := map[string]struct {
		there  *v1.Pod
		listed bool
		want   string
	}{
		"no pod uses it":                     {},
		"a pod on the node":                  {there: pod(v1.PodRunning, "n1"), want: want},
		"a pod on another node":              {there: pod(v1.PodRunning, "n2"), want: want},
		"a pod on a node out of the session": {there: pod(v1.PodRunning, "n3"), listed: true, want: want},
		"a pod that has ended":               {there: pod(v1.PodSucceeded, "n3"), listed: true},
		"a pod that waits, too":              {there: pod(v1.PodPending, ""), listed: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			first, second := member("g-0", "c"), member("g-1", "c")
			objects := with(someNodes("n1", "n2"), []runtime.Object{onePod, schedtest.FreeVolume("v", "local"), first.Pod, second.Pod})
			if tc.listed {
				objects = append(objects, tc.there)
			}
			run(t, nil, objects, func(w *testCluster) {
				if tc.there != nil && !tc.listed {
					if err := w.session.users.nodes[tc.there.Spec.NodeName].AddTask(api.NewTaskInfo(tc.there)); err != nil {
						t.Fatal(err)
					}
				}
				if got := w.fits(first, "n1"); got != tc.want {
					t.Fatalf("on n1: %q\nwant  %q", got, tc.want)
				}
				if !w.session.uncacheable(first) {
					t.Error("the result for the pod is cached")
				}
				if tc.want != "" {
					return
				}
				w.mustPlace(first, "n1")
				if got := w.fits(second, "n2"); got != `claim "c" (storage class "local") is ReadWriteOncePod and in use by pod "g-0"` {
					t.Errorf("the result for the second member is %q", got)
				}
				w.take(first)
				w.mustPlace(second, "n2")
			})
		})
	}
}

// TestDisks checks that pods that may not share a disk are not placed on one node.
func TestDisks(t *testing.T) {
	type source = v1.VolumeSource
	gce := func(name string, readOnly bool) source {
		return source{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: name, ReadOnly: readOnly}}
	}
	aws := func(id string) source {
		return source{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: id, ReadOnly: true}}
	}
	iscsi := func(iqn string, readOnly bool) source {
		return source{ISCSI: &v1.ISCSIVolumeSource{IQN: iqn, ReadOnly: readOnly}}
	}
	rbd := func(pool, image string, readOnly bool, monitors ...string) source {
		return source{RBD: &v1.RBDVolumeSource{CephMonitors: monitors, RBDPool: pool, RBDImage: image, ReadOnly: readOnly}}
	}
	cases := map[string]struct {
		there, wanted source
		refused       bool
	}{
		"another disk":                    {there: gce("a", false), wanted: gce("b", false)},
		"one disk":                        {there: gce("a", false), wanted: gce("a", true), refused: true},
		"one disk that both read":         {there: gce("a", true), wanted: gce("a", true)},
		"one of AWS that both read":       {there: aws("a"), wanted: aws("a"), refused: true},
		"another of AWS":                  {there: aws("a"), wanted: aws("b")},
		"one target":                      {there: iscsi("a", true), wanted: iscsi("a", false), refused: true},
		"one target that both read":       {there: iscsi("a", true), wanted: iscsi("a", true)},
		"one image":                       {there: rbd("p", "i", false, "x", "y"), wanted: rbd("p", "i", false, "y", "z"), refused: true},
		"one image that both read":        {there: rbd("p", "i", true, "x"), wanted: rbd("p", "i", true, "x")},
		"an image of other monitors":      {there: rbd("p", "i", false, "x"), wanted: rbd("p", "i", false, "z")},
		"an image of that name elsewhere": {there: rbd("p", "i", false, "x"), wanted: rbd("q", "i", false, "x")},
		"disks of different kinds":        {there: gce("a", false), wanted: aws("a")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, nil, someNodes("n1", "n2"), func(w *testCluster) {
				there, wanted := member("there"), member("wanted")
				there.Pod.Spec.Volumes = []v1.Volume{{Name: "disk", VolumeSource: tc.there}}
				wanted.Pod.Spec.Volumes = []v1.Volume{{Name: "disk", VolumeSource: tc.wanted}}
				there.NodeName = "n1"
				if err := w.session.users.nodes["n1"].AddTask(there); err != nil {
					t.Fatal(err)
				}
				if refused := w.fits(wanted, "n1"); (refused == `node(s) with a pod that uses the disk of volume "disk"`) != tc.refused {
					t.Errorf("the result on n1 is %q", refused)
				}
				if refused := w.fits(wanted, "n2"); refused != "" {
					t.Errorf("the result on n2 is %q", refused)
				}
				if !w.session.uncacheable(wanted) {
					t.Error("the result for the pod is cached")
				}
			})
		})
	}
}

// TestPodsOnWhichThePluginHasNoSay checks which pods have no volume that needs a check: no claim and no disk.
func TestPodsOnWhichThePluginHasNoSay(t *testing.T) {
	tests := map[string]struct {
		volumes []v1.VolumeSource
		want    bool
	}{
		"none":                    {nil, true},
		"a directory of the node": {[]v1.VolumeSource{{EmptyDir: &v1.EmptyDirVolumeSource{}}}, true},
		"a claim":                 {[]v1.VolumeSource{{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}, false},
		"one of its own":          {[]v1.VolumeSource{{Ephemeral: &v1.EphemeralVolumeSource{}}}, false},
		"a disk":                  {[]v1.VolumeSource{{EmptyDir: &v1.EmptyDirVolumeSource{}}, {GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "d"}}}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{}
			for _, source := range tc.volumes {
				pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "v", VolumeSource: source})
			}
			if got := hasNoVolumes(api.NewTaskInfo(pod)); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
