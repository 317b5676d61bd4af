// SPDX-License-Identifier: Apache-2.0

package nodeorder_test

import (
	"math/rand/v2"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/nodeorder"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// clusterOf returns a cluster with the pods, all of one gang, and one node for each zone: n0, n1 and so on. A node with
// zone "" has no zone label.
func clusterOf(pods []*v1.Pod, zones ...string) sessiontest.ClusterSpec {
	w := sessiontest.ClusterSpec{PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj()}, Pods: pods}
	for i, zone := range zones {
		b := schedtest.MakeNode().Name("n" + string(rune('0'+i)))
		if zone != "" {
			b.Label(v1.LabelTopologyZone, zone)
		}
		w.Nodes = append(w.Nodes, b.Obj())
	}
	return w
}

func gangPod() *schedtest.PodBuilder {
	return schedtest.MakePod().Name("p").Group("g").Req(schedtest.Resources{"cpu": "1", "memory": "1Gi"})
}

func podAffinity(preferred bool, app string) v1.Affinity {
	term := v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
	if !preferred {
		return v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
	}
	return v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
		{Weight: 1, PodAffinityTerm: term},
	}}}
}

// TestTasksThatAreUncacheable checks which tasks the plugin calls uncacheable. TestScoresAreUpstreams checks that other
// tasks keep their scores when pods are placed on other nodes.
func TestTasksThatAreUncacheable(t *testing.T) {
	spread := func(key string, when v1.UnsatisfiableConstraintAction) *v1.Pod {
		pod := gangPod().Label("job", "1").Obj()
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: &metav1.LabelSelector{},
		}}
		return pod
	}
	placed := func(affinity v1.Affinity) *v1.Pod {
		return schedtest.MakePod().Name("placed").Node("n0").Phase(v1.PodRunning).Affinity(affinity).Obj()
	}
	ofService := gangPod().Label("job", "1").Obj()
	tests := map[string]struct {
		pod     *v1.Pod
		others  []*v1.Pod
		zones   []string
		weights []string
		want    bool
	}{
		"a plain pod in several zones":                     {pod: gangPod().Obj(), zones: []string{"a", "b"}},
		"of a Service, in no zone":                         {pod: ofService, zones: []string{"", ""}},
		"of a Service, in one zone":                        {pod: ofService, zones: []string{"a", "a"}},
		"of a Service, in several zones":                   {pod: ofService, zones: []string{"a", "b"}, want: true},
		"of a Service, on nodes with and without a zone":   {pod: ofService, zones: []string{"a", ""}, want: true},
		"of a Service, in several zones that do not count": {pod: ofService, zones: []string{"a", "b"}, weights: []string{"podtopologyspread.weight: 0"}},
		"spread over zones, softly":                        {pod: spread(v1.LabelTopologyZone, v1.ScheduleAnyway), zones: []string{"a", "b"}, want: true},
		"spread over zones, hard":                          {pod: spread(v1.LabelTopologyZone, v1.DoNotSchedule), zones: []string{"a", "b"}},
		"spread over hosts, softly":                        {pod: spread(v1.LabelHostname, v1.ScheduleAnyway), zones: []string{"a", "b"}},
		"with preferred pod affinity":                      {pod: gangPod().Affinity(podAffinity(true, "x")).Obj(), zones: []string{""}, want: true},
		"with preferred pod affinity that does not count":  {pod: gangPod().Affinity(podAffinity(true, "x")).Obj(), zones: []string{""}, weights: []string{"podaffinity.weight: 0"}},
		"with required pod affinity":                       {pod: gangPod().Affinity(podAffinity(false, "x")).Obj(), zones: []string{""}},
		"shunned by a pod that is there": {
			pod: gangPod().Label("app", "x").Obj(), others: []*v1.Pod{placed(podAffinity(true, "x"))}, zones: []string{""}, want: true,
		},
		"not the one shunned": {
			pod: gangPod().Label("app", "y").Obj(), others: []*v1.Pod{placed(podAffinity(true, "x"))}, zones: []string{""},
		},
		"kept away by a pod that is there": {
			pod: gangPod().Label("app", "x").Obj(), others: []*v1.Pod{placed(podAffinity(false, "x"))}, zones: []string{""},
		},
	}
	cluster := sessiontest.New(sessiontest.ClusterSpec{Objects: objects()})
	t.Cleanup(cluster.Close)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster.Load(clusterOf(append(tt.others, tt.pod), tt.zones...))
			ssn := openOurs(cluster, confOf(true, tt.weights...))
			defer ssn.Close()
			if got := ssn.Signers.Scope(nodeorder.Name, tasks(ssn, api.Pending)["p"]) == framework.Uncached; got != tt.want {
				t.Errorf("uncacheable: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestFirstPodWithAffinityOfANode: upstream's plugin ignores the pod affinity on a node that gets its first pod with
// affinity during the session. The scores of this plugin must be equal to upstream's.
func TestFirstPodWithAffinityOfANode(t *testing.T) {
	likesX := podAffinity(true, "x")
	spec := clusterOf([]*v1.Pod{
		schedtest.MakePod().Name("placed").Node("n0").Phase(v1.PodRunning).Affinity(likesX).Obj(),
		schedtest.MakePod().Name("first").Group("g").Affinity(likesX).Obj(),
		gangPod().Label("app", "x").Obj(),
	}, "", "", "")
	cluster := sessiontest.New(spec)
	t.Cleanup(cluster.Close)
	s := sessions{openUpstream(cluster, confOf(true)), openOurs(cluster, confOf(true))}
	defer s.upstream.Close()
	defer s.ours.Close()
	var got []scores
	for _, ssn := range []*sessiontest.Session{s.upstream, s.ours} {
		pending := tasks(ssn, api.Pending)
		if err := ssn.PrePredicateFn(pending["first"]); err != nil {
			t.Fatal(err)
		}
		if err := vcframework.NewStatement(ssn.Session.Session).Allocate(pending["first"], ssn.Nodes["n1"]); err != nil {
			t.Fatal(err)
		}
		got = append(got, scoresOf(ssn, pending["p"], []string{"n0", "n1", "n2"}))
	}
	if got[0].Batch["n0"] == got[0].Batch["n1"] {
		t.Errorf("upstream scores both nodes %v, so the test shows nothing", got[0].Batch["n0"])
	}
	if diff := cmp.Diff(got[0], got[1]); diff != "" {
		t.Errorf("scores (-upstream +ours):\n%s", diff)
	}
}

// TestNodesAreScoredAtOnce checks concurrent scoring, because upstream's actions score nodes from several goroutines.
func TestNodesAreScoredAtOnce(t *testing.T) {
	cluster := sessiontest.New(sessiontest.ClusterSpec{Objects: objects()})
	t.Cleanup(cluster.Close)
	d := dice{rand.New(rand.NewPCG(3, 3))}
	cluster.Load(d.cluster(200, 100, 20))
	theirs, ours := openUpstream(cluster, confOf(true)), openOurs(cluster, confOf(true))
	defer theirs.Close()
	defer ours.Close()
	prioritize := func(ssn *sessiontest.Session, task *api.TaskInfo) map[string]float64 {
		out := map[string]float64{}
		for score, nodes := range util.PrioritizeNodes(task, ssn.NodeList, ssn.BatchNodeOrderFn, ssn.NodeOrderMapFn, ssn.NodeOrderReduceFn) {
			for _, node := range nodes {
				out[node.Name] = score
			}
		}
		return out
	}
	pending := tasks(theirs, api.Pending)
	for name, task := range tasks(ours, api.Pending) {
		if diff := cmp.Diff(prioritize(theirs, pending[name]), prioritize(ours, task)); diff != "" {
			t.Errorf("scores of %s (-upstream +ours):\n%s", name, diff)
		}
	}
}

func TestScoringANodeAllocatesNothing(t *testing.T) {
	cluster := sessiontest.New(clusterOf([]*v1.Pod{gangPod().Obj()}, "", ""))
	t.Cleanup(cluster.Close)
	ssn := openOurs(cluster, confOf(true))
	defer ssn.Close()
	task := tasks(ssn, api.Pending)["p"]
	allocations := testing.AllocsPerRun(100, func() {
		if _, err := ssn.NodeOrderFn(task, ssn.Nodes["n1"]); err != nil {
			t.Fatal(err)
		}
	})
	if allocations != 0 {
		t.Errorf("scoring a node makes %v allocations, want none", allocations)
	}
}

// TestExampleOfThePage checks that the page's example is a valid configuration that has each argument with its default.
func TestExampleOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/plugins/nodeorder.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)[1]
	parsed, err := config.Parse(example, config.NewCatalogue(nodeorder.Spec()))
	if err != nil {
		t.Fatal(err)
	}
	plugins := parsed.Tiers[1].Plugins
	want := map[string]any{
		"leastrequested.weight": 1, "mostrequested.weight": 0, "balancedresource.weight": 1, "nodeaffinity.weight": 2,
		"podaffinity.weight": 2, "tainttoleration.weight": 3, "imagelocality.weight": 1, "podtopologyspread.weight": 2,
	}
	if diff := cmp.Diff(want, plugins[len(plugins)-1].Arguments); diff != "" {
		t.Errorf("arguments of the example (-want +got):\n%s", diff)
	}
}
