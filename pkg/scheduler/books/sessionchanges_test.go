// SPDX-License-Identifier: Apache-2.0

package books

import (
	"maps"
	"slices"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// changeCopies changes the session's copies as sessions do, without reverting the changes.
func changeCopies(h *history) {
	if h.given == nil || len(h.given.Jobs) == 0 {
		return
	}
	ids := slices.Sorted(maps.Keys(h.given.Jobs))
	job := h.given.Jobs[ids[h.rng.IntN(len(ids))]]
	switch h.rng.IntN(9) {
	case 0:
		job.PodGroup.Status.Phase = scheduling.PodGroupRunning
		job.PodGroup.Status.Conditions = append(job.PodGroup.Status.Conditions, scheduling.PodGroupCondition{Type: "Seen"})
	case 1:
		job.Priority++
		job.JobFitErrors = "none"
	case 2:
		for uid := range job.Tasks {
			job.NodesFitErrors[uid] = api.NewFitErrors()
		}
	case 3:
		for _, node := range h.given.Nodes {
			node.Others["left"], h.touched.Nodes[node.Name] = true, true
			return
		}
	case 4:
		job.Queue = "elsewhere"
	case 5:
		job.MinAvailable++
	case 6:
		for _, uid := range slices.Sorted(maps.Keys(job.Tasks)) {
			h.evictInSession(job, job.Tasks[uid], h.rng.IntN(3) == 0)
		}
	default:
		h.changeTask(job)
	}
}

func (h *history) changeTask(job *api.JobInfo) {
	for _, uid := range slices.Sorted(maps.Keys(job.Tasks)) {
		task := job.Tasks[uid]
		does := h.rng.IntN(5)
		if direct := does == 0 || does == 3; direct && h.trusted && task.Status != api.Pending {
			continue
		}
		switch does {
		case 0:
			task.Resreq = api.EmptyResource()
		case 1:
			h.allocate(job, task, h.rng.IntN(2) == 0)
		case 2:
			h.evictInSession(job, task, h.rng.IntN(2) == 0)
		case 3:
			own := *task.Pod
			own.Spec.NodeName = "elsewhere"
			task.Pod = &own
		}
	}
}

func (h *history) allocate(job *api.JobInfo, task *api.TaskInfo, undo bool) {
	node := h.given.Nodes[h.nodeName()]
	if task.Status != api.Pending || node == nil || node.Tasks[api.PodKey(task.Pod)] != nil {
		return
	}
	h.touched.Nodes[node.Name], h.touched.Jobs[job.UID] = true, true
	if err := job.UpdateTaskStatus(task, api.Allocated); err != nil {
		h.t.Fatal(err)
	}
	if err := node.AddTask(task); err != nil || !undo {
		return
	}
	if err := node.RemoveTask(task); err != nil {
		h.t.Fatal(err)
	}
	if err := job.UpdateTaskStatus(task, api.Pending); err != nil {
		h.t.Fatal(err)
	}
	task.NodeName = ""
}

func (h *history) evictInSession(job *api.JobInfo, task *api.TaskInfo, undo bool) {
	node := h.given.Nodes[task.NodeName]
	if task.Status != api.Running || node == nil {
		return
	}
	h.touched.Nodes[node.Name], h.touched.Jobs[job.UID] = true, true
	victim := task.Clone()
	for _, status := range []api.TaskStatus{api.Releasing, api.Running} {
		if err := job.UpdateTaskStatus(victim, status); err != nil {
			h.t.Fatal(err)
		}
		if err := node.UpdateTask(victim); err != nil {
			h.t.Fatal(err)
		}
		if !undo {
			return
		}
	}
}
