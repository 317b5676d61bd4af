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

// Has reports whether Note was called with this text of everything that decides whether a gang fits, and nothing was
// placed or taken back since.
func (f *Failures) Has(gang string) bool { return gang != "" && f.at[gang] == f.placed+1 }

// Note records that a gang fits nowhere. The gang is given by a text of everything that decides whether it fits.
func (f *Failures) Note(gang string) {
	if gang != "" {
		setIn(&f.at, gang, f.placed+1)
	}
}
