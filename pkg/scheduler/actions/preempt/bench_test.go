// SPDX-License-Identifier: Apache-2.0

package preempt

import (
	"flag"
	"fmt"
	"io"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	vcpreempt "volcano.sh/volcano/pkg/scheduler/actions/preempt"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/evictionbackoff"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

var oursOnly = flag.Bool("preempt.ours-only", false, "whether BenchmarkPreempt leaves out upstream's action, which takes minutes")

// fullCluster is a cluster whose nodes of 32 CPUs run eight pods each, of low priority in jobs of 50, and gangs of high
// priority.
type fullCluster struct {
	nodes, clusters int
	// held reports whether one of the eight pods of each node has the gangs' priority.
	held bool
	// gangs of size members, which request cpu each, are pending.
	gangs, size int
	cpu         string
	annotations map[string]string
}

func (c fullCluster) spec() sessiontest.ClusterSpec {
	w := sessiontest.ClusterSpec{}
	w.PriorityClasses = append(w.PriorityClasses, schedtest.PriorityClass("low", 1), schedtest.PriorityClass("high", 9))
	add := func(group, priority string, value int32, node, cpu string, n int) {
		pod := schedtest.MakePod().Name(fmt.Sprintf("%s-%d", group, n)).Group(group).Priority(value).Req(schedtest.Resources{"cpu": cpu})
		if node != "" {
			pod.Node(node).Phase(v1.PodRunning)
		}
		w.Pods = append(w.Pods, pod.Obj())
	}
	group := func(name, class string, minimum int) {
		pg := schedtest.MakePodGroup().Name(name).MinMember(int32(minimum)).PriorityClass(class)
		for key, value := range c.annotations {
			if class == "high" && minimum > 1 {
				pg.Annotation(key, value)
			}
		}
		w.PodGroups = append(w.PodGroups, pg.Obj())
	}
	group("held", "high", 1)
	for i := range c.nodes {
		name := fmt.Sprintf("node-%05d", i)
		node := schedtest.MakeNode().Name(name).Capacity(schedtest.Resources{"cpu": "32", "pods": "110"})
		if c.clusters > 0 {
			node.Label("ibcluster", fmt.Sprintf("ib-%02d", i%c.clusters))
		}
		w.Nodes = append(w.Nodes, node.Obj())
		for j := range 8 {
			n := i*8 + j
			if c.held && j == 0 {
				add("held", "high", 9, name, "4", i)
				continue
			}
			low := fmt.Sprintf("low-%d", n/50)
			if n%50 == 0 || c.held && n%50 == 1 && (n-1)%8 == 0 {
				group(low, "low", 1)
			}
			add(low, "low", 1, name, "4", n)
		}
	}
	for g := range c.gangs {
		name := fmt.Sprintf("gang-%d", g)
		group(name, "high", c.size)
		for m := range c.size {
			add(name, "high", 9, "", c.cpu, m)
		}
	}
	return w
}

// BenchmarkPreempt runs action preempt, ours and upstream's, on sessions of equal clusters, and again in a second session of
// the unchanged cluster if the first evicted nothing. It reports the times, the ratio of the first ones, the gangs that get
// room, and the evicted pods.
func BenchmarkPreempt(b *testing.B) {
	for _, c := range []struct {
		name    string
		cluster fullCluster
		alone   bool // upstream's action would take hours
	}{
		{"1000-nodes-40-gangs-no-room", fullCluster{nodes: 1000, held: true, gangs: 40, size: 50, cpu: "32"}, false},
		{"1000-nodes-40-gangs-exact-room", fullCluster{nodes: 1000, gangs: 40, size: 50, cpu: "16"}, false},
		{"5000-nodes-10-gangs-of-500", fullCluster{nodes: 5000, gangs: 10, size: 500, cpu: "16"}, false},
		{"5000-nodes-40-clusters-gang-of-512", fullCluster{nodes: 5000, clusters: 40, gangs: 1, size: 512, cpu: "4",
			annotations: map[string]string{ibcluster.ModeAnnotation: "required"}}, false},
		{"5000-nodes-40-clusters-gang-of-100-whole-nodes", fullCluster{nodes: 5000, clusters: 40, gangs: 1, size: 100, cpu: "32",
			annotations: map[string]string{ibcluster.ModeAnnotation: "required"}}, false},
		{"5000-nodes-10000-pods-no-room", fullCluster{nodes: 5000, held: true, gangs: 10000, size: 1, cpu: "32"}, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			klog.LogToStderr(false)
			klog.SetOutput(io.Discard)
			spec := c.cluster.spec()
			for b.Loop() {
				ours, upstreams := measure(spec, nil), measured{}
				if !*oursOnly && !c.alone {
					upstreams = measure(spec, vcpreempt.New())
				}
				b.ReportMetric(upstreams.took.Seconds()*1000, "upstream-ms")
				b.ReportMetric(ours.took.Seconds()*1000, "ours-ms")
				b.ReportMetric(ours.again.Seconds()*1000, "ours-again-ms")
				b.ReportMetric(upstreams.took.Seconds()/ours.took.Seconds(), "ratio")
				b.ReportMetric(float64(upstreams.gangs), "upstream-gangs")
				b.ReportMetric(float64(ours.gangs), "ours-gangs")
				b.ReportMetric(float64(upstreams.evicted), "upstream-evicted")
				b.ReportMetric(float64(ours.evicted), "ours-evicted")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

type measured struct {
	took, again    time.Duration
	gangs, evicted int
}

// measure runs the action, or ours if it is nil, on sessions of the cluster.
func measure(spec sessiontest.ClusterSpec, action vcframework.Action) measured {
	cluster := sessiontest.New(sessiontest.ClusterSpec{})
	defer cluster.Close()
	cluster.UseBooks(true)
	cluster.Load(spec)
	registry := framework.NewRegistry()
	registry.RegisterPlugin(evictionbackoff.Spec())
	registry.RegisterPlugin(ibcluster.Spec())
	if action == nil {
		registry.RegisterAction(New(nil))
		action, _ = vcframework.GetAction(Name)
	}
	scheduler := cluster.Scheduler(registry, simpleTiers)
	defer scheduler.Close()
	var m measured
	for _, took := range []*time.Duration{&m.took, &m.again} {
		ssn := scheduler.Open()
		began := time.Now()
		ssn.Run(action)
		*took = time.Since(began)
		m.evicted += len(ssn.Evicts())
		for _, job := range ssn.Jobs {
			if job.WaitingTaskNum() > 0 {
				m.gangs++
			}
		}
		ssn.Close()
		if m.evicted > 0 || action.Name() != Name || m.took > 10*time.Second {
			break
		}
	}
	return m
}
