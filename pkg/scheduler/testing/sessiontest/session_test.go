package sessiontest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcallocate "volcano.sh/volcano/pkg/scheduler/actions/allocate"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	. "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const conf = `
actions: allocate
tiers:
- plugins:
  - name: gang
- plugins:
  - name: predicates
  - name: nodeorder
`

func TestAnActionRunsOnTheWorldAndItsBindsAreWrittenDown(t *testing.T) {
	cluster := sessiontest.New(sessiontest.World{
		Nodes:     []*v1.Node{MakeNode().Name("n1").Capacity(Resources{"cpu": "4", "pods": "10"}).Obj()},
		PodGroups: []*v1beta1.PodGroup{MakePodGroup().Name("g").MinMember(1).Phase(v1beta1.PodGroupInqueue).Obj()},
		Pods:      []*v1.Pod{MakePod().Name("p").Group("g").Req(Resources{"cpu": "1"}).Obj()},
	})
	defer cluster.Close()
	ssn := cluster.Open(framework.NewRegistry(), conf)
	defer ssn.Close()

	ssn.Run(vcallocate.New())

	if diff := cmp.Diff(map[string]string{Namespace + "/p": "n1"}, ssn.Binds()); diff != "" {
		t.Errorf("binds (-want +got):\n%s", diff)
	}
}
