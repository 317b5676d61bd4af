// SPDX-License-Identifier: Apache-2.0

package books

import (
	"fmt"
	"testing"
	"time"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestAHugeRequestMakesNoEventSlow: a tenant may write one into a pod of a gang of thousands. Were the gang added up again with each event, as many
// events as it has pods would hold the mutex for minutes.
func TestAHugeRequestMakesNoEventSlow(t *testing.T) {
	const pods, tries = 2000, 20
	fastest := map[string]time.Duration{}
	for _, request := range []string{"1", "9e15"} {
		b := newBooks(t)
		b.Pods.Show(schedtest.MakePod().Name("first").Group("g").Req(schedtest.Resources{"cpu": request}).Obj())
		for i := range pods {
			b.Pods.Show(schedtest.MakePod().Name(fmt.Sprint(i)).UID(fmt.Sprint(i)).Group("g").Req(schedtest.Resources{"cpu": "1"}).Obj())
		}
		again := schedtest.MakePod().Name("0").UID("0").Group("g").Req(schedtest.Resources{"cpu": "1"}).Obj()
		fastest[request] = time.Hour
		for range tries {
			start := time.Now()
			b.Pods.Show(again)
			fastest[request] = min(fastest[request], time.Since(start))
		}
	}
	if fastest["9e15"] > 20*fastest["1"] {
		t.Errorf("an event of a gang of %d pods takes %v beside a huge request, and %v without", pods, fastest["9e15"], fastest["1"])
	}
}

// TestAnEntryKeepsNoResourcesOfPodsThatEnded: each pod may request another resource.
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

// TestAHugeRequestOnANodeMakesNoEventSlow: a tenant may also name a node in thousands of pods, which its kubelet refuses one after the other.
func TestAHugeRequestOnANodeMakesNoEventSlow(t *testing.T) {
	const pods, tries = 2000, 20
	fastest := map[string]time.Duration{}
	for _, request := range []string{"1", "9e15"} {
		b := newBooks(t)
		b.Pods.Show(schedtest.MakePod().Name("first").Node("n").Req(schedtest.Resources{"cpu": request}).Obj())
		for i := range pods {
			b.Pods.Show(schedtest.MakePod().Name(fmt.Sprint(i)).UID(fmt.Sprint(i)).Node("n").Req(schedtest.Resources{"cpu": "1"}).Obj())
		}
		again := schedtest.MakePod().Name("0").UID("0").Node("n").Req(schedtest.Resources{"cpu": "1"}).Obj()
		fastest[request] = time.Hour
		for range tries {
			start := time.Now()
			b.Pods.Show(again)
			fastest[request] = min(fastest[request], time.Since(start))
		}
	}
	if fastest["9e15"] > 20*fastest["1"] {
		t.Errorf("an event of a node of %d pods takes %v beside a huge request, and %v without", pods, fastest["9e15"], fastest["1"])
	}
}
