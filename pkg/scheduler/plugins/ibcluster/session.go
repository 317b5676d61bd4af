// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// session is the plugin's state in one session.
type session struct {
	framework.DefaultSigner
	plugin *plugin
	ssn    *framework.Session
	forest *topology.Forest
	// unread is why the forest could not be read; empty if it was.
	unread string
	// requests are the requests of the jobs with pending tasks. malformed are the errors in the annotations of other
	// jobs. Both are complete when the session is open.
	requests  map[api.JobID]*request
	malformed map[api.JobID]string
	// affinityGroups are the members of each affinity group, by name. groupOf is the affinity group of each job. Both
	// cover the namespaces of jobs that are to be placed in an affinity group.
	affinityGroups map[string][]*api.JobInfo
	groupOf        map[api.JobID]string
	// groupsRead reports whether the plugin's empty groups were brought up to date in this session.
	groupsRead bool
	// votes reports whether the configuration enables the plugin's vote on admission.
	votes bool
	// neverFits are the admitted gangs that no group could hold, with the limiting resource.
	neverFits map[api.JobID]string

	// mu guards the fields below, because upstream's actions call predicates from several goroutines.
	mu sync.RWMutex
	// scopes are dropped when a member of the job, or of its affinity group, is placed or removed.
	scopes map[api.JobID]*gangScope
	// targets are the groups that evicting actions are restricted to; nil for a gang that evictions help in no group.
	targets map[target]*topology.Group
}

// target identifies a gang and the action that a group was chosen for.
type target struct {
	job    api.JobID
	action string
}

// open returns the plugin's state in the session, and creates it at the first call.
func (p *plugin) open(ssn *framework.Session) *session {
	if p.session != nil && p.session.ssn == ssn {
		return p.session
	}
	s := &session{
		plugin: p, ssn: ssn,
		requests: map[api.JobID]*request{}, malformed: map[api.JobID]string{},
		affinityGroups: map[string][]*api.JobInfo{}, groupOf: map[api.JobID]string{}, neverFits: map[api.JobID]string{},
		scopes: map[api.JobID]*gangScope{}, targets: map[target]*topology.Group{},
	}
	option, _ := ssn.PluginOption(Name) // read before PredicateFirst moves the extension point
	s.votes = option.EnabledJobEnqueued != nil && *option.EnabledJobEnqueued
	s.forest, s.unread = p.readForest(ssn)
	company := map[string]bool{}
	for _, job := range ssn.Jobs {
		s.readJob(job)
		if w := s.requests[job.UID]; w != nil && w.group != "" {
			company[job.Namespace] = true
		}
	}
	for _, job := range ssn.Jobs {
		if company[job.Namespace] {
			s.readCompany(job)
		}
	}
	p.session = s
	return s
}

func (p *plugin) readForest(ssn *framework.Session) (forest *topology.Forest, unread string) {
	if p.labels != nil {
		nodes := make([]*v1.Node, len(ssn.NodeList))
		for i, node := range ssn.NodeList {
			nodes[i] = node.Node
		}
		return p.labels.Forest(nodes), ""
	}
	if !ssn.HyperNodesReadyToSchedule {
		return &topology.Forest{}, "the HyperNodes do not form a tree; see the events of HyperNodes and the scheduler's log"
	}
	return p.hyperNodes.Forest(hyperNodesOf(ssn.HyperNodes, ssn.RealNodesSet)), ""
}

func hyperNodesOf(infos api.HyperNodeInfoMap, nodes map[string]sets.Set[string]) []topology.HyperNode {
	var hyperNodes []topology.HyperNode
	for name, info := range infos {
		if name == vcframework.ClusterTopHyperNode {
			continue
		}
		hyperNodes = append(hyperNodes, topology.HyperNode{
			Name: name, Tier: info.Tier(), TierName: info.HyperNode.Spec.TierName, Parent: info.Parent, Nodes: nodes[name],
		})
	}
	return hyperNodes
}

// readJob parses the job's request, if it may matter in this session.
func (s *session) readJob(job *api.JobInfo) {
	if len(job.TaskStatusIndex[api.Pending]) == 0 {
		return
	}
	said, err := sayingOf(job)
	var w request
	if err == nil {
		w, err = s.plugin.requestOf(job, said, s.forest)
	}
	switch {
	case err != nil:
		text := brief.Text(err.Error())
		s.malformed[job.UID] = text
		job.JobFitErrors = text // the gang plugin copies it into the PodGroup's condition
		s.ssn.RecordPodGroupEvent(job.PodGroup, v1.EventTypeWarning, malformedReason, text)
		return
	case w.mode != modeNone:
		s.requests[job.UID] = &w
	}
	if untaken := said.untaken(job); untaken != "" {
		s.ssn.RecordPodGroupEvent(job.PodGroup, v1.EventTypeWarning, ignoredReason, brief.Text(untaken))
	}
}

// readCompany records the job's affinity group. The group matters to other jobs even if the job's other annotations are invalid.
func (s *session) readCompany(job *api.JobInfo) {
	name := groupNameOf(job)
	if w := s.requests[job.UID]; w != nil {
		name = w.group
	}
	if name == "" {
		return
	}
	group := job.Namespace + "/" + name
	s.groupOf[job.UID] = group
	s.affinityGroups[group] = append(s.affinityGroups[group], job)
}

// valid refuses gangs with malformed annotations, in every action.
func (s *session) valid(obj any) *api.ValidateResult {
	job, ok := obj.(*api.JobInfo)
	if !ok {
		return nil
	}
	if message, malformed := s.malformed[job.UID]; malformed {
		return &api.ValidateResult{Reason: malformedReason, Message: message}
	}
	return nil
}

// SignTask implements framework.Signer.
func (s *session) SignTask(*api.TaskInfo) framework.CacheScope { return framework.PerJob }

// PodKeys implements framework.Signer.
func (s *session) PodKeys() framework.PodKeys { return framework.SomePodKeys() }

// SignJob implements framework.Signer. All jobs without a restriction share their verdicts. For others the key is the scope's,
// which changes when a member is placed.
func (s *session) SignJob(job *api.JobInfo) string {
	if w := s.requests[job.UID]; w == nil || !w.binds() {
		return ""
	}
	return s.scopeOf(job).key
}

func (s *session) eventHandler() *vcframework.EventHandler {
	return &vcframework.EventHandler{
		AllocateFunc:   func(event *vcframework.Event) { s.changed(event.Task, +1) },
		DeallocateFunc: func(event *vcframework.Event) { s.changed(event.Task, -1) },
	}
}

// changed drops the scopes that change when the task is placed (by is 1) or removed (by is -1). If the gang's placed members do
// not restrict its scope, or the task is in the gang's current group, only the count of members changes.
func (s *session) changed(task *api.TaskInfo, by int) {
	related := s.groupOf[task.Job]
	if s.requests[task.Job] == nil && related == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	group := s.forest.Narrowest(task.NodeName)
	if p := s.scopes[task.Job]; p != nil && by > 0 {
		free := p.mode == modePreferred && task.Pod.Status.NominatedNodeName == ""
		if free || p.currentGroup != nil && group.At(p.level) == p.currentGroup {
			p.count(group)
			return
		}
	}
	delete(s.scopes, task.Job)
	for _, job := range s.affinityGroups[related] {
		delete(s.scopes, job.UID)
	}
}
