// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestMarks checks that each change that may correct an object changes its fingerprint, so the object leaves the
// quarantine sooner.
func TestMarks(t *testing.T) {
	type objects struct {
		group *api.PodGroup
		pods  []*v1.Pod
		queue *scheduling.Queue
		node  *v1.Node
	}
	of := func(change func(o *objects)) (marks [3]uint64) {
		o := &objects{group: &api.PodGroup{}, queue: &scheduling.Queue{}, node: schedtest.MakeNode().Name("n").Capacity(schedtest.Resources{"cpu": "8"}).Obj()}
		for _, name := range []string{"p-0", "p-1"} {
			o.pods = append(o.pods, schedtest.MakePod().Name(name).Obj())
		}
		change(o)
		job := api.NewJobInfo("ns/g")
		job.PodGroup = o.group
		for _, pod := range o.pods {
			job.AddTaskInfo(api.NewTaskInfo(pod))
		}
		return [3]uint64{fingerprintOfJob(job), fingerprintOfQueue(api.NewQueueInfo(o.queue)), fingerprintOfNode(api.NewNodeInfo(o.node))}
	}
	const nothing, job, queue, node = -1, 0, 1, 2
	tests := map[string]struct {
		change func(o *objects)
		marks  int
	}{
		"nothing":               {func(*objects) {}, nothing},
		"the order of pods":     {func(o *objects) { o.pods[0], o.pods[1] = o.pods[1], o.pods[0] }, nothing},
		"the group's UID":       {func(o *objects) { o.group.UID = "other" }, job},
		"its spec":              {func(o *objects) { o.group.Spec.MinMember = 7 }, job},
		"its labels":            {func(o *objects) { o.group.Labels = map[string]string{"a": "b"} }, job},
		"its annotations":       {func(o *objects) { o.group.Annotations = map[string]string{"a": "b"} }, job},
		"a pod that has gone":   {func(o *objects) { o.pods = o.pods[:1] }, job},
		"a pod's UID":           {func(o *objects) { o.pods[1].UID = "other" }, job},
		"its generation":        {func(o *objects) { o.pods[1].Generation = 7 }, job},
		"its labels, too":       {func(o *objects) { o.pods[1].Labels = map[string]string{"a": "b"} }, job},
		"the group's status":    {func(o *objects) { o.group.Status.Running = 7 }, nothing},
		"the queue's UID":       {func(o *objects) { o.queue.UID = "other" }, queue},
		"the queue's spec":      {func(o *objects) { o.queue.Spec.Weight = 7 }, queue},
		"the queue's notes":     {func(o *objects) { o.queue.Annotations = map[string]string{"a": "b"} }, queue},
		"the queue's status":    {func(o *objects) { o.queue.Status.Running = 7 }, nothing},
		"the node's UID":        {func(o *objects) { o.node.UID = "other" }, node},
		"the node's spec":       {func(o *objects) { o.node.Spec.Unschedulable = true }, node},
		"the node's labels":     {func(o *objects) { o.node.Labels = map[string]string{"a": "b"} }, node},
		"what it can allocate":  {func(o *objects) { o.node.Status.Allocatable["example.com/a"] = resource.MustParse("1") }, node},
		"the node's conditions": {func(o *objects) { o.node.Status.Conditions = make([]v1.NodeCondition, 3) }, nothing},
	}
	before := of(tests["nothing"].change)
	for name, tt := range tests {
		for i, mark := range of(tt.change) {
			if mark == 0 {
				t.Errorf("%s: fingerprint %d is 0, which is not allowed", name, i)
			}
			if changed := mark != before[i]; changed != (i == tt.marks) {
				t.Errorf("%s: mark %d changes: %t, want %t", name, i, changed, i == tt.marks)
			}
		}
	}
}
