// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var koordinator = Settings{Mode: Strict, MatchPolicy: OnceSatisfied, WaitingTime: DefaultWaitingTime}

func with(change func(*Settings)) Settings {
	s := koordinator
	change(&s)
	return s
}

// gathers returns the annotations with these topology rules.
func gathers(rules string) map[string]string {
	return map[string]string{TopologyAnnotation: `{"gatherStrategy":[` + rules + `]}`}
}

func TestRead(t *testing.T) {
	self := Name{"a", "x"}
	const notPlaced = "the gang is not scheduled until this is corrected"
	group := []Name{self}
	for i := range MaxGroup {
		group = append(group, Name{"a", fmt.Sprintf("y%03d", i)})
	}
	tests := map[string]struct {
		annotations map[string]string
		want        Settings
		// reported are the fields of the invalid settings, and the values used instead.
		reported [][2]string
	}{
		"nothing said":                  {nil, koordinator, nil},
		"total below the minimum":       {map[string]string{TotalNumberAnnotation: "2"}, with(func(s *Settings) { s.TotalNumber = 3 }), [][2]string{{TotalNumberAnnotation, "3"}}},
		"total that is no number":       {map[string]string{TotalNumberAnnotation: "five"}, with(func(s *Settings) { s.TotalNumber = 3 }), [][2]string{{TotalNumberAnnotation, "3"}}},
		"total above the minimum":       {map[string]string{TotalNumberAnnotation: "5"}, with(func(s *Settings) { s.TotalNumber = 5 }), nil},
		"total beyond 32 bits":          {map[string]string{TotalNumberAnnotation: "4294967299"}, with(func(s *Settings) { s.TotalNumber = 3 }), [][2]string{{TotalNumberAnnotation, "3"}}},
		"NonStrict":                     {map[string]string{ModeAnnotation: "NonStrict"}, with(func(s *Settings) { s.Mode = NonStrict }), nil},
		"mode in another case":          {map[string]string{ModeAnnotation: "nonstrict"}, koordinator, [][2]string{{ModeAnnotation, "Strict"}}},
		"unknown policy":                {map[string]string{MatchPolicyAnnotation: "ONLY"}, koordinator, [][2]string{{MatchPolicyAnnotation, "once-satisfied"}}},
		"policy":                        {map[string]string{MatchPolicyAnnotation: "only-waiting"}, with(func(s *Settings) { s.MatchPolicy = OnlyWaiting }), nil},
		"policy by its alias":           {map[string]string{MatchPolicyAlias: "waiting-and-running"}, with(func(s *Settings) { s.MatchPolicy = WaitingAndRunning }), nil},
		"policy by both names":          {map[string]string{MatchPolicyAlias: "waiting-and-running", MatchPolicyAnnotation: "only-waiting"}, with(func(s *Settings) { s.MatchPolicy = OnlyWaiting }), nil},
		"waiting time":                  {map[string]string{WaitingTimeAnnotation: "90s"}, with(func(s *Settings) { s.WaitingTime = 90 * time.Second }), nil},
		"waiting time of zero":          {map[string]string{WaitingTimeAnnotation: "0s"}, koordinator, [][2]string{{WaitingTimeAnnotation, "10m0s"}}},
		"waiting time below zero":       {map[string]string{WaitingTimeAnnotation: "-5s"}, koordinator, [][2]string{{WaitingTimeAnnotation, "10m0s"}}},
		"waiting time without its unit": {map[string]string{WaitingTimeAnnotation: "5"}, koordinator, [][2]string{{WaitingTimeAnnotation, "10m0s"}}},
		"group":                         {map[string]string{GroupsAnnotation: `["b/y","a/x"]`}, with(func(s *Settings) { s.Group = []Name{{"a", "x"}, {"b", "y"}} }), nil},
		"group with a gang twice":       {map[string]string{GroupsAnnotation: `["b/y","a/x","b/y"]`}, with(func(s *Settings) { s.Group = []Name{{"a", "x"}, {"b", "y"}} }), nil},
		"group of itself":               {map[string]string{GroupsAnnotation: `["a/x"]`}, koordinator, [][2]string{{GroupsAnnotation, "the gang is scheduled without a group"}}},
		"group that is no JSON":         {map[string]string{GroupsAnnotation: `[a/x]`}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
		"gathering": {
			gathers(`{"layer":"Spine","strategy":"MustGather"},{"layer":"Block","strategy":"PreferGather","podCountMultiple":4},{"layer":"Node","podCountMultiple":2}`),
			with(func(s *Settings) {
				s.Gather = []GatherRule{{"Spine", true, false, 1}, {"Block", false, true, 4}, {"Node", false, false, 2}}
			}), nil,
		},
		"gathering that is no JSON":     {map[string]string{TopologyAnnotation: `block`}, koordinator, [][2]string{{TopologyAnnotation, "the annotation is ignored"}}},
		"gathering of kilobytes":        {gathers(`{"layer":"` + strings.Repeat("y", 100_000) + `"}`), koordinator, [][2]string{{TopologyAnnotation, "the annotation is ignored"}}},
		"gathering in very many layers": {gathers(strings.Repeat(`{"layer":"a"},`, 16) + `{"layer":"a"}`), koordinator, [][2]string{{TopologyAnnotation, "the annotation is ignored"}}},
		"gathering nowhere":             {gathers(``), koordinator, nil},
		"gathering by an unknown strategy": {
			gathers(`{"layer":"Block","strategy":"Gather","podCountMultiple":3},{"layer":"Spine"}`),
			with(func(s *Settings) { s.Gather = []GatherRule{{"Block", false, true, 3}, {"Spine", false, true, 1}} }),
			[][2]string{{TopologyAnnotation, "PreferGather"}, {TopologyAnnotation, "PreferGather"}},
		},
		"a multiple that is none, and nothing else": {
			gathers(`{"layer":"Node","podCountMultiple":-3}`),
			with(func(s *Settings) { s.Gather = []GatherRule{{"Node", false, false, 1}} }), [][2]string{{TopologyAnnotation, "1"}},
		},
		"gathering in a layer twice": {
			gathers(`{"layer":"Block","strategy":"MustGather"},{"layer":"Block","strategy":"PreferGather"}`),
			with(func(s *Settings) { s.Gather = []GatherRule{{"Block", true, false, 1}} }), [][2]string{{TopologyAnnotation, "its first rule"}},
		},
		"gathering in no layer": {gathers(`{"strategy":"MustGather"}`), koordinator, [][2]string{{TopologyAnnotation, "the rule is ignored"}}},
		"multiples that are none": {
			gathers(`{"layer":"a","strategy":"MustGather","podCountMultiple":-2},{"layer":"b","strategy":"MustGather","podCountMultiple":2.5},{"layer":"c","strategy":"MustGather","podCountMultiple":"4"},` +
				`{"layer":"d","strategy":"MustGather","podCountMultiple":4294967298},{"layer":"e","strategy":"MustGather","podCountMultiple":0},{"layer":"f","strategy":"MustGather","podCountMultiple":null}`),
			with(func(s *Settings) {
				for _, layer := range []string{"a", "b", "c", "d", "e", "f"} {
					s.Gather = append(s.Gather, GatherRule{layer, true, false, 1})
				}
			}),
			[][2]string{{TopologyAnnotation, "1"}, {TopologyAnnotation, "1"}, {TopologyAnnotation, "1"}, {TopologyAnnotation, "1"}},
		},
		"group that is no list":          {map[string]string{GroupsAnnotation: `{"a":"x"}`}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
		"empty group":                    {map[string]string{GroupsAnnotation: `[]`}, koordinator, nil},
		"group of as many as may be":     {map[string]string{GroupsAnnotation: listOf(group[:MaxGroup])}, with(func(s *Settings) { s.Group = group[:MaxGroup] }), nil},
		"group without itself":           {map[string]string{GroupsAnnotation: `["a/y","a/z"]`}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
		"group that is too large":        {map[string]string{GroupsAnnotation: listOf(group)}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
		"group of thousands":             {map[string]string{GroupsAnnotation: `["a/x"` + strings.Repeat(`,"a/other-gang-0"`, 2500) + `]`}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
		"group without namespaces":       {map[string]string{GroupsAnnotation: `["x","y"]`}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
		"group with a name of kilobytes": {map[string]string{GroupsAnnotation: `["a/x","a/` + strings.Repeat("y", 10_000) + `"]`}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
		"group with a name in capitals":  {map[string]string{GroupsAnnotation: `["a/x","a/Y"]`}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
		"group with a name that is none": {map[string]string{GroupsAnnotation: `["a/x","a/Größe"]`}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
		"group with an empty name":       {map[string]string{GroupsAnnotation: `["a/x","a/"]`}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
		"group with a name in three":     {map[string]string{GroupsAnnotation: `["a/x","a/y/z"]`}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
		"group with a comma in a name":   {map[string]string{GroupsAnnotation: `["a/x","a/y,z"]`}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
		"group with a blank in a name":   {map[string]string{GroupsAnnotation: `["a/x"," a/y"]`}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
		"group with a namespace of two":  {map[string]string{GroupsAnnotation: `["a/x","a.b/y"]`}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
		"group with a zero byte":         {map[string]string{GroupsAnnotation: `["a/x","a/y\u0000"]`}, koordinator, [][2]string{{GroupsAnnotation, notPlaced}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, invalid := Read(self, 3, test.annotations, koordinator)
			broken := len(test.reported) > 0 && test.reported[0][1] == notPlaced
			if (got.InvalidGroup != nil) != broken {
				t.Errorf("broken: %v, want it to be %t", got.InvalidGroup, broken)
			}
			got.InvalidGroup = nil
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
			var reported [][2]string
			for _, m := range invalid {
				reported = append(reported, [2]string{m.Field, m.Used + m.Effect})
				if len(m.String()) > 600 || !strings.Contains(m.String(), m.Field) {
					t.Errorf("invalid setting: %s", m)
				}
			}
			if diff := cmp.Diff(test.reported, reported); diff != "" {
				t.Errorf("invalid settings (-want +got):\n%s", diff)
			}
		})
	}
}

// listOf returns the names as a user writes the list.
func listOf(names []Name) string {
	items := make([]string, len(names))
	for i, name := range names {
		items[i] = fmt.Sprintf("%q", name)
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// TestTheLongestList checks that a list of the maximum number of gangs, with names of the maximum length, is accepted.
// A list that is one byte longer is invalid.
func TestTheLongestList(t *testing.T) {
	var names []Name
	for i := range MaxGroup {
		names = append(names, Name{strings.Repeat("n", 63), fmt.Sprintf("%0253d", i)})
	}
	list := listOf(names)
	if settings, invalid := Read(names[0], 1, map[string]string{GroupsAnnotation: list}, koordinator); len(settings.Group) != MaxGroup {
		t.Errorf("of a list of %d bytes %d gangs are taken, invalid %v", len(list), len(settings.Group), invalid)
	}
	if settings, _ := Read(names[0], 1, map[string]string{GroupsAnnotation: list + " "}, koordinator); settings.InvalidGroup == nil {
		t.Errorf("a list of %d bytes is taken", len(list)+1)
	}
}

// TestMessagesOfInvalidGangGroups checks that the message for an invalid gang group states the allowed values.
func TestMessagesOfInvalidGangGroups(t *testing.T) {
	var many []Name
	for i := range 3000 {
		many = append(many, Name{"a", fmt.Sprintf("trainer-%05d", i)})
	}
	for groups, want := range map[string]string{
		listOf(many[:MaxGroup+1]):              "must be a list of at most 100 gangs and 32100 bytes",
		listOf(many):                           "must be a list of at most 100 gangs and 32100 bytes",
		`["a/trainer-00001"]`:                  "must be a list that contains the gang itself, a/trainer-00000",
		`["a/trainer-00000","b/Größe","c/ps"]`: `must be a list of namespace/name, and "b/Größe" is not valid`,
	} {
		settings, _ := Read(many[0], 1, map[string]string{GroupsAnnotation: groups}, koordinator)
		if settings.InvalidGroup == nil || !strings.Contains(settings.InvalidGroup.Error(), want) {
			t.Errorf("the message is %v, want %q in it", settings.InvalidGroup, want)
		}
	}
}

func TestGroupID(t *testing.T) {
	self := Name{"a", "x"}
	for groups, want := range map[string]string{
		"":                          "a/x",
		`["b/y","a/x"]`:             "a/x,b/y",
		`["a/x","a-b/y","a/w"]`:     "a-b/y,a/w,a/x",
		`["b/y","a/x","b/y","b/w"]`: "a/x,b/w,b/y",
	} {
		settings, _ := Read(self, 1, map[string]string{GroupsAnnotation: groups}, koordinator)
		if got := settings.GroupID(self); got != want {
			t.Errorf("groups %s: id %s, want %s", groups, got, want)
		}
	}
}
