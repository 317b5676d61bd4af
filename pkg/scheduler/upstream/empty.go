// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// IsEmpty reports whether the resources are empty, with the places for pods. Upstream's IsEmpty ignores these, so that the
// place of a pod that requests nothing else would not count.
func IsEmpty(r *api.Resource) bool { return r.IsEmpty() && r.ScalarResources[v1.ResourcePods] == 0 }
