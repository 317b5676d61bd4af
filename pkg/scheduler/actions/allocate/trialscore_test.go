// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestTheBestTrialWins checks that the best trial wins. The score of a cluster depends on the placement of the
// members in it. The best cluster is neither the first nor the last that is tried. The scoring plugin sees which part
// of each cluster the gang would fill.
func TestTheBestTrialWins(t *testing.T) {
	pods, podGroup := gang("g", "3", "3")
	podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
	c := newCounting(t, sessiontest.ClusterSpec{Pods: pods})
	c.world.PodGroups = append(c.world.PodGroups, podGroup)
	c.world.Nodes = append(c.world.Nodes, node("n1", "ib-a", "6"), node("n2", "ib-b", "12"), node("n3", "ib-c", "24"))
	c.conf = withClusters + "  - name: helper\n"
	fills, afterTrial := map[string]float64{}, map[string]float64{"n1": 1, "n2": 3, "n3": 2}
	c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return helper{open: nothing, part: sessiontest.NodeGroupScoreFn(func(_ *api.JobInfo, trial *framework.NodeGroupTrial) (float64, error) {
			fills[trial.Group.Path()] = trial.Fill
			for _, node := range trial.Placement {
				return 1e6 * afterTrial[node], nil
			}
			return 0, nil
		})}, nil
	})})
	c.look(func(ssn *sessiontest.Session) {
		if diff := cmp.Diff(map[string]string{"ns/g-0": "n2", "ns/g-1": "n2"}, ssn.Binds()); diff != "" {
			t.Errorf("bound (-want +got):\n%s", diff)
		}
	})
	if diff := cmp.Diff(map[string]float64{"ib-a": 1, "ib-b": 0.5, "ib-c": 0.25}, fills); diff != "" {
		t.Errorf("the gang would fill (-want +got):\n%s", diff)
	}
}
