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
	settings *settings
	memory   *memory
	present  *presentGroups
	ssn      *framework.Session
	forest   *topology.Forest
	// unread is the reason why the node groups could not be read; empty if they could be read.
	unread string
	// requests has the parsed annotations of jobs with pending tasks, except jobs with mode none. malformed has the
	// errors in the annotations of jobs whose annotations cannot be parsed. Neither changes after the method open
	// has created the session.
	requests  map[api.JobID]*request
	malformed map[api.JobID]string
	// affinityGroups has the jobs of each affinity group, by "namespace/name". groupOf has the affinity group of each
	// job. Both cover only namespaces with a pending job in an affinity group.
	affinityGroups map[string][]*api.JobInfo
	groupOf        map[api.JobID]string
	// groupsRead reports whether memory.empty, the node groups as if no pods ran, was brought up to date in this
	// session.
	groupsRead bool
	// infeasible has the admitted gangs that no node group could hold even if it were empty, with a message that says
	// why.
	infeasible map[api.JobID]string

	// mu guards the fields below, because upstream's actions call predicates from several goroutines.
	mu sync.RWMutex
	// scopes caches, for each job, the node groups in which its pending members may be placed. An entry is removed when
	// a task is placed or removed that may change these node groups.
	scopes map[api.JobID]*gangScope
}

// open returns the plugin's state for the session. The first call in a session creates the state.
func (p *plugin) open(ssn *framework.Session) *session {
	if p.session != nil && p.session.ssn == ssn {
		return p.session
	}
	s := &session{
		settings: &p.settings, memory: p.memory, present: p.present, ssn: ssn,
		requests: map[api.JobID]*request{}, malformed: map[api.JobID]string{},
		affinityGroups: map[string][]*api.JobInfo{}, groupOf: map[api.JobID]string{}, infeasible: map[api.JobID]string{},
		scopes: map[api.JobID]*gangScope{},
	}
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
			s.readAffinityGroup(job)
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

// readJob parses the job's annotations if the job has pending tasks.
func (s *session) readJob(job *api.JobInfo) {
	if len(job.TaskStatusIndex[api.Pending]) == 0 {
		return
	}
	said, err := sayingOf(job)
	var w request
	if err == nil {
		w, err = s.settings.requestOf(job, said, s.forest)
	}
	switch {
	case err != nil:
		text := brief.Text(err.Error())
		s.malformed[job.UID] = text
		job.JobFitErrors = text // the gang plugin copies this text into the PodGroup's condition
		s.ssn.RecordPodGroupEvent(job.PodGroup, v1.EventTypeWarning, malformedReason, text)
		return
	case w.mode != modeNone:
		s.requests[job.UID] = &w
	}
	if untaken := said.untaken(job); untaken != "" {
		s.ssn.RecordPodGroupEvent(job.PodGroup, v1.EventTypeWarning, ignoredReason, brief.Text(untaken))
	}
}

// readAffinityGroup records to which affinity group the job belongs. It does so even if other annotations of the job are
// invalid, because the job's placed members restrict other jobs of the affinity group.
func (s *session) readAffinityGroup(job *api.JobInfo) {
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

// valid is the plugin's JobValid function, which all actions call. It refuses gangs with malformed annotations.
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

// Unresolvable implements framework.Signer: evictions move no gang to another node group.
func (s *session) Unresolvable() bool { return true }

// SignJob implements framework.Signer. All jobs that may use all nodes share their filter results. Any other job has
// the key of its gangScope, which changes when a placed member changes the allowed node groups.
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

// changed updates the cached gangScopes after the task was placed (the parameter by is 1) or removed (-1). If the task
// was placed in the gang's current node group, or does not restrict the gang, it is only counted in the gang's
// gangScope. Otherwise changed removes the gangScopes of the gang and of the jobs in its affinity group from the cache.
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
