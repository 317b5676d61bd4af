// SPDX-License-Identifier: Apache-2.0

package allocate

import (
	"encoding/binary"
	"fmt"
	"slices"

	"volcano.sh/volcano/pkg/scheduler/api"
)

// misfitKey names what decides whether a gang of unlike tasks fits into a domain; empty when that is more than can be named.
// Equal gangs need not all be tried in every way while nothing else is placed.
type misfitKey string

// knownMisfit returns the key of the tasks on the site: their kinds in task order, how many of them are needed, of which
// roles, and in which queue. Gangs that have members, a topology, nominated nodes, or verdicts of their own have none, nor has any
// where a plugin looks at more of a task than its kind.
func (a *allocation) knownMisfit(job *api.JobInfo, subJob *api.SubJobInfo, tasks []*api.TaskInfo, lacking int, st site, now bool) misfitKey {
	if a.layering.unbounded || len(a.members.nodes) > 0 || job.ContainsSubJobPolicy() || subJob.WithNetworkTopology() || a.alike(tasks) == len(tasks) {
		return "" // the first is known at once; the last takes a look at all tasks
	}
	key := fmt.Appendf(nil, "%p %t %d %s %v %s", st.domain, now, lacking, job.Queue, job.TaskMinAvailable, a.inside)
	for rest := tasks; len(rest) > 0; {
		k, n := a.kindOf(rest[0]), a.alike(rest)
		ownVerdicts := slices.ContainsFunc(k.layers.jobPlugins, func(plugin string) bool { return plugin != a.inside })
		if ownVerdicts || slices.ContainsFunc(rest[:n], func(task *api.TaskInfo) bool { return task.Pod.Status.NominatedNodeName != "" }) {
			return ""
		}
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(k.number)), uint64(n))
		rest = rest[n:]
	}
	return misfitKey(key)
}

// holds says whether an equal gang has fit nowhere and nothing was placed since.
func (k misfitKey) holds(a *allocation) bool { return k != "" && a.misfits[k] == a.settled+1 }

// note notes that the gang fits nowhere.
func (k misfitKey) note(a *allocation) {
	if k != "" {
		a.misfits[k] = a.settled + 1
	}
}
