// SPDX-License-Identifier: Apache-2.0

package coscheduling

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/coscheduling/topologyplan"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// TestSmallMembersFillTheNodesOfLargeOnes: if a large member fits no remaining node, smaller members may still fit
// beside the members already placed.
func TestSmallMembersFillTheNodesOfLargeOnes(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		w.full()
		sizes := map[string]string{"big-0": "2", "big-1": "1", "big-2": "3", "big-3": "2"}
		w.arrives("big", schedtest.Queue, 4, "1", func(pod *v1.Pod) { pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *cpus(sizes[pod.Name]) })
		w.pass(8*time.Minute, time.Minute)
		if len(w.reserved()) != 2 {
			t.Errorf("the reserved nodes are %v, want two nodes: %s", w.reserved(), w.condition("big", Reserved).Message)
		}
	})
}

// TestPlacesOfReservations checks where nodes may be reserved for a gang: in the domains of its gather rules, within
// each required node group, or in each preferred group and then on all nodes.
func TestPlacesOfReservations(t *testing.T) {
	given := sessiontest.ClusterSpec{Nodes: tree()}
	for i, node := range given.Nodes {
		node.Labels["group"] = []string{"g1", "g1", "g2", "g2", "g2", "g3"}[i]
	}
	conf := after5m(100) + "  - name: ibcluster\n    arguments: {ibcluster.levels: [group]}\n"
	groups := []string{"g1: a1 a2", "g2: b1x b2x c1", "g3: c2"}
	all := ": a1 a2 b1x b2x c1 c2"
	for name, tt := range map[string]struct {
		mode string
		must int
		err  error
		want []string
	}{
		"anywhere":                     {want: []string{all}},
		"preferred groups":             {mode: "preferred", want: append(slices.Clone(groups), all)},
		"required groups":              {mode: "required", want: groups},
		"domains":                      {must: 2, want: []string{"Block s1/b1: a1 a2", "Block s1/b2: b1x b2x", "Block s2/b3: c1 c2"}},
		"domains, and groups it likes": {mode: "preferred", must: 1, want: []string{"Spine s1: a1 a2 b1x b2x", "Spine s2: c1 c2"}},
		"domains in groups": {mode: "required", must: 1,
			want: []string{"g1, Spine s1: a1 a2", "g2, Spine s1: b1x b2x", "g2, Spine s2: c1", "g3, Spine s2: c2"}},
		"not gathered now": {mode: "required", must: 1, err: errors.New("why")},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, given, conf, func(t *testing.T, w *simulation) {
				group := schedtest.MakePodGroup().Name("big").MinMember(2)
				if tt.mode != "" {
					group.Annotation(ibcluster.ModeAnnotation, tt.mode)
				}
				w.cluster.Cache().AddPodGroupV1beta1(group.Obj())
				w.add(members(schedtest.MakePod().Req(cores("100")), "big", 2)...)
				w.session(func(ssn *sessiontest.Session) {
					s, job := w.plugin.session, ssn.Jobs["ns/big"]
					if tt.must > 0 {
						rules := []topologyplan.Layer{{Name: clusterLayer}, {Name: "Spine"}, {Name: "Block"}, {Name: nodeLayer}}
						s.reservations.network = networkWith(map[api.JobID]*gathered{"ns/big": {must: tt.must, rules: rules, err: tt.err}})
					}
					places, err := s.reservations.places(job)
					if !errors.Is(err, tt.err) {
						t.Errorf("the error is %v, want %v", err, tt.err)
					}
					if got := s.reservations.choose(&reservation{gang: job.UID, queue: job.Queue}, job); tt.err != nil && !errors.Is(got, tt.err) {
						t.Errorf("the error of choosing nodes is %v, want %v", got, tt.err)
					}
					var got []string
					for _, p := range places {
						slices.Sort(p.nodes)
						got = append(got, p.name+": "+strings.Join(p.nodes, " "))
					}
					if diff := cmp.Diff(tt.want, got); diff != "" {
						t.Errorf("node lists (-want +got):\n%s", diff)
					}
				})
			})
		})
	}
}

// TestEventsOfGangs checks that each reported condition is recorded as an event once, when it is new.
func TestEventsOfGangs(t *testing.T) {
	in(t, nodes(4, "4"), after5m(50), func(t *testing.T, w *simulation) {
		recorder := record.NewFakeRecorder(1000)
		w.cluster.Cache().Recorder = recorder
		events := func(reason string) (all []string) {
			for len(recorder.Events) > 0 {
				if event := <-recorder.Events; strings.Contains(event, " "+reason+" ") {
					all = append(all, event)
				}
			}
			return all
		}
		wants := func(when, reason, kind, text string) {
			t.Helper()
			if got := events(reason); len(got) != 1 || !strings.HasPrefix(got[0], kind+" ") || !strings.Contains(got[0], text) {
				t.Errorf("%s the events are %q, want one", when, got)
			}
		}
		w.full()
		w.cluster.Cache().AddPodGroupV1beta1(gangNamed("big", 2, says(gangs.WaitingTimeAnnotation, "0s")))
		w.add(members(schedtest.MakePod().Req(cores("4")), "big", 2)...)
		w.pass(2*time.Second, time.Second)
		wants("of an invalid setting", invalidReason, v1.EventTypeWarning, "waiting-time")
		w.untilReserved("big")
		w.pass(2*time.Second, time.Second)
		wants("of a reservation", nodesReserved, v1.EventTypeNormal, "Reserved 2 nodes")
		w.pass(31*time.Minute, time.Minute)
		wants("of its end", reservationEnded, v1.EventTypeNormal, "Released 2 reserved nodes")
	})
}

// TestAGangReportsThatItsQueueIsFullEvenIfNodesWereDrained: another pod of the queue runs on a node that cannot be
// reserved. The condition then states that the queue has no room, even if nodes were drained.
func TestAGangReportsThatItsQueueIsFullEvenIfNodesWereDrained(t *testing.T) {
	given := nodes(5, "4")
	given.Nodes[4].Spec.Unschedulable = true
	given.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name("small").Capability(cores("7")).Obj()}
	in(t, given, after5m(100), func(t *testing.T, w *simulation) {
		w.full()
		w.stays("other", "small", "n4", "2")
		w.arrives("big", "small", 2, "3")
		w.pass(8*time.Minute, time.Minute)
		want := "Waiting longer than starvationAfter (5m0s), but no nodes can be reserved: queue small has no room for 1 of the gang's pods, even if nodes were drained"
		if got := w.condition("big", Reserved); got.Reason != noNodesToReserve || got.Message != want {
			t.Errorf("the condition is %s: %s, want %s", got.Reason, got.Message, want)
		}
	})
}
