// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/klog/v2"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/books"
)

// errIncomplete is why members are released if no action of the session completed their gang. It is not a failure of
// the gang: the session itself reports why the missing members were not placed.
var errIncomplete = errors.New("the rest of the gang's minimum could not be placed")

// Add reserves the task's resources on its node and adds the task to the open transaction of its gang, or of the gang
// group, whose gangs share one transaction. decided are the annotations that the session set on the task. When the
// session places another gang or gang group, the transaction is handed to the engine if its members reach the minima.
// Otherwise it stays open for members that later actions place.
func (l *Ledger) Add(task *api.TaskInfo, gangGroup *binding.GangGroup, decided map[string]string, steps []binding.Step) error {
	member, err := l.Reserve(task, decided, steps)
	if err != nil {
		return fmt.Errorf("reserving pod %s on node %s: %w", klog.KObj(task.Pod), task.NodeName, err)
	}
	if former := l.open.add(member, gangGroup); former != nil {
		l.submitIfEnough(former)
	}
	return nil
}

// Reserve reserves the task's resources in the books and creates the member. After an error the task is still Pending.
func (l *Ledger) Reserve(wanted *api.TaskInfo, decided map[string]string, steps []binding.Step) (*binding.Member, error) {
	var member *binding.Member
	err := l.books.Pods.Reserve(wanted, wanted.NodeName, func(own *api.TaskInfo) (books.Reservation, error) {
		member = binding.NewMember(own, wanted.NodeName, steps)
		stageDecisions(member, wanted, decided)
		if err := member.Task.SetPodResourceDecision(); err != nil {
			return books.Reservation{}, err
		}
		reservation := books.Reservation{Owner: member, NUMA: wanted.NumaInfo.Clone()}
		if len(decided) > 0 {
			reservation.Decided = member.StagedAnnotations()
		}
		return reservation, nil
	})
	return member, err
}

// stageDecisions copies the session's decisions from the session's copy of the task (wanted) to the member: node, NUMA
// resources and error handler. It stages the annotations in decided, so that they are written with the Binding.
func stageDecisions(member *binding.Member, wanted *api.TaskInfo, decided map[string]string) {
	task := member.Task
	task.NodeName = member.Node
	task.Pod.Spec.NodeName = member.Node
	task.NumaInfo = wanted.NumaInfo.Clone()
	task.CustomBindErrHandler = wanted.CustomBindErrHandler
	for key, value := range decided {
		member.Stage(key, value)
	}
}

// SessionOpens is called just before a session gets its snapshot. It forgets for which gangs the last session placed too
// few members for their minimum, and which nodes and PodGroups were deleted before.
func (l *Ledger) SessionOpens() { l.open.sessionOpens() }

// submitIfEnough submits the transaction when its members are enough for the gangs' minima. Otherwise the transaction stays open:
// a later action of the session, such as backfill, may add the missing members.
func (l *Ledger) submitIfEnough(tx *binding.Transaction) {
	if there, short := l.shortOf(tx); there && short == nil {
		l.submit(tx, nil)
		return
	}
	l.open.putBack(tx)
}

// SubmitWhole hands the open transactions whose gangs reach their minima to the engine. It is called after each action,
// because the next action may take minutes. A transaction stays open if one of its gangs needs its whole minimum in one
// transaction (CountNone): later members of that gang may still join it.
func (l *Ledger) SubmitWhole() {
	for _, tx := range l.open.takeWhole() {
		l.submitIfEnough(tx)
	}
}

// Seal hands every open transaction to the engine, in the order in which the session first placed a member of each. The
// engine serves earlier transactions first.
func (l *Ledger) Seal() {
	for _, tx := range l.open.takeAll() {
		l.submit(tx, nil)
	}
}

// ReleaseIncomplete releases the open transactions that are below their gang's minimum, and returns their tasks. Such
// transactions exist because upstream counts members without requests as placed before backfill has placed them. No
// step of their members begins, and their gangs have no backoff. If a gang of such a transaction has another
// transaction in flight, the open transaction is kept. It may be complete once the other has ended.
func (l *Ledger) ReleaseIncomplete() map[api.JobID][]api.TaskID {
	var taken []*binding.Transaction
	for _, tx := range l.open.list() {
		if there, short := l.shortOf(tx); there && short != nil && !slices.ContainsFunc(tx.Gangs(), l.engine.InFlight) {
			taken = append(taken, tx)
		}
	}
	l.open.remove(taken)
	released := map[api.JobID][]api.TaskID{}
	for _, tx := range taken {
		for _, m := range tx.Members {
			released[m.Task.Job] = append(released[m.Task.Job], m.Task.UID)
		}
		l.open.markIncomplete(tx)
		l.submit(tx, errIncomplete)
	}
	return released
}

// wasIncomplete reports whether ReleaseIncomplete has released the ended transaction, because the session placed too few
// members for its gang's minimum.
func wasIncomplete(r binding.Result) bool {
	return slices.ContainsFunc(r.Failed, func(f binding.Failure) bool { return errors.Is(f.Err, errIncomplete) })
}

// shortOf returns an error that says which minimum a gang would not reach even if all members of the transaction were
// bound; nil if all gangs reach their minima. The result there reports whether the PodGroups of all gangs exist.
func (l *Ledger) shortOf(tx *binding.Transaction) (there bool, short error) {
	l.books.Lock()
	defer l.books.Unlock()
	for _, gang := range tx.Gangs() {
		job := l.books.Jobs.Get(gang)
		if job == nil || job.PodGroup == nil {
			return false, nil
		}
		if short == nil {
			short = tx.ShortOf(job, &job.PodGroup.Spec, tx.Members)
		}
	}
	return true, short
}

// submit hands the transaction to the engine. If givenUp is set, the engine only releases the members, with givenUp as
// the cause.
func (l *Ledger) submit(tx *binding.Transaction, givenUp error) {
	err := l.handOver(tx, l.recordMinima(tx), givenUp)
	if err == nil {
		return
	}
	logger().Info("Starting a bind transaction failed, released its members", "gang", tx.Gang, "members", len(tx.Members), "reason", err.Error())
	for _, m := range tx.Members {
		l.releaseMember(m, err)
	}
}

// releaseMember releases a member that the engine has not accepted.
func (l *Ledger) releaseMember(m *binding.Member, cause error) {
	if err := l.engine.Undo(m); err != nil {
		logger().Error(err, "Releasing a member outside of a transaction failed")
		return
	}
	l.Released(m, cause)
}

// recordMinima stages, for each member, the annotations with its gang's minimum and queue, which are written with the
// Binding. It returns the resource versions of the gangs' PodGroups in the books, for PodGroups that exist.
func (l *Ledger) recordMinima(tx *binding.Transaction) (versions map[api.JobID]string) {
	versions, least, queues := map[api.JobID]string{}, map[api.JobID]int32{}, map[api.JobID]string{}
	l.books.Lock()
	for _, gang := range tx.Gangs() {
		if job := l.books.Jobs.Get(gang); job != nil && job.PodGroup != nil {
			versions[gang], least[gang], queues[gang] = job.PodGroup.ResourceVersion, binding.LeastMembers(job.PodGroup), string(job.Queue)
		}
	}
	l.books.Unlock()
	for _, m := range tx.Members {
		m.RecordMinimum(least[m.Task.Job])
		if queue, known := queues[m.Task.Job]; known {
			m.RecordQueue(queue)
		}
	}
	return versions
}

// handOver checks which pods, nodes and PodGroups of the transaction still exist, and whether pods were resized. A pod
// that is being deleted counts as deleted, and so does a node or PodGroup that was deleted and created again. It then submits the transaction to the engine. It
// holds the mutex handover all the time, like the methods CancelPod, CancelGrown, CancelGang and CancelNode. So either
// this check finds a deletion or a resize, or one of these methods fails the member when the engine already knows the
// transaction.
func (l *Ledger) handOver(tx *binding.Transaction, versions map[api.JobID]string, givenUp error) error {
	l.handover.Lock()
	defer l.handover.Unlock()
	there := map[api.JobID]bool{}
	for gang, version := range versions {
		there[gang] = !l.open.hasLostGang(gang) && !l.watched.isDeleted(gang, version)
	}
	tx.Lost = map[*binding.Member]error{}
	for _, m := range tx.Members {
		latest := l.watched.pod(m.Task.Pod)
		switch {
		case !there[m.Task.Job]:
			tx.Lost[m] = deletedPodGroup(m.Task.Job)
		case givenUp != nil:
			tx.Lost[m] = givenUp
		case latest == nil, latest.DeletionTimestamp != nil && latest.Spec.NodeName == "":
			tx.Lost[m] = binding.ErrPodGone
		case l.open.hasLostNode(m.Node) || !l.watched.hasNode(m.Node):
			tx.Lost[m] = deletedNode(m.Node)
		default:
			if _, grown := l.books.Pods.Grown(latest); grown != nil {
				tx.Lost[m] = grown
			}
		}
	}
	return l.engine.Submit(tx)
}
