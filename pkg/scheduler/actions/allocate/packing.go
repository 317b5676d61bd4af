// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/packing"
)

// maxPackingSteps bounds a search for a plan: looks at a kind of tasks on a node.
const maxPackingSteps = 200_000

// tryPacked looks for a plan for so many of the first tasks and places them by it, when every plugin still agrees.
func (a *allocation) tryPacked(job *api.JobInfo, subJob *api.SubJobInfo, tasks []*api.TaskInfo, first, wanted int, st site, now bool) band {
	dm := a.demandOf(job, tasks[:first], wanted)
	if dm == nil || dm.shaped(a) != nil {
		return band{}
	}
	fields := make([]*field, len(dm.kinds))
	for k, kind := range dm.kinds {
		fields[k] = a.fieldOf(kind.shape, st.domain, dm.tasks[k][0])
	}
	problem, nodes := dm.on(a, st.domain, now, func(k, place int) bool {
		return fields[k].at[place] >= 0 && (!now || fields[k].rank[place].class.now()) && fields[k].packs(st.domain.nodes[place])
	})
	plan, answer, _ := problem.Solve(maxPackingSteps)
	if answer != packing.Fits {
		return band{}
	}
	p := a.newPass(job, subJob, st, now)
	p.lacking = wanted
	if !p.putBy(plan, dm, nodes) {
		p.discard()
		return band{}
	}
	return p.end(p.untouched(tasks, first))
}

// putBy places the tasks by the plan, until there are enough. It stops at a node that a plugin refuses after all.
func (p *pass) putBy(plan packing.Plan, dm *demand, nodes []int32) bool {
	next := make([]int, len(dm.kinds))
	for n, taken := range plan {
		for k, count := range taken {
			for _, task := range dm.tasks[k][next[k] : next[k]+count] {
				if p.ready() {
					return true
				}
				if !p.wanted(task) || p.a.prePredicate(task) != nil || !p.putOn(task, dm.kinds[k].shape, nodes[n]) {
					return false
				}
			}
			next[k] += count
		}
	}
	return true
}

// lackingRoles is how many tasks of each role the job's minimum lacks. The roles' minima do not
// count when they are more than the job's, which they only are where they are no minima.
func lackingRoles(job *api.JobInfo) map[string]int32 {
	if job.MinAvailable < job.TaskMinAvailableTotal {
		return nil
	}
	lacking := maps.Clone(job.TaskMinAvailable)
	for status, tasks := range job.TaskStatusIndex {
		for _, task := range tasks {
			if api.AllocatedStatus(status) || status == api.Succeeded || status == api.Pending && task.InitResreq.IsEmpty() {
				lacking[task.TaskRole]--
			}
		}
	}
	return lacking
}

// putOn places the task on the node when all verdicts still allow it.
func (p *pass) putOn(task *api.TaskInfo, s *shape, node int32) bool {
	f := p.a.fieldOf(s, p.site.domain, task)
	place, ok := f.local[node]
	if !ok || f.at[place] < 0 || p.now && !f.rank[place].class.now() {
		return false
	}
	if p.a.liveVerdict(task, s, node) != nil {
		return false
	}
	c := choice{node, f.rank[place].class}
	if p.verify(task, s, c) != nil || p.put(task, c) != nil {
		return false
	}
	p.follow(task)
	return true
}

func resourceNames(tasks []*api.TaskInfo) []v1.ResourceName {
	var names []v1.ResourceName
	for _, task := range tasks {
		for name := range task.InitResreq.ScalarResources {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// hostPorts names the host ports the pod asks for, whatever the address.
func hostPorts(pod *v1.Pod) []string {
	var ports []string
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.HostPort != 0 {
				ports = append(ports, fmt.Sprint(cmp.Or(port.Protocol, v1.ProtocolTCP), port.HostPort))
			}
		}
	}
	return ports
}

// vector lists the amounts of cpu, memory and the named resources.
func vector(r *api.Resource, names []v1.ResourceName) []float64 {
	out := []float64{r.MilliCPU, r.Memory}
	for _, name := range names {
		out = append(out, r.ScalarResources[name])
	}
	return out
}
