// SPDX-License-Identifier: Apache-2.0

package report

import (
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// stepEnded is the message of a pod whose long pre-bind step has ended, until the pod is bound or fails.
const stepEnded = "A long pre-bind step has ended; the pod is bound after its remaining steps, with its gang"

// delayObserver is an observer of bind transactions. It calls the wrapped observer, and reports members that wait long
// in events and conditions.
type delayObserver struct {
	binding.Observer
	reports *Reporter
}

// Delayed reports on the pod what the pod waits for, and that its resources stay reserved.
func (o delayObserver) Delayed(m *binding.Member, d binding.Delay) {
	o.Observer.Delayed(m, d)
	r, gang := o.reports, m.Task.Job
	changed := r.delays.add(m, d)
	memberDelay{object: m.Task.Pod, Delay: d}.record(r.outlet.recorder)
	r.outlet.podCondition(m.Task.Pod, string(d.Kind), brief.Text(d.String()))
	if changed {
		r.reportDelay(gang)
	}
}

// DelayEnded replaces the conditions that Delayed wrote. If the member will not be bound, cause is its error. cause is
// nil if the member is bound or its steps continue.
func (o delayObserver) DelayEnded(m *binding.Member, cause error) {
	o.Observer.DelayEnded(m, cause)
	r := o.reports
	kind, changed := r.delays.remove(m)
	switch {
	case cause != nil:
		r.outlet.podCondition(m.Task.Pod, v1.PodReasonSchedulerError, brief.Text(cause.Error()))
	case kind != binding.BindWaits: // after BindWaits (a wait for the Binding), the API server has written the condition PodScheduled
		r.outlet.podCondition(m.Task.Pod, v1.PodReasonSchedulerError, stepEnded)
	}
	if changed {
		r.reportDelay(m.Task.Job)
	}
}

// TransactionDone drops the records about pods that the transaction bound or failed. If the transaction was stopped
// because the lease was lost, some pods have no result. They keep their reported conditions until the next leader
// decides about them.
func (o delayObserver) TransactionDone(result binding.Result) {
	o.Observer.TransactionDone(result)
	o.reports.delays.forget(result)
}

// reportDelay writes the condition Unschedulable of the gang's PodGroup again. The condition reports a member that
// waits long, or else the failure of the gang's last transaction.
func (r *Reporter) reportDelay(gang api.JobID) {
	r.delays.reporting.Lock()
	defer r.delays.reporting.Unlock()
	group := r.outlet.group(gang)
	if group == nil {
		return
	}
	dropDelay(&group.Status)
	if failure, ok := r.history.failure(gang); ok {
		setUnschedulable(&group.Status, failure.Reason, failure.Message)
	}
	r.delays.correct(gang, &group.Status)
	r.outlet.status.PutPodGroup(group, false)
}

// delays records the members of bind transactions that wait long.
type delays struct {
	// reporting serializes calls of reportDelay, so that the newest condition is written last.
	reporting sync.Mutex

	mu    sync.Mutex
	gangs map[api.JobID]*gangDelay
	// reported has the pods of transactions in flight whose condition has reported that they wait long, even if the
	// wait has ended.
	reported map[types.UID]bool
}

// gangDelay holds the members of one gang that wait long in their bind transaction.
type gangDelay struct {
	members map[types.UID]memberDelay
	// lead is the member that the PodGroup's condition names. It is the first, by pod name, of the members that wait
	// long.
	lead types.UID
}

type memberDelay struct {
	pod string
	// object is a pod with only the metadata of the delayed pod; events refer to it.
	object *v1.Pod
	binding.Delay
}

// record records an event that says why the pod waits. The caller repeats it while the pod waits, because an event
// expires.
func (d memberDelay) record(recorder record.EventRecorder) {
	recorder.Event(d.object, v1.EventTypeWarning, string(d.Kind), brief.Text(d.String()))
}

func newDelays() *delays {
	return &delays{gangs: map[api.JobID]*gangDelay{}, reported: map[types.UID]bool{}}
}

// add records that the member waits long in its bind transaction, and reports whether the PodGroup's condition must
// change.
func (d *delays) add(m *binding.Member, delay binding.Delay) (changed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	pod := m.Task.Pod
	d.reported[pod.UID] = true
	gang, ok := d.gangs[m.Task.Job]
	if !ok {
		gang = &gangDelay{members: map[types.UID]memberDelay{}}
		d.gangs[m.Task.Job] = gang
	}
	gang.members[pod.UID] = memberDelay{pod.Name, &v1.Pod{ObjectMeta: *pod.ObjectMeta.DeepCopy()}, delay}
	if lead, ok := gang.members[gang.lead]; !ok || pod.Name < lead.pod {
		gang.lead = pod.UID
	}
	return gang.lead == pod.UID || len(gang.members) == 2 // the condition names member gang.lead, and says if other members wait
}

// remove records that the member no longer waits long in its bind transaction. It returns what the member waited for,
// and whether the PodGroup's condition must change.
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

// forget removes the members that the transaction has bound or failed from d.reported, the pods whose condition has
// reported that they wait long.
func (d *delays) forget(r binding.Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range r.Bound {
		delete(d.reported, m.Task.Pod.UID)
	}
	for _, f := range r.Failed {
		delete(d.reported, f.Member.Task.Pod.UID)
	}
}

// hasReported reports whether the pod is in a transaction in flight and its condition has reported that it waits long.
func (d *delays) hasReported(pod types.UID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.reported[pod]
}

// of returns the members of the gang that wait long in their bind transaction.
func (d *delays) of(gang api.JobID) []memberDelay {
	d.mu.Lock()
	defer d.mu.Unlock()
	waits, ok := d.gangs[gang]
	if !ok {
		return nil
	}
	return slices.Collect(maps.Values(waits.members))
}

// correct sets the condition Unschedulable in the status if members of the gang wait long in their bind transaction.
// The message says what the first of these members, by pod name, waits for.
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
		message += " (and other pods)"
	}
	setUnschedulable(status, string(lead.Kind), brief.Text(message))
}

func (d *delays) size() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.gangs) + len(d.reported)
}
