// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// A rule in TopologyAnnotation has one of these strategies. The rule applies to one layer of the network.
const (
	// MustGather means that all members must be in one domain of the layer, or no member is placed.
	MustGather = "MustGather"
	// PreferGather means that the members should be in as few domains of the layer as possible.
	PreferGather = "PreferGather"
)

const (
	// maxGatherRules is the maximum number of layers in a gang's rules. Real networks have only a few layers.
	maxGatherRules = 16
	// maxGatherText limits the length of TopologyAnnotation, in bytes. It allows the maximum number of rules, with
	// layer names as long as label keys.
	maxGatherText = maxGatherRules * 512
	// mostOfNumber limits the length, in bytes, of a number in a message.
	mostOfNumber = 64
)

// GatherRule says how a gang's members are distributed among the domains of one layer of the network.
type GatherRule struct {
	Layer string
	// Must is set for the strategy MustGather, Prefer for the strategy PreferGather.
	Must, Prefer bool
	// Multiple is a number that must divide the number of members in each domain; 1 allows any number of members.
	Multiple int
}

const gatherWanted = `{"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"}]}`

// gather parses TopologyAnnotation. The valid parts of an invalid rule still apply.
func (r *reader) gather() {
	text, said := r.annotations[TopologyAnnotation]
	if !said || text == "" {
		return
	}
	var spec struct {
		GatherStrategy []struct {
			Layer    string          `json:"layer"`
			Strategy string          `json:"strategy"`
			Multiple json.RawMessage `json:"podCountMultiple"`
		} `json:"gatherStrategy"`
	}
	if len(text) > maxGatherText || json.Unmarshal([]byte(text), &spec) != nil {
		r.gatherIgnored(text, fmt.Sprintf("JSON such as %s, of at most %d bytes", gatherWanted, maxGatherText), "the annotation is ignored")
		return
	}
	if len(spec.GatherStrategy) > maxGatherRules {
		r.gatherIgnored(text, fmt.Sprintf("a list of at most %d rules", maxGatherRules), "the annotation is ignored")
		return
	}
	for _, said := range spec.GatherStrategy {
		if said.Layer == "" {
			r.invalid = append(r.invalid, InvalidSetting{Field: TopologyAnnotation, Problem: "a rule has no layer, must name one", Effect: "the rule is ignored"})
			continue
		}
		if slices.ContainsFunc(r.settings.Gather, func(known GatherRule) bool { return known.Layer == said.Layer }) {
			r.addInvalidGather(fmt.Sprintf("layer %s has more than one rule, must have one", brief.Value(said.Layer)), "its first rule")
			continue
		}
		rule := GatherRule{Layer: said.Layer, Must: said.Strategy == MustGather, Prefer: said.Strategy == PreferGather, Multiple: 1}
		if len(said.Multiple) > 0 && string(said.Multiple) != "null" {
			rule.Multiple = r.multiple(said.Layer, string(said.Multiple))
		}
		if !rule.Must && !rule.Prefer && (said.Strategy != "" || len(said.Multiple) == 0) {
			r.addInvalidGather(fmt.Sprintf("layer %s has invalid strategy %s, must be %s or %s", brief.Value(said.Layer), brief.Value(said.Strategy), MustGather, PreferGather), PreferGather)
			rule.Prefer = true
		}
		r.settings.Gather = append(r.settings.Gather, rule)
	}
}

// multiple parses the podCountMultiple of the rule for a layer. It returns 1 for 0 and for an invalid number.
func (r *reader) multiple(layer, text string) int {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		r.addInvalidGather(fmt.Sprintf("layer %s has invalid podCountMultiple %s, must be a whole number above 0", brief.Value(layer), brief.Cut(text, mostOfNumber)), "1")
		return 1
	}
	return max(int(n), 1)
}

func (r *reader) addInvalidGather(problem, taken string) {
	r.invalid = append(r.invalid, InvalidSetting{Field: TopologyAnnotation, Problem: problem, Used: taken})
}

func (r *reader) gatherIgnored(found, want, effect string) {
	r.invalid = append(r.invalid, InvalidSetting{Field: TopologyAnnotation, Value: found, Expected: want, Effect: effect})
}
