// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// tenants is a plugin whose filter results apply to one job each. Only the results for the job named "any" apply to all
// jobs with an empty key.
type tenants struct{ framework.DefaultSigner }

func (tenants) Name() string { return "tenants" }
func (tenants) OnSessionOpen(ssn *framework.Session) {
	ssn.AddPredicateFn("tenants", func(*api.TaskInfo, *api.NodeInfo) error { return nil })
}
func (tenants) OnSessionClose(*framework.Session)           {}
func (tenants) SignTask(*api.TaskInfo) framework.CacheScope { return framework.PerJob }
func (tenants) SignJob(job *api.JobInfo) string {
	if job.Name == "any" {
		return ""
	}
	return job.Name
}

// TestVerdictsOfAJobsOwnAreNoNumbers checks that resource counts alone do not decide on a task with filter results
// that apply to one job only, unless the plugin of these results has chosen the nodes.
func TestVerdictsOfAJobsOwnAreNoNumbers(t *testing.T) {
	w := sessiontest.ClusterSpec{Nodes: []*v1.Node{schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "4", "memory": "8Gi", "pods": "9"}).Obj()}}
	for _, name := range []string{"red", "any"} {
		w.PodGroups = append(w.PodGroups, schedtest.MakePodGroup().Name(name).Phase(v1beta1.PodGroupInqueue).Obj())
		w.Pods = append(w.Pods, schedtest.MakePod().Name(name).Group(name).Req(schedtest.Resources{"cpu": "1"}).Obj())
	}
	cluster := sessiontest.New(w)
	defer cluster.Close()
	registry := framework.NewRegistry()
	registry.RegisterPlugin(framework.PluginSpec{Name: "tenants",
		Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) { return tenants{}, nil })})
	ssn := cluster.Open(registry, predicatesOnly+"  - name: tenants\n")
	defer ssn.Close()
	f := New(ssn.Session, nodeset.New(ssn.Session), DefaultFlags(), NewFactCache())
	tests := map[string]struct {
		job, chosenBy string
		want          bool
	}{
		"of a job that may go to some nodes only":           {job: "red", want: false},
		"of one whose nodes another plugin has chosen":      {job: "red", chosenBy: "other", want: false},
		"of one whose nodes the plugin itself has chosen":   {job: "red", chosenBy: "tenants", want: true},
		"of a job that the plugin says the same of all for": {job: "any", want: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for _, task := range ssn.Jobs[api.JobID("ns/"+tt.job)].Tasks {
				if got := f.DecidedByNumbers(task, tt.chosenBy); got != tt.want {
					t.Errorf("decided by numbers: %t, want %t", got, tt.want)
				}
				if got := f.PerJobBut(task, tt.chosenBy); got == tt.want {
					t.Errorf("verdicts of its job's own: %t, want %t", got, !tt.want)
				}
			}
		})
	}
}
