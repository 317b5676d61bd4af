// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// IneffectiveFields is the type and the reason of the condition of a PodGroup that has fields without effect in this
// cluster. The gang is scheduled as if the fields were not set. The condition says which fields have no effect and why.
const IneffectiveFields scheduling.PodGroupConditionType = "IneffectiveFields"

// reportIneffective sets the condition IneffectiveFields of the job's PodGroup. It removes the condition if all fields
// have an effect.
func (r *Reporter) reportIneffective(job *api.JobInfo, lacksHyperNodes bool) {
	message := strings.Join(r.ineffective(job, lacksHyperNodes), "; ")
	if message == "" {
		removeCondition(&job.PodGroup.Status, isIneffective)
		return
	}
	setCondition(&job.PodGroup.Status, condition(IneffectiveFields, string(IneffectiveFields), brief.Text(message)))
}

// ineffective returns a sentence for each field of the PodGroup that has no effect. It does not report minTaskMember if
// a Volcano Job owns the PodGroup. The Job's controller sets that field from the replicas of the tasks, so a sum above
// minMember is valid.
func (r *Reporter) ineffective(job *api.JobInfo, lacksHyperNodes bool) (fields []string) {
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
		if otherwise, missing := r.lacksPriorityClass(name); missing {
			fields = append(fields, fmt.Sprintf("PriorityClass %s does not exist: the gang has priority %d", brief.Value(name), otherwise))
		}
	}
	if lacksHyperNodes {
		fields = append(fields, "networkTopology of mode hard has no effect, because the cluster has no HyperNodes: the gang may be placed on any nodes")
	}
	return fields
}

// lacksPriorityClass reports whether the PriorityClass is missing, and returns the priority that gangs get if it is.
// Every API server has PriorityClasses. So if the books have none, the scheduler does not watch them, and
// lacksPriorityClass reports none as missing.
func (r *Reporter) lacksPriorityClass(name string) (otherwise int32, missing bool) {
	r.books.Lock()
	defer r.books.Unlock()
	if _, found := r.books.Tables.Priorities[name]; found || len(r.books.Tables.Priorities) == 0 {
		return 0, false
	}
	return r.books.Tables.DefaultPriority(), true
}
