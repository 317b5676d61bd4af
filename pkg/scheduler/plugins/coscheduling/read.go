// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"k8s.io/apimachinery/pkg/types"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
)

// reading holds the parsed settings of one version of a PodGroup. The plugin caches it, because a PodGroup may list
// many gangs, and parsing the list in each session would take too long.
type reading struct {
	uid     types.UID
	version string
	// id identifies the gang group.
	id       string
	settings gangs.Settings
	invalid  []gangs.InvalidSetting
}

// hasSettings reports whether the gang's PodGroup has one of the annotations that this plugin reads.
func hasSettings(job *api.JobInfo) bool {
	return job.PodGroup != nil && gangs.Said(job.PodGroup.Annotations)
}

// read returns the gang's settings. It parses the annotations again only if the PodGroup has changed.
func (p *plugin) read(job *api.JobInfo) reading {
	pg := job.PodGroup
	if known, ok := p.known[job.UID]; ok && known.uid == pg.UID && known.version == pg.ResourceVersion && pg.ResourceVersion != "" {
		return known
	}
	read := reading{uid: pg.UID, version: pg.ResourceVersion}
	read.settings, read.invalid = gangs.Read(nameOf(job), pg.Spec.MinMember, pg.Annotations, p.defaults)
	read.id = read.settings.GroupID(nameOf(job))
	return read
}

func nameOf(job *api.JobInfo) gangs.Name { return gangs.Name{Namespace: job.Namespace, Name: job.Name} }
