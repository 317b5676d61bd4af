package allocate_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	. "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// explained runs the action and returns what it says of the named PodGroups.
func explained(t *testing.T, w sessiontest.World, names ...string) map[string]string {
	t.Helper()
	cluster := sessiontest.New(w)
	defer cluster.Close()
	registry, action := action()
	registry.RegisterPlugin(ibcluster.Spec())
	ssn := cluster.Open(registry, withClusters)
	defer ssn.Close()
	ssn.Run(action)
	says := map[string]string{}
	for _, name := range names {
		says[name] = ssn.Jobs[api.JobID(Namespace+"/"+name)].JobFitErrors
	}
	return says
}

// TestAnExplanationCountsMembersOfManyShapes: of a gang whose members differ in a label the shapes of some are known only.
func TestAnExplanationCountsMembersOfManyShapes(t *testing.T) {
	requests := []string{"16"}
	for range 12 {
		requests = append(requests, "1")
	}
	pods, podGroup := gang("g", requests...)
	podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
	for i, pod := range pods {
		pod.Labels["member"] = fmt.Sprint(i)
	}
	says := explained(t, sessiontest.World{
		Nodes: []*v1.Node{node("a1", "ib-a", "6"), node("a2", "ib-a", "6"), node("a3", "ib-a", "6")},
		Pods:  pods, PodGroups: []*v1beta1.PodGroup{podGroup},
	}, "g")
	if !strings.Contains(says["g"], "ib-a 12/13: 3 nodes short of cpu") {
		t.Errorf("the PodGroup says %q; want that all fit ib-a but the large one", says["g"])
	}
}

// TestEqualGangsAreExplainedAsThingsStand: between two gangs that fit nowhere, and share what is known of nodes, another
// one takes a node's memory.
func TestEqualGangsAreExplainedAsThingsStand(t *testing.T) {
	w := sessiontest.World{Nodes: []*v1.Node{node("a1", "ib-a", "4"), node("a2", "ib-a", "4")}}
	for _, g := range []struct {
		name     string
		members  int
		requests Resources
	}{
		{"first", 3, Resources{"cpu": "3", "memory": "1Gi"}},
		{"greedy", 1, Resources{"cpu": "100m", "memory": "64Gi"}},
		{"later", 3, Resources{"cpu": "3", "memory": "1Gi"}},
	} {
		w.PodGroups = append(w.PodGroups, MakePodGroup().Name(g.name).MinMember(int32(g.members)).
			Annotation(ibcluster.ModeAnnotation, "required").Phase(v1beta1.PodGroupInqueue).Obj())
		for i := range g.members {
			w.Pods = append(w.Pods, MakePod().Name(fmt.Sprintf("%s-%d", g.name, i)).Group(g.name).Req(g.requests).Obj())
		}
	}
	says := explained(t, w, "first", "later")
	for name, want := range map[string]string{"first": "ib-a 2/3: 2 nodes short of cpu", "later": "ib-a 1/3: 1 node short of cpu, 1 short of memory"} {
		if !strings.HasSuffix(says[name], want) {
			t.Errorf("PodGroup %s says %q, want %q", name, says[name], want)
		}
	}
}
