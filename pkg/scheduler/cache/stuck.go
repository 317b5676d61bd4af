// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// stuckReporter adds events and conditions to what the observer makes of members that wait long.
type stuckReporter struct {
	binding.Observer
	cache *Cache
}

// Delayed tells the pod's owner what the pod waits for, and that its resources stay reserved.
func (s stuckReporter) Delayed(m *binding.Member, d binding.Delay) {
	s.Observer.Delayed(m, d)
	gang, changed := m.Task.Job, s.cache.delays.add(m, d)
	memberDelay{object: m.Task.Pod, Delay: d}.tell(s.cache.Recorder)
	s.cache.tellDelay(m, string(d.Kind), brief.Text(d.String()))
	if changed {
		s.cache.tellGangDelay(gang)
	}
}

// DelayEnded takes that back.
func (s stuckReporter) DelayEnded(m *binding.Member, cause error) {
	s.Observer.DelayEnded(m, cause)
	kind, changed := s.cache.delays.remove(m)
	switch {
	case cause != nil:
		s.cache.tellDelay(m, v1.PodReasonSchedulerError, brief.Text(cause.Error()))
	case kind != binding.BindWaits: // else it is bound, and the API server has told the pod
		s.cache.tellDelay(m, v1.PodReasonSchedulerError, "pre-bind goes on")
	}
	if changed {
		s.cache.tellGangDelay(m.Task.Job)
	}
}

// TransactionDone forgets the transaction's delays. Those that an Abort left stay told: the next leader decides anew.
func (s stuckReporter) TransactionDone(r binding.Result) {
	s.Observer.TransactionDone(r)
	s.cache.delays.forget(r)
}

// tellDelay has the pod's condition written.
func (c *Cache) tellDelay(m *binding.Member, reason, message string) {
	pod := &v1.Pod{ObjectMeta: *m.Task.Pod.ObjectMeta.DeepCopy()}
	podutil.UpdatePodCondition(&pod.Status, &v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason, Message: message})
	c.status.PutPod(pod, 0)
}

// tellGangDelay has the PodGroup's condition written as it is to be now.
func (c *Cache) tellGangDelay(gang api.JobID) {
	c.delays.telling.Lock()
	defer c.delays.telling.Unlock()
	group := c.podGroupAsDecided(gang)
	if group == nil {
		return
	}
	removeCondition(&group.Status, isDelay)
	if failure, ok := c.failure(gang); ok {
		setCondition(&group.Status, unschedulable(failure.reason, failure.message))
	}
	c.delays.correct(gang, &group.Status)
	c.status.PutPodGroup(group, false)
}

func isDelay(condition scheduling.PodGroupCondition) bool {
	switch binding.DelayKind(condition.Reason) {
	case binding.StepWaits, binding.StepNotReturning, binding.RollbackStuck, binding.BindWaits:
		return isUnschedulable(condition)
	}
	return false
}

// delays are the members of transactions that wait long.
type delays struct {
	// telling keeps what PodGroups are told in the order of what became of their members.
	telling sync.Mutex

	mu    sync.Mutex
	gangs map[api.JobID]*gangDelay
	// told are the pods of transactions in flight whose condition tells of a delay, or told of one.
	told map[types.UID]bool
}

// gangDelay are a gang's members that wait long.
type gangDelay struct {
	members map[types.UID]memberDelay
	// lead is the one that is told of on the PodGroup, the first by the pod's name.
	lead types.UID
}

type memberDelay struct {
	pod string
	// object is the pod for its events.
	object *v1.Pod
	binding.Delay
}

// tell tells the pod's owner what the pod waits for. It is said again while that lasts, for it may have been lost.
func (d memberDelay) tell(recorder record.EventRecorder) {
	recorder.Event(d.object, v1.EventTypeWarning, string(d.Kind), brief.Text(d.String()))
}

func newDelays() *delays {
	return &delays{gangs: map[api.JobID]*gangDelay{}, told: map[types.UID]bool{}}
}

// add notes the delay, and says whether what the PodGroup is told changes.
func (d *delays) add(m *binding.Member, delay binding.Delay) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	pod := m.Task.Pod
	d.told[pod.UID] = true
	gang, ok := d.gangs[m.Task.Job]
	if !ok {
		gang = &gangDelay{members: map[types.UID]memberDelay{}}
		d.gangs[m.Task.Job] = gang
	}
	gang.members[pod.UID] = memberDelay{pod.Name, &v1.Pod{ObjectMeta: *pod.ObjectMeta.DeepCopy()}, delay}
	if lead, ok := gang.members[gang.lead]; !ok || pod.Name < lead.pod {
		gang.lead = pod.UID
	}
	return gang.lead == pod.UID || len(gang.members) == 2 // then there is one more
}

// remove forgets the member's delay, and says of what kind it was and whether what the PodGroup is told changes.
func (d *delays) remove(m *binding.Member) (kind binding.DelayKind, changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	gang, ok := d.gangs[m.Task.Job]
	if !ok {
		return "", false
	}
	uid := m.Task.Pod.UID
	kind = gang.members[uid].Kind
	delete(gang.members, uid)
	if len(gang.members) == 0 {
		delete(d.gangs, m.Task.Job)
		return kind, true
	}
	if gang.lead != uid {
		return kind, len(gang.members) == 1
	}
	gang.lead = ""
	for other, member := range gang.members {
		if gang.lead == "" || strings.Compare(member.pod, gang.members[gang.lead].pod) < 0 {
			gang.lead = other
		}
	}
	return kind, true
}

// forget drops what is remembered of the transaction's members.
func (d *delays) forget(r binding.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range r.Bound {
		delete(d.told, m.Task.Pod.UID)
	}
	for _, f := range r.Failed {
		delete(d.told, f.Member.Task.Pod.UID)
	}
}

// tells is true if the pod's condition is, or was, one that tells of a delay, and its transaction is in flight.
func (d *delays) tells(pod types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.told[pod]
}

// of lists the gang's members that wait long.
func (d *delays) of(gang api.JobID) []memberDelay {
	d.mu.Lock()
	defer d.mu.Unlock()
	waits, ok := d.gangs[gang]
	if !ok {
		return nil
	}
	return slices.Collect(maps.Values(waits.members))
}

// correct puts into the status what the gang waits for, if it does.
func (d *delays) correct(gang api.JobID, status *scheduling.PodGroupStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	waits, ok := d.gangs[gang]
	if !ok {
		return
	}
	lead := waits.members[waits.lead]
	message := "pod " + lead.pod + ": " + lead.String()
	if len(waits.members) > 1 {
		message += " (and more of its pods)"
	}
	setCondition(status, unschedulable(string(lead.Kind), brief.Text(message)))
}
