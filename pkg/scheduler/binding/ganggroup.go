// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// GangGroup describes gangs that are bound together or not at all. It contains several gangs, or one gang with
// conditions beside its minimum.
type GangGroup struct {
	// ID names the gang group in messages and on pods: namespace/name of its gangs.
	ID string
	// Gangs are in order of their names.
	Gangs []GangTerms
}

// GangTerms are the conditions for binding a gang, in addition to its minimum.
type GangTerms struct {
	Gang api.JobID
	// Strict reports whether the loss of any member of the gang before the barrier fails the whole gang group, even if
	// the minimum is still reached.
	Strict bool
	// Count says which members count for the minimum.
	Count Count
}

// Count selects which members count for a gang's minimum beside the members about to be bound.
type Count int

const (
	// CountBound counts members that are bound, run, or have succeeded.
	CountBound Count = iota
	// CountNone counts no other members: the transaction itself must bind the whole minimum.
	CountNone
	// CountSatisfied treats the minimum as reached, because it was reached before and a member of that time still
	// exists.
	CountSatisfied
)

// Gangs returns the gangs whose members the transaction binds.
func (t *Transaction) Gangs() []api.JobID {
	if t.GangGroup == nil {
		return []api.JobID{t.Gang}
	}
	all := make([]api.JobID, len(t.GangGroup.Gangs))
	for i, terms := range t.GangGroup.Gangs {
		all[i] = terms.Gang
	}
	return all
}

// CountsNone reports whether any gang of the transaction has the Count CountNone.
func (t *Transaction) CountsNone() bool {
	return t.GangGroup != nil && slices.ContainsFunc(t.GangGroup.Gangs, func(terms GangTerms) bool { return terms.Count == CountNone })
}

// TermsOf returns the gang's terms in the transaction.
func (t *Transaction) TermsOf(gang api.JobID) GangTerms {
	if t.GangGroup != nil {
		for _, terms := range t.GangGroup.Gangs {
			if terms.Gang == gang {
				return terms
			}
		}
	}
	return GangTerms{Gang: gang}
}

// ShortOf returns nil if the gang reaches the minimum in spec with the members that passed. Otherwise it returns an
// error that says what is missing. job is the gang's job in the books.
func (t *Transaction) ShortOf(job *api.JobInfo, spec *scheduling.PodGroupSpec, passed []*Member) error {
	terms := t.TermsOf(job.UID)
	switch terms.Count {
	case CountSatisfied:
		return nil
	case CountNone:
		return t.bindable(job.UID, ShortOf(job, spec, Only(passed)))
	default:
		return t.bindable(job.UID, ShortOf(job, spec, Including(passed)))
	}
}

// bindable turns short into an error such as "only 3 of minMember 5 can be bound". short lists the minima that the gang
// does not reach; if it is nil, bindable returns nil. bindable adds the gang's name if the transaction has several
// gangs.
func (t *Transaction) bindable(gang api.JobID, short error) error {
	if short == nil {
		return nil
	}
	return t.named(gang, fmt.Errorf("only %w can be bound", short))
}

// named adds the gang's name to the error if the transaction has several gangs.
func (t *Transaction) named(gang api.JobID, short error) error {
	if short == nil || t.GangGroup == nil || len(t.GangGroup.Gangs) < 2 {
		return short
	}
	return fmt.Errorf("gang %s: %w", gang, short)
}

// stageInfo stages annotations on the members that record which members are bound together, under the names that
// Koordinator uses. It replaces values that another client set.
func (t *Transaction) stageInfo(together []*member) {
	alone := t.GangGroup == nil || len(together) < 2
	var group, count string
	if !alone {
		group, count = t.GangGroup.ID, strconv.Itoa(len(together))
	}
	for _, m := range together {
		for key, value := range map[string]string{
			gangs.BindGroupAnnotation: group, gangs.OldBindGroupAnnotation: group,
			gangs.BindMembersAnnotation: count, gangs.OldBindMembersAnnotation: count,
		} {
			if _, written := m.Task.Pod.Annotations[key]; written || !alone {
				m.Stage(key, value)
			}
		}
	}
}

// ErrStrict is why a strict gang fails that has lost a member.
var ErrStrict = errors.New("the gang is strict")

// StrictLoss returns an error if a strict gang of the transaction has members that did not pass. It ignores gangs with
// CountSatisfied, whose members fail one by one.
func (t *Transaction) StrictLoss(passed []*Member) error {
	if t.GangGroup == nil || len(passed) == len(t.Members) {
		return nil
	}
	for _, terms := range t.GangGroup.Gangs {
		if !terms.Strict || terms.Count == CountSatisfied {
			continue
		}
		if all, well := membersOf(t.Members, terms.Gang), membersOf(passed, terms.Gang); well < all {
			return t.named(terms.Gang, fmt.Errorf("only %d of %d members can be bound and %w", well, all, ErrStrict))
		}
	}
	return nil
}

func membersOf(list []*Member, gang api.JobID) (n int) {
	for _, m := range list {
		if m.Task.Job == gang {
			n++
		}
	}
	return n
}
