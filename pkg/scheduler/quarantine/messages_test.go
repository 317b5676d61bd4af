// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestMessages compares the messages that users read on PodGroups and queues that are left out of scheduling.
func TestMessages(t *testing.T) {
	cpu := func(amount string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(amount)}
	}
	group := func(spec scheduling.PodGroupSpec) string { return groupExcess(&spec) }
	pod := func(change func(*v1.PodSpec)) string {
		made := schedtest.MakePod().Name("p").Req(schedtest.Resources{"cpu": "1"}).Obj()
		change(&made.Spec)
		return podExcess(&made.Spec)
	}
	names, kinds := v1.ResourceList{}, v1.ResourceList{}
	for i := range mostNames + 1 {
		names[v1.ResourceName(fmt.Sprint("example.com/", i))] = resource.MustParse("1")
		kinds[v1.ResourceName(fmt.Sprint("example.com/", i))] = resource.MustParse("1")
	}
	matches := func(requirements, values int) *v1.NodeSelector {
		term := v1.NodeSelectorTerm{}
		for i := range requirements {
			term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{
				Key: fmt.Sprint("label-", i), Operator: v1.NodeSelectorOpIn, Values: make([]string, values),
			})
		}
		return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}
	}
	onNodes := func(requirements, values int) func(*v1.PodSpec) {
		return func(spec *v1.PodSpec) {
			spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: matches(requirements, values)}}
		}
	}
	queue := func(name string, spec scheduling.QueueSpec) string {
		object := &scheduling.Queue{Spec: spec}
		object.Name = name
		return correctQueues(&api.ClusterInfo{Queues: map[api.QueueID]*api.QueueInfo{api.QueueID(name): api.NewQueueInfo(object)}})[api.QueueID(name)]
	}
	unknown := kindsSnapshot(mostUnknown)
	askFor(unknown, "young", time.Unix(2, 0), "example.com/other")
	quarantined := func(with int) string {
		h := newBisector()
		h.what = "scheduling panicked (action allocate): oh no"
		h.quarantine(object{PodGroup, "ns/g"}, time.Unix(0, 0), with)
		return h.quarantined[object{PodGroup, "ns/g"}].message
	}
	got := map[string]string{
		"minResources below 0":           strings.Join(negative("spec.minResources", cpu("-5")), "; "),
		"a queue's capability below 0":   queue("q", scheduling.QueueSpec{Capability: cpu("-1")}),
		"two of a queue's amounts":       queue("q", scheduling.QueueSpec{Capability: cpu("-1"), Deserved: cpu("-2")}),
		"a queue whose parent is gone":   queue("q", scheduling.QueueSpec{Parent: "dept"}),
		"a queue that is its own parent": queue("q", scheduling.QueueSpec{Parent: "q"}),
		"many resource names of a gang":  group(scheduling.PodGroupSpec{MinResources: &names}),
		"many sub-group policies": group(scheduling.PodGroupSpec{SubGroupPolicy: []scheduling.SubGroupPolicySpec{
			{Name: "racks", MatchLabelKeys: make([]string, mostOfPolicies)}}}),
		"many resource names of a pod": pod(func(spec *v1.PodSpec) { spec.Containers[0].Resources.Requests = kinds }),
		"many terms over pods": pod(func(spec *v1.PodSpec) {
			for range mostOverPods + 1 {
				spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{LabelSelector: &metav1.LabelSelector{}})
			}
		}),
		"many requirements":  pod(onNodes(mostRequirements+1, 1)),
		"many values":        pod(onNodes(1, mostValues+1)),
		"many tolerations":   pod(func(spec *v1.PodSpec) { spec.Tolerations = make([]v1.Toleration, mostTerms+1) }),
		"many volumes":       pod(func(spec *v1.PodSpec) { spec.Volumes = make([]v1.Volume, mostTerms+1) }),
		"many containers":    pod(func(spec *v1.PodSpec) { spec.InitContainers = make([]v1.Container, mostTerms+1) }),
		"an unknown kind":    checkObjects(unknown, nil)["young"].Message,
		"cycles panic":       quarantined(0),
		"cycles panic by 40": quarantined(40),
	}
	want := map[string]string{
		"minResources below 0":           "spec.minResources[cpu] is -5, must be 0 or more",
		"a queue's capability below 0":   "queue q: spec.capability[cpu] is -1, must be 0 or more",
		"two of a queue's amounts":       "queue q: spec.capability[cpu] is -1, must be 0 or more (and 1 more)",
		"a queue whose parent is gone":   "queue q: spec.parent leads to queue dept, which does not exist",
		"a queue that is its own parent": "queue q: spec.parent is q, which forms a cycle; it must lead to queue root",
		"many resource names of a gang":  "resource names in spec.minResources: 101, must be at most 100",
		"many sub-group policies":        "policies, label keys and values in spec.subGroupPolicy: 101, must be at most 100",
		"many resource names of a pod":   "resource names in requests of containers and in spec.overhead: 101, must be at most 100",
		"many terms over pods":           "pod affinity terms of spec.affinity and spec.topologySpreadConstraints: 51, must be at most 50",
		"many requirements":              "requirements of spec.nodeSelector and of selectors in spec.affinity and spec.topologySpreadConstraints: 101, must be at most 100",
		"many values":                    "values of requirements in spec.nodeSelector, spec.affinity and spec.topologySpreadConstraints: 1001, must be at most 1000",
		"many tolerations":               "spec.tolerations: 1001, must be at most 1000",
		"many volumes":                   "spec.volumes: 1001, must be at most 1000",
		"many containers":                "containers: 1002, must be at most 1000",
		"an unknown kind":                `requests resource "example.com/other", which no node or queue provides; the limit of 100 unknown resource names per cluster is reached`,
		"cycles panic":                   "Quarantined for up to 1m0s, or for 5s if it changes: scheduling panicked (action allocate): oh no",
		"cycles panic by 40":             "Quarantined for up to 1m0s, or for 5s if it changes: 40 PodGroups of this namespace made the scheduler panic: scheduling panicked (action allocate): oh no",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
