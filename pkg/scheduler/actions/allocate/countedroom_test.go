// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const gpu = "nvidia.com/gpu"

// everywhere has the placements that a gang may request.
var everywhere = map[string]func(*v1beta1.PodGroup){"HyperNode": inOneHyperNode, "cluster": inOneCluster, "anywhere": func(*v1beta1.PodGroup) {}}

// gpuWorld returns a cluster whose nodes have 10 CPUs each and the given numbers of devices. All nodes are in one
// HyperNode and one cluster. Each member of its gang requests the given CPUs and devices.
func gpuWorld(lies func(*v1beta1.PodGroup), devices []string, members ...[2]string) sessiontest.ClusterSpec {
	podGroup := schedtest.MakePodGroup().Name("g").MinMember(int32(len(members))).Phase(v1beta1.PodGroupInqueue).Obj()
	lies(podGroup)
	w := sessiontest.ClusterSpec{PodGroups: []*v1beta1.PodGroup{podGroup}}
	var names []string
	for i, count := range devices {
		names = append(names, "n"+string(rune('0'+i)))
		w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(names[i]).Label("ibcluster", "ib-a").Capacity(schedtest.Resources{"cpu": "10", "memory": "64Gi", "pods": "20", gpu: count}).Obj())
	}
	for i, asks := range members {
		request := schedtest.Resources{"cpu": asks[0]}
		if asks[1] != "" {
			request[gpu] = asks[1]
		}
		w.Pods = append(w.Pods, schedtest.MakePod().Name("g-"+string(rune('0'+i))).Group("g").Req(request).Obj())
	}
	w.HyperNodes = append(w.HyperNodes, schedtest.MakeHyperNode().Name("rack").Nodes(names...).Obj())
	return w
}

// TestANodeThatHasLostADeviceTakesMembersThatNeedNone checks that a node that has lost a device still takes members
// that need none. Its free amount of devices is negative.
func TestANodeThatHasLostADeviceTakesMembersThatNeedNone(t *testing.T) {
	runs := schedtest.MakePod().Name("runs").Node("n0").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "1", gpu: "2"}).Obj()
	for where, lies := range everywhere {
		t.Run(where, func(t *testing.T) {
			w := gpuWorld(lies, []string{"1", "2"}, [2]string{"8", "1"}, [2]string{"4", ""})
			w.Pods = append(w.Pods, runs)
			c := newCounting(t, w)
			if _, bound := c.session(); bound != 2 {
				t.Errorf("%d members were bound, want both: %s", bound, c.says)
			}
			w = gpuWorld(lies, []string{"1"}, [2]string{"6", ""}, [2]string{"5", ""})
			w.Pods = append(w.Pods, runs)
			c = newCounting(t, w)
			if _, bound := c.session(); bound != 0 || strings.Contains(c.says, gpu) {
				t.Errorf("%d members were bound, and the message is %q; want none, and no resource that they do not request", bound, c.says)
			}
		})
	}
}

// TestAMemberFitsBesideOthersThatUseScarceResources checks that a member without devices fits on a node when other
// members of its gang use the node's devices. The plugin resource-strategy-fit reserves CPUs for idle devices, so the
// member alone does not fit.
func TestAMemberFitsBesideOthersThatUseScarceResources(t *testing.T) {
	const proportional = `  - name: resource-strategy-fit
    arguments:
      proportional:
        enable: true
        resources: example.com/other, nvidia.com/gpu
        resourceProportion:
          nvidia.com/gpu.cpu: 2.5
          nvidia.com/gpu.memory: 1
`
	worker, launcher := [2]string{"4", "2"}, [2]string{"2", ""}
	tests := map[string]struct {
		members [][2]string
		want    int
	}{
		"workers first":         {[][2]string{worker, worker, launcher}, 3},
		"the launcher first":    {[][2]string{launcher, worker, worker}, 3},
		"a worker too few":      {[][2]string{worker, launcher}, 0},
		"no workers":            {[][2]string{launcher, {"1", ""}}, 0},
		"workers beside others": {[][2]string{worker, worker, {"1", ""}, {"1", ""}}, 4},
	}
	for name, tc := range tests {
		for where, lies := range everywhere {
			t.Run(name+", "+where, func(t *testing.T) {
				c := newCounting(t, gpuWorld(lies, []string{"4"}, tc.members...))
				c.conf += proportional
				if _, bound := c.session(); bound != tc.want {
					t.Errorf("%d members were bound, want %d: %s", bound, tc.want, c.says)
				}
			})
		}
	}
}

// TestRoomForPodsIsMadeByEvictions checks that evictions make room on a node that has reached its maximum number of
// pods. The predicate does not count pods evicted in this session, but counts pods that were terminating before until
// they are deleted.
func TestRoomForPodsIsMadeByEvictions(t *testing.T) {
	for name, evicted := range map[string]bool{"evicted in the session": true, "leaving before it": false} {
		for where, lies := range map[string]func(*v1beta1.PodGroup){"HyperNode": inOneHyperNode, "cluster": inOneCluster} {
			t.Run(name+", "+where, func(t *testing.T) {
				pods, podGroup := gang("g", "3", "2")
				lies(podGroup)
				w := sessiontest.ClusterSpec{PodGroups: []*v1beta1.PodGroup{podGroup, schedtest.MakePodGroup().Name("old").Phase(v1beta1.PodGroupRunning).Obj()}, Pods: pods}
				w.Nodes = append(w.Nodes, schedtest.MakeNode().Name("n").Label("ibcluster", "ib-a").Capacity(schedtest.Resources{"cpu": "8", "memory": "64Gi", "pods": "2"}).Obj())
				w.HyperNodes = append(w.HyperNodes, schedtest.MakeHyperNode().Name("rack").Nodes("n").Obj())
				for _, name := range []string{"old-0", "old-1"} {
					old := schedtest.MakePod().Name(name).Group("old").Node("n").Phase(v1.PodRunning).Req(schedtest.Resources{"cpu": "4"})
					if !evicted {
						old.Terminating()
					}
					w.Pods = append(w.Pods, old.Obj())
				}
				c := newCounting(t, w)
				c.cluster.Load(c.world)
				ssn := c.cluster.Open(c.registry, c.conf)
				defer ssn.Close()
				want := 0
				if evicted {
					want = len(pods)
					stmt := vcframework.NewStatement(ssn.Session.Session)
					if err := errors.Join(stmt.Evict(taskOf(ssn, "old", "old-0"), "test"), stmt.Evict(taskOf(ssn, "old", "old-1"), "test")); err != nil {
						t.Fatal(err)
					}
				}
				ssn.Run(c.action)
				if got := len(ssn.Pipelined()); got != want {
					t.Errorf("%d members wait for room, want %d: %s", got, want, ssn.Jobs["ns/g"].JobFitErrors)
				}
			})
		}
	}
}
