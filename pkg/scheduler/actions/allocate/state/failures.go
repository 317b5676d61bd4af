// SPDX-License-Identifier: Apache-2.0

package state

// Failures are the gangs that fit nowhere in a run, by a text of everything that decides whether a gang fits. An entry
// expires when anything is placed or taken back, because the gang may fit then.
type Failures struct {
	at map[string]int
	// placed counts how often tasks of a job were placed or taken back.
	placed int
}

// NotePlaced records that tasks were placed permanently, were placed in a trial of a gang group, or were taken back.
func (f *Failures) NotePlaced() { f.placed++ }

// Has reports whether Note was called with this key, and no task was placed or taken back since. The key describes
// everything that decides whether a gang fits.
func (f *Failures) Has(key string) bool { return key != "" && f.at[key] == f.placed+1 }

// Note records that a gang fits nowhere. The key describes everything that decides whether it fits.
func (f *Failures) Note(key string) {
	if key != "" {
		setIn(&f.at, key, f.placed+1)
	}
}
