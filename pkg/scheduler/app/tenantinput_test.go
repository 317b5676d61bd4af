// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// tenantInput is a list in an object. A tenant chooses its length; only the API server limits it.
type tenantInput struct {
	// fits is the number of elements that the scheduler accepts, and most the number that an object of 1 MB can have.
	// If most is 0, it equals fits.
	fits, most int
	group      func(pg *v1beta1.PodGroup, n int)
	// pod changes each pod of the gang.
	pod func(pod *v1.Pod, n int)
	// more adds other objects beside the gang.
	more func(cluster *schedtest.Cluster, n int)
	// changing makes a pod of another tenant start before each cycle, so that no cycle can reuse the former cycle's
	// results.
	changing bool
}

// portsOfUnlike is the number of host ports that each member requests.
const portsOfUnlike = 40

// unlikeWithPorts returns the input of a gang of n members of different sizes. Each member needs its own node. All
// members request the same host ports, each member on the address that the function returns for it.
func unlikeWithPorts(address func(member int) string) tenantInput {
	return tenantInput{fits: 240, changing: true, more: func(cluster *schedtest.Cluster, n int) {
		cluster.Put(schedtest.MakePodGroup().Name("unlike").MinMember(int32(n)).Phase(v1beta1.PodGroupInqueue).Obj())
		for i := range n {
			pod := schedtest.MakePod().Name(fmt.Sprint("unlike-", i)).Group("unlike").Req(schedtest.Resources{"cpu": fmt.Sprintf("%dm", 5_000+i)}).Obj()
			for port := range portsOfUnlike {
				pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, v1.ContainerPort{HostPort: int32(1 + port), ContainerPort: 1, HostIP: address(i)})
			}
			cluster.Put(pod)
		}
	}}
}

// key returns a label or annotation key of realistic length.
func key(i int) string { return fmt.Sprintf("example.com/some-name-%d", i) }

func toHave(key string) metav1.LabelSelectorRequirement {
	return metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpExists}
}

func toLack(n int) *metav1.LabelSelector {
	selector := &metav1.LabelSelector{}
	for i := range n {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: key(i), Operator: metav1.LabelSelectorOpDoesNotExist})
	}
	return selector
}

func policyOf(name string, selector *metav1.LabelSelector, keys ...string) v1beta1.SubGroupPolicySpec {
	return v1beta1.SubGroupPolicySpec{Name: name, SubGroupSize: new(int32(1)), MinSubGroups: new(int32(1)), LabelSelector: selector, MatchLabelKeys: keys}
}

// groupInputs are the inputs of a PodGroup.
var groupInputs = map[string]tenantInput{
	"nothing special": {fits: 4},
	"roles": {fits: 30_000, group: func(pg *v1beta1.PodGroup, n int) {
		pg.Spec.MinTaskMember = map[string]int32{"a": 1}
		for i := range n {
			pg.Spec.MinTaskMember[fmt.Sprint("role-", i)] = 1
		}
	}},
	"roles that need nobody": {fits: 30_000, group: func(pg *v1beta1.PodGroup, n int) {
		pg.Spec.MinTaskMember = map[string]int32{"a": 1}
		for i := range n {
			pg.Spec.MinTaskMember[fmt.Sprint("role-", i)] = 0
		}
	}},
	"labels of a PodGroup": {fits: 20_000, group: func(pg *v1beta1.PodGroup, n int) {
		pg.Labels = map[string]string{}
		for i := range n {
			pg.Labels[key(i)] = "x"
		}
	}},
	"annotations of a PodGroup": {fits: 8_000, group: func(pg *v1beta1.PodGroup, n int) {
		for i := range n {
			pg.Annotations[key(i)] = "x"
		}
	}},
	"a long annotation of a PodGroup": {fits: 250_000, group: func(pg *v1beta1.PodGroup, n int) { pg.Annotations["x"] = strings.Repeat("x", n) }},
	"mistyped annotations": {fits: 5_000, group: func(pg *v1beta1.PodGroup, n int) {
		for i := range n {
			pg.Annotations[fmt.Sprint("ibcluster.volcano-prebind.io/x-", i)] = "x"
		}
	}},
	"clusters": {fits: 1_000, most: 120_000, group: func(pg *v1beta1.PodGroup, n int) {
		pg.Annotations["ibcluster.volcano-prebind.io/clusters"] = strings.Repeat("a,", n-1) + "b"
	}},
	"sub-group policies": {fits: 33, most: 2_500, group: func(pg *v1beta1.PodGroup, n int) {
		for i := range n {
			pg.Spec.SubGroupPolicy = append(pg.Spec.SubGroupPolicy, policyOf(fmt.Sprint("p", i), &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{toHave("x")}}, "x"))
		}
	}},
	"the selector of a sub-group policy": {fits: 98, most: 15_000, group: func(pg *v1beta1.PodGroup, n int) {
		pg.Spec.SubGroupPolicy = append(pg.Spec.SubGroupPolicy, policyOf("p", toLack(n), "member"))
	}},
	"the keys of a sub-group policy": {fits: 98, most: 30_000, group: func(pg *v1beta1.PodGroup, n int) {
		keys := []string{"member"}
		for i := range n {
			keys = append(keys, key(i))
		}
		pg.Spec.SubGroupPolicy = append(pg.Spec.SubGroupPolicy, policyOf("p", nil, keys...))
	}},
	"minResources": {fits: 100, most: 20_000, group: func(pg *v1beta1.PodGroup, n int) {
		list := v1.ResourceList{}
		for i := range n {
			list[v1.ResourceName(key(i))] = resource.MustParse("1")
		}
		pg.Spec.MinResources = &list
	}},
	"host ports of all addresses of unlike pods":    unlikeWithPorts(func(int) string { return "" }),
	"host ports of one address each of unlike pods": unlikeWithPorts(func(member int) string { return fmt.Sprintf("127.0.0.%d", 1+member) }),
	"host ports of all addresses, or of one each, of unlike pods": unlikeWithPorts(func(member int) string {
		if member%2 == 0 {
			return "0.0.0.0"
		}
		return fmt.Sprintf("127.0.0.%d", 1+member)
	}),
	"PodGroups without pods": {fits: 200, more: func(cluster *schedtest.Cluster, n int) {
		for i := range n {
			cluster.Put(schedtest.MakePodGroup().Name(fmt.Sprint("empty-", i)).Phase(v1beta1.PodGroupPending).Obj())
		}
	}},
	"kinds of resources of each PodGroup's own": {fits: 400, more: func(cluster *schedtest.Cluster, n int) {
		for i := range n {
			list := v1.ResourceList{}
			for k := range 10 {
				list[v1.ResourceName(key(10*i+k))] = resource.MustParse("0")
			}
			cluster.Put(schedtest.MakePodGroup().Name(fmt.Sprint("empty-", i)).Phase(v1beta1.PodGroupPending).Obj())
			pg := cluster.PodGroup(fmt.Sprint("empty-", i))
			pg.Spec.MinResources = &list
			cluster.Put(pg)
		}
	}},
	"a kind of resource of each pod's own": {fits: 800, more: func(cluster *schedtest.Cluster, n int) {
		for i := range n {
			name := fmt.Sprint("gang-", i)
			cluster.Put(schedtest.MakePodGroup().Name(name).Phase(v1beta1.PodGroupInqueue).Obj())
			cluster.Put(schedtest.MakePod().Name(name).Group(name).Req(schedtest.Resources{key(i): "1"}).Obj())
		}
	}},
	"terms of pods that name their node": {fits: 50, most: 8_000, more: func(cluster *schedtest.Cluster, n int) {
		for i := range 4 {
			pod := schedtest.MakePod().Name(fmt.Sprint("there-", i)).Scheduler("default-scheduler").Req(schedtest.Resources{"cpu": "1m"}).Node(fmt.Sprint("n", i)).Phase(v1.PodRunning).Obj()
			podInputs["pod anti-affinity"].pod(pod, n)
			cluster.Put(pod)
		}
	}},
	"gangs": {fits: 200, more: func(cluster *schedtest.Cluster, n int) {
		for i := range n {
			name := fmt.Sprint("gang-", i)
			cluster.Put(schedtest.MakePodGroup().Name(name).Phase(v1beta1.PodGroupPending).Obj())
			cluster.Put(schedtest.MakePod().Name(name).Group(name).Req(schedtest.Resources{"cpu": "100"}).Obj())
		}
	}},
}

func nodeTerm(i int) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: key(i), Operator: v1.NodeSelectorOpIn, Values: []string{"x"}}}}
}

func needing(pod *v1.Pod, terms ...v1.NodeSelectorTerm) {
	pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
}

func spread(when v1.UnsatisfiableConstraintAction) func(pod *v1.Pod, n int) {
	return func(pod *v1.Pod, n int) {
		for i := range n {
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{
				MaxSkew: int32(1 + i), TopologyKey: []string{"zone", v1.LabelHostname}[i%2], WhenUnsatisfiable: when, LabelSelector: toLack(1),
			})
		}
	}
}

func asking(amount string) func(pod *v1.Pod, n int) {
	return func(pod *v1.Pod, n int) {
		for i := range n - 1 { // The pod requests CPU, too.
			pod.Spec.Containers[0].Resources.Requests[v1.ResourceName(key(i))] = resource.MustParse(amount)
		}
	}
}

// podInputs are the inputs of each pod of a gang.
var podInputs = map[string]tenantInput{
	"labels of pods": {fits: 20_000, pod: func(pod *v1.Pod, n int) {
		for i := range n {
			pod.Labels[key(i)] = "x"
		}
	}},
	"annotations of pods": {fits: 8_000, pod: func(pod *v1.Pod, n int) {
		for i := range n {
			pod.Annotations[key(i)] = "x"
		}
	}},
	"a node selector": {fits: 100, most: 20_000, pod: func(pod *v1.Pod, n int) {
		pod.Spec.NodeSelector = map[string]string{}
		for i := range n {
			pod.Spec.NodeSelector[key(i)] = "x"
		}
	}},
	"terms of node affinity": {fits: 100, most: 12_000, pod: func(pod *v1.Pod, n int) {
		var terms []v1.NodeSelectorTerm
		for i := range n {
			terms = append(terms, nodeTerm(i))
		}
		needing(pod, terms...)
	}},
	"values of node affinity": {fits: 1_000, most: 100_000, pod: func(pod *v1.Pod, n int) {
		to := v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn}
		for i := range n {
			to.Values = append(to.Values, fmt.Sprint("v", i))
		}
		needing(pod, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{to}})
	}},
	"names in node affinity": {fits: 100, most: 12_000, pod: func(pod *v1.Pod, n int) {
		var terms []v1.NodeSelectorTerm
		for i := range n {
			terms = append(terms, v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{key(i)}}}})
		}
		needing(pod, terms...)
	}},
	"preferred node affinity": {fits: 100, most: 12_000, pod: func(pod *v1.Pod, n int) {
		var terms []v1.PreferredSchedulingTerm
		for i := range n {
			terms = append(terms, v1.PreferredSchedulingTerm{Weight: 1, Preference: nodeTerm(i)})
		}
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}
	}},
	"pod affinity": {fits: 50, most: 8_000, pod: func(pod *v1.Pod, n int) {
		pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}}
		for range n {
			pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
				v1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: toLack(1)})
		}
	}},
	"pod anti-affinity": {fits: 50, most: 8_000, pod: func(pod *v1.Pod, n int) {
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{}}
		for i := range n {
			pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = append(pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
				v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{key(i): "x"}}})
		}
	}},
	"preferred pod affinity": {fits: 50, most: 8_000, pod: func(pod *v1.Pod, n int) {
		pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}}
		for range n {
			pod.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(pod.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: toLack(1)}})
		}
	}},
	"the selector of pod affinity": {fits: 100, most: 15_000, pod: func(pod *v1.Pod, n int) {
		pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{TopologyKey: "zone", LabelSelector: toLack(n)},
		}}}
	}},
	"topology spread":            {fits: 50, most: 8_000, pod: spread(v1.DoNotSchedule)},
	"topology spread, if it can": {fits: 50, most: 8_000, pod: spread(v1.ScheduleAnyway)},
	"tolerations": {fits: 1_000, most: 20_000, pod: func(pod *v1.Pod, n int) {
		for i := range n {
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Key: key(i), Operator: v1.TolerationOpExists, Effect: []v1.TaintEffect{"", v1.TaintEffectPreferNoSchedule}[i%2]})
		}
	}},
	"resources that no node has":   {fits: 100, most: 5_000, pod: asking("1")},
	"nothing of unknown resources": {fits: 100, most: 5_000, pod: asking("0")},
	"containers": {fits: 900, most: 9_000, pod: func(pod *v1.Pod, n int) {
		for i := range n {
			container := v1.Container{Name: fmt.Sprint("c", i), Image: key(i), Resources: v1.ResourceRequirements{Requests: v1.ResourceList{"cpu": resource.MustParse("1m")}}}
			pod.Spec.Containers = append(pod.Spec.Containers, container)
		}
	}},
	"init containers": {fits: 900, most: 9_000, pod: func(pod *v1.Pod, n int) {
		for i := range n {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, v1.Container{Name: fmt.Sprint("c", i), Image: key(i)})
		}
	}},
	"host ports": {fits: 1_000, most: 20_000, pod: func(pod *v1.Pod, n int) {
		for i := range n {
			pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, v1.ContainerPort{HostPort: int32(1 + i), ContainerPort: 1, HostIP: "127.0.0.1"})
		}
	}},
	"host ports of all addresses": {fits: 1_000, most: 20_000, pod: func(pod *v1.Pod, n int) {
		for i := range n {
			pod.Spec.Containers[0].Ports = append(pod.Spec.Containers[0].Ports, v1.ContainerPort{HostPort: int32(1 + i), ContainerPort: 1})
		}
	}},
	"scheduling gates": {fits: 20_000, pod: func(pod *v1.Pod, n int) {
		for i := range n {
			pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, v1.PodSchedulingGate{Name: key(i)})
		}
	}},
	"volumes": {fits: 1_000, most: 10_000, pod: func(pod *v1.Pod, n int) {
		for i := range n {
			pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", i), VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
		}
	}},
	"disks": {fits: 1_000, most: 10_000, pod: func(pod *v1.Pod, n int) {
		for i := range n {
			pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", i), VolumeSource: v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: fmt.Sprint("d", i)}}})
		}
	}},
	"claims that are not there": {fits: 1_000, most: 10_000, pod: func(pod *v1.Pod, n int) {
		for i := range n {
			pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", i),
				VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("c", i)}}})
		}
	}},
}
