// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/quarantine"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
)

// unseenGang is a gang that no session sees, because its PodGroup or its queue does not exist, or because it or its
// queue is quarantined.
type unseenGang struct {
	group *api.PodGroup // nil if the PodGroup does not exist
	pods  []*v1.Pod     // the gang's pods that wait to be placed
	// reason and message are those of the PodGroup's condition.
	reason, message string
	// event is the reason of the PodGroup's event.
	event string
	// again reports whether the events of the gang's pods are recorded again, although the pods have the message already.
	again bool
}

// unseen records since when no session has seen certain gangs, and when this was reported.
type unseen struct {
	mu    sync.Mutex
	gangs map[api.JobID]sighting
}

// sighting describes a gang that no session sees. since is when this began. reported is when it was last reported on
// the gang's pods; zero if never.
type sighting struct{ since, reported time.Time }

func newUnseen() *unseen { return &unseen{gangs: map[api.JobID]sighting{}} }

// due returns those found gangs that no session has seen for a short time (statuswriter.Settle), so that they are
// reported now. young reports whether other found gangs appeared later, so that they must be reported a moment later.
func (u *unseen) due(found map[api.JobID]*unseenGang) (ripe []*unseenGang, young bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(u.gangs, func(id api.JobID, _ sighting) bool { return found[id] == nil })
	for id, gang := range found {
		last, known := u.gangs[id]
		if !known {
			last.since = now
		}
		if now.Sub(last.since) >= statuswriter.Settle {
			if gang.again = !last.reported.IsZero() && now.Sub(last.reported) >= ResendEvery; gang.again || last.reported.IsZero() {
				last.reported = now
			}
			ripe = append(ripe, gang)
		} else {
			young = true
		}
		u.gangs[id] = last
	}
	return ripe, young
}

// Unseen reports what is missing for gangs that sessions do not see. It waits a moment before the report, because
// objects that are submitted together arrive one after the other. seen is the number of gangs that the session sees; if
// these are all gangs, Unseen reports nothing. quarantined are the quarantined gangs, and queues the quarantined queues.
func (r *Reporter) Unseen(seen int, quarantined map[api.JobID]quarantine.Verdict, queues map[api.QueueID]quarantine.Verdict) {
	ripe, young := r.unseen.due(r.findUnseen(seen, quarantined, queues))
	if young {
		r.wakeSoon()
	}
	for _, gang := range ripe {
		r.reportUnseen(gang)
	}
}

// findUnseen returns the gangs that no session sees and that wait to be placed. Gangs without pods count, too, because
// the pods of a Volcano Job are created only after its PodGroup was admitted.
func (r *Reporter) findUnseen(seen int, quarantined map[api.JobID]quarantine.Verdict, queues map[api.QueueID]quarantine.Verdict) map[api.JobID]*unseenGang {
	r.books.Lock()
	defer r.books.Unlock()
	if r.books.Jobs.Len() == seen {
		return nil
	}
	found := map[api.JobID]*unseenGang{}
	for id, job := range r.books.Jobs.All() {
		gang := &unseenGang{event: string(v1beta1.PodGroupUnschedulableType)}
		switch {
		case job.PodGroup == nil && len(job.TaskStatusIndex[api.Pending]) == 0:
			continue
		case job.PodGroup == nil:
		case !hasPending(job):
			continue
		case r.books.Tables.Queues[job.Queue] == nil:
			gang.reason = framework.QueueNotFound
			gang.message = fmt.Sprintf("queue %s does not exist; create it, or correct %s", brief.Value(string(job.Queue)), gangs.QueueField(job.PodGroup))
		case quarantined[id].Message != "":
			gang.reason, gang.message = quarantined[id].Reason, quarantined[id].Message
			gang.event = gang.reason
		case queues[job.Queue].Message != "":
			gang.reason = queues[job.Queue].Reason
			gang.message = brief.Text(fmt.Sprintf("queue %s is in quarantine: %s", brief.Value(string(job.Queue)), queues[job.Queue].Message))
		default:
			continue
		}
		if job.PodGroup != nil {
			gang.group = r.outlet.groupOf(job)
		}
		for _, task := range job.TaskStatusIndex[api.Pending] {
			if !task.SchGated {
				gang.pods = append(gang.pods, task.Pod)
			}
		}
		found[id] = gang
	}
	return found
}

func (r *Reporter) reportUnseen(gang *unseenGang) {
	reason := framework.PodGroupNotFound
	if gang.group != nil {
		reason = v1.PodReasonUnschedulable
		setUnschedulable(&gang.group.Status, gang.reason, gang.message)
		r.outlet.status.PutPodGroup(gang.group, false)
		r.outlet.gangEvent(gang.group, v1.EventTypeWarning, gang.event, gang.message)
	}
	for _, pod := range gang.pods {
		message := gang.message
		if gang.group == nil {
			message = fmt.Sprintf("PodGroup %s does not exist; create it, or correct the pod's annotation %s",
				brief.Value(pod.Annotations[v1beta1.KubeGroupNameAnnotationKey]), v1beta1.KubeGroupNameAnnotationKey)
		}
		r.outlet.pod(pod, reason, message, "")
		if gang.again {
			r.outlet.podAgain(pod)
		}
	}
}
