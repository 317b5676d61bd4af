// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestRegressionSharedPodWrite covers a defect of upstream: allocation writes the node's name, and plugins write
// annotations, into the informer's own pod, and do not remove them when the trial is reverted.
func TestRegressionSharedPodWrite(t *testing.T) {
	tests := map[string]struct {
		commit bool
		want   []string
	}{
		"a trial that is dropped":    {want: []string{"", ""}},
		"a trial that is carried on": {commit: true, want: []string{"n", "n"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(2, 2)
				shared := w.latest["*v1.Pod ns/p0"].(*v1.Pod)
				before := shared.DeepCopy()

				registry := framework.NewRegistry()
				registry.Reporter = report.NewPendingGangs(nil)
				profile, err := registry.Build(framework.ProfileInput{}, w.cache.handle)
				if err != nil {
					t.Fatal(err)
				}
				ssn := registry.OpenSession(w.cache, profile)
				statement := vcframework.NewStatement(ssn.Session)
				for _, task := range ssn.Jobs[gang].Tasks {
					if err := statement.Allocate(task, ssn.Nodes["n"]); err != nil {
						t.Fatal(err)
					}
					task.Pod.Annotations["device"] = "3"
				}
				if diff := cmp.Diff(before, shared); diff != "" {
					t.Errorf("the trial changed the informer's pod (-before +after):\n%s", diff)
				}
				if tt.commit {
					statement.Commit()
				} else {
					statement.Discard()
				}
				registry.CloseSession(ssn)
				synctest.Wait()
				if diff := cmp.Diff(before, shared); diff != "" {
					t.Errorf("the session changed the informer's pod (-before +after):\n%s", diff)
				}
				if diff := cmp.Diff(tt.want, nodesOf(w.cluster, "p0", "p1")); diff != "" {
					t.Errorf("nodes after the session (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestSnapshotTaskIsTheSameEverywhere(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		job := w.cache.Snapshot().Jobs[gang]
		task := job.Tasks["ns-p0"]
		for _, pending := range job.TaskStatusIndex[api.Pending] {
			if pending != task {
				t.Error("the index of Pending tasks has another task")
			}
		}
		for _, sub := range job.SubJobs {
			if sub.Tasks["ns-p0"] != task {
				t.Error("the sub-group has another task")
			}
		}
	})
}

// TestPodThatNamesItsNode checks that a snapshot nominates the node that a pod names in its node selector, so that
// allocate tries this node first. The nomination is written neither to the informer's pod nor to the API server.
func TestPodThatNamesItsNode(t *testing.T) {
	named := func(node string) *v1.Pod {
		return changed(pod(0).Obj(), func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelHostname: node} })
	}
	tests := map[string]struct {
		pod    *v1.Pod
		others []*v1.Pod
		want   string
	}{
		"a node that is there":     {pod: named("n"), want: "n"},
		"a node that is not there": {pod: named("m")},
		"none":                     {pod: pod(0).Obj()},
		"a node with room for one of two, which preempt may have to make": {
			pod: named("n"), others: []*v1.Pod{changed(pod(1).Req(schedtest.Resources{"cpu": "7500m"}).Obj(), func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n"} })},
		},
		"a node without room, which preempt may have to make": {
			pod: changed(pod(0).Req(schedtest.Resources{"cpu": "99"}).Obj(), func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{v1.LabelHostname: "n"} }),
		},
		"a session's nomination stays": {
			pod: changed(named("n"), func(p *v1.Pod) { p.Status.NominatedNodeName = "m" }), want: "m",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(t *testing.T, w *harness) {
				w.gangOf(0, 1)
				w.add(tt.pod)
				for _, other := range tt.others {
					w.add(other)
				}
				got := w.cache.Snapshot().Jobs[gang].Tasks["ns-p0"].Pod
				if got.Status.NominatedNodeName != tt.want {
					t.Errorf("nominated node is %q, want %q", got.Status.NominatedNodeName, tt.want)
				}
				if shared := w.latest["*v1.Pod ns/p0"].(*v1.Pod); shared.Status.NominatedNodeName != tt.pod.Status.NominatedNodeName {
					t.Errorf("the informer's pod was nominated to %q", shared.Status.NominatedNodeName)
				}
				w.cluster.Writes()
				if _, err := w.cache.reports.Status().UpdatePodStatus(got); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * statuswriter.Settle)
				synctest.Wait()
				if writes := w.cluster.Writes(); len(writes) != 0 {
					t.Errorf("the snapshot's nomination was written: %v", writes)
				}
			})
		})
	}
}

// TestSnapshotShowsDecidedStatuses checks that a snapshot shows the decided statuses. A session does not repeat a
// decision that the watch has not shown yet, and its changes to its own copies are not seen by the next session.
func TestSnapshotShowsDecidedStatuses(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.gangOf(1, 1)
		job := w.cache.Snapshot().Jobs[gang]
		job.PodGroup.Status.Conditions = []scheduling.PodGroupCondition{{Type: "Decided", Message: "by a session"}}
		if _, err := w.cache.UpdateJobStatus(job, true, false, false); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			conditions := w.cache.Snapshot().Jobs[gang].PodGroup.Status.Conditions
			i := slices.IndexFunc(conditions, func(c scheduling.PodGroupCondition) bool { return c.Type == "Decided" })
			if i < 0 || conditions[i].Message != "by a session" {
				t.Fatalf("conditions are %v, want the decided one", conditions)
			}
			conditions[i].Message = "changed"
		}
	})
}
