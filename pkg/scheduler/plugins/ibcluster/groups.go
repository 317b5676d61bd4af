// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/ranks"
)

// Placement implements framework.PlacementGenerator.
func (s *session) Placement(job *api.JobInfo) (framework.Placement, error) {
	groups, err := s.nodeGroups(job)
	return framework.Placement{NodeGroups: groups}, err
}

// nodeGroups returns the node groups that must or should hold the job's tasks; nil if the job may use any nodes
// equally.
func (s *session) nodeGroups(job *api.JobInfo) (*framework.NodeGroups, error) {
	if s.requests[job.UID] == nil {
		return nil, nil
	}
	if message, never := s.infeasible[job.UID]; never {
		return nil, errors.New(message)
	}
	p := s.scopeOf(job)
	if len(s.forest.At(p.level)) == 0 {
		if p.binds() {
			return nil, s.noGroups(p.level)
		}
		return nil, nil
	}
	if p.splitDescription != "" && p.mode == modeRequired {
		s.ssn.RecordPodGroupEvent(job.PodGroup, v1.EventTypeWarning, splitReason,
			fmt.Sprintf("gang is split across %s; new pods go to %s", p.splitDescription, p.currentGroup.Path()))
	}
	groups := &framework.NodeGroups{
		Required:   p.mode == modeRequired,
		Candidates: p.candidates,
		Refused:    map[string]string{},
		Compare:    ranks.New().Compare,
	}
	for _, refusal := range p.refused {
		for _, g := range refusal.groups {
			groups.Refused[g.Path()] = refusal.reason
		}
	}
	for _, name := range p.clusters {
		if s.forest.Find(name) == nil {
			groups.Refused[name] = "listed in annotation " + ClustersAnnotation + ", but has no nodes"
		}
	}
	return groups, nil
}

// noGroups returns an error that says why the level has no node group.
func (s *session) noGroups(level int) error {
	switch {
	case s.unread != "":
		return errors.New(s.unread)
	case len(s.forest.Levels()) == 0:
		return errors.New("required node group not found: the cluster has no HyperNodes")
	case s.settings.source == fromHyperNodes:
		return fmt.Errorf("required node group not found: no HyperNode of tier %s has nodes", s.forest.Levels()[level].Name)
	}
	return fmt.Errorf("required node group not found: no node has the labels %s", strings.Join(s.settings.levels[:level+1], ", "))
}
