// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

func TestGang(t *testing.T) {
	member := func() *schedtest.PodBuilder { return schedtest.MakePod().Group("g").Req(cores("1")) }
	runTable(t, map[string]behaviour{
		"a whole gang is placed": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("2"), "n1", "n2"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(4).Obj()},
				Pods:      each(member(), "g-0", "g-1", "g-2", "g-3"),
			},
			binds: map[string]string{"g-0": "*", "g-1": "*", "g-2": "*", "g-3": "*"},
		},
		"a gang one node short of its minimum is not placed at all": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("1"), "n1", "n2"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(3).Obj()},
				Pods:      each(member(), "g-0", "g-1", "g-2"),
			},
		},
		"what is above the minimum is placed as far as it goes": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("1"), "n1", "n2", "n3"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
				Pods:      each(member(), "g-0", "g-1", "g-2", "g-3"),
			},
			binds: map[string]string{"g-0": "*", "g-1": "*", "g-2": "*"},
		},
		"why a member above the minimum fits nowhere is known although others were placed after it": {
			upstreamDiffers: "it forgets the reasons of a job's pods when the job has its next turn",
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("2"), "n1", "n2", "n3"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(1).Obj(), schedtest.MakePodGroup().Name("h").MinMember(1).Obj()},
				Pods: slices.Concat(each(member(), "g-0", "g-2", "g-3"), each(schedtest.MakePod().Group("g").Req(cores("3")), "g-1"),
					each(schedtest.MakePod().Group("h").Req(cores("1")), "h-0", "h-1")),
			},
			binds: map[string]string{"g-0": "*", "g-2": "*", "g-3": "*", "h-0": "*", "h-1": "*"},
			check: func(t *testing.T, ssn *sessiontest.Session) {
				job := ssn.Jobs[schedtest.Namespace+"/g"]
				for uid, task := range job.Tasks {
					if has := job.NodesFitErrors[uid] != nil; has != (task.Name == "g-1") {
						t.Errorf("%s has a reason why it fits nowhere: %t", task.Name, has)
					}
				}
			},
		},
		"a gang that fits in no order reports what stopped it with its largest member first": {
			upstreamDiffers: "it tries one order, that of the pods",
			world: sessiontest.ClusterSpec{
				Nodes:     append(nodes(holds("4"), "n1"), nodes(holds("1"), "n2", "n3")...),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
				Pods:      slices.Concat(each(schedtest.MakePod().Group("g").Req(cores("2")), "g-0"), each(schedtest.MakePod().Group("g").Req(cores("3")), "g-1")),
			},
			check: func(t *testing.T, ssn *sessiontest.Session) {
				job := ssn.Jobs[schedtest.Namespace+"/g"]
				for uid, task := range job.Tasks {
					if has := job.NodesFitErrors[uid] != nil; has != (task.Name == "g-0") {
						t.Errorf("%s has a reason why it fits nowhere: %t", task.Name, has)
					}
				}
			},
		},
		"a gang without a minimum is placed pod by pod": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("2"), "n1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(0).Obj()},
				Pods:      each(member(), "g-0", "g-1", "g-2"),
			},
			binds: map[string]string{"g-0": "n1", "g-1": "n1"},
		},
		"a gang whose members run already needs no more than they": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("2"), "n1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Phase(v1beta1.PodGroupRunning).Obj()},
				Pods: append(each(member().Phase(v1.PodRunning).Node("n1"), "g-0"),
					each(member(), "g-1", "g-2")...),
			},
			binds: map[string]string{"g-1": "n1"},
		},
		"a gang with fewer pods than its minimum is not looked at": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("4"), "n1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(3).Obj()},
				Pods:      each(member(), "g-0", "g-1"),
			},
		},
		"a gang that a plugin finds invalid is not looked at": {
			conf: plain + "\n- plugins:\n  - name: strict\n",
			plugins: []framework.PluginSpec{plugin("strict", func(ssn *framework.Session) {
				ssn.AddJobValidFn("strict", func(any) *api.ValidateResult { return &api.ValidateResult{Reason: "Strict"} })
			})},
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("4"), "n1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj()},
				Pods:      each(member(), "g-0"),
			},
		},
		"a gang of a queue that does not exist is not looked at": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("4"), "n1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Queue("gone").Obj()},
				Pods:      each(member(), "g-0"),
			},
		},
		"a pending gang waits for the enqueue action": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("4"), "n1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Phase(v1beta1.PodGroupPending).Obj()},
				Pods:      each(member(), "g-0"),
			},
			enqueue: true,
		},
		"a pending gang is admitted when there is no enqueue action": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("4"), "n1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Phase(v1beta1.PodGroupPending).Obj()},
				Pods:      each(member(), "g-0"),
			},
			binds: map[string]string{"g-0": "n1"},
			check: func(t *testing.T, ssn *sessiontest.Session) {
				for _, job := range ssn.Jobs {
					if phase := job.PodGroup.Status.Phase; phase != "Inqueue" {
						t.Errorf("phase of %s is %q, want Inqueue", job.Name, phase)
					}
				}
			},
		},
		"a gated pod is left out": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("4"), "n1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj()},
				Pods:      append(each(member().Gate("example.com/wait"), "g-0"), each(member(), "g-1")...),
			},
			binds: map[string]string{"g-1": "n1"},
		},
		"a gang that needs its gated pod waits": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("4"), "n1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
				Pods:      append(each(member().Gate("example.com/wait"), "g-0"), each(member(), "g-1")...),
			},
		},
		"best-effort pods count for the gang and are left to backfill": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("4"), "n1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
				Pods:      append(each(schedtest.MakePod().Group("g"), "g-0"), each(member(), "g-1")...),
			},
			binds: map[string]string{"g-1": "n1"},
		},
		"one of two best-effort pods that are alike has a gate": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("4"), "n1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
				Pods: slices.Concat(each(schedtest.MakePod().Group("g").Gate("example.com/wait"), "g-0"), each(member(), "g-1"),
					each(schedtest.MakePod().Group("g"), "g-2")),
			},
			binds: map[string]string{"g-1": "n1"},
		},
		"roles of a Volcano Job that may run with fewer are no minima, also in numbers": {
			world: sessiontest.ClusterSpec{
				Nodes:      nodes(holds("4"), "a1"),
				HyperNodes: []*topologyv1alpha1.HyperNode{schedtest.MakeHyperNode().Name("rack-a").Nodes("a1").Obj()},
				PodGroups:  []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").OwnedBy("batch.volcano.sh/v1alpha1", "Job").MinMember(1).MinTaskMember("a", 1).MinTaskMember("b", 1).Topology(hard, 1).Obj()},
				Pods:       slices.Concat(each(member().Role("a"), "g-0"), each(member().Role("b").Req(cores("9")), "g-1"), each(member().Role("a").Req(cores("2")), "g-2")),
			},
			binds: map[string]string{"g-0": "a1", "g-2": "a1"},
		},
		"a gang that waits for backfill takes what it needs beside it before another gang, and no more": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("1"), "n1", "n2"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj(), schedtest.MakePodGroup().Name("h").MinMember(1).Obj()},
				Pods: slices.Concat(each(member(), "g-0", "g-1"), each(schedtest.MakePod().Group("g"), "g-2"),
					each(schedtest.MakePod().Group("h").Req(cores("1")), "h-0")),
			},
			binds: map[string]string{"g-0": "*", "h-0": "*"},
		},
		"a member without requests that fits nowhere is not counted on, and stays one for backfill": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("4"), "n1"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
				Pods:      append(each(member(), "g-0", "g-1"), each(schedtest.MakePod().Group("g").NodeSelector("zone", "nowhere"), "g-2")...),
			},
			binds: map[string]string{"g-0": "n1", "g-1": "n1"}, upstreamDiffers: "it binds one member, and the gang waits for the other",
			check: func(t *testing.T, ssn *sessiontest.Session) {
				if n := ssn.Jobs[schedtest.Namespace+"/g"].PendingBestEffortTaskNum(); n != 1 {
					t.Errorf("%d members are left to backfill, want 1", n)
				}
			},
		},
		"tainted and cordoned nodes are not used": {
			world: sessiontest.ClusterSpec{
				Nodes: slices.Concat(nodes(holds("8").Taint("example.com/kept", v1.TaintEffectNoSchedule), "n1"),
					nodes(holds("8").Cordon(), "n2"), nodes(holds("2"), "n3")),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj()},
				Pods:      each(member(), "g-0", "g-1", "g-2"),
			},
			binds: map[string]string{"g-0": "n3", "g-1": "n3"},
		},
		"pods of one gang that want the same host port go to different nodes": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(holds("8"), "n1", "n2"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").MinMember(2).Obj()},
				Pods:      each(member().HostPort(8080), "g-0", "g-1", "g-2"),
			},
			binds: map[string]string{"g-0": "*", "g-1": "*"},
			check: func(t *testing.T, ssn *sessiontest.Session) {
				if got := perRack(ssn); !slices.Equal(got, []int{2}) || len(uniqueNodes(ssn)) != 2 {
					t.Errorf("nodes %v, want both", uniqueNodes(ssn))
				}
			},
		},
		"a gang does not take more pods than a node holds": {
			world: sessiontest.ClusterSpec{
				Nodes:     nodes(schedtest.MakeNode().Capacity(schedtest.Resources{"cpu": "8", "pods": "2"}), "n1", "n2"),
				PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj()},
				Pods:      each(member(), "g-0", "g-1", "g-2", "g-3", "g-4"),
			},
			binds: map[string]string{"g-0": "*", "g-1": "*", "g-2": "*", "g-3": "*"},
		},
	})
}

func uniqueNodes(ssn *sessiontest.Session) []string {
	var names []string
	for _, node := range ssn.Binds() {
		if !slices.Contains(names, node) {
			names = append(names, node)
		}
	}
	slices.Sort(names)
	return names
}
