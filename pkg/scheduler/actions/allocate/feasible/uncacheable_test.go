// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestPodsThatAskForADeviceClassByAnExtendedResource checks that the filter results of pods that request a device
// class by an extended resource are not cached. They share devices with other pods without a claim that shows it.
func TestPodsThatAskForADeviceClassByAnExtendedResource(t *testing.T) {
	classes := map[v1.ResourceName]string{"example.com/card": "card"}
	tests := map[string]struct {
		classes map[v1.ResourceName]string
		pod     *schedtest.PodBuilder
		want    bool
	}{
		"one that a class hands out":           {classes, schedtest.MakePod().Limit(schedtest.Resources{"example.com/card": "1"}), true},
		"one that the node's plugin hands out": {classes, schedtest.MakePod().Limit(schedtest.Resources{"example.com/other": "1"}), false},
		"none of it":                           {classes, schedtest.MakePod().Limit(schedtest.Resources{"example.com/card": "0"}), false},
		"no device classes":                    {nil, schedtest.MakePod().Limit(schedtest.Resources{"example.com/card": "1"}), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := asksFor(tt.pod.Obj(), tt.classes); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}

// TestPodsWhoseNodesDependOnOtherNodes checks that pods whose feasible nodes depend on other nodes are filtered one
// by one, because placements elsewhere affect the result on a node.
func TestPodsWhoseNodesDependOnOtherNodes(t *testing.T) {
	world := sessiontest.ClusterSpec{Objects: []runtime.Object{schedtest.LateClass("late", "example.com/disks"), schedtest.UnboundClaim("unbound", "late"), boundClaim("bound")}}
	cluster := sessiontest.New(world)
	defer cluster.Close()
	ssn := cluster.Open(framework.NewRegistry(), "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n")
	defer ssn.Close()
	spread := func(otherwise v1.UnsatisfiableConstraintAction) func(*v1.Pod) {
		return func(pod *v1.Pod) {
			pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: otherwise}}
		}
	}
	volume := func(source v1.VolumeSource) func(*v1.Pod) {
		return func(pod *v1.Pod) { pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: source}} }
	}
	affinity := func(a v1.Affinity) func(*v1.Pod) { return func(pod *v1.Pod) { pod.Spec.Affinity = &a } }
	claim := func(name string) v1.VolumeSource {
		return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	term := v1.PodAffinityTerm{TopologyKey: "zone"}
	tests := map[string]struct {
		change func(*v1.Pod)
		want   bool
	}{
		"a plain one":                      {func(*v1.Pod) {}, false},
		"with a claim on devices":          {func(pod *v1.Pod) { pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "card"}} }, true},
		"with a claim made for it":         {volume(v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}), true},
		"with a claim without a volume":    {volume(claim("unbound")), true},
		"with a claim that has its volume": {volume(claim("bound")), false},
		"with a claim that is not there":   {volume(claim("gone")), true},
		"with a directory of the node":     {volume(v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/data"}}), false},
		"spread by force":                  {spread(v1.DoNotSchedule), true},
		"spread by preference":             {spread(v1.ScheduleAnyway), false},
		"that must be near others": {affinity(v1.Affinity{PodAffinity: &v1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}), true},
		"that must be away from others": {affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}), true},
		"that would be near others": {affinity(v1.Affinity{PodAffinity: &v1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}}}), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := schedtest.MakePod().Name("p").Obj()
			tt.change(pod)
			if got := dependsOnOtherNodes(ssn.Session, pod); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}

func boundClaim(name string) *v1.PersistentVolumeClaim {
	claim := schedtest.UnboundClaim(name, "late")
	claim.Spec.VolumeName, claim.Status.Phase = "disk", v1.ClaimBound
	return claim
}

// TestClaimsThatAnotherPluginLooksFor checks that a pod's claims make the predicates plugin's filter results
// uncacheable only if this plugin checks such claims, and not if another plugin does.
func TestClaimsThatAnotherPluginLooksFor(t *testing.T) {
	cluster := sessiontest.New(sessiontest.ClusterSpec{Objects: []runtime.Object{schedtest.LateClass("late", "example.com/disks"), schedtest.UnboundClaim("unbound", "late")}})
	defer cluster.Close()
	pods := map[string]*v1.Pod{
		"predicate.VolumeBindingEnable":             schedtest.MakePod().Name("p").Volume("unbound").Obj(),
		"predicate.DynamicResourceAllocationEnable": schedtest.MakePod().Name("p").ResourceClaim("card").Obj(),
	}
	for argument, pod := range pods {
		for value, want := range map[string]bool{"true": true, "false": false} {
			ssn := cluster.Open(framework.NewRegistry(),
				"actions: allocate\ntiers:\n- plugins:\n  - name: predicates\n    arguments: {"+argument+": "+value+"}\n")
			if got := dependsOnOtherNodes(ssn.Session, pod); got != want {
				t.Errorf("with %s: %s got %t, want %t", argument, value, got, want)
			}
			ssn.Close()
		}
	}
}

// TestPodsWhoseClaimsAPluginFindsEqualAreOfOneClass checks that pods whose claims a plugin finds equal are in one
// class. Otherwise each pod with its own claim would be a separate class.
func TestPodsWhoseClaimsAPluginFindsEqualAreOfOneClass(t *testing.T) {
	told := &selectorLabelKeys{read: framework.SomePodKeys(), selected: map[string]namedLabels{}}
	pods := map[string]func(claim string) *v1.Pod{
		"volume": func(claim string) *v1.Pod { return schedtest.MakePod().Name("p").Volume(claim).Obj() },
		"devices": func(claim string) *v1.Pod {
			pod := schedtest.MakePod().Name("p").Obj()
			pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "card", ResourceClaimName: &claim}}
			return pod
		},
	}
	equal := claimKeys{
		func(*v1.Pod, *v1.Volume) (string, bool) { return "equal", true },
		func(*v1.Pod, *v1.PodResourceClaim) (string, bool) { return "equal", true },
	}
	byName := claimKeys{
		func(_ *v1.Pod, volume *v1.Volume) (string, bool) { return volume.PersistentVolumeClaim.ClaimName, true },
		func(_ *v1.Pod, claim *v1.PodResourceClaim) (string, bool) { return *claim.ResourceClaimName, true },
	}
	for name, pod := range pods {
		key := func(claim string, of claimKeys) string {
			return string(classKeyOf(api.NewTaskInfo(pod(claim)), told, of))
		}
		if key("a", equal) != key("b", equal) {
			t.Errorf("%s: pods with equal claims are of two classes", name)
		}
		if key("a", byName) == key("b", byName) || key("a", noKeys) == key("b", noKeys) {
			t.Errorf("%s: pods with unequal claims are of one class", name)
		}
		if key("a", equal) == string(classKeyOf(api.NewTaskInfo(schedtest.MakePod().Name("p").Obj()), told, equal)) {
			t.Errorf("%s: a pod with a claim and one without are of one class", name)
		}
	}
}
