// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const conf = `
actions: allocate
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
`

// action registers this project's allocate action and returns it in the form that sessions run.
func action() (*framework.Registry, vcframework.Action) {
	registry := framework.NewRegistry()
	registry.RegisterAction(allocate.New())
	action, _ := vcframework.GetAction("allocate")
	return registry, action
}

func gang(name string, requests ...string) ([]*v1.Pod, *v1beta1.PodGroup) {
	var pods []*v1.Pod
	for i, cpu := range requests {
		pods = append(pods, schedtest.MakePod().Name(fmt.Sprintf("%s-%d", name, i)).Group(name).Req(schedtest.Resources{"cpu": cpu}).Obj())
	}
	return pods, schedtest.MakePodGroup().Name(name).MinMember(int32(len(pods))).Phase(v1beta1.PodGroupInqueue).Obj()
}

func TestATaskInTheWayOfALargerOneIsPlacedElsewhere(t *testing.T) {
	pods, podGroup := gang("g", "3", "5")
	cluster := sessiontest.New(sessiontest.ClusterSpec{
		Nodes: []*v1.Node{
			schedtest.MakeNode().Name("n4").Capacity(schedtest.Resources{"cpu": "4", "memory": "8Gi", "pods": "10"}).Obj(),
			schedtest.MakeNode().Name("n6").Capacity(schedtest.Resources{"cpu": "6", "memory": "8Gi", "pods": "10"}).Obj(),
		},
		Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup},
	})
	defer cluster.Close()
	registry, action := action()
	ssn := cluster.Open(registry, conf)
	defer ssn.Close()
	ssn.Run(action)
	if diff := cmp.Diff(map[string]string{"ns/g-0": "n4", "ns/g-1": "n6"}, ssn.Binds()); diff != "" {
		t.Errorf("binds (-want +got):\n%s", diff)
	}
}

func TestAllNodesAreTriedUnlessAFlagLimitsThem(t *testing.T) {
	tests := map[string]struct {
		percentage int32
		wantBest   bool
	}{
		"no flag is set":                 {percentage: 0, wantBest: true},
		"the flag that leaves nodes out": {percentage: 10},
		"the same flag, set to take all": {percentage: 100, wantBest: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods, podGroup := gang("g", "1")
			w := sessiontest.ClusterSpec{Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
			for i := range 300 {
				w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(fmt.Sprintf("n%03d", i)).Capacity(schedtest.Resources{"cpu": "4", "memory": "8Gi", "pods": "10"}).Obj())
			}
			best := schedtest.MakeNode().Name("n999").Capacity(schedtest.Resources{"cpu": "64", "memory": "128Gi", "pods": "10"}).Obj()
			w.Nodes = append(w.Nodes, best)
			cluster := sessiontest.New(w)
			defer cluster.Close()
			former := *options.ServerOpts
			defer func() { *options.ServerOpts = former }()
			options.ServerOpts.PercentageOfNodesToFind = tt.percentage
			registry, action := action()
			ssn := cluster.Open(registry, leastRequested)
			defer ssn.Close()
			ssn.Run(action)
			node := ssn.Binds()["ns/g-0"]
			if node == "" || (node == best.Name) != tt.wantBest {
				t.Errorf("bound to %q; the best of all nodes is %s, wanted: %v", node, best.Name, tt.wantBest)
			}
		})
	}
}

const leastRequested = `
actions: allocate
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: nodeorder
`

// ran places the gangs of the cluster with this project's plugins and returns the session.
func ran(t *testing.T, w sessiontest.ClusterSpec, conf string, plugins ...framework.PluginSpec) *sessiontest.Session {
	t.Helper()
	cluster := sessiontest.New(w)
	t.Cleanup(cluster.Close)
	registry, action := action()
	for _, plugin := range append(plugins, ibcluster.Spec()) {
		registry.RegisterPlugin(plugin)
	}
	ssn := cluster.Open(registry, conf)
	t.Cleanup(ssn.Close)
	ssn.Run(action)
	return ssn
}

// run places the gangs of the cluster and returns the node of each bound pod.
func run(t *testing.T, w sessiontest.ClusterSpec, conf string) map[string]string {
	t.Helper()
	return ran(t, w, conf).Binds()
}

const withClusters = leastRequested + `
  - name: ibcluster
    arguments:
      ibcluster.levels: [ibcluster]
`

func node(name, cluster, cpu string) *v1.Node {
	return schedtest.MakeNode().Name(name).Label("ibcluster", cluster).Label(v1.LabelHostname, name).
		Capacity(schedtest.Resources{"cpu": cpu, "memory": "64Gi", "pods": "20"}).Obj()
}

// TestALabelInAnAffinitySelectorSeparatesTaskClasses checks that a label separates task classes if an affinity
// selector uses it. A running pod excludes one job's pods from its node by a label that otherwise only names the job.
func TestALabelInAnAffinitySelectorSeparatesTaskClasses(t *testing.T) {
	for _, unwanted := range []string{"a", "b"} {
		t.Run(unwanted, func(t *testing.T) {
			runs := schedtest.MakePod().Name("runs").Group("x").Req(schedtest.Resources{"cpu": "1"}).Node("n2").Phase(v1.PodRunning).Obj()
			runs.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
					TopologyKey:   v1.LabelHostname,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"volcano.sh/job-name": unwanted}},
				}},
			}}
			w := sessiontest.ClusterSpec{
				Nodes:     []*v1.Node{node("n1", "c", "3"), node("n2", "c", "8")},
				Pods:      []*v1.Pod{runs},
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("x").MinMember(1).Phase(v1beta1.PodGroupRunning).Obj()},
			}
			for _, job := range []string{"a", "b"} {
				pods, podGroup := gang(job, "3")
				pods[0].Labels["volcano.sh/job-name"] = job
				w.Pods, w.PodGroups = append(w.Pods, pods...), append(w.PodGroups, podGroup)
			}
			got := run(t, w, leastRequested)
			if at := got["ns/"+unwanted+"-0"]; at == "n2" {
				t.Errorf("job %s was bound to n2, which a running pod keeps it off: %v", unwanted, got)
			}
			if unwanted == "a" && len(got) != 2 {
				t.Errorf("bound %v, there is a node for each", got)
			}
		})
	}
}

// TestAGroupIsNotLeftOutWhileOtherMembersMakeTheMinimum checks that a node group is tried even if the first member in
// order is too large for every cluster, because the gang reaches its minimum without that member.
func TestAGroupIsNotLeftOutWhileOtherMembersMakeTheMinimum(t *testing.T) {
	for _, mode := range []string{"required", "preferred", "none"} {
		t.Run(mode, func(t *testing.T) {
			pods, podGroup := gang("g", "8", "1", "1", "1")
			podGroup.Spec.MinMember = 2
			podGroup.Annotations = map[string]string{"ibcluster.volcano-prebind.io/mode": mode}
			got := run(t, sessiontest.ClusterSpec{
				Nodes: []*v1.Node{node("a1", "ib-a", "2"), node("a2", "ib-a", "2"), node("b1", "ib-b", "4")},
				Pods:  pods, PodGroups: []*v1beta1.PodGroup{podGroup},
			}, withClusters)
			if len(got) != 3 {
				t.Errorf("bound %v, want the three small ones", got)
			}
		})
	}
}

// TestExplanationHasTheCauseOfAFailedTrial checks that the explanation reports the anti-affinity that prevents the
// placement, since the nodes have enough resources for the gang.
func TestExplanationHasTheCauseOfAFailedTrial(t *testing.T) {
	pods, podGroup := gang("g", "1", "1", "1")
	podGroup.Annotations = map[string]string{"ibcluster.volcano-prebind.io/mode": "required"}
	for _, pod := range pods {
		pod.Labels["app"] = "g"
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "g"}},
			}},
		}}
	}
	cluster := sessiontest.New(sessiontest.ClusterSpec{
		Nodes: []*v1.Node{node("a1", "ib-a", "4"), node("a2", "ib-a", "4")},
		Pods:  pods, PodGroups: []*v1beta1.PodGroup{podGroup},
	})
	defer cluster.Close()
	registry, action := action()
	registry.RegisterPlugin(ibcluster.Spec())
	ssn := cluster.Open(registry, withClusters)
	defer ssn.Close()
	ssn.Run(action)
	got := ssn.Jobs["ns/g"].JobFitErrors
	if !strings.Contains(got, "ib-a 2/3: ") || !strings.Contains(got, "anti-affinity") {
		t.Errorf("the PodGroup's message is %q; want that 2 of 3 fit ib-a and that anti-affinity stops the third", got)
	}
}

const withLeaves = leastRequested + `
  - name: ibcluster
    arguments:
      ibcluster.levels: [ibcluster, spine, leaf]
      ibcluster.defaultMode: required
`

// fabric returns a node with 4 CPUs for each "name cluster spine leaf", and the leaf of each node as
// "cluster/spine/leaf".
func fabric(places ...string) (nodes []*v1.Node, leaves map[string]string) {
	leaves = map[string]string{}
	for _, place := range places {
		at := strings.Fields(place)
		n := node(at[0], at[1], "4")
		n.Labels["spine"], n.Labels["leaf"] = at[2], at[3]
		nodes = append(nodes, n)
		leaves[at[0]] = strings.Join(at[1:], "/")
	}
	return nodes, leaves
}

// TestRankOrderAcrossKinds checks that members of different task classes also share leaves with their neighbours in
// rank order.
func TestRankOrderAcrossKinds(t *testing.T) {
	nodes, leaves := fabric("a1 ib-a s1 l1", "a2 ib-a s1 l1", "a3 ib-a s1 l2", "a4 ib-a s1 l2", "a5 ib-a s1 l3", "a6 ib-a s1 l3")
	tests := map[string]func(rank int, pod *schedtest.PodBuilder){
		"equal members":              func(int, *schedtest.PodBuilder) {},
		"each has a note of its own": func(rank int, pod *schedtest.PodBuilder) { pod.Annotation("example.com/host-id", fmt.Sprint(9-rank)) },
		"each is a Job of a JobSet":  func(rank int, pod *schedtest.PodBuilder) { pod.Label("jobset.sigs.k8s.io/job-index", fmt.Sprint(rank)) },
		"two sizes take turns":       func(rank int, pod *schedtest.PodBuilder) { pod.Req(schedtest.Resources{"cpu": fmt.Sprint(4 - rank%2)}) },
		"the last ones are larger":   func(rank int, pod *schedtest.PodBuilder) { pod.Req(schedtest.Resources{"cpu": fmt.Sprint(3 + rank/4)}) },
		"the first ones are a bit larger": func(rank int, pod *schedtest.PodBuilder) {
			pod.Req(schedtest.Resources{"cpu": fmt.Sprintf("%dm", 4000-rank)})
		},
		"members have images of two versions": func(rank int, pod *schedtest.PodBuilder) { pod.Annotation("version", fmt.Sprint(rank%2)) },
	}
	for name, vary := range tests {
		t.Run(name, func(t *testing.T) {
			var pods []*v1.Pod
			for i, rank := range []int{4, 0, 3, 5, 1, 2} {
				pod := schedtest.MakePod().Name(fmt.Sprintf("g-%d", i)).Group("g").Req(schedtest.Resources{"cpu": "4"}).
					Annotation("batch.kubernetes.io/job-completion-index", fmt.Sprint(rank))
				vary(rank, pod)
				pods = append(pods, pod.Obj())
			}
			got := run(t, sessiontest.ClusterSpec{
				Nodes: nodes, Pods: pods, PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(6).Phase(v1beta1.PodGroupInqueue).Obj()},
			}, withLeaves)
			byRank := make([]string, 6)
			for _, pod := range pods {
				byRank[pod.Annotations["batch.kubernetes.io/job-completion-index"][0]-'0'] = leaves[got["ns/"+pod.Name]]
			}
			hops := 0
			for rank := range 5 {
				if byRank[rank] != byRank[rank+1] {
					hops++
				}
			}
			if hops != 2 {
				t.Errorf("leaves by rank are %v, want pairs of neighbours", byRank)
			}
		})
	}
}

// TestAPreferredGangThatNoLeafHoldsStaysInOneCluster checks that a gang that prefers one cluster and fits no leaf
// stays in one cluster, although a leaf elsewhere is a tighter fit for the rest of its members.
func TestAPreferredGangThatNoLeafHoldsStaysInOneCluster(t *testing.T) {
	tests := map[string]struct {
		nodes []string
		want  string
	}{
		"under one spine": {
			nodes: []string{"a1 ib-a s1 l1", "a2 ib-a s1 l1", "a3 ib-a s1 l1", "a4 ib-a s1 l2", "a5 ib-a s1 l2", "a6 ib-a s2 l3", "b1 ib-b s1 l1"},
			want:  "ib-a/s1",
		},
		"in one cluster": {
			nodes: []string{"a1 ib-a s1 l1", "a2 ib-a s1 l1", "a3 ib-a s2 l2", "a4 ib-a s2 l2", "b1 ib-b s1 l1", "b2 ib-b s1 l1", "b3 ib-b s1 l1"},
			want:  "ib-a",
		},
		"over two clusters when none holds it": {
			nodes: []string{"a1 ib-a s1 l1", "a2 ib-a s1 l1", "a3 ib-a s1 l2", "b1 ib-b s1 l1", "b2 ib-b s1 l2"},
			want:  "ib-",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, leaves := fabric(tt.nodes...)
			pods, podGroup := gang("g", "4", "4", "4", "4")
			podGroup.Annotations = map[string]string{"ibcluster.volcano-prebind.io/mode": "preferred", "ibcluster.volcano-prebind.io/level": "leaf"}
			got := run(t, sessiontest.ClusterSpec{Nodes: nodes, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}, withLeaves)
			for pod, node := range got {
				if !strings.HasPrefix(leaves[node], tt.want) {
					t.Errorf("%s is in %s, want all in %s: %v", pod, leaves[node], tt.want, got)
				}
			}
			if len(got) != 4 {
				t.Errorf("bound %v, want all four", got)
			}
		})
	}
}

// TestTheLeafThatHoldsCoupledMembersIsFound checks that the search finds the only leaf on which members with
// anti-affinity to each other fit. Sums of free resources do not distinguish this leaf from the others.
func TestTheLeafThatHoldsCoupledMembersIsFound(t *testing.T) {
	nodes, leaves := fabric("a1 ib-a s1 l1", "a2 ib-a s1 l2", "a3 ib-a s1 l3", "a4 ib-a s1 l4", "a5 ib-a s1 l5", "a6 ib-a s1 l5")
	pods, podGroup := gang("g", "1", "1")
	for _, pod := range pods {
		pod.Labels["app"] = "g"
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "g"}},
			}},
		}}
	}
	got := run(t, sessiontest.ClusterSpec{Nodes: nodes, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}, withLeaves)
	if leaves[got["ns/g-0"]] != "ib-a/s1/l5" || leaves[got["ns/g-1"]] != "ib-a/s1/l5" {
		t.Errorf("bound %v, want both on leaf l5", got)
	}
}

// TestEqualGangsWithOtherMinimaOfTheirRoles checks that a cached failure of one gang does not apply to a gang with
// other minima of its roles. The first gang needs two leaders that exclude each other; the second gang needs one.
func TestEqualGangsWithOtherMinimaOfTheirRoles(t *testing.T) {
	w := sessiontest.ClusterSpec{Nodes: []*v1.Node{node("a1", "ib-a", "8")}}
	for _, g := range []struct {
		name             string
		leaders, workers int32
	}{{"a", 2, 0}, {"b", 1, 1}} {
		w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name(g.name).MinMember(2).MinTaskMember("leader", g.leaders).MinTaskMember("worker", g.workers).
			Annotation(ibcluster.ModeAnnotation, "required").Phase(v1beta1.PodGroupInqueue).Obj())
		for i := range 2 {
			leader := schedtest.MakePod().Name(fmt.Sprintf("%s-leader-%d", g.name, i)).Group(g.name).Role("leader").Req(schedtest.Resources{"cpu": "1"}).Label("app", "leader").Obj()
			leader.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
					TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "leader"}},
				}},
			}}
			w.Pods = append(w.Pods, leader, schedtest.MakePod().Name(fmt.Sprintf("%s-worker-%d", g.name, i)).Group(g.name).Role("worker").Req(schedtest.Resources{"cpu": "1"}).Obj())
		}
	}
	if diff := cmp.Diff(map[string]string{"ns/b-leader-0": "a1", "ns/b-worker-0": "a1", "ns/b-worker-1": "a1"}, run(t, w, withClusters)); diff != "" {
		t.Errorf("bound (-want +got):\n%s", diff)
	}
}

// TestAGroupIsNotLeftOutWhileFurtherMembersMakeTheMinimum checks that a node group is tried even if the first members
// in order are too large for most of the cluster, because smaller members after them reach the minimum.
func TestAGroupIsNotLeftOutWhileFurtherMembersMakeTheMinimum(t *testing.T) {
	tests := map[string][]string{
		"of a kind that is not among the first":                  slices.Concat(slices.Repeat([]string{"4", "3"}, 40), slices.Repeat([]string{"1"}, 20)),
		"of a kind of which a few are among the first":           slices.Concat([]string{"1", "1"}, slices.Repeat([]string{"9"}, 80), slices.Repeat([]string{"1"}, 20)),
		"of a kind of which a few are among the first, of three": slices.Concat([]string{"1"}, slices.Repeat([]string{"9", "8"}, 40), slices.Repeat([]string{"1"}, 20)),
	}
	for name, requests := range tests {
		t.Run(name, func(t *testing.T) {
			pods, podGroup := gang("g", requests...)
			podGroup.Spec.MinMember = 8
			podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
			got := run(t, sessiontest.ClusterSpec{
				Nodes: []*v1.Node{node("a1", "ib-a", "4"), node("a2", "ib-a", "4")}, Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup},
			}, withClusters)
			if len(got) != 8 {
				t.Errorf("bound %d pods, want the eight small ones that fit: %v", len(got), got)
			}
		})
	}
}

// TestAGangShortOfItsMinimumGoesFirst checks that a gang below its minimum is placed before gangs that reached
// theirs, as the gang plugin orders them, whatever their names are.
func TestAGangShortOfItsMinimumGoesFirst(t *testing.T) {
	const gangAlone = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n"
	running := schedtest.MakePod().Name("a-run").Group("a").Req(schedtest.Resources{"cpu": "1"}).Node("n1").Phase(v1.PodRunning).Obj()
	pods, a := gang("a", "1")
	others, b := gang("b", "1")
	cluster := sessiontest.New(sessiontest.ClusterSpec{
		Nodes:     []*v1.Node{schedtest.MakeNode().Name("n1").Capacity(schedtest.Resources{"cpu": "2", "pods": "10"}).Obj()},
		Pods:      append(append(pods, others...), running),
		PodGroups: []*v1beta1.PodGroup{a, b},
	})
	defer cluster.Close()
	registry, action := action()
	ssn := cluster.Open(registry, gangAlone)
	defer ssn.Close()
	ssn.Run(action)
	if diff := cmp.Diff(map[string]string{"ns/b-0": "n1"}, ssn.Binds()); diff != "" {
		t.Errorf("binds (-want +got):\n%s", diff)
	}
}
