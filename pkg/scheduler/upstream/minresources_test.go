// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestMinResourcesEqualTheHeldResources checks that CapMinResources sets minResources to the resources that the gang
// holds, of all kinds. Upstream then treats none of them as elastic.
func TestMinResourcesEqualTheHeldResources(t *testing.T) {
	held := v1.ResourceList{}
	for name, amount := range map[v1.ResourceName]string{
		"cpu": "1500m", "memory": "3Gi", "pods": "2", "ephemeral-storage": "7Gi", "nvidia.com/gpu": "8", "hugepages-2Mi": "4Mi",
	} {
		held[name] = resource.MustParse(amount)
	}
	job := api.NewJobInfo("ns/g")
	job.PodGroup = &api.PodGroup{}
	job.Allocated = api.NewResource(held)

	CapMinResources(job)

	got := job.GetMinResources()
	got.MaxTaskNum = job.Allocated.MaxTaskNum
	if diff := cmp.Diff(job.Allocated, got); diff != "" {
		t.Errorf("minResources differ from the used resources (-want +got):\n%s", diff)
	}
	if elastic := job.GetElasticResources(); !elastic.IsEmpty() {
		t.Errorf("others are admitted to %s of it", elastic)
	}
}
