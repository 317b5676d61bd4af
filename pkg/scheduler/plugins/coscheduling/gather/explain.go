// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// mostNamed is how many domains a message names.
const mostNamed = 5

// Explain says why there is no plan for so many members: what the domains take that the gang might lie in.
func (t *Tree) Explain(wanted int) string {
	level := t.mustLevel()
	domains := slices.Clone(t.levels[level])
	if t.home != nil {
		domains = []*domain{t.home}
	}
	slices.SortStableFunc(domains, func(l, r *domain) int { return cmp.Compare(t.mostIn(r, wanted), t.mostIn(l, wanted)) })
	list := named(domains, func(d *domain) string { return t.explainDomain(d, wanted) })
	where := "the cluster"
	switch {
	case t.home != nil:
		where = fmt.Sprintf("%s %s, where its members are,", t.layers[level].Name, t.home.path())
	case level > 0:
		where = "no domain of layer " + t.layers[level].Name
	}
	verb := "takes"
	if level == 0 || t.home != nil {
		verb = "does not take"
	}
	members := fmt.Sprintf("the %d members", wanted)
	if wanted == 1 {
		members = "a member"
	}
	return fmt.Sprintf("%s %s %s%s: %s", where, verb, members, t.inMultiples(), strings.Join(list, ", "))
}

// inMultiples says what the numbers of members must be multiples of.
func (t *Tree) inMultiples() string {
	var parts []string
	for _, layer := range t.layers {
		if layer.Multiple > 1 {
			parts = append(parts, fmt.Sprintf("%d by %s", layer.Multiple, layer.Name))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " in multiples of " + strings.Join(parts, " and ")
}

// mostIn is the largest number of members, up to so many, that the domain takes.
func (t *Tree) mostIn(d *domain, wanted int) int { return d.takes.below(min(wanted, t.most)) }

// explainDomain says what the domain takes, and of those in it where it has slots enough, but not in the multiples that are asked for.
func (t *Tree) explainDomain(d *domain, wanted int) string {
	most := t.mostIn(d, wanted)
	text := fmt.Sprintf("%s %d", d.path(), most)
	if d.slots < wanted || len(d.children) == 0 || most == wanted {
		return text
	}
	given := map[*domain]int{}
	t.divide(d, most, func(node *domain, n int) { given[node.at(d.level+1)] += n })
	parts := named(d.children, func(child *domain) string { return fmt.Sprintf("%s %d", child.name, given[child]) })
	return fmt.Sprintf("%s (%s of %d slots)", text, strings.Join(parts, " + "), d.slots)
}

// named tells of the first domains, and how many more there are.
func named(domains []*domain, tell func(*domain) string) []string {
	var out []string
	for _, d := range domains[:min(len(domains), mostNamed)] {
		out = append(out, tell(d))
	}
	if more := len(domains) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return out
}
