// SPDX-License-Identifier: Apache-2.0

package crosssession

import "maps"

// namespaceLooks bounds the looks (MaxFurtherLooks) in one session of failed attempts to place gangs of one namespace. 250,000
// looks take about half a second.
const namespaceLooks = 250_000

// Turns limits how much time the gangs of a namespace that find no room take from the gangs of other namespaces. The
// limit is namespaceLooks. It applies only if the session has gangs of several namespaces. An attempt that has begun is
// not ended early. What it uses beyond the limit is subtracted in the next sessions.
//
// The gangs of a namespace take turns: a gang that was not tried because of the limit is tried before gangs that have
// already failed in the same round. A round ends with the session in which each gang that asks was tried.
type Turns struct {
	session int
	// alone reports whether all gangs of the session are in one namespace.
	alone bool
	// looks has how many looks each namespace has used in this session, including looks beyond the limit of former
	// sessions.
	looks map[string]int
	// tried has, for each namespace with an unfinished round, the gangs that have failed in the round.
	tried map[string]map[string]triedGang
	// left are the namespaces with a gang that was not tried in this session because of the limit.
	left map[string]bool
}

// triedGang is a gang that has failed in the current round. failed is the session in which it failed, and asked is the
// session in which it last asked for a turn.
type triedGang struct{ failed, asked int }

// beginSession starts a session. It ends the rounds in which no gang is left to be tried, and forgets gangs that no
// longer ask for a turn.
func (t *Turns) beginSession() {
	t.session++
	for namespace, looks := range t.looks {
		if t.looks[namespace] = looks - namespaceLooks; looks <= namespaceLooks {
			delete(t.looks, namespace)
		}
	}
	maps.DeleteFunc(t.tried, func(namespace string, gangs map[string]triedGang) bool {
		maps.DeleteFunc(gangs, func(_ string, gang triedGang) bool { return t.session-gang.asked > turnsKept })
		return !t.left[namespace]
	})
	t.left = nil
}

// SetAlone says whether all gangs of the session are in one namespace, so that no limit applies.
func (t *Turns) SetAlone(alone bool) { t.alone = alone }

// Has reports whether the gang may be tried now. gang is the name of its gang group, or of the gang itself if it has
// none.
func (t *Turns) Has(namespace, gang string) bool {
	if t.alone {
		return true
	}
	if tried, ok := t.tried[namespace][gang]; ok && tried.failed < t.session {
		tried.asked = t.session
		t.tried[namespace][gang] = tried
		return false
	}
	if t.looks[namespace] < namespaceLooks {
		return true
	}
	if t.left == nil {
		t.left = map[string]bool{}
	}
	t.left[namespace] = true
	return false
}

// Failed records that an attempt to place the gang has failed, and how many looks it took.
func (t *Turns) Failed(namespace, gang string, looks int) {
	if t.looks == nil {
		t.looks, t.tried = map[string]int{}, map[string]map[string]triedGang{}
	}
	if t.tried[namespace] == nil {
		t.tried[namespace] = map[string]triedGang{}
	}
	t.looks[namespace] += looks
	t.tried[namespace][gang] = triedGang{failed: t.session, asked: t.session}
}

// Looks returns how many looks the namespace has used in this session, including looks beyond the limit of former
// sessions.
func (t *Turns) Looks(namespace string) int { return t.looks[namespace] }
