// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	vcscheduler "volcano.sh/volcano/pkg/scheduler"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestSessionsReportPodGroupsOnce checks that sessions report PodGroups once. A finding that a plugin records in
// every session becomes one event until it changes, with the plugin's text.
func TestSessionsReportPodGroupsOnce(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		registry := framework.NewRegistry()
		registry.Reporter = report.NewPendingGangs(nil)
		registry.RegisterPlugin(ibcluster.Spec())
		_, tiers, configurations, _, err := vcscheduler.UnmarshalSchedulerConf("actions: allocate\ntiers:\n- plugins:\n  - name: ibcluster\n")
		if err != nil {
			t.Fatal(err)
		}
		profile, err := registry.Build(framework.ProfileInput{Tiers: tiers, Configurations: configurations}, w.cache.handle)
		if err != nil {
			t.Fatal(err)
		}
		node := func(name string) *schedtest.NodeBuilder {
			return schedtest.MakeNode().Name(name).Label("ibcluster", "ib-"+name)
		}
		group := func(name, annotation, value string) *schedtest.PodGroupBuilder {
			return schedtest.MakePodGroup().Name(name).MinMember(1).Annotation(annotation, value)
		}
		member := func(group, name string) *schedtest.PodBuilder {
			return schedtest.MakePod().Name(name).Group(group).Req(schedtest.Resources{"cpu": "1"})
		}
		w.add(node("a").Obj(), node("b").Obj(),
			group("wrong", ibcluster.LevelAnnotation, "50%off").Obj(), member("wrong", "w").Obj(),
			group("split", ibcluster.ModeAnnotation, "required").Obj(), member("split", "s").Obj(),
			member("split", "s1").Node("a").Phase(v1.PodRunning).Obj(), member("split", "s2").Node("b").Phase(v1.PodRunning).Obj())
		session := func() {
			ssn := registry.OpenSession(w.cache, profile)
			defer registry.CloseSession(ssn)
			if _, err := ssn.Placements.Of(ssn.Jobs[schedtest.Namespace+"/split"]); err != nil {
				t.Error(err)
			}
		}
		expect := func(step string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, w.cluster.Events.Take()); diff != "" {
				t.Errorf("%s: events (-want +got):\n%s", step, diff)
			}
		}
		session()
		expect("at first",
			`Warning IBClusterAnnotationInvalid wrong: annotation ibcluster.volcano-prebind.io/level: invalid value "50%off", must be the name of a level: "ibcluster" or "spine" or "leaf"`,
			"Warning IBClusterSplit split: gang is split across ib-a (1), ib-b (1); new pods go to ib-a")
		session()
		session()
		expect("nothing changed")
		w.add(group("wrong", ibcluster.LevelAnnotation, "100%on").Obj(), member("split", "s3").Node("b").Phase(v1.PodRunning).Obj())
		session()
		session()
		expect("both changed",
			`Warning IBClusterAnnotationInvalid wrong: annotation ibcluster.volcano-prebind.io/level: invalid value "100%on", must be the name of a level: "ibcluster" or "spine" or "leaf"`,
			"Warning IBClusterSplit split: gang is split across ib-a (1), ib-b (2); new pods go to ib-b")
	})
}
