// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"fmt"
	"slices"
	"strings"

	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// mostNamed limits how many gangs or nodes a message names.
const mostNamed = 5

// formGangGroups makes a gang group of one gang for each gang that names no other gangs or is satisfied. It makes a
// common gang group for gangs that name each other, if all of them exist and have enough pods. For each other gang it
// records why the gang must wait.
func (s *session) formGangGroups() {
	for _, g := range s.gangs {
		switch {
		case g.gangGroup != nil || g.waits != nil: // already handled with another gang of its gang group
		case g.InvalidGroup != nil:
			g.waits = &api.ValidateResult{Reason: gangs.InvalidGroup, Message: brief.Text(g.InvalidGroup.Error())}
		case len(g.Group) == 0 || g.satisfied: // a satisfied gang does not wait for the other gangs of its gang group
			g.gangGroup = &binding.GangGroup{ID: g.id, Gangs: []binding.GangTerms{g.terms()}}
		default:
			s.formGroup(g)
		}
	}
}

// formGroup makes a gang group from the gangs that g.Group names, and sets it in each of these gangs. If a gang is
// missing or lacks pods, formGroup records in each of them why it waits.
func (s *session) formGroup(g *gang) {
	var missing, apart, few, unknown brief.List
	for _, list := range []*brief.List{&missing, &apart, &few, &unknown} {
		list.First = mostNamed
	}
	across := slices.ContainsFunc(g.Group, func(name gangs.Name) bool { return name.Namespace != g.Namespace })
	gangGroup := &binding.GangGroup{ID: g.id}
	var members []*gang
	for _, name := range g.Group {
		uid := api.JobID(name.String())
		other := s.gangs[uid]
		agrees := other != nil && other.InvalidGroup == nil && other.id == g.id
		switch {
		case !agrees && across: // the message must not reveal to a tenant whether gangs of other namespaces exist
			unknown.Add(name.String())
		case s.ssn.Jobs[uid] == nil || s.ssn.Jobs[uid].PodGroup == nil || s.ssn.Jobs[uid].PodGroup.UID == "": // pods of a deleted PodGroup have a job with a made-up one
			missing.Add(name.String())
		case !agrees:
			apart.Add(name.String())
		case other.satisfied:
		case !complete(other.JobInfo):
			few.Add(fmt.Sprintf("%s has %d of %d pods%s", name, other.ValidTaskNum(), other.MinAvailable, other.unlike()))
		case other.count() == binding.CountNone && other.waiting() < other.minimum:
			few.Add(fmt.Sprintf("%s has %d of %d pending pods required (match policy only-waiting ignores pods on nodes)", name, other.waiting(), other.minimum))
		case other.ReadyTaskNum()+other.waiting() < other.MinAvailable:
			few.Add(fmt.Sprintf("%s has %d of %d required pods without scheduling gates", name, other.ReadyTaskNum()+other.waiting(), other.MinAvailable))
		default:
			members, gangGroup.Gangs = append(members, other), append(gangGroup.Gangs, other.terms())
		}
	}
	group := "gang group " + brief.Cut(gangGroup.ID, brief.MostOfPart) + ": "
	waits := &api.ValidateResult{Reason: gangs.WaitingForGroup}
	switch {
	case len(apart.Items()) > 0:
		waits.Reason = gangs.InvalidGroup
		waits.Message = group + "annotation " + gangs.GroupsAnnotation + " differs on " + listed(apart) + "; all gangs of a group must list the same gangs"
	case len(missing.Items()) > 0:
		waits.Message = group + "gangs that do not exist or belong to another scheduler: " + listed(missing)
	case len(unknown.Items()) > 0:
		waits.Message = group + "gangs that do not exist, belong to another scheduler, or do not list the same gangs: " + listed(unknown)
	case len(few.Items()) > 0:
		waits.Message = group + "incomplete gangs: " + listed(few)
	default:
		for _, member := range members {
			member.gangGroup = gangGroup
		}
		return
	}
	for _, name := range g.Group { // all gangs of the gang group wait for the same reason
		if other := s.gangs[api.JobID(name.String())]; other != nil && other.InvalidGroup == nil && other.id == g.id && !other.satisfied {
			other.waits = waits
		}
	}
}

// complete reports whether the gang has enough pods for its minimum and for the minima of its roles and sub-groups.
func complete(job *api.JobInfo) bool {
	return job.CheckTaskValid() && job.CheckSubJobValid() && job.ValidTaskNum() >= job.MinAvailable
}

// unlike returns the end of a message about a gang that has enough pods in total, but too few of a role or sub-group.
// The result is empty for a gang with too few pods in total.
func (g *gang) unlike() string {
	if g.ValidTaskNum() < g.MinAvailable {
		return ""
	}
	return ", but too few of a role or sub-group"
}

// terms returns the conditions that the gang must meet at the barrier before it is bound.
func (g *gang) terms() binding.GangTerms {
	return binding.GangTerms{Gang: g.UID, Strict: g.Mode == gangs.Strict, Count: g.count()}
}

// GangGroup implements framework.GangGrouper.
func (s *session) GangGroup(job *api.JobInfo) *binding.GangGroup {
	if g := s.gangs[job.UID]; g != nil {
		return g.gangGroup
	}
	return nil
}

// valid is the plugin's JobValid function. It refuses a gang that must wait for other gangs of its gang group, or for
// the end of the backoff after its waiting time.
func (s *session) valid(obj any) *api.ValidateResult {
	job, ok := obj.(*api.JobInfo)
	if !ok {
		return nil
	}
	if g := s.gangs[job.UID]; g != nil {
		return g.waits
	}
	return nil
}

func listed(list brief.List) string { return strings.Join(list.Items(), ", ") + list.More() }
