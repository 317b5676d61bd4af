// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// Mode decides what happens to a gang if one of its members cannot be placed or bound.
type Mode string

const (
	// Strict means that the whole gang and its group are rolled back if a member fails before any member is bound. This
	// applies even if the other members reach the minimum.
	Strict Mode = "Strict"
	// NonStrict means that the other members continue if they reach the minimum, and that failed members are placed again
	// later.
	NonStrict Mode = "NonStrict"
)

// MatchPolicy decides which members count for the minimum.
type MatchPolicy string

const (
	// OnlyWaiting counts the members that are bound together now.
	OnlyWaiting MatchPolicy = "only-waiting"
	// WaitingAndRunning counts the members that are bound together now, and the members that are already bound or running.
	WaitingAndRunning MatchPolicy = "waiting-and-running"
	// OnceSatisfied counts the same members as WaitingAndRunning until the minimum is reached once. After that the minimum
	// no longer applies, as long as a member exists.
	OnceSatisfied MatchPolicy = "once-satisfied"
)

// MatchPolicies are all match policies.
var MatchPolicies = []MatchPolicy{OnlyWaiting, WaitingAndRunning, OnceSatisfied}

// DefaultWaitingTime is the waiting time of a gang that sets none.
const DefaultWaitingTime = 10 * time.Minute

// MaxGroup is the maximum number of gangs in a group.
const MaxGroup = 100

// MaxGroupText is the maximum length of GroupsAnnotation, in bytes: it allows the maximum number of gangs with names of
// the maximum length. A longer list is not parsed.
const MaxGroupText = MaxGroup * (validation.DNS1123LabelMaxLength + validation.DNS1123SubdomainMaxLength + len(`"/", `))

// Name identifies a gang by the namespace and the name of its PodGroup.
type Name struct{ Namespace, Name string }

// String returns namespace/name.
func (n Name) String() string { return n.Namespace + "/" + n.Name }

// Settings are a gang's settings other than its minimum.
type Settings struct {
	// TotalNumber is the total number of the gang's members; 0 if it is not set.
	TotalNumber int32
	Mode        Mode
	MatchPolicy MatchPolicy
	WaitingTime time.Duration
	// Group are the gangs that are placed and bound together, including this gang, sorted by name; nil if the gang has no
	// group.
	Group []Name
	// InvalidGroup is why the gang's group is invalid. Such a gang is not placed, because it might be only a part of a group.
	InvalidGroup error
	// Gather are the gang's rules for layers of the network, at most one for each layer.
	Gather []GatherRule
}

// GroupID returns Koordinator's name for the group: the names of its gangs in order. For a gang without a group, it
// returns the name of the gang itself, self.
func (s *Settings) GroupID(self Name) string {
	if len(s.Group) == 0 {
		return self.String()
	}
	names := make([]string, len(s.Group))
	for i, name := range s.Group {
		names[i] = name.String()
	}
	return strings.Join(names, ",")
}

// InvalidSetting describes a setting with an invalid value, and the value or effect that applies instead.
type InvalidSetting struct {
	// Field is the annotation or field with the invalid value. Value is the invalid value, and Expected describes the
	// valid values. Used is the value that is used instead. Effect is the consequence if no value is used.
	Field, Value, Expected, Used, Effect string
	// Problem, if set, describes what is wrong, instead of Value and Expected. It is for a valid value that conflicts
	// with another setting, for a number, and for a part of a value.
	Problem string
}

// String returns a sentence that describes the invalid setting to users.
func (m InvalidSetting) String() string {
	effect := m.Effect
	if effect == "" {
		effect = "using " + m.Used
	}
	problem := m.Problem
	if problem == "" {
		problem = fmt.Sprintf("invalid value %s, must be %s", brief.Value(m.Value), m.Expected)
	}
	return fmt.Sprintf("%s: %s; %s", m.Field, problem, effect)
}

// Said reports whether the annotations of a PodGroup contain settings of a gang.
func Said(annotations map[string]string) bool {
	for _, key := range settings {
		if _, ok := annotations[key]; ok {
			return true
		}
	}
	return false
}

// settings are the annotations that are settings of a gang.
var settings = []string{
	ModeAnnotation, GroupsAnnotation, MatchPolicyAnnotation, MatchPolicyAlias, WaitingTimeAnnotation, TotalNumberAnnotation,
	TopologyAnnotation,
}

// Read parses the settings of the named gang from the annotations of its PodGroup or of one of its pods. Missing and
// invalid settings get their defaults. minMember is the gang's minimum.
func Read(self Name, minMember int32, annotations map[string]string, defaults Settings) (Settings, []InvalidSetting) {
	r := reader{annotations: annotations, settings: defaults}
	r.settings.Group, r.settings.InvalidGroup, r.settings.Gather = nil, nil, nil
	r.total(minMember)
	r.mode()
	r.matchPolicy()
	r.waitingTime()
	r.group(self)
	r.gather()
	return r.settings, r.invalid
}

type reader struct {
	annotations map[string]string
	settings    Settings
	invalid     []InvalidSetting
}

func (r *reader) addInvalid(field, want, taken string) {
	r.invalid = append(r.invalid, InvalidSetting{Field: field, Value: r.annotations[field], Expected: want, Used: taken})
}

func (r *reader) total(minMember int32) {
	text, said := r.annotations[TotalNumberAnnotation]
	if !said {
		return
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || int32(n) < minMember {
		r.settings.TotalNumber = minMember
		r.addInvalid(TotalNumberAnnotation, fmt.Sprintf("a number of %d (the gang's minimum) or more", minMember), strconv.Itoa(int(minMember)))
		return
	}
	r.settings.TotalNumber = int32(n)
}

func (r *reader) mode() {
	switch text, said := r.annotations[ModeAnnotation]; {
	case !said:
	case Mode(text) == Strict || Mode(text) == NonStrict:
		r.settings.Mode = Mode(text)
	default:
		r.addInvalid(ModeAnnotation, fmt.Sprintf("%s or %s", Strict, NonStrict), string(r.settings.Mode))
	}
}

func (r *reader) matchPolicy() {
	key := MatchPolicyAnnotation
	text, said := r.annotations[key]
	if !said {
		key = MatchPolicyAlias
		text, said = r.annotations[key]
	}
	switch {
	case !said:
	case slices.Contains(MatchPolicies, MatchPolicy(text)):
		r.settings.MatchPolicy = MatchPolicy(text)
	default:
		r.addInvalid(key, fmt.Sprintf("%s, %s or %s", OnlyWaiting, WaitingAndRunning, OnceSatisfied), string(r.settings.MatchPolicy))
	}
}

func (r *reader) waitingTime() {
	text, said := r.annotations[WaitingTimeAnnotation]
	if !said {
		return
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		r.addInvalid(WaitingTimeAnnotation, "a positive duration such as 90s", r.settings.WaitingTime.String())
		return
	}
	r.settings.WaitingTime = d
}

// group parses the list of gangs in GroupsAnnotation. An invalid list makes the gang wait, because the gang might be
// part of a group. A list is invalid if it is too long, does not contain the gang self, or contains an item that cannot
// be the name of a gang.
func (r *reader) group(self Name) {
	text := r.annotations[GroupsAnnotation]
	if strings.TrimSpace(text) == "" {
		return
	}
	if len(text) > MaxGroupText {
		r.rejectTooLarge()
		return
	}
	var list []string
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		r.broken(`a JSON list of "namespace/name", such as ["default/trainer","default/ps"]`)
		return
	}
	slices.Sort(list) // Koordinator uses the same order
	list = slices.Compact(list)
	switch {
	case len(list) == 0:
	case !slices.Contains(list, self.String()):
		r.broken(fmt.Sprintf("a list that contains the gang itself, %s", self))
	case len(list) > MaxGroup:
		r.rejectTooLarge()
	case slices.ContainsFunc(list, impossible):
		wrong := list[slices.IndexFunc(list, impossible)]
		r.broken(fmt.Sprintf("a list of namespace/name, and %s is not valid", brief.Value(wrong)))
	case len(list) == 1:
		r.invalid = append(r.invalid, InvalidSetting{
			Field: GroupsAnnotation, Value: text, Expected: "a list of two or more gangs", Effect: "the gang is scheduled without a group",
		})
	default:
		for _, item := range list {
			r.settings.Group = append(r.settings.Group, split(item))
		}
	}
}

func (r *reader) rejectTooLarge() {
	r.broken(fmt.Sprintf("a list of at most %d gangs and %d bytes", MaxGroup, MaxGroupText))
}

func (r *reader) broken(want string) {
	r.invalid = append(r.invalid, InvalidSetting{
		Field: GroupsAnnotation, Value: r.annotations[GroupsAnnotation], Expected: want, Effect: "the gang is not scheduled until this is corrected",
	})
	r.settings.InvalidGroup = errors.New(r.invalid[len(r.invalid)-1].String())
}

// impossible reports whether the item cannot be the namespace and name of any PodGroup.
func impossible(item string) bool {
	name := split(item)
	return len(validation.IsDNS1123Label(name.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(name.Name)) > 0
}

func split(item string) Name {
	namespace, name, _ := strings.Cut(item, "/")
	return Name{namespace, name}
}
