// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMessages compares the messages about invalid settings of gangs that users read.
func TestMessages(t *testing.T) {
	self := Name{"a", "x"}
	of := func(key, value string) string {
		_, invalid := Read(self, 3, map[string]string{key: value}, koordinator)
		texts := make([]string, len(invalid))
		for i, m := range invalid {
			texts[i] = m.String()
		}
		return strings.Join(texts, "\n")
	}
	rules := func(text string) string { return of(TopologyAnnotation, gathers(text)[TopologyAnnotation]) }
	broken, _ := Read(self, 3, map[string]string{GroupsAnnotation: "[a/x]"}, koordinator)
	got := map[string]string{
		"total number":              of(TotalNumberAnnotation, "two"),
		"mode":                      of(ModeAnnotation, "strict"),
		"match policy":              of(MatchPolicyAnnotation, "ONLY"),
		"match policy by its alias": of(MatchPolicyAlias, "ONLY"),
		"waiting time":              of(WaitingTimeAnnotation, "5"),
		"groups, no JSON":           of(GroupsAnnotation, "[a/x]"),
		"groups, no JSON, the wait": broken.InvalidGroup.Error(),
		"groups, an invalid name":   of(GroupsAnnotation, `["a/x","B/y"]`),
		"groups, without itself":    of(GroupsAnnotation, `["a/y","a/z"]`),
		"groups, itself alone":      of(GroupsAnnotation, `["a/x"]`),
		"groups, too long":          of(GroupsAnnotation, `["a/x"`+strings.Repeat(`,"a/other-gang-0"`, 2500)+`]`),
		"topology, no JSON":         of(TopologyAnnotation, "block"),
		"topology, many rules":      rules(strings.Repeat(`{"layer":"a"},`, 16) + `{"layer":"a"}`),
		"topology, no layer":        rules(`{"strategy":"MustGather"}`),
		"topology, a layer twice":   rules(`{"layer":"Block","strategy":"MustGather"},{"layer":"Block","strategy":"PreferGather"}`),
		"topology, strategy":        rules(`{"layer":"Block","strategy":"Gather"}`),
		"topology, multiple":        rules(`{"layer":"Block","strategy":"MustGather","podCountMultiple":-2}`),
	}
	want := map[string]string{
		"total number":              `gang.scheduling.koordinator.sh/total-number: invalid value "two", must be a number of 3 (the gang's minimum) or more; using 3`,
		"mode":                      `gang.scheduling.koordinator.sh/mode: invalid value "strict", must be Strict or NonStrict; using Strict`,
		"match policy":              `gang.scheduling.koordinator.sh/match-policy: invalid value "ONLY", must be only-waiting, waiting-and-running or once-satisfied; using once-satisfied`,
		"match policy by its alias": `pod-group.scheduling.sigs.k8s.io/match-policy: invalid value "ONLY", must be only-waiting, waiting-and-running or once-satisfied; using once-satisfied`,
		"waiting time":              `gang.scheduling.koordinator.sh/waiting-time: invalid value "5", must be a positive duration such as 90s; using 10m0s`,
		"groups, no JSON":           `gang.scheduling.koordinator.sh/groups: invalid value "[a/x]", must be a JSON list of "namespace/name", such as ["default/trainer","default/ps"]; the gang is not scheduled until this is corrected`,
		"groups, no JSON, the wait": `gang.scheduling.koordinator.sh/groups: invalid value "[a/x]", must be a JSON list of "namespace/name", such as ["default/trainer","default/ps"]; the gang is not scheduled until this is corrected`,
		"groups, an invalid name":   `gang.scheduling.koordinator.sh/groups: invalid value "[\"a/x\",\"B/y\"]", must be a list of namespace/name, and "B/y" is not valid; the gang is not scheduled until this is corrected`,
		"groups, without itself":    `gang.scheduling.koordinator.sh/groups: invalid value "[\"a/y\",\"a/z\"]", must be a list that contains the gang itself, a/x; the gang is not scheduled until this is corrected`,
		"groups, itself alone":      `gang.scheduling.koordinator.sh/groups: invalid value "[\"a/x\"]", must be a list of two or more gangs; the gang is scheduled without a group`,
		"groups, too long":          `gang.scheduling.koordinator.sh/groups: invalid value "[\"a/x\",\"a/other-gang-0\",\"a/other-gang-0\",\"a/other-gang-0\",\"a/oth"... (and 42443 bytes more), must be a list of at most 100 gangs and 32100 bytes; the gang is not scheduled until this is corrected`,
		"topology, no JSON":         `gang.scheduling.koordinator.sh/network-topology-spec: invalid value "block", must be JSON such as {"gatherStrategy":[{"layer":"BlockLayer","strategy":"MustGather"}]}, of at most 8192 bytes; the annotation is ignored`,
		"topology, many rules":      `gang.scheduling.koordinator.sh/network-topology-spec: invalid value "{\"gatherStrategy\":[{\"layer\":\"a\"},{\"layer\":\"a\"},{\"layer\":\"a\"},{\"l"... (and 194 bytes more), must be a list of at most 16 rules; the annotation is ignored`,
		"topology, no layer":        `gang.scheduling.koordinator.sh/network-topology-spec: a rule has no layer, must name one; the rule is ignored`,
		"topology, a layer twice":   `gang.scheduling.koordinator.sh/network-topology-spec: layer "Block" has more than one rule, must have one; using its first rule`,
		"topology, strategy":        `gang.scheduling.koordinator.sh/network-topology-spec: layer "Block" has invalid strategy "Gather", must be MustGather or PreferGather; using PreferGather`,
		"topology, multiple":        `gang.scheduling.koordinator.sh/network-topology-spec: layer "Block" has invalid podCountMultiple -2, must be a whole number above 0; using 1`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
