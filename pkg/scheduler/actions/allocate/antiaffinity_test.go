// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// excluding returns a pod that runs on node n1 and excludes the pods that the selectors select.
func excluding(pods metav1.LabelSelector, namespaces *metav1.LabelSelector) *v1.Pod {
	return schedtest.MakePod().Name("runs").Node("n1").Phase(v1.PodRunning).Affinity(v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname, LabelSelector: &pods, NamespaceSelector: namespaces}},
	}}).Obj()
}

// labelNamespace sets the label team of the pods' namespace to the value team. It creates the namespace if it does not
// exist.
func (c *counting) labelNamespace(team string) {
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: schedtest.Namespace, Labels: map[string]string{"team": team}}}
	if err := c.cluster.Handle().InformerFactory().Core().V1().Namespaces().Informer().GetStore().Add(namespace); err != nil {
		panic(err) // the store refuses no namespace
	}
}

// TestAnExcludedEmptyLabelIsNotPlaced checks that a pod with an empty label is not placed beside a pod whose anti-affinity
// requires the label to exist and to be empty. A pod of the same gang with another value comes first.
func TestAnExcludedEmptyLabelIsNotPlaced(t *testing.T) {
	pods, podGroup := gang("g", "1", "1")
	pods[0].Labels["k"], pods[1].Labels["k"] = "b", ""
	runs := excluding(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "k", Operator: metav1.LabelSelectorOpExists}, {Key: "k", Operator: metav1.LabelSelectorOpIn, Values: []string{""}},
	}}, nil)
	c := newCounting(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: append(pods, runs), PodGroups: []*v1beta1.PodGroup{podGroup}})
	c.expect(t, "a member is excluded from the only node", 0)
}

// TestNamespacesAreRelabelled checks that a running pod excludes a gang only in sessions in which the current label of
// the gang's namespace matches the pod's anti-affinity.
func TestNamespacesAreRelabelled(t *testing.T) {
	selectors := map[string]metav1.LabelSelector{
		"a label that is required": {MatchLabels: map[string]string{"team": "red"}},
		"a label that is excluded": {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"blue", "green"}}}},
	}
	for name, selector := range selectors {
		t.Run(name, func(t *testing.T) {
			pods, podGroup := gang("g", "1", "2")
			pods[0].Labels["app"], pods[1].Labels["app"] = "g", "g"
			runs := excluding(metav1.LabelSelector{MatchLabels: map[string]string{"app": "g"}}, &selector)
			runs.Namespace = "other"
			c := newCounting(t, sessiontest.ClusterSpec{Nodes: []*v1.Node{node("n1", "ib-a", "8")}, Pods: append(pods, runs), PodGroups: []*v1beta1.PodGroup{podGroup}})
			for _, team := range []string{"red", "red", "blue", "red", "green", "blue"} {
				c.labelNamespace(team)
				want := 2
				if team == "red" {
					want = 0
				}
				c.expect(t, "the namespace has label team="+team, want)
			}
		})
	}
}

// TestANamespaceIsRelabelledDuringASession checks that a gang is tried again after a session in which the label of its
// namespace changed: a plugin's predicate for a pod of gang e changes it, before gang g is tried. A running pod excludes
// pods of namespaces with the former label.
func TestANamespaceIsRelabelledDuringASession(t *testing.T) {
	e, eGroup := gang("e", "1", "9") // a running member, and one that fits nowhere
	eGroup.Spec.MinMember = 1
	e[0].Spec.NodeName, e[0].Status.Phase = "n1", v1.PodRunning
	e[1] = schedtest.MakePod().Name("e-1").Group("e").Req(schedtest.Resources{"cpu": "1"}).Label("app", "g").Obj()
	g, gGroup := gang("g", "1", "1")
	g[0].Labels["app"], g[1].Labels["app"] = "g", "g"
	runs := excluding(metav1.LabelSelector{MatchLabels: map[string]string{"app": "g"}}, &metav1.LabelSelector{MatchLabels: map[string]string{"team": "red"}})
	c := newCounting(t, sessiontest.ClusterSpec{
		Nodes: []*v1.Node{node("n1", "ib-a", "20")}, Pods: append([]*v1.Pod{e[1], e[0], runs}, g...), PodGroups: []*v1beta1.PodGroup{eGroup, gGroup},
	})
	relabelled := false
	open := func(ssn *framework.Session) {
		ssn.AddPredicateFn("helper", func(task *api.TaskInfo, _ *api.NodeInfo) error {
			if task.Name == "e-1" && !relabelled {
				relabelled = true
				c.labelNamespace("blue")
			}
			return nil
		})
	}
	first := sessiontest.PlaceFirstFn(func(job *api.JobInfo) bool { return job.Name == "e" })
	c.conf = strings.Replace(c.conf, "- name: gang\n", "- name: gang\n  - name: helper\n", 1)
	c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return helper{open: open, part: first, reads: framework.SomePodKeys(), nodeKey: func(*api.NodeInfo) uint64 { return 1 }}, nil
	})})
	c.labelNamespace("red")
	c.expect(t, "the label changes in the session", 0)
	if !relabelled {
		t.Fatal("the label has not changed in the first session")
	}
	c.world.Pods = c.world.Pods[1:]
	c.expect(t, "the label has changed, and pod e-1 was deleted", 2)
}
