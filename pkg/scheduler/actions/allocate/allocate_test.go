package allocate_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	. "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
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

// action registers this project's allocate and returns it as sessions run it.
func action() (*framework.Registry, vcframework.Action) {
	registry := framework.NewRegistry()
	registry.RegisterAction(allocate.New())
	action, _ := vcframework.GetAction("allocate")
	return registry, action
}

func gang(name string, requests ...string) ([]*v1.Pod, *v1beta1.PodGroup) {
	var pods []*v1.Pod
	for i, cpu := range requests {
		pods = append(pods, MakePod().Name(fmt.Sprintf("%s-%d", name, i)).Group(name).Req(Resources{"cpu": cpu}).Obj())
	}
	return pods, MakePodGroup().Name(name).MinMember(int32(len(pods))).Phase(v1beta1.PodGroupInqueue).Obj()
}

func TestATaskInTheWayOfALargerOneIsPlacedElsewhere(t *testing.T) {
	pods, podGroup := gang("g", "3", "5")
	cluster := sessiontest.New(sessiontest.World{
		Nodes: []*v1.Node{
			MakeNode().Name("n4").Capacity(Resources{"cpu": "4", "memory": "8Gi", "pods": "10"}).Obj(),
			MakeNode().Name("n6").Capacity(Resources{"cpu": "6", "memory": "8Gi", "pods": "10"}).Obj(),
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

func TestAllNodesAreLookedAtUnlessAFlagSaysOtherwise(t *testing.T) {
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
			w := sessiontest.World{Pods: pods, PodGroups: []*v1beta1.PodGroup{podGroup}}
			for i := range 300 {
				w.Nodes = append(w.Nodes, MakeNode().Name(fmt.Sprintf("n%03d", i)).Capacity(Resources{"cpu": "4", "memory": "8Gi", "pods": "10"}).Obj())
			}
			best := MakeNode().Name("n999").Capacity(Resources{"cpu": "64", "memory": "128Gi", "pods": "10"}).Obj()
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
