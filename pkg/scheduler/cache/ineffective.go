// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/internal/brief"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/binding"
)

// IneffectiveFields is the type and the reason of the condition of a PodGroup some of whose fields have no effect in this
// cluster. Such a gang is scheduled as upstream schedules it; the condition says what it does not get.
const IneffectiveFields scheduling.PodGroupConditionType = "IneffectiveFields"

// reportIneffective sets the condition, or removes it when all fields have effect.
func (c *Cache) reportIneffective(job *api.JobInfo) {
	message := strings.Join(c.ineffective(job), "; ")
	if message == "" {
		removeCondition(&job.PodGroup.Status, isIneffective)
		return
	}
	setCondition(&job.PodGroup.Status, scheduling.PodGroupCondition{
		Type: IneffectiveFields, Status: v1.ConditionTrue, Reason: string(IneffectiveFields), Message: brief.Text(message),
		LastTransitionTime: metav1.Now(), TransitionID: string(uuid.NewUUID()),
	})
}

func isIneffective(c scheduling.PodGroupCondition) bool { return c.Type == IneffectiveFields }

// ineffective returns a sentence for each field of the PodGroup that has no effect. The controller of a Volcano Job fills in
// minTaskMember from the replicas of its tasks, so a sum above minMember is no mistake of its user.
func (c *Cache) ineffective(job *api.JobInfo) (fields []string) {
	spec := &job.PodGroup.Spec
	if len(spec.MinTaskMember) > 0 && binding.RoleMinima(spec) == nil && !binding.OfVolcanoJob(job.PodGroup) {
		var sum int64
		for _, n := range spec.MinTaskMember {
			sum += int64(n)
		}
		fields = append(fields, fmt.Sprintf("minTaskMember does not count, because its sum %d exceeds minMember %d: set minMember to %d to require the minimum of every role",
			sum, spec.MinMember, sum))
	}
	if name := spec.PriorityClassName; name != "" {
		if otherwise, missing := c.lacksPriorityClass(name); missing {
			fields = append(fields, fmt.Sprintf("PriorityClass %s does not exist: the gang has priority %d", brief.Value(name), otherwise))
		}
	}
	if job.ContainsHardTopology() && c.hyperNodes.none() {
		fields = append(fields, "networkTopology of mode hard has no effect, because the cluster has no HyperNodes: the gang may be placed on any nodes")
	}
	return fields
}

// lacksPriorityClass reports whether the PriorityClass does not exist, and which priority gangs without one have. Every API server
// has PriorityClasses of its own, so when none is known the scheduler does not watch them.
func (c *Cache) lacksPriorityClass(name string) (otherwise int32, missing bool) {
	c.books.Lock()
	defer c.books.Unlock()
	if _, found := c.books.Tables.Priorities[name]; found || len(c.books.Tables.Priorities) == 0 {
		return 0, false
	}
	return c.books.Tables.DefaultPriority(), true
}
