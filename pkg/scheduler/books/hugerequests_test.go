// SPDX-License-Identifier: Apache-2.0

package books

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAHugeRequestMakesNoEventSlow checks that a huge request makes no event slow. A tenant may write one into a pod
// of a gang of thousands, or name a node in thousands of pods, which the kubelet rejects one after the other. If each
// event recomputed the sums of the gang or the node, these events would hold the mutex for minutes.
func TestAHugeRequestMakesNoEventSlow(t *testing.T) {
	const pods, tries = 2000, 20
	tests := map[string]func(*schedtest.PodBuilder) *schedtest.PodBuilder{
		"gang": func(pod *schedtest.PodBuilder) *schedtest.PodBuilder { return pod.Group("g") },
		"node": func(pod *schedtest.PodBuilder) *schedtest.PodBuilder { return pod.Node("n") },
	}
	for name, in := range tests {
		t.Run(name, func(t *testing.T) {
			pod := func(name, cpu string) *v1.Pod {
				return in(schedtest.MakePod().Name(name).UID(name).Req(schedtest.Resources{"cpu": cpu})).Obj()
			}
			fastest := map[string]time.Duration{}
			for _, request := range []string{"1", "9e15"} {
				b := newBooks(t)
				b.Pods.Show(pod("first", request))
				for i := range pods {
					b.Pods.Show(pod(fmt.Sprint(i), "1"))
				}
				again := pod("0", "1")
				fastest[request] = time.Hour
				for range tries {
					start := time.Now()
					b.Pods.Show(again)
					fastest[request] = min(fastest[request], time.Since(start))
				}
			}
			if fastest["9e15"] > 20*fastest["1"] {
				t.Errorf("an event of a %s of %d pods takes %v beside a huge request, and %v without", name, pods, fastest["9e15"], fastest["1"])
			}
		})
	}
}

// TestAnEntryKeepsNoResourcesOfPodsThatEnded checks that an entry keeps no resource names of pods that ended, since
// each pod may request a different resource.
func TestAnEntryKeepsNoResourcesOfPodsThatEnded(t *testing.T) {
	b := newBooks(t)
	for i := range 10 {
		pod := schedtest.MakePod().Name("p").UID(fmt.Sprint(i)).Group("g").Req(schedtest.Resources{fmt.Sprintf("example.com/r%d", i): "1"}).Obj()
		b.Pods.Show(pod)
		b.Pods.Hide(pod)
	}
	if got := b.Jobs.Get(gang).TotalRequest.ScalarResources; len(got) > 0 {
		t.Errorf("the entry has %d resources that no pod requests", len(got))
	}
}
