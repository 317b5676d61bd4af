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

// The annotations of a PodGroup, or of pods, that the plugin reads. Any other annotation with annotationPrefix is an
// error, because it may be misspelt.
const (
	annotationPrefix = "ibcluster.volcano-prebind.io/"
	// ModeAnnotation says whether the gang must be placed in one node group (required), should be (preferred), or
	// need not be (none).
	ModeAnnotation = annotationPrefix + "mode"
	// LevelAnnotation is the level of the node group for ModeAnnotation. The default is the widest level.
	LevelAnnotation = annotationPrefix + "level"
	// ClustersAnnotation lists the node groups of the widest level in which the gang may be placed, separated by
	// commas.
	ClustersAnnotation = annotationPrefix + "clusters"
	// AffinityGroupAnnotation is the name of an affinity group. PodGroups of a namespace with the same name share one
	// node group of the widest level.
	AffinityGroupAnnotation = annotationPrefix + "affinity-group"
)

// request is a gang's parsed annotations.
type request struct {
	mode  string
	level int
	// clusters are the clusters in which the gang may be placed. If the list is empty, all clusters are allowed.
	clusters []string
	// group is the name of the gang's affinity group; empty if the gang has none.
	group string
}

// binds reports whether the request forbids some nodes to the gang.
func (w *request) binds() bool { return w.mode == modeRequired || len(w.clusters) > 0 }

// maxInvalid limits how many errors of one gang are reported, and maxKey the length of a quoted annotation key.
// maxClusters limits how many clusters a gang may list, because each node group is looked up in the list.
const (
	maxInvalid  = 3
	maxKey      = 120
	maxClusters = 1000
)

// requestOf parses the plugin's annotations that apply to the job. They are in the parameter said. An error names the
// malformed annotation and valid values. A job without annotations gets the default mode.
func (s *settings) requestOf(job *api.JobInfo, said saying, forest *topology.Forest) (request, error) {
	w := request{mode: s.defaultModeOf(job)}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(said.annotations)) {
		if err := w.read(key, said.annotations[key], forest); err != nil {
			errs = append(errs, fmt.Errorf("annotation %s%s: %w", brief.Cut(key, maxKey), said.on(), err))
		}
	}
	if more := len(errs) - maxInvalid; more > 0 {
		errs = append(errs[:maxInvalid], fmt.Errorf("and %s", brief.Count(more, "more invalid annotation")))
	}
	if len(errs) > 0 {
		return request{}, errors.Join(errs...)
	}
	_, explicit := said.annotations[ModeAnnotation]
	switch {
	case explicit && w.mode != modeRequired && w.group != "":
		return request{}, fmt.Errorf("annotation %s%s: invalid value %q with %s, must be %q because the PodGroups of an affinity group must share one cluster",
			ModeAnnotation, said.on(), w.mode, AffinityGroupAnnotation, modeRequired)
	case explicit && w.mode == modeNone && len(said.annotations) > 1:
		return request{}, fmt.Errorf("annotation %s%s: invalid value %q with other annotations of ibcluster, must be %q or %q",
			ModeAnnotation, said.on(), modeNone, modeRequired, modePreferred)
	case w.group != "", !explicit && w.mode == modeNone && len(said.annotations) > 0:
		w.mode = modeRequired // an affinity group requires one cluster; so do other annotations if the default mode is none
	}
	return w, nil
}

// defaultModeOf returns the mode of a job whose annotations set no mode. For a job without pods, such as a Volcano
// Job before its admission, it looks at minResources instead of the requests of pods. Volcano sets minResources to
// the sum of the requests of the Job's minimum.
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
			return fmt.Errorf("invalid value %s, must be %s", brief.Value(value), oneOf(modes))
		}
		w.mode = value
	case LevelAnnotation:
		level, ok := forest.Level(value)
		if !ok && len(forest.Levels()) > 0 { // without HyperNodes, levels are unknown and cannot be checked
			return fmt.Errorf("invalid value %s, must be the name of a level: %s", brief.Value(value), levelNames(forest))
		}
		w.level = max(level, 0)
	case ClustersAnnotation:
		if names := 1 + strings.Count(value, ","); names > maxClusters {
			return fmt.Errorf("has %d names, must have at most %d", names, maxClusters)
		}
		for name := range strings.SplitSeq(value, ",") {
			name = strings.TrimSpace(name)
			if name == "" || len(validation.IsValidLabelValue(name)) > 0 && len(validation.IsDNS1123Subdomain(name)) > 0 {
				return fmt.Errorf("invalid name %s in value %s, must be names of clusters separated by commas, such as \"ib-a,ib-b\"", brief.Value(name), brief.Value(value))
			}
			w.clusters = append(w.clusters, name)
		}
	case AffinityGroupAnnotation:
		if problems := validation.IsValidLabelValue(value); value == "" || len(problems) > 0 {
			return fmt.Errorf("invalid value %s, must be at most 63 letters, digits, '-', '_' and '.'", brief.Value(value))
		}
		w.group = value
	default:
		return fmt.Errorf("unknown annotation, must be %s, %s, %s or %s", ModeAnnotation, LevelAnnotation, ClustersAnnotation, AffinityGroupAnnotation)
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
