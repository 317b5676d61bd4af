// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// The annotations of a PodGroup, or of pods. Any other annotation with this prefix is an error, because it may be
// misspelt.
const (
	annotationPrefix = "ibcluster.volcano-prebind.io/"
	// ModeAnnotation says whether the gang must, should or need not be placed in one group: required, preferred or
	// none.
	ModeAnnotation = annotationPrefix + "mode"
	// LevelAnnotation is the level of that group. The default is the widest.
	LevelAnnotation = annotationPrefix + "level"
	// ClustersAnnotation lists the groups of the widest level in which the gang may be placed, separated by commas.
	ClustersAnnotation = annotationPrefix + "clusters"
	// AffinityGroupAnnotation is the name of an affinity group: the PodGroups of a namespace with the same name share
	// one group of the widest level.
	AffinityGroupAnnotation = annotationPrefix + "affinity-group"
)

// request is a gang's parsed annotations.
type request struct {
	mode  string
	level int
	// clusters are the allowed clusters; any if empty.
	clusters []string
	// group is the name of its affinity group; empty if it has none.
	group string
}

// binds reports whether the request forbids some nodes to the gang.
func (w *request) binds() bool { return w.mode == modeRequired || len(w.clusters) > 0 }

// maxMistakes limits how many errors of one gang are reported, maxKey the length of a quoted key, and maxClusters how
// many clusters a gang may list, because each group is looked up in the list.
const (
	maxMistakes = 3
	maxKey      = 120
	maxClusters = 1000
)

// requestOf parses the annotations that apply to the job (said). An error names the malformed annotation and a valid
// value. A job that requests nothing has the mode none.
func (s *settings) requestOf(job *api.JobInfo, said saying, forest *topology.Forest) (request, error) {
	w := request{mode: s.defaultModeOf(job)}
	var mistakes []error
	for _, key := range slices.Sorted(maps.Keys(said.annotations)) {
		if err := w.read(key, said.annotations[key], forest); err != nil {
			mistakes = append(mistakes, fmt.Errorf("annotation %s%s: %w", brief.Cut(key, maxKey), said.on(), err))
		}
	}
	if more := len(mistakes) - maxMistakes; more > 0 {
		mistakes = append(mistakes[:maxMistakes], fmt.Errorf("and %d more invalid annotations", more))
	}
	if len(mistakes) > 0 {
		return request{}, errors.Join(mistakes...)
	}
	_, explicit := said.annotations[ModeAnnotation]
	switch {
	case explicit && w.mode != modeRequired && w.group != "":
		return request{}, fmt.Errorf("annotation %s%s: found %q beside %s, want %q: the PodGroups of an affinity group must share one cluster",
			ModeAnnotation, said.on(), w.mode, AffinityGroupAnnotation, modeRequired)
	case explicit && w.mode == modeNone && len(said.annotations) > 1:
		return request{}, fmt.Errorf("annotation %s%s: found %q beside other annotations of ibcluster, want %q or %q with them",
			ModeAnnotation, said.on(), modeNone, modeRequired, modePreferred)
	case w.group != "", !explicit && w.mode == modeNone && len(said.annotations) > 0:
		w.mode = modeRequired // an affinity group is a requirement; a level or a cluster alone is a preference
	}
	return w, nil
}

// defaultModeOf returns the mode of a job whose annotations set no mode. A Volcano Job has no pods before its
// admission, so its minResources count then: they are the sum of the requests of its minimum.
func (s *settings) defaultModeOf(job *api.JobInfo) string {
	request := job.TotalRequest
	if len(s.trigger) > 0 && len(job.Tasks) == 0 {
		request = job.GetMinResources()
	}
	for _, name := range s.trigger {
		if request.ScalarResources[name] > 0 {
			return modeRequired
		}
	}
	return s.defaultMode
}

func (w *request) read(key, value string, forest *topology.Forest) error {
	switch key {
	case ModeAnnotation:
		if !slices.Contains(modes, value) {
			return fmt.Errorf("found %s, want %s", brief.Value(value), oneOf(modes))
		}
		w.mode = value
	case LevelAnnotation:
		level, ok := forest.Level(value)
		if !ok && len(forest.Levels()) > 0 { // without HyperNodes no level can be wrong
			return fmt.Errorf("found %s, want the name of a level: %s", brief.Value(value), levelNames(forest))
		}
		w.level = max(level, 0)
	case ClustersAnnotation:
		if names := 1 + strings.Count(value, ","); names > maxClusters {
			return fmt.Errorf("found %d names, want at most %d", names, maxClusters)
		}
		for name := range strings.SplitSeq(value, ",") {
			name = strings.TrimSpace(name)
			if name == "" || len(validation.IsValidLabelValue(name)) > 0 && len(validation.IsDNS1123Subdomain(name)) > 0 {
				return fmt.Errorf("found %s in %s, want names of clusters separated by commas, such as \"ib-a,ib-b\"", brief.Value(name), brief.Value(value))
			}
			w.clusters = append(w.clusters, name)
		}
	case AffinityGroupAnnotation:
		if problems := validation.IsValidLabelValue(value); value == "" || len(problems) > 0 {
			return fmt.Errorf("found %s, want a name of letters, digits, '-', '_' and '.', at most 63 of them", brief.Value(value))
		}
		w.group = value
	default:
		return fmt.Errorf("unknown annotation, want %s, %s, %s or %s", ModeAnnotation, LevelAnnotation, ClustersAnnotation, AffinityGroupAnnotation)
	}
	return nil
}

func levelNames(forest *topology.Forest) string {
	var names []string
	for _, level := range forest.Levels() {
		if level.Short != "" {
			names = append(names, level.Short)
		} else {
			names = append(names, level.Name)
		}
	}
	return oneOf(names)
}
