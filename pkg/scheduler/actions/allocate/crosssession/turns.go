// SPDX-License-Identifier: Apache-2.0

package crosssession

import "maps"

const (
	// namespaceLooks bounds the looks (MaxFurtherLooks) in one session of attempts to place gangs of one namespace that
	// do not lead to a bind. 1,000,000 looks take about two seconds.
	namespaceLooks = 1_000_000
	// maxDebt bounds how many looks beyond the limit are subtracted in later sessions. So an attempt delays the
	// namespace's other gangs by four sessions at most.
	maxDebt = 4 * namespaceLooks
)

// Turns limits how much time the gangs of a namespace that find no room take from the gangs of other namespaces. The
// limit is namespaceLooks. It applies only if gangs of several namespaces wait. An attempt that has begun is not ended
// early. What it uses beyond the limit is subtracted in the next sessions, up to maxDebt.
//
// The attempts of gangs that hold resources are not limited and do not count towards the limit (Hold). Otherwise they
// could use it up in each session, and the namespace's other gangs would never be tried.
//
// The gangs of a namespace take turns in rounds. If gangs were not tried because of the limit, only these gangs may be
// tried in the next sessions, until each of them was tried. Gangs that ask meanwhile are the next round, unless the
// namespace stays below the limit.
type Turns struct {
	session int
	// alone reports whether all gangs that wait are in one namespace.
	alone bool
	// looks has how many looks each namespace has used in this session, including its debt from former sessions.
	looks map[string]int
	// waiting has, for each namespace with an unfinished round, the gangs that are still to be tried. next has the gangs of
	// the next round.
	waiting, next map[string]askedIn
	// unfinished are the namespaces whose round was unfinished when the session began.
	unfinished map[string]bool
	// admitted are the gangs that had their turn in this session, by namespace and name.
	admitted map[[2]string]bool
	// held has, for gangs that held resources at the end of their last attempt, the session of that attempt.
	held map[[2]string]int
}

// askedIn has, for each gang, the session in which it last asked for its turn.
type askedIn map[string]int

// beginSession starts a session. It forgets gangs that did not ask for their turn in the last two sessions. A gang may
// miss one session, for example because its queue was overused.
func (t *Turns) beginSession() {
	t.session++
	t.admitted, t.unfinished = map[[2]string]bool{}, map[string]bool{}
	maps.DeleteFunc(t.held, func(_ [2]string, held int) bool { return held < t.session-1 })
	for namespace, round := range t.waiting {
		next := t.recent(t.next[namespace])
		if t.recent(round); len(round) == 0 {
			delete(t.next, namespace)
			if round = next; len(round) == 0 || t.looks[namespace] < namespaceLooks {
				delete(t.waiting, namespace)
				continue
			}
			t.waiting[namespace] = round
		}
		t.unfinished[namespace] = true
	}
	for namespace, looks := range t.looks {
		if t.looks[namespace] = min(looks-namespaceLooks, maxDebt); looks <= namespaceLooks {
			delete(t.looks, namespace)
		}
	}
}

// recent removes the gangs that did not ask in the last two sessions.
func (t *Turns) recent(gangs askedIn) askedIn {
	maps.DeleteFunc(gangs, func(_ string, asked int) bool { return asked < t.session-2 })
	return gangs
}

// SetAlone says whether all gangs that wait in the session are in one namespace, so that no limit applies.
func (t *Turns) SetAlone(alone bool) { t.alone = alone }

// Has reports whether the gang may be tried now. gang is the name of its gang group, or of the gang itself if it has
// none.
func (t *Turns) Has(namespace, gang string) bool {
	key := [2]string{namespace, gang}
	if _, held := t.held[key]; held || t.alone || t.admitted[key] {
		return true
	}
	if _, waits := t.waiting[namespace][gang]; t.unfinished[namespace] && !waits {
		t.note(&t.next, namespace, gang)
		return false
	}
	if t.looks[namespace] < namespaceLooks {
		delete(t.waiting[namespace], gang)
		t.admitted[key] = true
		return true
	}
	t.note(&t.waiting, namespace, gang)
	return false
}

// note records in one of the rounds that the gang has asked for its turn.
func (t *Turns) note(rounds *map[string]askedIn, namespace, gang string) {
	if *rounds == nil {
		*rounds = map[string]askedIn{}
	}
	if (*rounds)[namespace] == nil {
		(*rounds)[namespace] = askedIn{}
	}
	(*rounds)[namespace][gang] = t.session
}

// Hold records that the gang holds resources until the end of the session, while it waits for others to be released. It
// may be tried in the next session, because it would lose these resources otherwise.
func (t *Turns) Hold(namespace, gang string) {
	if t.held == nil {
		t.held = map[[2]string]int{}
	}
	t.held[[2]string{namespace, gang}] = t.session
}

// Charge counts the looks of an attempt to place the gang that did not lead to a bind.
func (t *Turns) Charge(namespace, gang string, looks int) {
	if _, held := t.held[[2]string{namespace, gang}]; held || t.alone || looks == 0 {
		return
	}
	if t.looks == nil {
		t.looks = map[string]int{}
	}
	t.looks[namespace] += looks
}

// Looks returns how many looks the namespace has used in this session, including its debt from former sessions.
func (t *Turns) Looks(namespace string) int { return t.looks[namespace] }
