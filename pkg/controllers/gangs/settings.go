// SPDX-License-Identifier: Apache-2.0

package gangs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/apis/coscheduling/v1alpha1"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// settingKeys are the annotations with settings of a gang that are copied to its Volcano PodGroup.
var settingKeys = []string{
	gangs.TotalNumberAnnotation, gangs.ModeAnnotation, gangs.WaitingTimeAnnotation, gangs.GroupsAnnotation, gangs.MatchPolicyAnnotation,
	gangs.TopologyAnnotation,
}

// koordinator holds Koordinator's defaults, for settings that the gang leaves out.
var koordinator = gangs.Settings{Mode: gangs.Strict, MatchPolicy: gangs.OnceSatisfied, WaitingTime: gangs.DefaultWaitingTime}

// byDefault describes, in messages about an invalid setting, the value that is used instead: the default of the
// scheduler configuration.
const byDefault = "the default of the scheduler configuration"

// settings are a gang's settings and where they were declared.
type settings struct {
	// by is the kind and name of the object that declares the gang, for messages.
	by string
	// minMember is the minimum of the gang; 0 if no object sets it.
	minMember int32
	// said has the declared values by annotation, including the minimum. taken has the values for the Volcano PodGroup,
	// without invalid values.
	said, taken map[string]string
	invalid     []gangs.InvalidSetting
}

// parseSettings parses the declared settings in said. defaults apply to settings that are not declared.
func parseSettings(name gangs.Name, by string, minMember int32, said map[string]string, defaults gangs.Settings) settings {
	s := settings{by: by, minMember: minMember, said: said, taken: map[string]string{}}
	read, invalid := gangs.Read(name, minMember, said, defaults)
	for _, key := range settingKeys {
		if text, ok := said[key]; ok {
			s.taken[key] = text
		}
	}
	for _, m := range invalid {
		switch m.Field {
		case gangs.TotalNumberAnnotation:
			s.taken[m.Field] = m.Used
		case gangs.GroupsAnnotation:
			if read.InvalidGroup == nil {
				delete(s.taken, m.Field)
			}
		case gangs.TopologyAnnotation:
			if read.Gather == nil {
				delete(s.taken, m.Field)
			}
		case gangs.WaitingTimeAnnotation, gangs.MatchPolicyAnnotation:
			delete(s.taken, m.Field)
			m.Used = byDefault
		}
		s.invalid = append(s.invalid, m)
	}
	s.taken[gangs.ModeAnnotation] = string(read.Mode)
	return s
}

// settingsOf returns the annotations that are gang settings. If only an alias of the annotation for the match policy is
// set, the result has its value under the usual name.
func settingsOf(annotations map[string]string) map[string]string {
	said := map[string]string{}
	for _, key := range settingKeys {
		if text, ok := annotations[key]; ok {
			said[key] = text
		}
	}
	if alias, ok := annotations[gangs.MatchPolicyAlias]; ok && said[gangs.MatchPolicyAnnotation] == "" {
		said[gangs.MatchPolicyAnnotation] = alias
	}
	return said
}

// saidBy returns the settings that the pod declares for its gang.
func saidBy(pod *corev1.Pod) map[string]string {
	said := settingsOf(pod.Annotations)
	if text, ok := pod.Annotations[gangs.MinAvailableAnnotation]; ok {
		said[gangs.MinAvailableAnnotation] = text
	}
	if text, ok := pod.Labels[gangs.OldMinLabel]; ok {
		said[gangs.MinAvailableAnnotation] = text
	}
	return said
}

func minimumOf(said map[string]string) int32 {
	n, err := strconv.ParseInt(said[gangs.MinAvailableAnnotation], 10, 32)
	if err != nil || n < 1 {
		return 0
	}
	return int32(n)
}

// fromPods returns the gang's settings and the decider: the member whose settings apply to the whole gang. The decider
// is the oldest member with a valid minimum that is neither finished nor being deleted. If none exists, it is the
// oldest member with a valid minimum. decider is nil if no member has a valid minimum.
func fromPods(name gangs.Name, members []*corev1.Pod) (s settings, decider *corev1.Pod) {
	for _, pod := range members {
		live := !finished(pod) && pod.DeletionTimestamp == nil
		if (decider == nil || live) && minimumOf(saidBy(pod)) > 0 {
			decider = pod
			if live {
				break
			}
		}
	}
	if decider == nil {
		return settings{}, nil
	}
	said := saidBy(decider)
	return parseSettings(name, "Pod "+decider.Name, minimumOf(said), said, koordinator), decider
}

// fromObject returns the settings of the PodGroup that the user wrote.
func fromObject(name gangs.Name, kind string, object *v1alpha1.PodGroup) settings {
	said := settingsOf(object.Annotations)
	var invalid []gangs.InvalidSetting
	minMember, defaults := object.Spec.MinMember, koordinator
	if minMember < 1 {
		invalid = append(invalid, gangs.InvalidSetting{
			Field: "spec.minMember", Problem: fmt.Sprintf("invalid value %d, must be a positive number", minMember), Used: "1",
		})
		minMember, defaults.Mode = 1, gangs.NonStrict // Koordinator places the pods of a gang without a minimum one by one
	}
	said[gangs.MinAvailableAnnotation] = strconv.Itoa(int(minMember))
	if seconds := object.Spec.ScheduleTimeoutSeconds; seconds != nil && *seconds > 0 {
		said[gangs.WaitingTimeAnnotation] = (time.Duration(*seconds) * time.Second).String()
	} else if seconds != nil {
		delete(said, gangs.WaitingTimeAnnotation)
		invalid = append(invalid, gangs.InvalidSetting{
			Field: "spec.scheduleTimeoutSeconds", Problem: fmt.Sprintf("invalid value %d, must be a positive number of seconds", *seconds), Used: byDefault,
		})
	}
	s := parseSettings(name, kind+" "+object.Name, minMember, said, defaults)
	s.invalid = append(invalid, s.invalid...)
	return s
}

// disagreements returns the settings of the pod that differ from the gang's settings.
func (s *settings) disagreements(pod *corev1.Pod) []gangs.InvalidSetting {
	var invalid []gangs.InvalidSetting
	said := saidBy(pod)
	for _, key := range append([]string{gangs.MinAvailableAnnotation}, settingKeys...) {
		text, ok := said[key]
		if !ok || text == s.said[key] || text == s.taken[key] || canonical(key, text) == canonical(key, s.said[key]) {
			continue
		}
		other, taken := s.by+", which does not set it", "the default"
		if theirs, ok := s.said[key]; ok {
			other, taken = fmt.Sprintf("%s in %s", brief.Value(theirs), s.by), brief.Value(theirs)
		}
		if value, ok := s.taken[key]; ok {
			taken = brief.Value(value)
		}
		invalid = append(invalid, conflict(key, text, other, taken))
	}
	return invalid
}

// conflict returns the setting of a field whose value differs from another setting, which takes precedence. used is the
// value that is used.
func conflict(field, value, other, used string) gangs.InvalidSetting {
	return gangs.InvalidSetting{Field: field, Problem: fmt.Sprintf("value %s conflicts with %s", brief.Value(value), other), Used: used}
}

// canonical returns equal texts for equal values of a setting. A text that is too long, or names more gangs than a
// group may have, is returned unchanged, because comparing it for each pod would take too long.
func canonical(key, text string) string {
	if len(text) > gangs.MaxGroupText {
		return text
	}
	switch key {
	case gangs.WaitingTimeAnnotation:
		if d, err := time.ParseDuration(text); err == nil {
			return d.String()
		}
	case gangs.GroupsAnnotation:
		if strings.Count(text, `"`) > 2*gangs.MaxGroup {
			return text
		}
		list := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("[]\", \t\n\r", r) })
		slices.Sort(list)
		return strings.Join(slices.Compact(list), ",")
	case gangs.TopologyAnnotation:
		var compact bytes.Buffer
		if json.Compact(&compact, []byte(text)) == nil {
			return compact.String()
		}
	}
	return text
}

// misnamed returns an error for each further label or annotation of the pod that names another gang than the first one.
func misnamed(pod *corev1.Pod) []gangs.InvalidSetting {
	var invalid []gangs.InvalidSetting
	names := namesOf(pod)
	for _, other := range names[1:] {
		if other.name != names[0].name {
			used := brief.Value(names[0].name)
			invalid = append(invalid, conflict(other.field, other.name, fmt.Sprintf("%s in %s", used, names[0].field), used))
		}
	}
	return invalid
}
