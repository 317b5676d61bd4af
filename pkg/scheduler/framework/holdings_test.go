// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/volcano/pkg/scheduler/api"
)

// TestWhatAGangHoldsIsNeitherAPromiseNorElastic: as upstream reads it back, it is what the gang holds, of each kind.
func TestWhatAGangHoldsIsNeitherAPromiseNorElastic(t *testing.T) {
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
		t.Errorf("minResources are not what it holds (-want +got):\n%s", diff)
	}
	if elastic := job.GetElasticResources(); !elastic.IsEmpty() {
		t.Errorf("others are let into %s of it", elastic)
	}
}

// TestMinResourcesAreLimited to an amount, and to no less than the gang holds: 4 cpu.
func TestMinResourcesAreLimited(t *testing.T) {
	list := func(name v1.ResourceName, amount string) v1.ResourceList {
		return v1.ResourceList{name: resource.MustParse(amount)}
	}
	tests := map[string]struct {
		asks, most v1.ResourceList
		name       v1.ResourceName
		want       float64
	}{
		"asks for less":                 {asks: list("cpu", "2"), most: list("cpu", "8"), name: "cpu", want: 2000},
		"asks for less than it holds":   {asks: list("cpu", "2"), most: list("cpu", "1"), name: "cpu", want: 2000},
		"asks for more":                 {asks: list("cpu", "9"), most: list("cpu", "8"), name: "cpu", want: 8000},
		"asks for more, and holds more": {asks: list("cpu", "9"), most: list("cpu", "1"), name: "cpu", want: 4000},
		"asks for something else":       {asks: list("nvidia.com/gpu", "9"), most: list("cpu", "8"), name: "nvidia.com/gpu", want: 0},
		"asks for nothing":              {most: list("cpu", "8"), name: "cpu", want: 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			job := api.NewJobInfo("ns/g")
			job.PodGroup = &api.PodGroup{}
			job.Allocated = api.NewResource(list("cpu", "4"))
			if tt.asks != nil {
				job.PodGroup.Spec.MinResources = &tt.asks
			}
			LimitMinResources(job, api.NewResource(tt.most))
			if got := job.GetMinResources().Get(tt.name); got != tt.want {
				t.Errorf("minResources has %s %v, want %v", tt.name, got, tt.want)
			}
			if (tt.asks == nil) != (job.PodGroup.Spec.MinResources == nil) {
				t.Error("minResources was absent, and is no longer")
			}
		})
	}
}
