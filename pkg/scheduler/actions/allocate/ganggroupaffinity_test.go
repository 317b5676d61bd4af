// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// near gives the pod a required affinity to pods with these labels on its node.
func near(pod *v1.Pod, labels ...map[string]string) {
	var terms []v1.PodAffinityTerm
	for _, own := range labels {
		terms = append(terms, v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: own}})
	}
	pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
}

// newNear returns sessions of a gang group whose gangs have one member each, with these CPU requests. A member has its
// gang's name in the label app, and the label all.
func newNear(t *testing.T, requests ...string) *counting {
	c := newGroup(t, nil, nil, node("n1", "ib-a", "16"), node("n2", "ib-a", "16"))
	c.world.PodGroups = nil
	names := ""
	for i := range requests {
		names += fmt.Sprintf(`,"ns/g%d"`, i)
	}
	for i, request := range requests {
		pods, podGroup := gang(fmt.Sprint("g", i), request)
		pods[0].Labels = map[string]string{"app": podGroup.Name, "all": "yes"}
		podGroup.Annotations = map[string]string{gangs.GroupsAnnotation: "[" + names[1:] + "]"}
		c.world.Pods, c.world.PodGroups = append(c.world.Pods, pods...), append(c.world.PodGroups, podGroup)
	}
	return c
}

// TestAGangThatNeedsPodsOfAnotherComesBehindIt checks that a gang with affinity to pods of another gang is placed
// after that gang. It used to be placed first because it is larger, and found no room without the pods, so the group
// was never placed.
func TestAGangThatNeedsPodsOfAnotherComesBehindIt(t *testing.T) {
	app := func(i int) map[string]string { return map[string]string{"app": fmt.Sprint("g", i)} }
	all := map[string]string{"all": "yes"}
	tests := map[string]struct {
		requests []string
		change   func(pods []*v1.Pod)
		want     int
	}{
		"the larger one":      {[]string{"3", "1"}, func(pods []*v1.Pod) { near(pods[0], app(1)) }, 2},
		"one of equal size":   {[]string{"1", "1"}, func(pods []*v1.Pod) { near(pods[0], app(1)) }, 2},
		"the smaller one":     {[]string{"3", "1"}, func(pods []*v1.Pod) { near(pods[1], app(0)) }, 2},
		"it has two terms":    {[]string{"3", "1"}, func(pods []*v1.Pod) { near(pods[0], app(1), all) }, 2},
		"each needs the next": {[]string{"4", "3", "2", "1"}, func(pods []*v1.Pod) { near(pods[0], app(1)); near(pods[1], app(2)); near(pods[2], app(3)) }, 4},
		"one needs two others": {[]string{"3", "2", "1"}, func(pods []*v1.Pod) {
			near(pods[0], map[string]string{"pair": "yes"})
			pods[1].Labels["pair"], pods[2].Labels["pair"] = "yes", "yes"
		}, 3},
		"all have affinity":     {[]string{"3", "1"}, func(pods []*v1.Pod) { near(pods[0], app(1)); pods[1].Spec.Affinity = &v1.Affinity{} }, 2},
		"both need each other":  {[]string{"3", "1"}, func(pods []*v1.Pod) { near(pods[0], app(1)); near(pods[1], app(0)) }, 0},
		"both need what is all": {[]string{"3", "1"}, func(pods []*v1.Pod) { near(pods[0], all); near(pods[1], all) }, 2},
		"no pod is needed":      {[]string{"3", "1"}, func(pods []*v1.Pod) { near(pods[0], map[string]string{"app": "none"}) }, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := newNear(t, tc.requests...)
			tc.change(c.world.Pods)
			c.expect(t, "on two empty nodes", tc.want)
		})
	}
}

// TestAGroupThatNeedsAPodOutsideIt checks that affinity to a pod outside the gang group does not change the order:
// the larger gang is placed first.
func TestAGroupThatNeedsAPodOutsideIt(t *testing.T) {
	c := newNear(t, "3", "1")
	near(c.world.Pods[0], map[string]string{"app": "runs"})
	c.world.Pods = append(c.world.Pods, schedtest.MakePod().Name("runs").Label("app", "runs").Node("n2").Phase(v1.PodRunning).Obj())
	c.expect(t, "the pod runs on n2", 2)
}

// TestGangsThatFulfilTheirAffinityAloneKeepTheirOrder checks that gangs whose affinity is satisfied by their own pods
// keep their order, the larger first. In the other order, the smaller gang would take the only node of the larger one.
// The pods have host ports, because then no packing plan is made, which would find the placement in any case.
func TestGangsThatFulfilTheirAffinityAloneKeepTheirOrder(t *testing.T) {
	c := newNear(t, "8", "4")
	c.world.Nodes = []*v1.Node{node("n1", "ib-a", "8"), node("n2", "ib-a", "4")}
	for _, pod := range c.world.Pods {
		near(pod, map[string]string{"all": "yes"})
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
		pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].TopologyKey = "ibcluster"
	}
	c.expect(t, "in one cluster", 2)
}

// TestNeedsOfUnlikeMembersAreLimited checks that the affinity of a gang group's members is compared only up to a bound
// (search.maxAffinityLooks), because each task class is compared with all others. Beyond the bound, gangs that need
// pods of other gangs are not placed after these.
func TestNeedsOfUnlikeMembersAreLimited(t *testing.T) {
	for members, want := range map[int]int{99: 100, 100: 0} {
		c := newNear(t, "1m", "1m")
		c.world.Pods = c.world.Pods[1:]
		for i := range members {
			pod := schedtest.MakePod().Name(fmt.Sprint("g0-", i)).Group("g0").Req(schedtest.Resources{"cpu": fmt.Sprint(2+i, "m")}).Obj()
			near(pod, map[string]string{"app": "g1"})
			c.world.Pods = append(c.world.Pods, pod)
		}
		c.world.PodGroups[0].Spec.MinMember = int32(members)
		for _, node := range c.world.Nodes {
			node.Status.Allocatable[v1.ResourcePods], node.Status.Capacity[v1.ResourcePods] = resource.MustParse("200"), resource.MustParse("200")
		}
		c.expect(t, fmt.Sprint(members, " unlike members"), want)
	}
}
