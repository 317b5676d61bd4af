// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestVerdicts has the filter results for pods with claims. A refusal names the claim and its class.
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
			want:    `node(s) can neither offer nor provision a volume for claim "c" (storage class "local")`,
		},
		"one volume for two claims of a pod": {
			objects: []runtime.Object{schedtest.UnboundClaim("c", "local"), schedtest.UnboundClaim("d", "local"), local("v", "n1")},
			claims:  []string{"c", "d"},
			want:    `node(s) can neither offer nor provision a volume for claim "c" (storage class "local"), claim "d" (storage class "local")`,
		},
		"a volume that can be made": {objects: []runtime.Object{schedtest.UnboundClaim("c", "made")}},
		"a volume that can be made elsewhere only": {
			objects: []runtime.Object{schedtest.UnboundClaim("c", "elsewhere")},
			want:    `node(s) can neither offer nor provision a volume for claim "c" (storage class "elsewhere")`,
		},
		"a volume that is being made elsewhere": {
			objects: []runtime.Object{claimLike("c", "made", func(c *v1.PersistentVolumeClaim) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, "n2")
			})},
			want: `node(s) other than n2, which is selected for claim "c" (storage class "made")`,
		},
		"enough capacity": {objects: slices.Concat(capacity("1Gi", "n1"), []runtime.Object{schedtest.UnboundClaim("c", "made")})},
		"too little capacity": {
			objects: slices.Concat(capacity("1Mi", "n1"), []runtime.Object{schedtest.UnboundClaim("c", "made")}),
			want:    `node(s) with too little storage capacity for claim "c" (storage class "made")`,
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
			want:    `claim "c" (storage class "nowhere") is not bound: its storage class does not exist`,
		},
		"no class": {
			objects: []runtime.Object{schedtest.UnboundClaim("c", "")},
			want:    `claim "c" (no storage class) is not bound; create a volume for it, or set a storage class`,
		},
		"a class that binds at once": {
			objects: []runtime.Object{schedtest.UnboundClaim("c", "now")},
			want:    `waiting for claim "c" (storage class "now") with Immediate binding to be bound`,
		},
		"a claim that is to be made on no node": {
			objects: []runtime.Object{claimLike("c", "local", func(c *v1.PersistentVolumeClaim) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, "")
			}), local("v", "n1")},
			want: `claim "c" (storage class "local"): annotation volume.kubernetes.io/selected-node is empty, must be a node's name; remove the annotation`,
		},
		"a claim that selects by what the volume has": {
			objects: []runtime.Object{claimLike("c", "local", selecting(mostRequirements)), local("v", "n1")},
		},
		"a claim that selects by what the volume has not": {
			objects: []runtime.Object{claimLike("c", "local", func(c *v1.PersistentVolumeClaim) {
				c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "x"}}
			}), local("v", "n1")},
			want: `node(s) can neither offer nor provision a volume for claim "c" (storage class "local")`,
		},
		"a claim that selects by more than anybody does": {
			objects: []runtime.Object{claimLike("c", "local", selecting(mostRequirements+1)), local("v", "n1")},
			want:    `claim "c" (storage class "local") has a selector of 101 requirements and values, must be at most 100`,
		},
		"a claim for a certain volume": {
			objects: []runtime.Object{claimLike("c", "local", func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }), local("v", "n1")},
			want:    `claim "c" (storage class "local") requests volume "v" and is not bound to it yet`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, nil, slices.Concat(someNodes("n1", "n2"), classes(), tc.objects), func(w *testCluster) {
				if tc.claims == nil {
					tc.claims = []string{"c"}
				}
				task := member("g-0", tc.claims...)
				if got := w.fits(task, "n1"); got != tc.want {
					t.Errorf("on n1: %q\nwant  %q", got, tc.want)
				}
				if err := w.place(task, "n1"); (err == nil) != (tc.want == "") {
					t.Errorf("Reserve returned %v, and the filter's result is %q", err, tc.want)
				}
				if tc.want != "" {
					w.nothingAssumed()
				}
			})
		})
	}
}

// TestEphemeralVolumes checks that the claim of an ephemeral volume exists and is owned by the pod.
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
		"not made yet": {want: `claim "g-0-scratch" of the pod's ephemeral volume "scratch" has not been created yet`},
		"another's": {
			claim: []runtime.Object{owned("another")},
			want:  `claim "g-0-scratch" (storage class "local") was not created for the pod's ephemeral volume: PVC ns/g-0-scratch was not created for pod ns/g-0 (pod is not owner)`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			run(t, nil, slices.Concat(someNodes("n1"), classes(), []runtime.Object{local("v", "n1")}, tc.claim), func(w *testCluster) {
				task := member("g-0")
				task.Pod.Spec.Volumes = pod.Spec.Volumes
				if got := w.fits(task, "n1"); got != tc.want {
					t.Errorf("on n1: %q\nwant  %q", got, tc.want)
				}
			})
		})
	}
}

// TestMessagesOfReserve has the reasons why a pod's volumes cannot be reserved on a node that fitted the pod before.
func TestMessagesOfReserve(t *testing.T) {
	const late, made = `claim "c" (storage class "local"): the node no longer fits the claim: `, `claim "c" (storage class "made"): the node no longer fits the claim: `
	selected := claimLike("c", "made", func(c *v1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, "n2")
	})
	for want, objects := range map[string][]runtime.Object{
		late + "no volume is available, and none can be provisioned": {schedtest.UnboundClaim("c", "local"), local("v", "n2")},
		made + "another node is selected":                            {selected},
		made + "too little storage capacity":                         append(capacity("1Mi", "n1"), schedtest.UnboundClaim("c", "made")),
	} {
		run(t, nil, slices.Concat(someNodes("n1", "n2"), classes(), objects), func(w *testCluster) {
			if err := w.place(member("g-0", "c"), "n1"); err == nil || err.Error() != want {
				t.Errorf("the error is %v, want %s", err, want)
			}
		})
	}
}

// TestMessagesOfPreBind has the error of a step whose claims are not bound in time.
func TestMessagesOfPreBind(t *testing.T) {
	objects := []runtime.Object{schedtest.UnboundClaim("c", "local"), schedtest.UnboundClaim("d", "made"), local("v", "n1")}
	run(t, map[string]any{bindTimeoutArgument: 7}, slices.Concat(someNodes("n1"), classes(), objects), func(w *testCluster) {
		task := member("g-0", "c", "d")
		w.mustPlace(task, "n1")
		const want = `claim "c" (storage class "local"), claim "d" (storage class "made"): no volume was bound within 7s; see the events of the claim`
		if err := w.preBind(task)(); err == nil || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
		w.rollBack(task)
	})
}

// TestMessagesOfReleases has the errors of pods whose volumes are not released yet, were released before, or were never
// reserved.
func TestMessagesOfReleases(t *testing.T) {
	objects := slices.Concat(someNodes("n1"), classes(), []runtime.Object{schedtest.UnboundClaim("c", "local"), local("v", "n1")})
	got := map[string]string{}
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	run(t, nil, objects, func(w *testCluster) {
		task := member("g-0", "c")
		task.NodeName = "n1"
		got["never reserved"] = text(w.preBind(task)())
		w.mustPlace(task, "n1")
		got["placed again"] = text(w.place(task, "n1"))
		task.NodeName = "n2"
		got["reserved on another node"] = text(w.preBind(task)())
	})
	run(t, nil, objects, func(w *testCluster) {
		task := member("g-0", "c")
		w.mustPlace(task, "n1")
		begun := w.plugin.volumes.assumptions.beginPreBind(task.Pod.UID)
		w.rollBack(task)
		got["released during the step"] = text(w.plugin.volumes.bind(t.Context(), task.Pod, begun))
	})
	want := map[string]string{
		"never reserved":           "no volumes are reserved for the pod on this node",
		"placed again":             "volumes reserved for the pod on node n1 are not released yet",
		"reserved on another node": "no volumes are reserved for the pod on this node",
		"released during the step": `claim "c" (storage class "local"): the volumes reserved for the pod were released before the bind`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestArguments has the errors of invalid arguments, and the settings of valid ones.
func TestArguments(t *testing.T) {
	cases := map[string]struct {
		args framework.Arguments
		want settings
		errs []string
	}{
		"none": {want: settings{weight: 1, bindTimeout: 10 * time.Minute}},
		"all": {
			args: framework.Arguments{weightArgument: 0, bindTimeoutArgument: 5, shapeArgument: []any{point(0, 0), point(100, 10)}},
			want: settings{bindTimeout: 5 * time.Second, shape: helper.FunctionShape{{Utilization: 0, Score: 0}, {Utilization: 100, Score: 100}}},
		},
		"out of bounds": {
			args: framework.Arguments{weightArgument: -1, bindTimeoutArgument: 0, shapeArgument: []any{point(101, 11), point(1, "x")}},
			errs: []string{
				"volumebinding.weight: found -1, want a whole number from 0 to 1000000",
				"volumebinding.bindTimeoutSeconds: found 0, want a whole number from 1 to 86400",
				"volumebinding.shape[0].utilization: found 101, want a whole number from 0 to 100",
				"volumebinding.shape[0].score: found 11, want a whole number from 0 to 10",
				"volumebinding.shape[1].score: found x, want a whole number from 0 to 10",
			},
		},
		"not rising": {
			args: framework.Arguments{shapeArgument: []any{point(50, 0), point(50, 10)}},
			errs: []string{"volumebinding.shape[1].utilization: found 50, want more than the 50 before it"},
		},
		"an empty shape": {
			args: framework.Arguments{shapeArgument: []any{}},
			errs: []string{"volumebinding.shape: found [], want a list of points, such as [{utilization: 0, score: 0}, {utilization: 100, score: 10}]"},
		},
		"an unknown field": {
			args: framework.Arguments{shapeArgument: []any{map[any]any{"utilisation": 1}}},
			errs: []string{`volumebinding.shape[0]: key "utilisation" is unknown; valid names: score, utilization`},
		},
		"no mapping": {
			args: framework.Arguments{shapeArgument: []any{7}},
			errs: []string{"volumebinding.shape[0]: found 7, want a mapping with utilization and score"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := load(tc.args)
			if len(tc.errs) == 0 {
				if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(settings{})); err != nil || diff != "" {
					t.Errorf("error %v, settings (-want +got):\n%s", err, diff)
				}
				return
			}
			if diff := cmp.Diff(strings.Join(tc.errs, "\n"), fmt.Sprint(err)); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if _, err := Spec().Load(tc.args); err == nil {
				t.Error("Load accepts the arguments")
			}
		})
	}
}
