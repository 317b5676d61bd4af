// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"volcano.sh/apis/pkg/apis/scheduling"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/actions/enqueue"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// TestGangsWithoutMinimumAreAdmitted: without a plugin that enforces the gang's minimum, some members may be placed
// alone, so the gang is admitted.
func TestGangsWithoutMinimumAreAdmitted(t *testing.T) {
	g := gang("g", 3, "mode=required").MinResources(schedtest.Resources{"cpu": "7"}).Phase(v1beta1.PodGroupPending).Obj()
	f := open(t, sessiontest.ClusterSpec{Nodes: two(), PodGroups: []*v1beta1.PodGroup{g}, Pods: sized("2500m", "g/0", "g/1", "g/2")})
	f.conf = strings.Replace(f.conf, "  - name: gang\n", "  - name: gang\n    enableJobReady: false\n", 1)
	f.reopen(t, nil)
	f.session.Run(enqueue.New())
	if got := f.job("g").PodGroup.Status.Phase; got != scheduling.PodGroupInqueue {
		t.Errorf("the gang is %s, want Inqueue", got)
	}
}

// TestAGangThatNoClusterHoldsLeavesRoomForOthers checks that neither the cluster's capacity nor that of the queue is
// counted for a gang that no InfiniBand cluster can hold, whatever the plugin's position in the configuration.
func TestAGangThatNoClusterHoldsLeavesRoomForOthers(t *testing.T) {
	data, err := os.ReadFile("../../../../config/samples/ibcluster.conf")
	if err != nil {
		t.Fatal(err)
	}
	sample := strings.NewReplacer("  - name: coscheduling\n", "", "  - name: volumebinding\n", "", "  - name: overcommit\n", "").Replace(string(data))
	if !strings.Contains(sample, "  - name: proportion\n") {
		t.Fatal("the sample does not name proportion")
	}
	first := strings.Replace(conf(), "  - name: ibcluster\n", "", 1)
	first = strings.Replace(first, "  - name: priority\n", "  - name: priority\n  - name: ibcluster\n", 1)
	confs := map[string]string{
		"first":            strings.Replace(first, "  - name: conformance\n", "  - name: conformance\n- plugins:\n  - name: overcommit\n    arguments:\n      overcommit-factor: 1\n", 1),
		"after overcommit": strings.Replace(conf(), "  - name: ibcluster\n", "  - name: overcommit\n    arguments:\n      overcommit-factor: 1\n  - name: ibcluster\n", 1),
		"as in the sample": sample,
		"after capacity":   strings.Replace(sample, "  - name: proportion\n", "  - name: capacity\n", 1),
	}
	tests := map[string]struct {
		minMember    int32
		minResources string
		pods         []*v1.Pod
	}{
		"by its minResources": {16, "16", nil},
		"by its members":      {3, "7500m", sized("2500m", "g0/0", "g0/1", "g0/2")},
	}
	for name, tt := range tests {
		for order, text := range confs {
			t.Run(name+", "+order, func(t *testing.T) {
				w := sessiontest.ClusterSpec{Nodes: nodes("a1 ib-a", "a2 ib-a", "b1 ib-b", "b2 ib-b"), Pods: tt.pods}
				w.Queues = []*v1beta1.Queue{schedtest.MakeQueue().Name(schedtest.Queue).Capability(schedtest.Resources{"cpu": "16"}).Obj()}
				asking := func(name string, minMember int32, cpu string) {
					w.PodGroups = append(w.PodGroups, gang(name, minMember, "mode=required").MinResources(schedtest.Resources{"cpu": cpu}).Phase(v1beta1.PodGroupPending).Obj())
				}
				asking("g0", tt.minMember, tt.minResources)
				asking("g1", 8, "8")
				asking("g2", 8, "8")
				f := open(t, w)
				f.conf = text
				f.reopen(t, nil)
				f.session.Run(enqueue.New())
				got := map[string]scheduling.PodGroupPhase{}
				for _, name := range []string{"g0", "g1", "g2"} {
					got[name] = f.job(name).PodGroup.Status.Phase
				}
				want := map[string]scheduling.PodGroupPhase{"g0": scheduling.PodGroupPending, "g1": scheduling.PodGroupInqueue, "g2": scheduling.PodGroupInqueue}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("phases (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestAVoteSetsTheCurrentJob: the plugin votes before any other plugin, and a panic during its vote is attributed to
// the gang.
func TestAVoteSetsTheCurrentJob(t *testing.T) {
	w := sessiontest.ClusterSpec{Nodes: nodes("a1 ib-a", "a2 ib-a")}
	for _, name := range []string{"g0", "g1"} {
		w.PodGroups = append(w.PodGroups, gang(name, 16, "mode=required").MinResources(schedtest.Resources{"cpu": "16"}).Phase(v1beta1.PodGroupPending).Obj())
	}
	f := open(t, w)
	for _, name := range []string{"g0", "g1"} {
		f.session.JobEnqueueable(f.job(name))
		if got := f.registry.CurrentJob(); got != f.job(name).UID {
			t.Errorf("while the plugin votes on gang %s the current job is %q", f.job(name).UID, got)
		}
	}
}

// TestNoPlanIsVotedAgainst checks on random nodes that a group has room for members that fill its nodes exactly,
// whatever other members the gang has.
func TestNoPlanIsVotedAgainst(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for cluster := range 2000 {
		upstream := &vcframework.Session{TotalResource: api.EmptyResource()}
		group := &topology.Group{Name: "a"}
		pending := map[api.TaskID]*api.TaskInfo{}
		add := func(cpu, memory, gpu int) *api.Resource {
			asks := api.NewResource(v1.ResourceList{
				"cpu": *resource.NewMilliQuantity(int64(cpu), resource.DecimalSI), "memory": *resource.NewQuantity(int64(memory), resource.BinarySI),
				"nvidia.com/gpu": *resource.NewQuantity(int64(gpu), resource.DecimalSI), "pods": resource.MustParse("1"),
			})
			id := api.TaskID(fmt.Sprint(len(pending)))
			pending[id] = &api.TaskInfo{UID: id, InitResreq: asks}
			return asks
		}
		sizes := 1 + rnd.IntN(4)
		step := func(most int) int { return (1 + rnd.IntN(sizes)) * most / sizes }
		for n := range 1 + rnd.IntN(4) {
			name := fmt.Sprint("n", n)
			node := api.NewNodeInfo(schedtest.MakeNode().Name(name).Capacity(schedtest.Resources{"cpu": "0", "memory": "0", "pods": "0"}).Obj())
			node.Allocatable = api.EmptyResource()
			for range rnd.IntN(4) {
				node.Allocatable.Add(add(step(4000), step(8000), rnd.IntN(2)))
			}
			upstream.NodeList = append(upstream.NodeList, node)
			upstream.TotalResource.Add(node.Allocatable)
			group.Nodes = append(group.Nodes, name)
		}
		needed := len(pending)
		for range rnd.IntN(3) {
			add(step(9000), step(9000), rnd.IntN(2))
		}
		empty := newEmptyGroups(&framework.Session{Session: upstream}, nil)
		if counts := empty.classesOf(pending, needed); counts != nil {
			w := empty.wanted(counts, needed)
			if room := w.roomIn(empty.of(group)); room.members < needed {
				t.Errorf("cluster %d: the group has room for %d members, want %d: %s", cluster, room.members, needed, w.describe(room, empty.of(group)))
			}
		}
	}
}

// TestTriggerResourcesOfAJobWithoutPods checks that the trigger resources are read from minResources while a gang has
// no pods.
func TestTriggerResourcesOfAJobWithoutPods(t *testing.T) {
	for name, tt := range map[string]struct {
		asks schedtest.Resources
		want scheduling.PodGroupPhase
	}{
		"more than a cluster has":            {schedtest.Resources{"cpu": "12", "rdma/hca": "12"}, scheduling.PodGroupPending},
		"what a cluster has":                 {schedtest.Resources{"cpu": "8", "rdma/hca": "8"}, scheduling.PodGroupInqueue},
		"nothing that calls for one cluster": {schedtest.Resources{"cpu": "12"}, scheduling.PodGroupInqueue},
	} {
		t.Run(name, func(t *testing.T) {
			g := gang("g", 12).MinResources(tt.asks).Phase(v1beta1.PodGroupPending).Obj()
			f := open(t, sessiontest.ClusterSpec{Nodes: two(), PodGroups: []*v1beta1.PodGroup{g}}, "triggerResources: [rdma/hca]")
			f.session.Run(enqueue.New())
			if got := f.job("g").PodGroup.Status.Phase; got != tt.want {
				t.Errorf("the gang is %s, want %s", got, tt.want)
			}
		})
	}
}
