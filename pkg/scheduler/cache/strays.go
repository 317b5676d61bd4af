// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/statuswriter"
)

// stray is a gang that no session sees: its PodGroup, or its queue, is not there, or it is set aside.
type stray struct {
	id      api.JobID
	group   *api.PodGroup // nil when it is not there
	pods    []*v1.Pod     // those that wait
	message string
	// aside is the reason for which it is set aside; empty when it is not.
	aside string
	// again is true if it is time to tell the pods once more.
	again bool
}

// astray is since when a gang is a stray, and when its pods were last told; zero when they have not been.
type astray struct{ since, told time.Time }

// tellStrays tells gangs that sessions do not see what they lack, once that has lasted a moment: objects of one submission
// come one after the other. seen is how many gangs the session sees; when that is all there is nothing to look for.
func (c *Cache) tellStrays(seen int) {
	var ripe []stray
	found := c.strays(seen)
	c.reportMu.Lock()
	now, young := time.Now(), false
	maps.DeleteFunc(c.strayed, func(id api.JobID, _ astray) bool { return found[id] == nil })
	for id, s := range found {
		last, known := c.strayed[id]
		if !known {
			last.since = now
		}
		if now.Sub(last.since) >= statuswriter.Settle {
			if s.again = !last.told.IsZero() && now.Sub(last.told) >= retellEvery; s.again || last.told.IsZero() {
				last.told = now
			}
			ripe = append(ripe, *s)
		} else {
			young = true
		}
		c.strayed[id] = last
	}
	c.reportMu.Unlock()
	if young {
		c.wake(WakeDelayed)
	}
	for i := range ripe {
		c.tellStray(&ripe[i])
	}
}

// strays lists the gangs that sessions do not see and of which pods wait, or are missing: those of a Volcano Job are made when
// its PodGroup is let in.
func (c *Cache) strays(seen int) map[api.JobID]*stray {
	aside := c.aside.Gangs()
	c.books.Lock()
	defer c.books.Unlock()
	if c.books.Jobs.Len() == seen {
		return nil
	}
	found := map[api.JobID]*stray{}
	for id, job := range c.books.Jobs.All() {
		s := &stray{id: id}
		switch {
		case job.PodGroup == nil && len(job.TaskStatusIndex[api.Pending]) == 0:
			continue
		case job.PodGroup == nil:
		case !framework.Waits(job):
			continue
		case c.books.Tables.Queues[job.Queue] == nil:
			s.group = job.PodGroup.Clone()
			s.message = fmt.Sprintf("queue %s does not exist", brief.Value(string(job.Queue)))
			if status, ok := c.status.Decided(job); ok {
				s.group.Status = *status.DeepCopy()
			}
		case aside[id].Message != "":
			s.group = job.PodGroup.Clone()
			s.aside, s.message = aside[id].Reason, aside[id].Message
		default:
			continue
		}
		for _, task := range job.TaskStatusIndex[api.Pending] {
			if !task.SchGated {
				s.pods = append(s.pods, task.Pod)
			}
		}
		found[id] = s
	}
	return found
}

func (c *Cache) tellStray(s *stray) {
	reason := v1.PodReasonUnschedulable
	switch {
	case s.group == nil:
		reason = framework.PodGroupNotFound
	case s.aside != "": // its PodGroup was told with a condition when it was set aside
		c.podGroupEvent(s.group, v1.EventTypeWarning, s.aside, s.message)
	default:
		condition := unschedulable(framework.QueueNotFound, s.message)
		setCondition(&s.group.Status, condition)
		c.status.PutPodGroup(s.group, false)
		c.podGroupEvent(s.group, v1.EventTypeWarning, string(condition.Type), s.message)
	}
	for _, pod := range s.pods {
		message := s.message
		if s.group == nil {
			message = fmt.Sprintf("PodGroup %s, which annotation %s names, does not exist",
				brief.Value(pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]), v1beta1.KubeGroupNameAnnotationKey)
		}
		c.tellPod(pod, reason, message, "")
		if s.again {
			c.retellPod(pod)
		}
	}
}

// tellAside tells a gang that is set aside and stays in sessions because it holds resources.
func (c *Cache) tellAside(job *api.JobInfo, reason, message string) {
	c.podGroupEvent(job.PodGroup, v1.EventTypeWarning, reason, message)
	for _, task := range job.TaskStatusIndex[api.Pending] {
		if !task.SchGated {
			c.tellPod(task.Pod, v1.PodReasonUnschedulable, message, "")
		}
	}
	c.retell(job)
}
