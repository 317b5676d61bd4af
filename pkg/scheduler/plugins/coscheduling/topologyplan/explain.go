// SPDX-License-Identifier: Apache-2.0

package topologyplan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// mostNamed is how many domains a message names.
const mostNamed = 5

// Explain returns, as text, why no plan exists for the wanted number of members. The text has the first mostNamed
// possible domains, and how many members each of these domains can take.
func (t *DomainTree) Explain(wanted int) string {
	level := t.mustLevel()
	domains := slices.Clone(t.levels[level])
	if t.requiredDomain != nil {
		domains = []*domain{t.requiredDomain}
	}
	slices.SortStableFunc(domains, func(l, r *domain) int { return cmp.Compare(t.mostIn(r, wanted), t.mostIn(l, wanted)) })
	list := named(domains, func(d *domain) string { return t.explainDomain(d, wanted) })
	where := "the cluster"
	switch {
	case t.requiredDomain != nil:
		where = fmt.Sprintf("%s %s, where the gang's pods are,", t.layers[level].Name, t.requiredDomain.path())
	case level > 0:
		where = "no domain of layer " + t.layers[level].Name
	}
	verb := "fits"
	if level == 0 || t.requiredDomain != nil {
		verb = "does not fit"
	}
	members := fmt.Sprintf("the %d members", wanted)
	if wanted == 1 {
		members = "a member"
	}
	return fmt.Sprintf("%s %s %s%s: %s", where, verb, members, t.inMultiples(), strings.Join(list, ", "))
}

// inMultiples returns the part of the message about required multiples; empty if no layer requires multiples.
func (t *DomainTree) inMultiples() string {
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

// mostIn returns the largest number of members, up to wanted, that the domain can take.
func (t *DomainTree) mostIn(d *domain, wanted int) int { return d.takes.below(min(wanted, t.most)) }

// explainDomain returns the text on how many members the domain can take. If its slots suffice but the required
// multiples do not allow the wanted members, the text also says how many members each child domain takes.
func (t *DomainTree) explainDomain(d *domain, wanted int) string {
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

// named returns the results of describe for the first mostNamed domains, and the number of the other domains.
func named(domains []*domain, describe func(*domain) string) []string {
	var out []string
	for _, d := range domains[:min(len(domains), mostNamed)] {
		out = append(out, describe(d))
	}
	if more := len(domains) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return out
}
