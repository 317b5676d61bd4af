// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/report/statuswriter"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestOthersComeAndGoWhileAGangWaits checks that a waiting gang's message is reported a few times only while other
// gangs arrive and end, although each of them changes the numbers in it. The PodGroup and its pods always have the
// same message, and the newest one in the end.
func TestOthersComeAndGoWhileAGangWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		plugins []string
		takes   string
		want    int
		says    string
	}{
		"of one reason": { // at once, after 15 s and after 45 s
			takes: "8", want: 3, says: "1/30 members fit: 9 nodes short of nvidia.com/gpu, 1 filled by its members (nvidia.com/gpu)",
		},
		"of one, and what is free is in pieces": {
			takes: "3", want: 3, says: "1/30 members fit: 9 nodes short of nvidia.com/gpu (at most 5 free on a node, 45 in all), 1 filled by its members (nvidia.com/gpu)",
		},
		"of two, when the cluster is about full": {
			plugins: []string{"proportion"}, takes: "8", want: 5, says: "1/30 members fit: 9 nodes short of nvidia.com/gpu, 1 filled by its members (nvidia.com/gpu)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			othersComeAndGo(t, tt.takes, tt.want, tt.says, tt.plugins...)
		})
	}
}

func othersComeAndGo(t *testing.T, takes string, want int, says string, plugins ...string) {
	filler := func(node int) runtime.Object {
		pod := filler(node).(*v1.Pod)
		pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse(takes)
		return pod
	}
	withHarness(t, func(t *testing.T, w *harness) {
		const size, nodes, seconds = 30, 10, 50
		w.add(append(gpuNodes(nodes), other(), schedtest.MakePodGroup().Name("g").MinMember(size).Obj())...)
		for _, pod := range members(size, "8") {
			w.add(pod.Obj())
		}
		s := newSessions(w, explainConf(plugins...))
		writes, events := map[string]int{}, 0
		cycle := func() {
			s.cycle()
			for write, n := range count(w.cluster.Writes()) {
				writes[write] += n
			}
			for _, event := range w.cluster.Events.Take() {
				if strings.HasPrefix(event, "Warning") { // One event of other gangs has type Normal.
					events++
				}
			}
			w.deliver(w.cluster.PodGroup("g"))
			for i := range size {
				w.sync(fmt.Sprint("p", i))
			}
			pods := map[string]int{}
			for i := range size {
				pods[s.podSays(fmt.Sprint("p", i))]++
			}
			group, want := s.says(), map[string]int{"": size}
			if _, message, told := strings.Cut(group, ": "); told {
				want = map[string]int{"Unschedulable: " + message: size}
			}
			if diff := cmp.Diff(want, pods); diff != "" {
				t.Errorf("pods whose message differs from their PodGroup's (-PodGroup +pods):\n%s", diff)
			}
		}
		for i := range seconds {
			began := time.Now()
			if node := i % nodes; i/nodes%2 == 0 {
				w.add(filler(node))
			} else {
				w.remove(filler(node))
			}
			cycle()
			time.Sleep(time.Second - time.Since(began))
		}
		if got := writes["patch podgroups g"]; got != want {
			t.Errorf("the PodGroup was written %d times, want %d", got, want)
		}
		if got := writes["update pods/status p7"]; got != want {
			t.Errorf("a pod was written %d times, want %d", got, want)
		}
		if want := want * (size + 1); events != want {
			t.Errorf("%d events, want %d", events, want)
		}
		w.remove(filler(0))
		time.Sleep(2 * time.Minute)
		cycle()
		if diff := cmp.Diff("Unschedulable NotEnoughResources: "+says, s.says()); diff != "" {
			t.Errorf("after a pause, condition of the PodGroup (-want +got):\n%s", diff)
		}
	})
}

// TestACorrectedGangIsReportedAtOnce checks that a corrected gang at once reports what it waits for now, although the
// reason is the same.
func TestACorrectedGangIsReportedAtOnce(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		w.add(append(gpuNodes(2), other(), schedtest.MakePodGroup().Name("g").MinMember(8).Obj())...)
		for _, pod := range members(8, "8") {
			w.add(pod.Obj())
		}
		s := newSessions(w, explainConf())
		for range 3 {
			s.cycle()
			w.deliver(w.cluster.PodGroup("g"))
		}
		mended := w.cluster.PodGroup("g")
		mended.Spec.MinMember = 3
		for _, change := range []struct {
			by   runtime.Object
			want string
		}{
			{mended, "Unschedulable NotEnoughResources: 2/3 members fit: 2 nodes filled by its members (nvidia.com/gpu)"},
			{filler(0), "Unschedulable NotEnoughResources: 2/3 members fit: 2 nodes filled by its members (nvidia.com/gpu)"}, // by other gangs
			{pod(8).Req(schedtest.Resources{"nvidia.com/gpu": "8"}).Phase(v1.PodPending).Obj(),
				"Unschedulable NotEnoughResources: 1/3 members fit: 1 node short of nvidia.com/gpu, 1 filled by its members (nvidia.com/gpu)"},
		} {
			w.add(change.by)
			for range 2 {
				s.cycle()
				w.deliver(w.cluster.PodGroup("g"))
			}
			if diff := cmp.Diff(change.want, s.says()); diff != "" {
				t.Errorf("condition of the PodGroup (-want +got):\n%s", diff)
			}
		}
	})
}

// TestAnExplanationIsWrittenOnce checks that an explanation is written once: in 60 cycles of an unchanged cluster,
// listed in a different order each time, the PodGroup and each pod are written once.
func TestAnExplanationIsWrittenOnce(t *testing.T) {
	withHarness(t, func(t *testing.T, w *harness) {
		for i := range 8 {
			// Each node has two reasons. The order of a map decides which one upstream returns.
			w.add(nodeOf8(i).Taint("maintenance", v1.TaintEffectNoSchedule).Obj())
		}
		w.add(schedtest.MakePodGroup().Name("g").MinMember(64).Phase(v1beta1.PodGroupInqueue).Obj())
		pods := members(64, "1")
		rand.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		for _, pod := range pods {
			w.add(pod.NodeSelector("disk", "ssd").Obj())
		}
		s := newSessions(w, explainConf())
		s.cycle()
		time.Sleep(statuswriter.Settle)
		w.cluster.Writes()
		w.cluster.Events.Take()
		writes, events := map[string]int{}, 0
		for range 60 {
			w.cache.RetryAll()
			s.cycle()
			for write, n := range count(w.cluster.Writes()) {
				writes[write] += n
			}
			events += len(w.cluster.Events.Take())
			w.deliver(w.cluster.PodGroup("g"))
			for i := range 64 {
				w.sync(fmt.Sprintf("p%d", i))
			}
			node := nodeOf8(rand.IntN(8)).Taint("maintenance", v1.TaintEffectNoSchedule).Obj()
			node.Annotations = map[string]string{"heartbeat": fmt.Sprint(rand.Int())} // The node is checked again.
			w.add(node)
		}
		if got := writes["patch podgroups g"]; got != 1 {
			t.Errorf("the PodGroup was written %d times", got)
		}
		for i := range 64 {
			if got := writes[fmt.Sprintf("update pods/status p%d", i)]; got != 1 {
				t.Errorf("pod p%d was written %d times", i, got)
			}
		}
		if events != 65 {
			t.Errorf("%d events, want one of the PodGroup and one of each pod", events)
		}
		if diff := cmp.Diff("Unschedulable NotEnoughResources: 0/64 members fit: 8 nodes tainted \"maintenance\"", s.says()); diff != "" {
			t.Errorf("condition of the PodGroup (-want +got):\n%s", diff)
		}
	})
}
