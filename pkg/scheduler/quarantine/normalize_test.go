// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAmountsOfEveryPodFieldAreNormalized checks that the amounts in every field of a pod are normalized. Kubernetes
// computes a pod's request from many fields, and a tenant may write some of them in the status.
func TestAmountsOfEveryPodFieldAreNormalized(t *testing.T) {
	huge := v1.ResourceList{v1.ResourceCPU: resource.MustParse("9e18"), v1.ResourceMemory: resource.MustParse("9e18")}
	always := v1.ContainerRestartPolicyAlways
	tests := map[string]func(pod *v1.Pod){
		"a container's requests": func(pod *v1.Pod) { pod.Spec.Containers[0].Resources.Requests = huge },
		"an init container's requests": func(pod *v1.Pod) {
			pod.Spec.InitContainers = []v1.Container{{Name: "init", Resources: v1.ResourceRequirements{Requests: huge}}}
		},
		"two sidecars' and the container's requests": func(pod *v1.Pod) {
			sidecar := v1.Container{Name: "sidecar", RestartPolicy: &always, Resources: v1.ResourceRequirements{Requests: huge}}
			pod.Spec.InitContainers = []v1.Container{sidecar, sidecar}
			pod.Spec.Containers[0].Resources.Requests = huge
		},
		"the overhead": func(pod *v1.Pod) { pod.Spec.Overhead = huge },
		"the pod's own requests and the overhead": func(pod *v1.Pod) {
			pod.Spec.Overhead, pod.Spec.Resources = huge, &v1.ResourceRequirements{Requests: huge}
		},
		"what its containers are said to have been given": func(pod *v1.Pod) { pod.Status.ContainerStatuses[0].AllocatedResources = huge },
		"what its sidecar is said to have been given": func(pod *v1.Pod) {
			pod.Spec.InitContainers = []v1.Container{{Name: "sidecar", RestartPolicy: &always}}
			pod.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "sidecar", AllocatedResources: huge, Resources: &v1.ResourceRequirements{Requests: huge}}}
		},
		"what its containers are said to ask for": func(pod *v1.Pod) { pod.Status.ContainerStatuses[0].Resources.Requests = huge },
	}
	for name, says := range tests {
		t.Run(name, func(t *testing.T) {
			pod := schedtest.MakePod().Name("p").Req(schedtest.Resources{"cpu": "1"}).Obj()
			pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Resources: &v1.ResourceRequirements{}}}
			says(pod)
			if _, err := Trimmed(pod); err != nil {
				t.Fatal(err)
			}
			asks := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{UseStatusResources: true})
			if !isWithinLimits(asks) || asks.Cpu().MilliValue() <= 0 {
				t.Errorf("the pod requests %s CPUs and %s bytes, which is above the limit of amounts", asks.Cpu(), asks.Memory())
			}
		})
	}
}

// TestAPodWithoutANodeDoesNotRun checks that a pod without a node does not count as running, whatever its status
// says. Otherwise it would use resources of its queue.
func TestAPodWithoutANodeDoesNotRun(t *testing.T) {
	for _, c := range []struct {
		node     string
		is, want v1.PodPhase
	}{{"", v1.PodRunning, v1.PodPending}, {"n", v1.PodRunning, v1.PodRunning}, {"", v1.PodSucceeded, v1.PodSucceeded}, {"", v1.PodFailed, v1.PodFailed}} {
		pod := schedtest.MakePod().Name("p").Node(c.node).Phase(c.is).Obj()
		if _, err := Trimmed(pod); err != nil || pod.Status.Phase != c.want {
			t.Errorf("a pod on node %q with phase %s is in phase %s (%v), want %s", c.node, c.is, pod.Status.Phase, err, c.want)
		}
	}
}

// TestTermsOfPodsOnNodesAreBounded checks that affinity terms of pods on nodes are bounded. Thousands of them, each
// compared with each pending pod, took seconds of every cycle.
func TestTermsOfPodsOnNodesAreBounded(t *testing.T) {
	terms := func(n, requirements int) (list []v1.PodAffinityTerm) {
		for i := range n {
			selector := &metav1.LabelSelector{}
			for r := range requirements {
				selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: fmt.Sprint(r), Operator: metav1.LabelSelectorOpDoesNotExist})
			}
			list = append(list, v1.PodAffinityTerm{TopologyKey: fmt.Sprint(i), LabelSelector: selector})
		}
		return list
	}
	weighted := func(list []v1.PodAffinityTerm) (preferred []v1.WeightedPodAffinityTerm) {
		for _, term := range list {
			preferred = append(preferred, v1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: term})
		}
		return preferred
	}
	type counts struct{ Anti, PreferredAnti, With, PreferredWith int }
	tests := map[string]struct {
		node         string
		has, want    counts
		requirements int
	}{
		"within the bound":             {node: "n", has: counts{50, 0, 0, 0}, want: counts{50, 0, 0, 0}, requirements: 1},
		"of one kind":                  {node: "n", has: counts{8000, 0, 0, 0}, want: counts{50, 0, 0, 0}, requirements: 1},
		"of all kinds":                 {node: "n", has: counts{20, 20, 20, 20}, want: counts{20, 20, 10, 0}, requirements: 1},
		"of pods' affinity":            {node: "n", has: counts{0, 0, 20, 8000}, want: counts{0, 0, 20, 30}, requirements: 1},
		"as long as may be":            {node: "n", has: counts{2, 0, 0, 0}, want: counts{2, 0, 0, 0}, requirements: 500},
		"with long selectors":          {node: "n", has: counts{10, 0, 0, 0}, want: counts{2, 0, 0, 0}, requirements: 500},
		"one beyond all reason":        {node: "n", has: counts{1, 0, 0, 0}, requirements: 1001},
		"a pod that waits is reported": {has: counts{8000, 0, 0, 0}, want: counts{8000, 0, 0, 0}, requirements: 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pod := schedtest.MakePod().Name("p").Node(tt.node).Obj()
			shared := &v1.Affinity{
				PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(tt.has.Anti, tt.requirements),
					PreferredDuringSchedulingIgnoredDuringExecution: weighted(terms(tt.has.PreferredAnti, tt.requirements))},
				PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms(tt.has.With, tt.requirements),
					PreferredDuringSchedulingIgnoredDuringExecution: weighted(terms(tt.has.PreferredWith, tt.requirements))},
			}
			pod.Spec.Affinity = shared
			if _, err := Trimmed(pod); err != nil {
				t.Fatal(err)
			}
			of := func(a *v1.Affinity) counts {
				anti, with := a.PodAntiAffinity, a.PodAffinity
				return counts{len(anti.RequiredDuringSchedulingIgnoredDuringExecution), len(anti.PreferredDuringSchedulingIgnoredDuringExecution),
					len(with.RequiredDuringSchedulingIgnoredDuringExecution), len(with.PreferredDuringSchedulingIgnoredDuringExecution)}
			}
			if diff := cmp.Diff(tt.want, of(pod.Spec.Affinity)); diff != "" {
				t.Errorf("terms (-want +got):\n%s", diff)
			}
			if copied := pod.Spec.Affinity != shared; copied == (tt.has == tt.want) {
				t.Errorf("the affinity is copied: %t", copied)
			}
			if diff := cmp.Diff(tt.has, of(shared)); diff != "" {
				t.Errorf("the affinity that others share was changed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestATermThatIsTooLargeLeavesRoomForOthers checks that only the term that would exceed the limit is dropped. The
// terms before and after it stay, in pod affinity as well as in pod anti-affinity.
func TestATermThatIsTooLargeLeavesRoomForOthers(t *testing.T) {
	list := make([]v1.PodAffinityTerm, 3)
	for i, values := range []int{1, mostValues, mostValues - 1} {
		list[i].TopologyKey = fmt.Sprint(i)
		list[i].Namespaces = make([]string, values)
	}
	anti := withinTerms(&v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: list}})
	with := withinTerms(&v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: list}})
	want := []v1.PodAffinityTerm{list[0], list[2]}
	if diff := cmp.Diff(&v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: want}}, anti); diff != "" {
		t.Errorf("anti-affinity (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: want}}, with); diff != "" {
		t.Errorf("affinity (-want +got):\n%s", diff)
	}
}
