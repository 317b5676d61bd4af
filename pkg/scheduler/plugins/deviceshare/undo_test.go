// SPDX-License-Identifier: Apache-2.0

package deviceshare_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// tasksOf returns the session's tasks by name.
func tasksOf(ssn *sessiontest.Session) map[string]*api.TaskInfo {
	tasks := map[string]*api.TaskInfo{}
	for _, job := range ssn.Jobs {
		for _, task := range job.Tasks {
			tasks[task.Name] = task
		}
	}
	return tasks
}

// place allocates the task on n1 in its own trial.
func place(t *testing.T, ssn *sessiontest.Session, task *api.TaskInfo) *vcframework.Statement {
	t.Helper()
	if err := ssn.PrePredicateFn(task); err != nil {
		t.Fatal(err)
	}
	trial := vcframework.NewStatement(ssn.Session.Session)
	if err := trial.Allocate(task, ssn.Nodes["n1"]); err != nil {
		t.Fatal(err)
	}
	return trial
}

// picky makes a member request GPUs with the label.
func picky(pod *v1.Pod, label string) {
	annotated(schedulingv1alpha1.DeviceAllocateHintAnnotation, fmt.Sprintf(`{"gpu":{"selector":{"matchLabels":{%q:"yes"}}}}`, label))(pod)
}

// newPickyCluster returns a cluster with a node, whose GPUs 0, 4 and 5 have labels, and a gang whose members select
// GPUs by these labels. g-0 may have GPU 0 or 4, g-1 only 0, g-2 only 4, g-3 0 or 5, and g-4 only 5. g-5 needs two GPUs
// with the label that only GPU 0 has.
func newPickyCluster(t *testing.T, running ...*v1.Pod) *testCluster {
	t.Helper()
	nodes, devices := machines("n1")
	for gpu, labels := range map[int][]string{0: {"zero", "zero-four", "zero-five"}, 4: {"four", "zero-four"}, 5: {"five", "zero-five"}} {
		devices[0].Spec.Devices[gpu].Labels = map[string]string{}
		for _, label := range labels {
			devices[0].Spec.Devices[gpu].Labels[label] = "yes"
		}
	}
	podGroup, pods := gang("g", 5, schedtest.Resources{"koordinator.sh/gpu": "100"})
	for i, label := range []string{"zero-four", "zero", "four", "zero-five", "five"} {
		picky(pods[i], label)
	}
	_, more := gang("g", 6, schedtest.Resources{"koordinator.sh/gpu": "200"})
	picky(more[5], "zero")
	podGroup.Spec.MinMember = 1
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: []*v1beta1.PodGroup{podGroup}, Pods: append(append(pods, more[5]), running...)})
	w.conf = devicesAlone
	return w
}

// TestMembersGetTheirDevicesBack: members were given other devices so that another member fits. They get their former
// devices back if that member is not placed.
func TestMembersGetTheirDevicesBack(t *testing.T) {
	tests := map[string]struct {
		do   func(t *testing.T, ssn *sessiontest.Session, tasks map[string]*api.TaskInfo)
		want map[string]string
	}{
		"no pod came after it": {
			do: func(t *testing.T, ssn *sessiontest.Session, tasks map[string]*api.TaskInfo) {
				place(t, ssn, tasks["g-0"])
				place(t, ssn, tasks["g-1"]).Discard()
			},
			want: map[string]string{"g-0": "gpu 0"},
		},
		"another took what one had before": {
			do: func(t *testing.T, ssn *sessiontest.Session, tasks map[string]*api.TaskInfo) {
				five := place(t, ssn, tasks["g-4"])
				place(t, ssn, tasks["g-0"])
				trial := place(t, ssn, tasks["g-3"]) // takes GPU 0; g-0 gets GPU 4 instead
				five.Discard()
				place(t, ssn, tasks["g-1"]) // takes GPU 0; g-3 gets GPU 5 instead
				trial.Discard()
			},
			want: map[string]string{"g-0": "gpu 4", "g-1": "gpu 0"},
		},
		"the one is handed over meanwhile": {
			do: func(t *testing.T, ssn *sessiontest.Session, tasks map[string]*api.TaskInfo) {
				first := place(t, ssn, tasks["g-0"])
				second := place(t, ssn, tasks["g-1"])
				first.Commit()
				second.Discard()
			},
			want: map[string]string{"g-0": "gpu 4"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ssn := newPickyCluster(t).next(t)
			defer ssn.Close()
			tasks := tasksOf(ssn)
			tc.do(t, ssn, tasks)
			got := map[string]string{}
			for name, task := range tasks {
				if annotation := task.Pod.Annotations[schedulingv1alpha1.DeviceAllocatedAnnotation]; annotation != "" {
					got[name] = devicesOf(t, annotation)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAMemberThatIsHandedOverKeepsItsDevices: the annotation of a member that was handed over is being written, so its
// devices do not change.
func TestAMemberThatIsHandedOverKeepsItsDevices(t *testing.T) {
	ssn := newPickyCluster(t).next(t)
	defer ssn.Close()
	tasks := tasksOf(ssn)
	place(t, ssn, tasks["g-0"]).Commit()
	if got := devicesOf(t, ssn.Handed()[schedtest.Namespace+"/g-0"].Decided[schedulingv1alpha1.DeviceAllocatedAnnotation]); got != "gpu 0" {
		t.Fatalf("member g-0 is bound with %s, want gpu 0", got)
	}
	if err := ssn.PredicateFn(tasks["g-1"], ssn.Nodes["n1"]); err == nil {
		t.Error("the filter accepts a second member for GPU 0")
	}
	if err := ssn.PredicateFn(tasks["g-2"], ssn.Nodes["n1"]); err != nil {
		t.Errorf("the filter rejects a member for GPU 4, which is free: %v", err)
	}
}

// TestRefusalIsKeptOnlyForItsPlacements: a cached refusal holds only for the placements that caused it, because other
// placements may permit the member, and placements may be reverted.
func TestRefusalIsKeptOnlyForItsPlacements(t *testing.T) {
	w := newPickyCluster(t)
	// This strategy depends on nothing else that changes.
	w.conf += "    arguments: {scoringStrategy: {type: LeastAllocated}}\n"
	ssn := w.next(t)
	defer ssn.Close()
	tasks := tasksOf(ssn)
	place(t, ssn, tasks["g-0"])
	ask(t, ssn, tasks["g-5"], false)
	ask(t, ssn, tasks["g-1"], true) // GPU 4 serves g-0 as well
	trial := place(t, ssn, tasks["g-2"])
	ask(t, ssn, tasks["g-1"], false)
	trial.Discard()
	ask(t, ssn, tasks["g-1"], true)
}

// ask checks whether the filter accepts n1 for the task.
func ask(t *testing.T, ssn *sessiontest.Session, task *api.TaskInfo, taken bool) {
	t.Helper()
	if err := ssn.PredicateFn(task, ssn.Nodes["n1"]); (err == nil) != taken {
		t.Errorf("%s: %v, want it accepted: %t", task.Name, err, taken)
	}
}

// TestAMemberIsNotMovedToWhatOthersHaveStill checks that a placed member keeps its device if the only other suitable
// device is still used by a terminating pod. Another member that needs the kept device is refused, but a member may
// wait for the device of the terminating pod.
func TestAMemberIsNotMovedToWhatOthersHaveStill(t *testing.T) {
	leaving := runningWith("leaving", "n1", "100", 0)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	leaving.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("95")
	ssn := newPickyCluster(t, leaving).next(t)
	defer ssn.Close()
	tasks := tasksOf(ssn)
	place(t, ssn, tasks["g-0"]) // placed on GPU 4, with the last CPU
	ask(t, ssn, tasks["g-2"], false)
	ask(t, ssn, tasks["g-1"], true) // waits for GPU 0
}

// TestMembersThatDifferAreAskedAboutForTheirJob: results for members of unlike gangs are cached per job, since other
// members of the job may be given other devices.
func TestMembersThatDifferAreAskedAboutForTheirJob(t *testing.T) {
	nodes, devices := machines("n1")
	var groups []*v1beta1.PodGroup
	var pods []*v1.Pod
	for name, resources := range map[string]schedtest.Resources{"alike": {"koordinator.sh/gpu": "100"}, "without": {}} {
		group, members := gang(name, 2, resources)
		groups, pods = append(groups, group), append(pods, members...)
	}
	group, members := gang("differ", 2, schedtest.Resources{"koordinator.sh/gpu": "100"})
	picky(members[1], "fast")
	w := newTestCluster(t, sessiontest.ClusterSpec{Nodes: nodes, Devices: devices, PodGroups: append(groups, group), Pods: append(pods, members...)})
	ssn := w.next(t)
	defer ssn.Close()
	tasks := tasksOf(ssn)
	for name, want := range map[string]framework.CacheScope{
		"alike-0": framework.PerTaskClass, "without-0": framework.PerTaskClass, "differ-0": framework.PerJob, "differ-1": framework.PerJob,
	} {
		if got := ssn.Signers.Scope("deviceshare", tasks[name]); got != want {
			t.Errorf("verdicts on %s have scope %d, want %d", name, got, want)
		}
	}
}
