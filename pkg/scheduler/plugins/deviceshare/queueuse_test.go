// SPDX-License-Identifier: Apache-2.0

package deviceshare

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedulingv1alpha1 "github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// asking returns a pod that requests this percentage of GPUs.
func asking(percent string) *schedtest.PodBuilder {
	limits := schedtest.Resources{"cpu": "1", "koordinator.sh/gpu": percent}
	return schedtest.MakePod().Req(limits).Limit(limits)
}

// openBounded opens a session with node n1 of four GPUs and a queue with a limit of GPUs. The queue's pods get the
// names g-0, g-1 and so on. The tasks in leaving give way to any gang.
func openBounded(t *testing.T, pods ...*schedtest.PodBuilder) (made *plugin, ssn *sessiontest.Session, leaving *[]*api.TaskInfo) {
	t.Helper()
	api.IgnoredDevicesList.Append(allocator.UncountedNames()...)
	device := &schedulingv1alpha1.Device{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	for minor := range int32(4) {
		device.Spec.Devices = append(device.Spec.Devices, schedulingv1alpha1.DeviceInfo{Type: schedulingv1alpha1.GPU, Minor: &minor, Health: true,
			Resources: v1.ResourceList{"koordinator.sh/gpu-core": resource.MustParse("100"), "koordinator.sh/gpu-memory-ratio": resource.MustParse("100"), "koordinator.sh/gpu-memory": resource.MustParse("80Gi")}})
	}
	spec := sessiontest.ClusterSpec{
		Nodes:   []*v1.Node{schedtest.MakeNode().Name("n1").Obj()},
		Devices: []*schedulingv1alpha1.Device{device},
		Queues:  []*v1beta1.Queue{schedtest.MakeQueue().Name("bounded").Obj()},
	}
	spec.Queues[0].Spec.Capability = v1.ResourceList{"koordinator.sh/gpu": resource.MustParse("1000")}
	for i, pod := range pods {
		name := fmt.Sprint("g-", i)
		spec.Pods = append(spec.Pods, pod.Name(name).Group(name).Obj())
		spec.PodGroups = append(spec.PodGroups, schedtest.MakePodGroup().Name(name).MinMember(1).Queue("bounded").Phase(v1beta1.PodGroupRunning).Obj())
	}
	cluster := sessiontest.New(spec)
	t.Cleanup(cluster.Close)
	registry, declared := framework.NewRegistry(), Spec()
	create := declared.New
	declared.Load = func(args framework.Arguments) (framework.Builder, error) {
		return func(h framework.Handle) (framework.Plugin, error) {
			p, err := create(args, h)
			made = p.(*plugin)
			return p, err
		}, nil
	}
	registry.RegisterPlugin(declared)
	leaving = &[]*api.TaskInfo{}
	registry.RegisterPlugin(framework.PluginSpec{Name: "leaving", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return &sessiontest.Plugin{Called: "leaving", Part: sessiontest.LeavingFn(func(*api.TaskInfo) []*api.TaskInfo { return *leaving })}, nil
	})})
	ssn = cluster.Open(registry, "actions: allocate\ntiers:\n- plugins:\n  - name: capacity\n  - name: deviceshare\n  - name: leaving\n")
	t.Cleanup(ssn.Close)
	return made, ssn, leaving
}

// taskOf returns the task of the pod.
func taskOf(ssn *sessiontest.Session, name string) *api.TaskInfo {
	for _, task := range ssn.Jobs[api.JobID(schedtest.Namespace+"/"+name)].Tasks {
		return task
	}
	return nil
}

// TestUseIsTheSumOfCountedPods checks the queue's use while a session evicts and places pods, and after both were
// undone. A pod that requests more than the node has counts with the same share of the node before and after.
func TestUseIsTheSumOfCountedPods(t *testing.T) {
	running := func() *schedtest.PodBuilder { return asking("100000").Node("n1").Phase(v1.PodRunning) }
	made, ssn, _ := openBounded(t, running(), running(), asking("100"), asking("50"), asking("50"))
	q := made.session.queues
	q.count()
	check := func(when string) {
		t.Helper()
		sum := map[api.QueueID]allocator.QueueUse{"bounded": {}}
		for _, use := range q.counted {
			sum["bounded"] = sum["bounded"].Add(use)
		}
		if diff := cmp.Diff(sum, q.used); diff != "" {
			t.Errorf("%s, use (-sum of the counted pods +use):\n%s", when, diff)
		}
	}
	check("at first")
	first := maps.Clone(q.used)
	if got, want := first["bounded"][0], int64(400); got != want {
		t.Errorf("the pods on the node count %d percent of GPUs, want %d, as the node has", got, want)
	}
	stmt := vcframework.NewStatement(ssn.Session.Session)
	for _, name := range []string{"g-0", "g-1"} {
		stmt.Evict(taskOf(ssn, name), "test")
		check("after the eviction of " + name)
	}
	for _, name := range []string{"g-2", "g-3", "g-4"} {
		if err := stmt.Allocate(taskOf(ssn, name), ssn.Nodes["n1"]); err != nil {
			t.Fatal(err)
		}
		check("after the placement of " + name)
	}
	if got, want := q.used["bounded"][0], int64(200); got != want {
		t.Errorf("the pods that the session placed count %d percent of GPUs, want %d", got, want)
	}
	stmt.Discard()
	check("after all was undone")
	if diff := cmp.Diff(first, q.used); diff != "" {
		t.Errorf("use after all was undone (-before +after):\n%s", diff)
	}
}

// TestAPodThatTheSessionPlacedCountsWhole: a running pod requests all GPUs of its node and counts as all of them,
// although its annotation lists one. A pod that the session placed on the node still counts with its own devices, even
// if the queue's use was counted only afterwards.
func TestAPodThatTheSessionPlacedCountsWhole(t *testing.T) {
	one := `{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100","koordinator.sh/gpu-memory-ratio":"100"}}]}`
	runs := asking("400").Node("n1").Phase(v1.PodRunning).Annotation(schedulingv1alpha1.DeviceAllocatedAnnotation, one)
	made, ssn, _ := openBounded(t, runs, asking("100"))
	if err := vcframework.NewStatement(ssn.Session.Session).Allocate(taskOf(ssn, "g-1"), ssn.Nodes["n1"]); err != nil {
		t.Fatal(err)
	}
	q := made.session.queues
	q.count()
	if got, want := q.used["bounded"][0], int64(500); got != want {
		t.Errorf("both pods count %d percent of GPUs, want %d", got, want)
	}
}

// TestTasksThatGiveWayFreeTheLimit: when a queue is asked whether it admits a task, it does not count tasks that give
// way to that task. The use of the queue in the session stays unchanged.
func TestTasksThatGiveWayFreeTheLimit(t *testing.T) {
	running := func(percent string) *schedtest.PodBuilder { return asking(percent).Node("n1").Phase(v1.PodRunning) }
	tests := map[string]struct {
		gone []string
		want bool
	}{
		"none":                            {nil, false},
		"one with as much":                {[]string{"g-0"}, true},
		"one with less":                   {[]string{"g-1"}, false},
		"two that have as much together":  {[]string{"g-1", "g-2"}, true},
		"one that is not placed":          {[]string{"g-4"}, false},
		"one that its deleted job counts": {[]string{"g-3"}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			made, ssn, leaving := openBounded(t, running("100"), running("50"), running("50"), running("100"), asking("100"), asking("100"))
			q := made.session.queues
			q.limits["bounded"], _ = allocator.QueueLimits(v1.ResourceList{"koordinator.sh/gpu": resource.MustParse("300")})
			for _, name := range tc.gone {
				*leaving = append(*leaving, taskOf(ssn, name))
			}
			counted := taskOf(ssn, "g-3").Clone()
			job := ssn.Jobs[counted.Job]
			delete(ssn.Jobs, job.UID)
			counted.Job = framework.DeletedJob(counted.Job)
			standIn := api.NewJobInfo(counted.Job, counted)
			standIn.Queue, standIn.PodGroup = job.Queue, job.PodGroup
			ssn.Jobs[standIn.UID] = standIn
			if got := q.allocatable(ssn.Queues["bounded"], taskOf(ssn, "g-5")); got != tc.want {
				t.Errorf("the queue admits the task: %t, want %t", got, tc.want)
			}
			if got, want := q.used["bounded"][0], int64(300); got != want {
				t.Errorf("afterwards the queue uses %d percent of GPUs, want %d as before", got, want)
			}
		})
	}
}
