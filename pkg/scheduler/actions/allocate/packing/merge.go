// SPDX-License-Identifier: Apache-2.0

package packing

import (
	"cmp"
	"slices"
)

// Merged returns an easier problem with at most the given number of classes, and without nodes. If p has no more
// classes than that, it returns p. The easier problem has a solution on any nodes on which p has one: similar classes
// are merged, a merged class has the smallest requests of its classes, and no class has a role or excludes tasks. scale
// has the amounts by which requests for different resources are compared, for example the resources of a node.
func (p *Problem) Merged(most int, scale []float64) *Problem {
	if len(p.Classes) <= most {
		return p
	}
	// Classes are similar if they have their largest share in the same resource, and these shares are similar.
	type keyed struct {
		class, resource int
		share           float64
	}
	order := make([]keyed, len(p.Classes))
	for k := range p.Classes {
		order[k].class = k
		for r, value := range p.Classes[k].Request {
			if share := value / scale[r]; share > order[k].share {
				order[k].resource, order[k].share = r, share
			}
		}
	}
	slices.SortFunc(order, func(l, o keyed) int {
		return cmp.Or(cmp.Compare(l.resource, o.resource), cmp.Compare(l.share, o.share), compareClasses(&p.Classes[l.class], &p.Classes[o.class]))
	})
	out := &Problem{Wanted: p.Wanted}
	for part := range slices.Chunk(order, (len(order)+most-1)/most) {
		classes := make([]int, len(part))
		for i := range part {
			classes[i] = part[i].class
		}
		out.Classes = append(out.Classes, p.mergedClass(classes))
	}
	return out
}

// mergedClass returns a class with the tasks of several classes, and the smallest requests of these classes. Its tasks
// have no role and exclude no tasks.
func (p *Problem) mergedClass(classes []int) TaskClass {
	merged := TaskClass{Request: slices.Clone(p.Classes[classes[0]].Request), Role: -1}
	for _, k := range classes {
		merged.Count += p.Classes[k].Count
		for r, value := range p.Classes[k].Request {
			merged.Request[r] = min(merged.Request[r], value)
		}
	}
	return merged
}
