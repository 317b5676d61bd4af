// SPDX-License-Identifier: Apache-2.0

package quarantine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
)

// mostUnknown bounds how many unknown kinds of resources the gangs of a session may name in total. A kind is unknown if
// no node and no queue has it. For each gang, upstream's queue plugins print the sum of all requests in its queue, kind
// by kind. A few hundred gangs, each with some kinds of its own, delayed all other gangs for ten seconds. Legitimate
// unknown kinds are few: resources of nodes that an autoscaler has yet to add.
const mostUnknown = 100

// beyondKinds returns a message for each gang that names an unknown kind beyond mostUnknown. So that no namespace can
// use up this limit, kinds are counted in rounds: in each round, the oldest remaining gang of each namespace. Within a
// round, gangs that name fewer unknown kinds come first. Gangs that the parameter verdicts lists as too large are
// ignored.
func beyondKinds(snapshot *api.ClusterInfo, verdicts map[api.JobID]Verdict) map[api.JobID]string {
	if fewKinds(snapshot, verdicts) {
		return nil
	}
	known := knownResources(snapshot)
	counted, beyond := resourceNames{}, map[api.JobID]string{}
	for _, asks := range inTurns(snapshot, known, verdicts) {
		own := asks.unknown
		maps.DeleteFunc(own, func(name v1.ResourceName, _ bool) bool { return counted[name] })
		if len(counted)+len(own) > mostUnknown {
			first := slices.Min(slices.Collect(maps.Keys(own)))
			beyond[asks.job.UID] = fmt.Sprintf("requests resource %s, which no node or queue provides; the limit of %d unknown resource names per cluster is reached",
				brief.Value(string(first)), mostUnknown)
			continue
		}
		maps.Copy(counted, own)
	}
	return beyond
}

// asking is a job and the unknown kinds of resources that it names. turn is the number of older jobs of its namespace
// that also name unknown kinds.
type asking struct {
	job     *api.JobInfo
	unknown resourceNames
	turn    int
}

// inTurns returns the jobs that name unknown kinds of resources, in the order in which beyondKinds counts these kinds.
func inTurns(snapshot *api.ClusterInfo, known resourceNames, verdicts map[api.JobID]Verdict) []asking {
	var all []asking
	turns := map[string]int{}
	for _, job := range slices.SortedFunc(maps.Values(snapshot.Jobs), olderJob) {
		if verdicts[job.UID].Reason == ObjectTooLarge {
			continue
		}
		unknown := resourceNames{}
		unknown.addJob(job)
		maps.DeleteFunc(unknown, func(name v1.ResourceName, _ bool) bool { return known[name] })
		if len(unknown) > 0 {
			all = append(all, asking{job, unknown, turns[job.Namespace]})
			turns[job.Namespace]++
		}
	}
	slices.SortStableFunc(all, func(a, b asking) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(len(a.unknown), len(b.unknown)))
	})
	return all
}

// fewKinds reports whether the gangs name at most mostUnknown kinds of resources, including known kinds. This is so in
// nearly all sessions, and then no gang exceeds the limit.
func fewKinds(snapshot *api.ClusterInfo, verdicts map[api.JobID]Verdict) bool {
	all := resourceNames{}
	for id, job := range snapshot.Jobs {
		if verdicts[id].Reason == ObjectTooLarge {
			continue
		}
		if all.addJob(job); len(all) > mostUnknown {
			return false
		}
	}
	return true
}

func olderJob(a, b *api.JobInfo) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
}

// resourceNames is a set of kinds of resources.
type resourceNames map[v1.ResourceName]bool

// addJob adds the kinds that the job's PodGroup and its pods request.
func (k resourceNames) addJob(job *api.JobInfo) {
	for name := range job.TotalRequest.ScalarResources {
		k[name] = true
	}
	if needed := job.PodGroup.Spec.MinResources; needed != nil {
		k.addList(*needed)
	}
}

func (k resourceNames) addList(list v1.ResourceList) {
	for name := range list {
		k[name] = true
	}
}

// knownResources returns the kinds of resources that a node or a queue has.
func knownResources(snapshot *api.ClusterInfo) resourceNames {
	known := resourceNames{v1.ResourceCPU: true, v1.ResourceMemory: true, v1.ResourcePods: true}
	for _, node := range snapshot.Nodes {
		for _, has := range []*api.Resource{node.Capacity, node.Allocatable} {
			for name := range has.ScalarResources {
				known[name] = true
			}
		}
	}
	for _, queue := range snapshot.Queues {
		spec := &queue.Queue.Spec
		known.addList(spec.Capability)
		known.addList(spec.Deserved)
		known.addList(spec.Guarantee.Resource)
	}
	return known
}

// withKnownKinds removes the kinds of resources that are not in known from the requests of the job's tasks. It also
// recomputes the job's sums of these requests, over all tasks and over placed tasks.
func withKnownKinds(job *api.JobInfo, known resourceNames) {
	job.Allocated, job.TotalRequest = api.EmptyResource(), api.EmptyResource()
	for _, task := range job.Tasks {
		task.Resreq = task.Resreq.Clone()
		maps.DeleteFunc(task.Resreq.ScalarResources, func(name v1.ResourceName, _ float64) bool { return !known[name] })
		job.TotalRequest.Add(task.Resreq)
		if api.AllocatedStatus(task.Status) {
			job.Allocated.Add(task.Resreq)
		}
	}
}
