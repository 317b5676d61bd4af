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
// The gangs of a namespace take turns in rounds. If gangs were not tried because of the limit, only these gangs may be
// tried in the next sessions, until each of them was tried. Gangs that come meanwhile wait for the next round.
type Turns struct {
	session int
	// alone reports whether all gangs that wait are in one namespace.
	alone bool
	// looks has how many looks each namespace has used in this session, including its debt from former sessions.
	looks map[string]int
	// waiting has, for each namespace with an unfinished round, the gangs that are still to be tried, and the session in
	// which each of them last asked for its turn.
	waiting map[string]map[string]int
	// unfinished are the namespaces whose round was unfinished when the session began.
	unfinished map[string]bool
	// admitted are the gangs that had their turn in this session, by namespace and name.
	admitted map[[2]string]bool
	// held has, for gangs that held resources at the end of their last attempt, the session of that attempt.
	held map[[2]string]int
}

// beginSession starts a session. It forgets gangs that did not ask for their turn in the last session.
func (t *Turns) beginSession() {
	t.session++
	t.admitted, t.unfinished = map[[2]string]bool{}, map[string]bool{}
	maps.DeleteFunc(t.held, func(_ [2]string, held int) bool { return held < t.session-1 })
	for namespace, looks := range t.looks {
		if t.looks[namespace] = min(looks-namespaceLooks, maxDebt); looks <= namespaceLooks {
			delete(t.looks, namespace)
		}
	}
	for namespace, gangs := range t.waiting {
		maps.DeleteFunc(gangs, func(_ string, asked int) bool { return asked < t.session-1 })
		if t.unfinished[namespace] = len(gangs) > 0; len(gangs) == 0 {
			delete(t.waiting, namespace)
			delete(t.unfinished, namespace)
		}
	}
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
		return false
	}
	if t.looks[namespace] < namespaceLooks {
		delete(t.waiting[namespace], gang)
		t.admitted[key] = true
		return true
	}
	if t.waiting == nil {
		t.waiting = map[string]map[string]int{}
	}
	if t.waiting[namespace] == nil {
		t.waiting[namespace] = map[string]int{}
	}
	t.waiting[namespace][gang] = t.session
	return false
}

// Hold records that the gang holds resources until the end of the session, while it waits for others to be released. It
// may be tried in the next session, because it would lose these resources otherwise.
func (t *Turns) Hold(namespace, gang string) {
	if t.held == nil {
		t.held = map[[2]string]int{}
	}
	t.held[[2]string{namespace, gang}] = t.session
}

// Charge counts the looks of an attempt to place a gang of the namespace that did not lead to a bind.
func (t *Turns) Charge(namespace string, looks int) {
	if t.alone || looks == 0 {
		return
	}
	if t.looks == nil {
		t.looks = map[string]int{}
	}
	t.looks[namespace] += looks
}

// Looks returns how many looks the namespace has used in this session, including its debt from former sessions.
func (t *Turns) Looks(namespace string) int { return t.looks[namespace] }
