// SPDX-License-Identifier: Apache-2.0

package books

import (
	"container/list"
	"iter"
)

// generations counts the changes of all jobs and nodes in the books. Each change gives the entry of the job or node a
// new, higher number, its generation.
type generations uint64

func (g *generations) next() uint64 {
	*g++
	return uint64(*g)
}

// revision is the last change of an entry: its generation, and the entry's element in the list of recent changes.
type revision struct {
	generation uint64
	at         *list.Element
}

func (r *revision) revised() *revision { return r }

// recent lists the entries of nodes or jobs by generation, the latest change first.
type recent[E interface{ revised() *revision }] struct {
	last *generations
	list list.List
}

// note gives the entry a new generation, because it changes.
func (r *recent[E]) note(e E) {
	revision := e.revised()
	revision.generation = r.last.next()
	if revision.at == nil {
		revision.at = r.list.PushFront(e)
	} else {
		r.list.MoveToFront(revision.at)
	}
}

// since yields the entries that have changed after the generation, the latest change first. The caller may note or drop
// the entry.
func (r *recent[E]) since(generation uint64) iter.Seq[E] {
	return func(yield func(E) bool) {
		for at := r.list.Front(); at != nil; {
			e := at.Value.(E)
			at = at.Next()
			if e.revised().generation <= generation || !yield(e) {
				return
			}
		}
	}
}

// drop removes the entry from the list.
func (r *recent[E]) drop(e E) { r.list.Remove(e.revised().at) }

// latest returns the generation of the last change of a listed entry; 0 if none is listed.
func (r *recent[E]) latest() uint64 {
	if at := r.list.Front(); at != nil {
		return at.Value.(E).revised().generation
	}
	return 0
}
