// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"volcano.sh/volcano/pkg/scheduler/api"
	"volcano.sh/volcano/pkg/scheduler/conf"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/plugins/capacity"
	"volcano.sh/volcano/pkg/scheduler/plugins/drf"
	"volcano.sh/volcano/pkg/scheduler/plugins/overcommit"
	"volcano.sh/volcano/pkg/scheduler/plugins/proportion"

	"github.com/volcano-prebind/volcano-prebind/internal/rounds"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

var summedWorlds = rounds.Flag("summed.worlds", 15, 300, "how many random worlds plugins of upstream open on as they are and on summaries")

// TestPluginsKnowFromSummariesWhatTheyKnowFromTasks checks that an upstream plugin that opens on summaries of jobs
// computes the same as on the jobs with all their tasks.
func TestPluginsKnowFromSummariesWhatTheyKnowFromTasks(t *testing.T) {
	builders := map[string]func(vcframework.Arguments) vcframework.Plugin{
		"drf": drf.New, "proportion": proportion.New, "capacity": capacity.New, "overcommit": overcommit.New,
	}
	for seed := range uint64(summedWorlds.Of(t)) {
		r := rand.New(rand.NewPCG(seed, 20))
		c := schedtest.NewCluster().Cache
		if err := schedtest.AddRandomGangs(c, r); err != nil {
			t.Fatal(err)
		}
		var ssn *vcframework.Session
		opening := &openingJobs{}
		for i, name := range slices.Concat(addingPlugins[:], addingPlugins[:]) {
			if i == 0 || r.IntN(2) == 0 {
				ssn = vcframework.OpenSession(c, nil, nil) // otherwise the plugins open in the same session
			}
			jobs := map[api.JobID]string{}
			for id, job := range ssn.Jobs {
				jobs[id] = fmt.Sprint(len(job.Tasks), len(job.TaskStatusIndex), len(job.TaskStatusIndex[api.Running]))
			}
			asTheyAre := builders[name](vcframework.Arguments{})
			undo := func() {}
			if name != "drf" {
				undo = countHeldOnly(ssn.Jobs)
			}
			asTheyAre.OnSessionOpen(ssn)
			undo()
			summed := summedPlugin{builders[name](vcframework.Arguments{}), opening}
			summed.OnSessionOpen(ssn)
			if !reflect.DeepEqual(asTheyAre, summed.Plugin) {
				t.Fatalf("world %d: plugin %s differs on summaries:\n%+v\nwant\n%+v", seed, name, summed.Plugin, asTheyAre)
			}
			for id, job := range ssn.Jobs {
				if got := fmt.Sprint(len(job.Tasks), len(job.TaskStatusIndex), len(job.TaskStatusIndex[api.Running])); got != jobs[id] {
					t.Fatalf("world %d: after plugin %s job %s has %s tasks, statuses and running tasks, want %s", seed, name, id, got, jobs[id])
				}
			}
		}
	}
}

// TestAPluginIsWrappedOnce checks that a plugin is wrapped once, however often configurations with it are built.
func TestAPluginIsWrappedOnce(t *testing.T) {
	vcframework.RegisterPluginBuilder("drf", drf.New)
	for range 3 {
		SumPlugins([]conf.Tier{{Plugins: []conf.PluginOption{{Name: "drf"}}}}, func(string) bool { return false })
	}
	build, _ := vcframework.GetPluginBuilder("drf")
	wrapped, ok := build(nil).(summedPlugin)
	if _, twice := wrapped.Plugin.(summedPlugin); !ok || twice {
		t.Errorf("drf is wrapped: %t, and twice: %t; want once", ok, twice)
	}
}
