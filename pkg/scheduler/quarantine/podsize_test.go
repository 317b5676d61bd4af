// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/snapshot"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// kindsOfResources returns n resource names, numbered from first.
func kindsOfResources(first, n int) v1.ResourceList {
	list := v1.ResourceList{}
	for i := range n {
		list[v1.ResourceName(fmt.Sprintf("example.com/%03d", first+i))] = *most(v1.ResourceCPU, 1)
	}
	return list
}

// selectorOf returns a selector with the given number of labels, and one requirement per element of values. The element
// is the requirement's number of values.
func selectorOf(labels int, values ...int) *metav1.LabelSelector {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := range labels {
		selector.MatchLabels[fmt.Sprint(i)] = ""
	}
	for _, n := range values {
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Values: make([]string, n)})
	}
	return selector
}

// nodeTermOf returns a term with one requirement per element of values. The element is the requirement's number of
// values.
func nodeTermOf(values ...int) (term v1.NodeSelectorTerm) {
	for _, n := range values {
		term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{Values: make([]string, n)})
	}
	return term
}

// TestSizeOf checks that sizeOf counts all elements of each field, for example of all containers and all affinity
// terms.
func TestSizeOf(t *testing.T) {
	over := []v1.PodAffinityTerm{
		{LabelSelector: selectorOf(2, 3, 4), NamespaceSelector: selectorOf(1, 5), Namespaces: make([]string, 6)},
		{LabelSelector: selectorOf(1)},
	}
	weighted := []v1.WeightedPodAffinityTerm{{PodAffinityTerm: over[0]}, {PodAffinityTerm: over[1]}}
	overSize := podSize{over: 2, requirements: 7, values: 18}
	fields := nodeTermOf(2)
	fields.MatchFields = []v1.NodeSelectorRequirement{{Values: make([]string, 1)}, {Values: make([]string, 4)}}
	nodeTerms := []v1.NodeSelectorTerm{nodeTermOf(1, 2), {}, fields}
	nodeSize := podSize{requirements: 2 + 1 + 3, values: 3 + 7}
	containers := []v1.Container{
		{Resources: v1.ResourceRequirements{Requests: kindsOfResources(0, 2)}, Ports: []v1.ContainerPort{{ContainerPort: 1}, {HostPort: 1}, {HostPort: 2}}},
		{Resources: v1.ResourceRequirements{Requests: kindsOfResources(0, 3)}, Ports: []v1.ContainerPort{{HostPort: 3}}},
	}
	tests := map[string]struct {
		spec v1.PodSpec
		want podSize
	}{
		"nothing":         {},
		"overhead":        {v1.PodSpec{Overhead: kindsOfResources(0, 2)}, podSize{kinds: 2}},
		"node selector":   {v1.PodSpec{NodeSelector: map[string]string{"a": "", "b": ""}}, podSize{requirements: 2}},
		"containers":      {v1.PodSpec{Containers: containers}, podSize{kinds: 5, hostPorts: 3}},
		"init containers": {v1.PodSpec{InitContainers: containers}, podSize{kinds: 5, hostPorts: 3}},
		"topology spread constraints": {v1.PodSpec{TopologySpreadConstraints: []v1.TopologySpreadConstraint{{LabelSelector: selectorOf(1, 2)}, {LabelSelector: selectorOf(2, 1)}, {}}},
			podSize{over: 3, requirements: 5, values: 3}},
		"required node affinity": {v1.PodSpec{Affinity: &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: nodeTerms}}}},
			nodeSize},
		"preferred node affinity": {v1.PodSpec{Affinity: &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{
			{Preference: nodeTerms[0]}, {Preference: nodeTerms[1]}, {Preference: nodeTerms[2]}}}}}, nodeSize},
		"required affinity":       {v1.PodSpec{Affinity: &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: over}}}, overSize},
		"preferred affinity":      {v1.PodSpec{Affinity: &v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted}}}, overSize},
		"required anti-affinity":  {v1.PodSpec{Affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: over}}}, overSize},
		"preferred anti-affinity": {v1.PodSpec{Affinity: &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: weighted}}}, overSize},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, sizeOf(&tt.spec), cmp.AllowUnexported(podSize{})); diff != "" {
				t.Errorf("size (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPodsAreWithinEachBound checks that a pod may have as many elements as the limit allows, and that one more is
// reported with its field.
func TestPodsAreWithinEachBound(t *testing.T) {
	tests := map[string]struct {
		has   func(spec *v1.PodSpec, n int)
		bound int
		want  string
	}{
		"kinds": {func(spec *v1.PodSpec, n int) {
			// Each container names one resource that the others name, too.
			spec.InitContainers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: kindsOfResources(0, 10)}}, {Resources: v1.ResourceRequirements{Requests: kindsOfResources(9, 20)}}}
			spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: kindsOfResources(28, 20)}}, {Resources: v1.ResourceRequirements{Requests: kindsOfResources(47, 20)}}}
			spec.Overhead = kindsOfResources(66, n-66)
		}, 100, "resource names in requests of containers and in spec.overhead"},
		"terms over pods": {func(spec *v1.PodSpec, n int) { spec.TopologySpreadConstraints = make([]v1.TopologySpreadConstraint, n) }, 50,
			"pod affinity terms of spec.affinity and spec.topologySpreadConstraints"},
		"requirements": {func(spec *v1.PodSpec, n int) { spec.NodeSelector = selectorOf(n).MatchLabels }, 100,
			"requirements of spec.nodeSelector and of selectors in spec.affinity and spec.topologySpreadConstraints"},
		"values": {func(spec *v1.PodSpec, n int) {
			spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{LabelSelector: selectorOf(0, n)}}
		}, 1000, "values of requirements in spec.nodeSelector, spec.affinity and spec.topologySpreadConstraints"},
		"tolerations": {func(spec *v1.PodSpec, n int) { spec.Tolerations = make([]v1.Toleration, n) }, 1000, "spec.tolerations"},
		"volumes":     {func(spec *v1.PodSpec, n int) { spec.Volumes = make([]v1.Volume, n) }, 1000, "spec.volumes"},
		"containers": {func(spec *v1.PodSpec, n int) {
			spec.InitContainers, spec.Containers = make([]v1.Container, n/2), make([]v1.Container, n-n/2)
		}, 1000, "containers"},
		"ports of the host": {func(spec *v1.PodSpec, n int) {
			spec.Containers = []v1.Container{{Ports: make([]v1.ContainerPort, n)}}
			for i := range n {
				spec.Containers[0].Ports[i].HostPort = 1
			}
		}, 1000, "host ports of containers"},
	}
	for name, tt := range tests {
		for beyond, want := range []string{"", fmt.Sprintf("%s: %d, must be at most %d", tt.want, tt.bound+1, tt.bound)} {
			t.Run(fmt.Sprintf("%s, %d beyond", name, beyond), func(t *testing.T) {
				spec := v1.PodSpec{}
				tt.has(&spec, tt.bound+beyond)
				if got := podExcess(&spec); got != want {
					t.Errorf("the message is %q, want %q", got, want)
				}
			})
		}
	}
}

// TestPodGroupsAreWithinEachBound checks the limits on PodGroups. If several pods of a gang exceed a limit, the first
// of these pods by name is reported.
func TestPodGroupsAreWithinEachBound(t *testing.T) {
	policies := func(keys int) []scheduling.SubGroupPolicySpec {
		first := scheduling.SubGroupPolicySpec{LabelSelector: selectorOf(2, 3, 4), MatchLabelKeys: make([]string, 5)} // 1 + 2 + 2 + 7 + 5
		return []scheduling.SubGroupPolicySpec{first, {MatchLabelKeys: make([]string, keys)}}
	}
	minimum := func(n int) *v1.ResourceList { list := kindsOfResources(0, n); return &list }
	tests := map[string]struct {
		spec scheduling.PodGroupSpec
		want string
	}{
		"kinds":            {spec: scheduling.PodGroupSpec{MinResources: minimum(100)}},
		"a kind beyond":    {scheduling.PodGroupSpec{MinResources: minimum(101)}, "resource names in spec.minResources: 101, must be at most 100"},
		"policies":         {spec: scheduling.PodGroupSpec{SubGroupPolicy: policies(82)}},
		"a label key more": {scheduling.PodGroupSpec{SubGroupPolicy: policies(83)}, "policies, label keys and values in spec.subGroupPolicy: 101, must be at most 100"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := api.NewJobInfo("ns/g")
			job.SetPodGroup(&api.PodGroup{PodGroup: scheduling.PodGroup{Spec: tt.spec}})
			if got := tooLarge(job); got != tt.want {
				t.Errorf("the message is %q, want %q", got, tt.want)
			}
		})
	}

	job := api.NewJobInfo("ns/g")
	job.SetPodGroup(&api.PodGroup{})
	for _, name := range []string{"p-3", "p-1", "p-2", "p-0"} {
		pod := schedtest.MakePod().Name(name).Obj()
		if name != "p-0" {
			pod.Spec.Volumes = make([]v1.Volume, mostTerms+1)
		}
		job.AddTaskInfo(api.NewTaskInfo(pod))
	}
	for range 20 { // The order of pods is random.
		if got, want := tooLarge(job), "pod p-1: spec.volumes: 1001, must be at most 1000"; got != want {
			t.Errorf("the message is %q, want %q", got, want)
		}
	}
}

// oneJob is a snapshot.JobSource with one job, which does not change.
type oneJob struct{ *api.JobInfo }

func (o oneJob) Visible(api.JobID) (*api.JobInfo, uint64) { return o.JobInfo, 1 }
func (o oneJob) Changed(uint64) ([]api.JobID, uint64)     { return []api.JobID{o.UID}, 1 }

// TestAGangWithinTheLimitsIsCheckedOnce checks that an unchanged gang within the limits is checked once.
func TestAGangWithinTheLimitsIsCheckedOnce(t *testing.T) {
	source := api.NewJobInfo("ns/g", api.NewTaskInfo(schedtest.MakePod().Name("p").Group("g").Obj()))
	source.SetPodGroup(&api.PodGroup{})
	copies := snapshot.NewCopies()
	job := copies.Jobs(oneJob{source}, func(*api.JobInfo) int32 { return 0 })[source.UID]
	for _, known := range []bool{false, true} {
		if got := copies.WithinBounds(job.UID, job); got != known {
			t.Errorf("the gang counts as within the limits: %t, want %t", got, known)
		}
		if gangs := checkObjects(&api.ClusterInfo{Jobs: map[api.JobID]*api.JobInfo{job.UID: job}}, copies); len(gangs) > 0 {
			t.Errorf("the gang has %v", gangs)
		}
	}
}
