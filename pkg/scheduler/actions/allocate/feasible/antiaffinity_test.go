// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const predicatesOnly = `
actions: allocate
tiers:
- plugins:
  - name: predicates
`

// away returns a change that gives the pod a required anti-affinity, within the topology, to pods whose label app has
// that value.
func away(topology, app string, change ...func(*v1.PodAffinityTerm)) func(*v1.Pod) {
	return func(pod *v1.Pod) {
		term := v1.PodAffinityTerm{TopologyKey: topology, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}
		for _, c := range change {
			c(&term)
		}
		if pod.Spec.Affinity == nil {
			pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{}}
		}
		required := &pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		*required = append(*required, term)
	}
}

// TestSessionAntiAffinity places and removes pods and checks which of five nodes are then refused to another pod.
// Nodes a1 and a2 are in zone a, b1 is in zone b, blank is in a zone whose name is empty, and bare has no labels.
func TestSessionAntiAffinity(t *testing.T) {
	const host, zone = v1.LabelHostname, v1.LabelTopologyZone
	inTeam := func(team string) func(*v1.PodAffinityTerm) {
		return func(term *v1.PodAffinityTerm) {
			term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
		}
	}
	anyNamespace := func(term *v1.PodAffinityTerm) { term.NamespaceSelector = &metav1.LabelSelector{} }
	pods := map[string]*v1.Pod{}
	add := func(name, namespace, app string, terms ...func(*v1.Pod)) {
		pod := schedtest.MakePod().Namespace(namespace).Name(name).Label("app", app).Obj()
		for _, term := range terms {
			term(pod)
		}
		pods[name] = pod
	}
	add("x", "ns", "x")
	add("y", "ns", "y")
	add("stranger", "other", "x") // app x in another namespace, with label team=red
	add("host-1", "ns", "h", away(host, "x"))
	add("host-2", "ns", "h", away(host, "x"))
	add("host-y", "ns", "h", away(host, "y"))
	add("zone-1", "ns", "z", away(zone, "x"))
	add("zone-2", "ns", "z", away(zone, "x"))
	add("twice", "ns", "z", away(zone, "x"), away(zone, "x"))
	add("own", "ns", "x", away(zone, "x"))
	add("own-2", "ns", "x", away(zone, "x"))
	add("own-twice", "ns", "x", away(zone, "x"), away(zone, "x"))
	add("both", "ns", "z", away(host, "x"), away(zone, "y"))
	add("other-host", "other", "h", away(host, "x"))
	add("red", "ns", "h", away(host, "x", inTeam("red")))
	add("blue", "ns", "h", away(host, "x", inTeam("blue")))
	add("all", "ns", "h", away(host, "x", anyNamespace))
	add("rackless", "ns", "h", away("rack", "x"))

	tests := map[string]struct {
		// steps are "pod node" for a pod that is placed, and "-pod" for one that is removed.
		steps []string
		ask   string
		want  []string
	}{
		"nothing placed":                             {nil, "x", nil},
		"the node of a pod that keeps away":          {[]string{"host-1 a1"}, "x", []string{"a1"}},
		"a pod that is not meant":                    {[]string{"host-1 a1"}, "y", nil},
		"the whole zone":                             {[]string{"zone-1 a1"}, "x", []string{"a1", "a2"}},
		"a node without the label":                   {[]string{"zone-1 bare"}, "x", nil},
		"a node whose label is empty":                {[]string{"zone-1 blank"}, "x", []string{"blank"}},
		"a label that no node has":                   {[]string{"rackless a1"}, "x", nil},
		"equal terms on several nodes":               {[]string{"host-1 a1", "host-2 b1"}, "x", []string{"a1", "b1"}},
		"one of equal terms on two nodes removed":    {[]string{"host-1 a1", "host-2 b1", "-host-1"}, "x", []string{"b1"}},
		"one of equal terms in one zone removed":     {[]string{"zone-1 a1", "zone-2 a2", "-zone-1"}, "x", []string{"a1", "a2"}},
		"both removed":                               {[]string{"zone-1 a1", "zone-2 a2", "-zone-1", "-zone-2"}, "x", nil},
		"removed and placed elsewhere":               {[]string{"zone-1 a1", "-zone-1", "zone-1 b1"}, "x", []string{"b1"}},
		"removed twice":                              {[]string{"zone-1 a1", "zone-2 a2", "-zone-1", "-zone-1"}, "x", []string{"a1", "a2"}},
		"a pod with one term twice":                  {[]string{"twice a1", "zone-1 a1", "-twice"}, "x", []string{"a1", "a2"}},
		"a pod with one term twice, removed":         {[]string{"twice a1", "-twice"}, "x", nil},
		"different terms":                            {[]string{"host-1 a1", "host-y b1"}, "y", []string{"b1"}},
		"terms of one pod, the first":                {[]string{"both a1"}, "x", []string{"a1"}},
		"terms of one pod, the second":               {[]string{"both a1"}, "y", []string{"a1", "a2"}},
		"the pod itself":                             {[]string{"own a1"}, "own", nil},
		"the pod itself and another":                 {[]string{"own a1", "own-2 a2"}, "own", []string{"a1", "a2"}},
		"the pod itself, with one term twice":        {[]string{"own-twice a1"}, "own-twice", nil},
		"another, in another zone than the pod":      {[]string{"own a1", "own-2 b1"}, "own", []string{"b1"}},
		"a pod of another namespace":                 {[]string{"host-1 a1"}, "stranger", nil},
		"an equal term of another namespace":         {[]string{"host-1 a1", "other-host b1"}, "x", []string{"a1"}},
		"an equal term of the pod's other namespace": {[]string{"host-1 a1", "other-host b1"}, "stranger", []string{"b1"}},
		"namespaces by label":                        {[]string{"red a1", "blue b1"}, "stranger", []string{"a1"}},
		"namespaces by label, one's own":             {[]string{"red a1", "blue b1"}, "x", nil},
		"all namespaces":                             {[]string{"all a1"}, "stranger", []string{"a1"}},
	}
	labels := map[string]map[string]string{
		"a1": {host: "a1", zone: "a"}, "a2": {host: "a2", zone: "a"}, "b1": {host: "b1", zone: "b"}, "blank": {zone: ""}, "bare": nil,
	}
	nodes := map[string]*api.NodeInfo{}
	for name, with := range labels {
		nodes[name] = api.NewNodeInfo(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: with}})
	}
	namespace := func(name string, labels map[string]string) *v1.Namespace {
		return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	cluster := sessiontest.New(sessiontest.ClusterSpec{Objects: []runtime.Object{
		namespace("ns", map[string]string{"team": "green"}), namespace("other", map[string]string{"team": "red"}),
	}})
	defer cluster.Close()
	ssn := cluster.Open(framework.NewRegistry(), predicatesOnly)
	defer ssn.Close()
	tasks := map[string]*api.TaskInfo{}
	for name, pod := range pods {
		tasks[name] = api.NewTaskInfo(pod)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSessionAntiAffinity(ssn.Session)
			for _, step := range tt.steps {
				refusedNodes(s, tasks[tt.ask], nodes) // Cached results of an earlier state, or of another task, must not be used here.
				refusedNodes(s, tasks["rackless"], nodes)
				if pod, ok := strings.CutPrefix(step, "-"); ok {
					s.remove(tasks[pod])
					continue
				}
				pod, node, _ := strings.Cut(step, " ")
				s.add(tasks[pod], nodes[node])
			}
			if diff := cmp.Diff(tt.want, refusedNodes(s, tasks[tt.ask], nodes)); diff != "" {
				t.Errorf("nodes that refuse %s (-want +got):\n%s", tt.ask, diff)
			}
			for _, task := range tasks {
				s.remove(task)
			}
			if len(s.terms) > 0 || len(s.held) > 0 {
				t.Errorf("after the removal of all pods these remain: %v, %v", s.terms, s.held)
			}
		})
	}
}

// TestEqualTermsAreMatchedOnce checks that equal terms are matched once: a gang of any size whose members exclude
// each other has one term.
func TestEqualTermsAreMatchedOnce(t *testing.T) {
	cluster := sessiontest.New(sessiontest.ClusterSpec{})
	defer cluster.Close()
	ssn := cluster.Open(framework.NewRegistry(), predicatesOnly)
	defer ssn.Close()
	s := newSessionAntiAffinity(ssn.Session)
	for _, name := range []string{"p1", "p2", "p3"} {
		pod := schedtest.MakePod().Name(name).Label("app", "x").Obj()
		away(v1.LabelHostname, "x")(pod)
		s.add(api.NewTaskInfo(pod), api.NewNodeInfo(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}}}))
	}
	if got := s.matching(api.NewTaskInfo(schedtest.MakePod().Name("p4").Label("app", "x").Obj())); len(got) != 1 {
		t.Errorf("the next member is matched against %d terms, want 1", len(got))
	}
}

func refusedNodes(s *sessionAntiAffinity, task *api.TaskInfo, nodes map[string]*api.NodeInfo) []string {
	var refused []string
	for name, node := range nodes {
		if s.filterResult(task, node) != nil {
			refused = append(refused, name)
		}
	}
	slices.Sort(refused)
	return refused
}
