// SPDX-License-Identifier: Apache-2.0

package volumebinding

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// scoreScale converts a score of the configured shape (0 to 10) to a node score (0 to 100).
const scoreScale = k8sframework.MaxNodeScore / config.MaxCustomPriorityScore

// muchLeft is the default shape of Kubernetes' scheduler (KEP-4049). The score is higher the more storage remains unused.
var muchLeft = helper.FunctionShape{{Utilization: 0, Score: k8sframework.MaxNodeScore}, {Utilization: maxUtilization, Score: 0}}

// nodeOrder scores a node by the percentage of storage that the task's claims would use. It counts the capacity of the existing
// volumes found for the claims. If all volumes are to be provisioned, it counts the node's CSIStorageCapacities instead. All
// storage classes have equal weight (KEP-4049).
func (s *session) nodeOrder(task *api.TaskInfo, node *api.NodeInfo) (float64, error) {
	if node.Node == nil || !hasClaims(task.Pod) {
		return 0, nil
	}
	state, err := s.stateOf(task)
	if err != nil {
		return 0, nil // the task's predicate returns the same error
	}
	found, status := s.find(task.Pod.UID, state, node.Node)
	if status != nil {
		return 0, nil
	}
	shape := s.shape
	if len(shape) == 0 {
		shape = muchLeft
	}
	return float64(s.weight) * scoreOf(found, helper.BuildBrokenLinearFunction(shape)), nil
}

// storage is the requested and the total storage of one storage class on a node, in bytes.
type storage struct{ requested, capacity int64 }

func scoreOf(found []candidate, score func(utilization int64) int64) float64 {
	classes := storageOf(found)
	if len(classes) == 0 {
		return 0
	}
	var sum int64
	for _, class := range classes {
		utilization := int64(maxUtilization)
		if class.capacity > 0 && class.requested <= class.capacity {
			utilization = int64(float64(class.requested) / float64(class.capacity) * maxUtilization)
		}
		sum += score(utilization)
	}
	return math.Round(float64(sum) / float64(len(classes)))
}

func storageOf(found []candidate) map[string]storage {
	classes := map[string]storage{}
	for _, o := range found {
		if o.volume != nil {
			name, size := o.volume.Spec.StorageClassName, o.volume.Spec.Capacity[v1.ResourceStorage]
			classes[name] = storage{classes[name].requested + sizeOf(o.claim), classes[name].capacity + size.Value()}
		}
	}
	if len(classes) > 0 {
		return classes
	}
	for _, o := range found {
		if o.capacity == nil || o.capacity.Capacity == nil {
			continue
		}
		name := volume.GetPersistentVolumeClaimClass(o.claim)
		classes[name] = storage{classes[name].requested + sizeOf(o.claim), o.capacity.Capacity.Value()}
	}
	return classes
}
