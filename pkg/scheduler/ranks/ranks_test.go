// SPDX-License-Identifier: Apache-2.0

package ranks

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

func named(name string) *schedtest.PodBuilder { return schedtest.MakePod().Name(name).Group("g") }

func TestRankOrder(t *testing.T) {
	owned := func(name, owner string) *v1.Pod {
		pod, yes := named(name).Obj(), true
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: owner, Controller: &yes}}
		return pod
	}
	indexed := func(name, owner, index string) *v1.Pod {
		pod := owned(name, owner)
		pod.Annotations["batch.kubernetes.io/job-completion-index"] = index
		return pod
	}
	tests := map[string]struct {
		// pods are in the required order.
		pods []*v1.Pod
	}{
		"by name, as people count": {pods: []*v1.Pod{
			named("pod").Obj(), named("pod-0").Obj(), named("pod-2").Obj(), named("pod-10").Obj(), named("pod-10-a").Obj(), named("pod-x").Obj(),
		}},
		"by completion index": {pods: []*v1.Pod{
			named("c").Annotation("batch.kubernetes.io/job-completion-index", "0").Obj(),
			named("a").Annotation("batch.kubernetes.io/job-completion-index", "9").Obj(),
			named("b").Label("batch.kubernetes.io/job-completion-index", "10").Obj(),
		}},
		"as the user numbers them, whatever their roles and jobs, and then the others": {pods: []*v1.Pod{
			named("worker-9").Role("worker").Annotation("gang.scheduling.koordinator.sh/network-topology-index", "2").Obj(),
			named("master-0").Role("master").Annotation("gang.scheduling.koordinator.sh/network-topology-index", "10").Obj(),
			named("a-0").Role("a").Annotation("gang.scheduling.koordinator.sh/network-topology-index", "-1").Obj(),
			named("b-0").Role("b").Obj(),
		}},
		"by replica index, each type together": {pods: []*v1.Pod{
			named("z").Label("training.kubeflow.org/replica-type", "master").Label("training.kubeflow.org/replica-index", "0").Obj(),
			named("y").Label("training.kubeflow.org/replica-type", "worker").Label("training.kubeflow.org/replica-index", "0").Obj(),
			named("x").Label("training.kubeflow.org/replica-type", "worker").Label("training.kubeflow.org/replica-index", "1").Obj(),
		}},
		"by worker index, each group together": {pods: []*v1.Pod{
			named("z").Label("leaderworkerset.sigs.k8s.io/group-index", "2").Label("leaderworkerset.sigs.k8s.io/worker-index", "0").Obj(),
			named("y").Label("leaderworkerset.sigs.k8s.io/group-index", "2").Label("leaderworkerset.sigs.k8s.io/worker-index", "1").Obj(),
			named("x").Label("leaderworkerset.sigs.k8s.io/group-index", "10").Label("leaderworkerset.sigs.k8s.io/worker-index", "0").Obj(),
		}},
		"by task index, each role together": {pods: []*v1.Pod{
			named("z").Role("master").Annotation("volcano.sh/task-index", "0").Obj(),
			named("y").Role("worker").Annotation("volcano.sh/task-index", "2").Obj(),
			named("x").Role("worker").Label("volcano.sh/task-index", "10").Obj(),
		}},
		"an index for one, not for all": {pods: []*v1.Pod{
			named("z").Annotation("volcano.sh/task-index", "7").Obj(), named("a").Obj(), named("b").Obj(),
		}},
		"an index that is none": {pods: []*v1.Pod{
			named("z").Annotation("batch.kubernetes.io/job-completion-index", "x").Annotation("volcano.sh/task-index", "1").Obj(),
			named("a").Annotation("volcano.sh/task-index", "-1").Obj(),
		}},
		"several jobs in one gang": {pods: []*v1.Pod{
			indexed("d", "set-worker-2", "0"), indexed("c", "set-worker-2", "1"), indexed("b", "set-worker-10", "0"), indexed("a", "set-worker-10", "1"),
		}},
		"numbers beyond what an integer holds": {pods: []*v1.Pod{
			named("p-99999999999999999999").Obj(), named("p-100000000000000000000").Obj(),
		}},
		"zeros in front": {pods: []*v1.Pod{named("p-01").Obj(), named("p-1").Obj(), named("p-002").Obj(), named("p-10").Obj()}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var tasks []*api.TaskInfo
			var want []string
			for _, pod := range tt.pods {
				tasks = append(tasks, api.NewTaskInfo(pod))
				want = append(want, pod.Name)
			}
			for range 20 {
				rand.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
				slices.SortFunc(tasks, New().Compare)
				var got []string
				for _, task := range tasks {
					got = append(got, task.Name)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("order (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// FuzzNaturalOrder checks that the order is antisymmetric and transitive, and that only equal texts compare as equal.
func FuzzNaturalOrder(f *testing.F) {
	f.Add("pod-2", "pod-10", "pod-02")
	f.Add("pod-2", "pod-02", "pod-10")
	f.Add("", "0", "00")
	f.Add("a1b", "a01a", "a1")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		if (compareNaturally(a, b) == 0) != (a == b) {
			t.Errorf("%q and %q compare as %d", a, b, compareNaturally(a, b))
		}
		if compareNaturally(a, b) != -compareNaturally(b, a) {
			t.Errorf("%q and %q: %d one way, %d the other", a, b, compareNaturally(a, b), compareNaturally(b, a))
		}
		if compareNaturally(a, b) < 0 && compareNaturally(b, c) < 0 && compareNaturally(a, c) >= 0 {
			t.Errorf("%q precedes %q, which precedes %q, but the first does not precede the last", a, b, c)
		}
	})
}
