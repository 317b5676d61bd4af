// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/fields"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// podGroupFields fills and changes PodGroups. Its annotations are the ones that plugins read from PodGroups.
var podGroupFields = fields.Walk{Whole: map[reflect.Type][]fields.Value{
	reflect.TypeFor[resource.Quantity]():            {{Value: resource.MustParse("1")}, {Value: resource.MustParse("2")}},
	reflect.TypeFor[metav1.Time]():                  {{Value: metav1.Unix(1, 0)}, {Value: metav1.Unix(2, 0)}},
	reflect.TypeFor[metav1.FieldsV1]():              {},
	reflect.TypeFor[metav1.LabelSelectorOperator](): {{Value: metav1.LabelSelectorOpIn}, {Value: metav1.LabelSelectorOpNotIn}},
	reflect.TypeFor[map[string]string]():            annotationsOfPodGroups(),
}}

func annotationsOfPodGroups() []fields.Value {
	values := []fields.Value{{Value: map[string]string{"x": "x"}}}
	for key, value := range map[string]string{
		ibcluster.ModeAnnotation:                    "required",
		ibcluster.ClustersAnnotation:                "ib-b",
		ibcluster.AffinityGroupAnnotation:           "company",
		v1beta1.NumaPolicyKey:                       "single-numa-node",
		v1beta1.RevocableZone:                       "*",
		v1beta1.PodPreemptable:                      "true",
		"volcano.sh/task-topology-affinity":         "ps,worker",
		"volcano.sh/task-topology-anti-affinity":    "ps",
		"volcano.sh/resource-strategy-scoring-type": "MostAllocated",
		"volcano.sh/resource-strategy-weight":       `{"cpu": 1}`,
		"sla-waiting-time":                          "1s",
		"nvidia.com/use-gputype":                    "A100",
		"x":                                         "y",
	} {
		values = append(values, fields.Value{Name: " " + key, Value: map[string]string{key: value}})
	}
	values = append(values, fields.Value{Name: " required, of clusters", Value: map[string]string{ibcluster.ModeAnnotation: "required", ibcluster.ClustersAnnotation: "ib-b"}})
	slices.SortFunc(values[1:], func(a, b fields.Value) int { return strings.Compare(a.Name, b.Name) })
	return values
}

// TestVerdictsDependOnNoMoreOfAJobThanDeclared changes every field of a PodGroup and compares each plugin's filter
// results and scores for a task of the gang. If they change, the plugin must share results only among jobs with equal
// keys, and the key must have changed too.
func TestVerdictsDependOnNoMoreOfAJobThanDeclared(t *testing.T) {
	cluster := sessiontest.New(sessiontest.ClusterSpec{})
	defer cluster.Close()
	changing := map[string]bool{}
	for _, plugin := range []string{
		"predicates", "nodeorder", "binpack", "resource-strategy-fit", "usage", "tdm", "deviceshare", "nodegroup", ibcluster.Name, "drf", "proportion",
		"capacity", "cdp", "conformance", "gang", "overcommit", "pdb", "priority", "rescheduling", "sla",
	} {
		t.Run(plugin, func(t *testing.T) {
			podGroup := &v1beta1.PodGroup{}
			podGroupFields.Fill(podGroup)
			ask := func() answer { return askPlugin(t, cluster, plugin, podGroup.DeepCopy()) }
			before, changes := ask(), 0
			podGroupFields.Each(podGroup, func(path string, do, undo func()) {
				if path == ".ObjectMeta.Name" || path == ".ObjectMeta.Namespace" { // The name or namespace would make it another PodGroup.
					return
				}
				do()
				after := ask()
				undo()
				changes++
				if diff := cmp.Diff(before.verdicts, after.verdicts); diff != "" {
					changing[plugin] = true
					if before.scope == framework.PerTaskClass || before.key == after.key {
						t.Errorf("%s: the verdict changes with it, and is kept for jobs that differ in it (-before +after):\n%s", path, diff)
					}
				}
			})
			if changes < 60 {
				t.Errorf("only %d fields were changed, it does not look right", changes)
			}
		})
	}
	for _, plugin := range []string{"nodegroup", ibcluster.Name} {
		if !changing[plugin] {
			t.Errorf("no field changes the results of %s: the fields or the nodes do not test it", plugin)
		}
	}
}

// answer is a plugin's filter results and scores for a task, by node, with their scope and their cache key.
type answer struct {
	scope    framework.CacheScope
	key      string
	verdicts map[string]string
}

// askPlugin returns the plugin's answer for a pending task of the PodGroup, which has one running member.
func askPlugin(t *testing.T, cluster *sessiontest.Cluster, plugin string, podGroup *v1beta1.PodGroup) answer {
	podGroup.Name, podGroup.Namespace = "g", schedtest.Namespace
	w := sessiontest.ClusterSpec{
		Nodes: []*v1.Node{
			holds("4").Name("a").Label("cluster", "ib-a").Label("volcano.sh/nodegroup-name", "ga").Obj(),
			holds("4").Name("b").Label("cluster", "ib-b").Label("volcano.sh/nodegroup-name", "gb").Obj(),
			holds("8").Name("c").Label("cluster", "ib-c").Label(v1beta1.RevocableZone, "rz1").Obj(),
		},
		Queues:    []*v1beta1.Queue{queueOn("x", "ga"), queueOn("y", "gb")},
		PodGroups: []*v1beta1.PodGroup{podGroup},
		Pods: []*v1.Pod{
			schedtest.MakePod().Group("g").Name("g-0").Node("c").Phase(v1.PodRunning).Req(cores("1")).Obj(),
			schedtest.MakePod().Group("g").Name("g-1").Req(cores("1")).Obj(),
		},
	}
	cluster.Load(w)
	for name, used := range map[string]float64{"a": 10, "b": 50, "c": 70} {
		cluster.Cache().Nodes[name].ResourceUsage = &api.NodeUsage{MetricsTime: time.Now(), CPUUsageAvg: map[string]float64{"10m": used}, MEMUsageAvg: map[string]float64{"10m": used}}
	}
	registry := framework.NewRegistry()
	registry.RegisterPlugin(ibcluster.Spec())
	ssn := cluster.Open(registry, "actions: allocate\ntiers:\n- plugins:\n  - name: "+plugin+"\n"+argumentsOf[plugin])
	defer ssn.Close()
	got := answer{verdicts: map[string]string{}}
	for _, job := range ssn.Jobs {
		got.key = ssn.Signers.JobKey(plugin, job)
		for _, task := range job.TaskStatusIndex[api.Pending] {
			got.scope = ssn.Signers.Scope(plugin, task)
			if err := ssn.PrePredicateFn(task); err != nil {
				got.verdicts["all"] = err.Error()
			}
			nodes := slices.SortedFunc(maps.Values(ssn.Nodes), func(a, b *api.NodeInfo) int { return strings.Compare(a.Name, b.Name) })
			batch, err := ssn.BatchNodeOrderFn(task, nodes)
			for _, node := range nodes {
				score, orderErr := ssn.NodeOrderFn(task, node)
				got.verdicts[node.Name] = fmt.Sprint(ssn.PredicateFn(task, node), score, orderErr, batch[node.Name], err)
			}
		}
	}
	if len(got.verdicts) == 0 {
		t.Fatal("no task waits: the world is no test")
	}
	return got
}

// argumentsOf are arguments for plugins that have no effect by default.
var argumentsOf = map[string]string{
	"tdm":          "    arguments:\n      tdm.revocable-zone.rz1: 00:00-00:00\n",
	ibcluster.Name: "    arguments:\n      ibcluster.levels: [cluster]\n",
}
