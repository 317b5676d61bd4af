// SPDX-License-Identifier: Apache-2.0

package nodeorder_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/pkg/scheduler/api"
	upstream "volcano.sh/volcano/pkg/scheduler/plugins/nodeorder"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/nodeorder"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

const benchNodes = 5000

// benchCluster has nodes with 10 pods each, spread over this number of zones, and two pending pods: "plain", and
// "service", which Service job-1 selects.
func benchCluster(zones int) sessiontest.ClusterSpec {
	w := sessiontest.ClusterSpec{PodGroups: []*v1beta1.PodGroup{schedtest.MakePodGroup().Name("g").Obj()}}
	for i := range benchNodes {
		node := fmt.Sprintf("n%04d", i)
		w.Nodes = append(w.Nodes, schedtest.MakeNode().Name(node).Capacity(schedtest.Resources{"cpu": "64", "memory": "512Gi", "pods": "110", gpu: "8"}).
			Label(v1.LabelTopologyZone, fmt.Sprintf("z%d", i%zones)).Obj())
		for j := range 10 {
			w.Pods = append(w.Pods, schedtest.MakePod().Name(fmt.Sprintf("%s-%d", node, j)).Node(node).Phase(v1.PodRunning).
				Label("job", "3").Req(schedtest.Resources{"cpu": "1", "memory": "4Gi"}).Obj())
		}
	}
	pending := schedtest.MakePod().Group("g").Req(schedtest.Resources{"cpu": "4", "memory": "32Gi", gpu: "1"})
	w.Pods = append(w.Pods, pending.Name("plain").Obj(), pending.Name("service").Label("job", "1").Obj())
	return w
}

// BenchmarkScores compares upstream's plugin with ours on 5,000 nodes. It scores one node, scores all nodes in a batch,
// and opens a session.
func BenchmarkScores(b *testing.B) {
	cluster := sessiontest.New(sessiontest.ClusterSpec{Objects: objects()})
	defer cluster.Close()
	opens := map[string]func(*sessiontest.Cluster, string) *sessiontest.Session{"upstream": openUpstream, "ours": openOurs}
	for _, zones := range []int{1, 3} {
		cluster.Load(benchCluster(zones))
		for _, whose := range []string{"upstream", "ours"} {
			ssn := opens[whose](cluster, confOf(false))
			pending := tasks(ssn, api.Pending)
			if zones == 1 {
				b.Run("node/"+whose, func(b *testing.B) { benchNode(b, ssn, pending["plain"]) })
				b.Run("batch/plain/"+whose, func(b *testing.B) { benchBatch(b, ssn, pending["plain"]) })
				b.Run("open/"+whose, func(b *testing.B) { benchOpen(b, ssn, whose) })
			}
			b.Run(fmt.Sprintf("batch/service/zones=%d/%s", zones, whose), func(b *testing.B) { benchBatch(b, ssn, pending["service"]) })
			ssn.Close()
		}
	}
}

func benchNode(b *testing.B, ssn *sessiontest.Session, task *api.TaskInfo) {
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := ssn.NodeOrderFn(task, ssn.NodeList[i%benchNodes]); err != nil {
			b.Fatal(err)
		}
	}
}

// benchBatch scores all nodes through the session, which adds up the plugins' scores in its own map.
func benchBatch(b *testing.B, ssn *sessiontest.Session, task *api.TaskInfo) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ssn.BatchNodeOrderFn(task, ssn.NodeList); err != nil {
			b.Fatal(err)
		}
	}
}

func benchOpen(b *testing.B, ssn *sessiontest.Session, whose string) {
	b.ReportAllocs()
	ours, err := nodeorder.Spec().New(nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if whose == "ours" {
			ours.OnSessionOpen(ssn.Session)
		} else {
			upstream.New(nil).OnSessionOpen(ssn.Session.Session)
		}
	}
}
