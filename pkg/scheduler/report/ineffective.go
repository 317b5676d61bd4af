// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/gangs/conditions"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// IneffectiveFields is the type and the reason of the condition of a PodGroup that has fields without effect in this
// cluster. The gang is scheduled as if the fields were not set. The condition says which fields have no effect and why.
const IneffectiveFields scheduling.PodGroupConditionType = "IneffectiveFields"

// reportIneffective sets the condition IneffectiveFields of the job's PodGroup. It removes the condition if all fields
// have an effect.
func (r *Reporter) reportIneffective(job *api.JobInfo, hyperNodes HyperNodes) {
	message := strings.Join(r.ineffective(job, hyperNodes), "; ")
	if message == "" {
		conditions.Drop(&job.PodGroup.Status, IneffectiveFields)
		return
	}
	conditions.Set(&job.PodGroup.Status, "", IneffectiveFields, string(IneffectiveFields), brief.Text(message))
}

// ineffective returns a sentence for each field of the PodGroup that has no effect. It does not report minTaskMember if
// a Volcano Job owns the PodGroup. The Job's controller sets that field from the replicas of the tasks, so a sum above
// minMember is valid.
func (r *Reporter) ineffective(job *api.JobInfo, hyperNodes HyperNodes) (fields []string) {
	spec := &job.PodGroup.Spec
	if len(spec.MinTaskMember) > 0 && binding.RoleMinima(spec) == nil && !binding.OfVolcanoJob(job.PodGroup) {
		var sum int64
		for _, n := range spec.MinTaskMember {
			sum += int64(n)
		}
		fields = append(fields, fmt.Sprintf("minTaskMember has no effect, because its sum %d exceeds minMember %d; set minMember to %d to require the minimum of every role",
			sum, spec.MinMember, sum))
	}
	if name := spec.PriorityClassName; name != "" {
		if otherwise, missing := r.defaultIfMissing(name); missing {
			fields = append(fields, fmt.Sprintf("PriorityClass %s does not exist: the gang has priority %d", brief.Value(name), otherwise))
		}
	}
	return append(fields, ineffectiveTopologies(spec, hyperNodes)...)
}

// ineffectiveTopologies returns a sentence for each hard network topology of the gang and of its sub-groups that has no
// effect. If the cluster has no HyperNodes, one sentence covers all topologies that set a tier.
//
// The session may have replaced the name of a tier by its number. It does so only for tiers that exist.
func ineffectiveTopologies(spec *scheduling.PodGroupSpec, hyperNodes HyperNodes) (fields []string) {
	lacking := false
	check := func(topology *scheduling.NetworkTopologySpec, of, placed string) {
		if topology == nil || topology.Mode != scheduling.HardNetworkTopologyMode {
			return
		}
		name := topology.HighestTierName
		switch {
		case topology.HighestTierAllowed == nil && name == "":
			fields = append(fields, fmt.Sprintf("networkTopology of mode hard%s has no effect, because it sets no tier: %s; set highestTierAllowed or highestTierName",
				of, placed))
		case hyperNodes.None:
			lacking = true
		case topology.HighestTierAllowed == nil && !hyperNodes.haveTier(name):
			fields = append(fields, fmt.Sprintf("networkTopology of mode hard%s has no effect, because its highestTierName %s is the tierName of no valid HyperNode: %s; set %s",
				of, brief.Value(name), placed, hyperNodes.validTiers()))
		}
	}
	check(spec.NetworkTopology, "", "the gang may be placed on any nodes")
	for _, policy := range spec.SubGroupPolicy {
		check(policy.NetworkTopology, " in subGroupPolicy "+brief.Value(policy.Name), "each sub-group may be placed on any nodes that the gang may use")
	}
	if lacking {
		fields = append(fields, "networkTopology of mode hard has no effect, because the cluster has no HyperNodes: the gang may be placed on any nodes")
	}
	return fields
}

// HyperNodes describes the cluster's HyperNodes.
type HyperNodes struct {
	// None reports whether the cluster has no HyperNodes.
	None bool
	// TierNames are the tier names of the valid HyperNodes, sorted, each once.
	TierNames []string
}

func (h HyperNodes) haveTier(name string) bool {
	_, found := slices.BinarySearch(h.TierNames, name)
	return found
}

// tierNamesShown is the number of tier names that a message lists. Clusters have three or four tiers.
const tierNamesShown = 5

// validTiers returns the fields, with values, that a network topology may have instead of an unknown tier name.
func (h HyperNodes) validTiers() string {
	if len(h.TierNames) == 0 {
		return "highestTierAllowed instead"
	}
	names := brief.List{First: tierNamesShown}
	for _, name := range h.TierNames {
		names.Add(brief.Value(name))
	}
	return "highestTierName to an existing tierName: " + strings.Join(names.Items(), ", ") + names.More()
}

// defaultIfMissing reports whether the PriorityClass is missing, and returns the priority that gangs get if it is.
// Every API server has PriorityClasses. So if the books have none, the scheduler does not watch them, and
// defaultIfMissing reports none as missing.
func (r *Reporter) defaultIfMissing(name string) (otherwise int32, missing bool) {
	r.books.Lock()
	defer r.books.Unlock()
	if _, found := r.books.Tables.Priorities[name]; found || len(r.books.Tables.Priorities) == 0 {
		return 0, false
	}
	return r.books.Tables.DefaultPriority(), true
}
