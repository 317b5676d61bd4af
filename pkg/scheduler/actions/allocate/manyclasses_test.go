// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// manySizes returns a cluster with the given number of 4-CPU nodes in two clusters. The given number of pods, each of
// a different size, come before the gang z.
func manySizes(nodes, singles int, members ...string) (sessiontest.ClusterSpec, *v1beta1.PodGroup) {
	pods, podGroup := gang("z", members...)
	w := sessiontest.ClusterSpec{Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
	for i := range nodes {
		w.Nodes = append(w.Nodes, node(fmt.Sprintf("n%04d", i), fmt.Sprint("ib-", i*2/nodes), "4"))
	}
	for i := range singles {
		pods, group := gang(fmt.Sprintf("a%04d", i), fmt.Sprintf("%dm", 10+i))
		w.Pods, w.PodGroups = append(w.Pods, pods...), append(w.PodGroups, group)
	}
	return w, podGroup
}

// TestAGangOfManyClassesIsPlacedAmongManyOthers checks that a gang with many classes is placed among many others. The
// cached results of a class are dropped when others need the space, even while the gang is scheduled.
func TestAGangOfManyClassesIsPlacedAmongManyOthers(t *testing.T) {
	kinds := func(large int) []string {
		var requests []string
		for i := range 32 {
			requests = append(requests, fmt.Sprintf("%dm", 3000+i%16))
		}
		for i := range large {
			requests[i] = "4500m"
		}
		return requests
	}
	const singles = 70 // The cache keeps results of 80 classes at this number of nodes, eight of them for demand.
	for mode, large := range map[string]int{"required": 2, "preferred": 0} {
		t.Run(mode, func(t *testing.T) {
			w, podGroup := manySizes(8000, singles, kinds(large)...)
			podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: mode}
			ssn := ran(t, w, withClusters)
			want := len(w.Pods)
			if large > 0 {
				want = singles
			}
			if got := len(ssn.Binds()); got != want {
				t.Errorf("%d pods were bound, want %d: %s", got, want, ssn.Jobs["ns/z"].JobFitErrors)
			}
		})
	}
}

// TestRareSizesAreLookedForOnASampleOfNodes checks that rare sizes are filtered on a sample of nodes, and on all
// nodes if the sample does not suffice.
func TestRareSizesAreLookedForOnASampleOfNodes(t *testing.T) {
	const nodes, singles = 200, 400
	gangs := map[string][]string{
		"one node fits":                           {"1"},
		"the nominated node":                      {"1"},
		"a gang that must be packed":              {"3", "1900m", "1900m"},
		"one node has room now, and others later": {"3"},
	}
	w, _ := manySizes(nodes, singles)
	w.PodGroups = w.PodGroups[1:]
	names := slices.Sorted(maps.Keys(gangs))
	for i, name := range names {
		key := fmt.Sprint("z", i)
		pods, podGroup := gang(key, gangs[name]...)
		w.Pods, w.PodGroups = append(w.Pods, pods...), append(w.PodGroups, podGroup)
		first := w.Nodes[100+11*i]
		for _, n := range w.Nodes[100+11*i:][:2] { // The single pods do not use these nodes.
			n.Labels[key] = "yes"
			n.Spec.Taints = []v1.Taint{{Key: key, Effect: v1.TaintEffectNoSchedule}}
		}
		for _, pod := range pods {
			pod.Spec.Tolerations = []v1.Toleration{{Key: key, Operator: v1.TolerationOpExists}}
		}
		switch name {
		case "one node fits":
			pods[0].Spec.NodeSelector = map[string]string{v1.LabelHostname: first.Name}
		case "the nominated node":
			pods[0].Status.NominatedNodeName = first.Name
		case "a gang that must be packed":
			for _, pod := range pods {
				pod.Spec.NodeSelector = map[string]string{key: "yes"}
			}
		case "one node has room now, and others later":
			for _, n := range w.Nodes {
				if n != first && (len(n.Spec.Taints) == 0 || n.Labels[key] != "") {
					w.Pods = append(w.Pods, schedtest.MakePod().Name("leaves-"+n.Name).Node(n.Name).Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "1500m"}).Terminating().Obj())
				}
			}
		}
	}
	asked := 0
	binds := runWith(t, w, leastRequested+"  - name: helper\n", func(ssn *framework.Session) {
		ssn.AddPredicateFn("helper", func(*api.TaskInfo, *api.NodeInfo) error { asked++; return nil })
	})
	for i, name := range names {
		for member := range gangs[name] {
			node := binds[fmt.Sprintf("ns/z%d-%d", i, member)]
			if want := w.Nodes[100+11*i].Name; node == "" || len(gangs[name]) == 1 && node != want {
				t.Errorf("%s: member %d was bound to %q, want %s", name, member, node, want)
			}
		}
	}
	if asked > nodes*singles*9/10 {
		t.Errorf("nodes were looked at %d times for %d pods, as often as if all were looked at for each", asked, singles)
	}
}

// TestMembersHaveAHostPortOnAddressesOfTheirOwn checks that two members with the same host port may share a node only
// if they request the port on different addresses.
func TestMembersHaveAHostPortOnAddressesOfTheirOwn(t *testing.T) {
	tests := map[string]struct {
		addresses [2]string
		bound     int
	}{
		"two addresses":             {[2]string{"10.0.0.1", "10.0.0.2"}, 2},
		"one address":               {[2]string{"10.0.0.1", "10.0.0.1"}, 0},
		"all addresses":             {[2]string{"", "0.0.0.0"}, 0},
		"all addresses and one":     {[2]string{"", "10.0.0.2"}, 0},
		"one, and then all of them": {[2]string{"10.0.0.2", ""}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pods, podGroup := gang("g", "1", "2")
			podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
			for i, pod := range pods {
				pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80, HostIP: tc.addresses[i]}}
			}
			ssn := ran(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("a1", "ib-a", "4")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}, withClusters)
			if got := len(ssn.Binds()); got != tc.bound {
				t.Errorf("%d members were bound, want %d: %s", got, tc.bound, ssn.Jobs["ns/g"].JobFitErrors)
			}
		})
	}
}

// TestMembersWithPortsOfAllAddressesArePackedApart checks that members with ports on all addresses are packed apart.
// Where placing the largest members first fails, the plan must know that a port on all addresses excludes the same
// port on one address.
func TestMembersWithPortsOfAllAddressesArePackedApart(t *testing.T) {
	pods, podGroup := gang("g", "3", "2", "1", "3", "1")
	podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
	for i, address := range []string{"10.0.0.2", "10.0.0.2", "0.0.0.0", "", ""} {
		if address != "" {
			pods[i].Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80, HostIP: address}}
		}
	}
	w := sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n0", "ib-a", "3"), node("n1", "ib-a", "3"), node("n2", "ib-a", "4")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
	ssn := ran(t, w, withClusters)
	if got := len(ssn.Binds()); got != len(pods) {
		t.Errorf("%d members were bound, want all: 3 of .2 alone, 2 of .2 beside 1 without, 1 of all beside 3 without: %s", got, ssn.Jobs["ns/g"].JobFitErrors)
	}
}

// TestAGangIsNotTakenForOneThatHasFailed checks that a cached failure of a gang is not used for another gang that
// does not share its cause, although their pending tasks are equal.
func TestAGangIsNotTakenForOneThatHasFailed(t *testing.T) {
	// A member of role a excludes members of role b from its cluster, so a gang that needs both is not placed.
	members := func(name, queue string, done string) ([]*v1.Pod, *v1beta1.PodGroup) {
		pods, _ := gang(name, "1", "1100m", "1200m")
		for i, role := range []string{"a", "b", "b"} {
			pods[i].Annotations["volcano.sh/task-spec"] = role
			pods[i].Labels = map[string]string{"is": role}
		}
		pods[0].Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"is": "b"}}, TopologyKey: "ibcluster",
		}}}}
		if done != "" {
			pods = append(pods, schedtest.MakePod().Name(name+"-done").Group(name).Role(done).Node("b1").Phase(v1.PodSucceeded).Req(schedtest.Resources{"cpu": "1"}).Obj())
		}
		return pods, schedtest.MakePodGroup().Name(name).Annotation(ibcluster.ModeAnnotation, "required").Queue(queue).MinMember(3).MinTaskMember("a", 1).MinTaskMember("b", 2).Phase(v1beta1.PodGroupInqueue).Obj()
	}
	tests := map[string]struct{ first, second [2]string }{
		"another role is done": {[2]string{"q", "b"}, [2]string{"q", "a"}},
		"another queue":        {[2]string{"full", "a"}, [2]string{"q", "a"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var w sessiontest.ClusterSpec
			for i, of := range [][2]string{tc.first, tc.second} {
				pods, podGroup := members([]string{"x", "y"}[i], of[0], of[1])
				w.Pods, w.PodGroups = append(w.Pods, pods...), append(w.PodGroups, podGroup)
			}
			w.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("q").Obj(), schedtest.MakeQueue().Name("full").Capability(schedtest.Resources{"cpu": "1"}).Obj()}
			w.Nodes = []*v1.Node{node("b1", "ib-b", "4")}
			ssn := ran(t, w, strings.Replace(withClusters, "- name: gang", "- name: gang\n  - name: capacity", 1))
			if got := ssn.Binds(); got["ns/y-1"] == "" || got["ns/y-2"] == "" {
				t.Errorf("bound: %v, want two members of y: %s", got, ssn.Jobs["ns/y"].JobFitErrors)
			}
		})
	}
}
