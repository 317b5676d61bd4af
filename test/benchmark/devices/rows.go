// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	vgpu "volcano.sh/volcano/pkg/scheduler/api/devices/config"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// row is a kind of work for whole sessions, with the bars for our side.
type row struct {
	name, title string
	work        work
	// ratio is the minimum of upstream's time divided by ours, and limit the maximum of our time. Zero means no bar.
	// Without a ratio, upstream is not measured.
	ratio float64
	limit time.Duration
	// strategy is the scoringStrategy type of our plugin deviceshare. An empty value means the default.
	strategy string
}

// work is a cluster and the gangs that wait in it. Each gang needs all its members.
type work struct {
	nodes           int
	gangs, gangSize int
	// asks are the requests of the gangs, in turn.
	asks []ask
	// clusters is the number of InfiniBand clusters of the nodes. Every gang must be in one of them. Every cluster
	// except the second-to-last lacks a NIC. Zero means no clusters.
	clusters int
}

// shares are the requests of pods that share GPUs.
var shares = []ask{{gpu: 30}, {gpu: 50}, {gpu: 20}, {gpu: 70}, {gpu: 10}, {gpu: 40}, {gpu: 25}, {gpu: 60}}

// rows returns the rows of sessions.
func rows() []row {
	sharing := work{nodes: 1250, gangs: 10_000, gangSize: 1, asks: shares}
	return []row{
		{name: "gang5000", title: "5,000 nodes, one gang of 512 with a GPU and a NIC each", ratio: 20,
			work: work{nodes: 5000, gangs: 1, gangSize: 512, asks: []ask{{gpu: 100, nic: 100}}}},
		{name: "gang5000x8", title: "5,000 nodes, one gang of 512 with 8 GPUs and 4 NICs each", ratio: 20,
			work: work{nodes: 5000, gangs: 1, gangSize: 512, asks: []ask{{gpu: 800, nic: 100}}}},
		{name: "shares1250", title: "1,250 nodes of 8 GPUs, 10,000 jobs of one share of a GPU", limit: 5 * time.Second, work: sharing},
		{name: "sharesleast", title: "the same with LeastAllocated", limit: 5 * time.Second, work: sharing, strategy: "LeastAllocated"},
		{name: "sharesmost", title: "the same with MostAllocated", limit: 5 * time.Second, work: sharing, strategy: "MostAllocated"},
		{name: "ibdevices", title: "16 members of 8 GPUs and 4 NICs, for whom 1 of 64 IB clusters of 16 nodes has all NICs", limit: time.Second,
			work: work{nodes: 1024, gangs: 1, gangSize: 16, asks: []ask{{gpu: 800, nic: 100}}, clusters: 64}},
	}
}

func (w work) pods() int { return w.gangs * w.gangSize }

// askOf returns the request of the gang's members.
func (w work) askOf(gang int) ask { return w.asks[gang%len(w.asks)] }

// devices returns the Device objects.
func (w work) devices() []*v1alpha1.Device {
	var devices []*v1alpha1.Device
	for i, node := range nodeList(w.nodes, w.clusters) {
		nics := nicsPerNode
		if w.clusters > 0 {
			if perCluster := w.nodes / w.clusters; i%perCluster == 0 && i/perCluster != w.clusters-2 {
				nics--
			}
		}
		devices = append(devices, board(node.Name, nics))
	}
	return devices
}

// world returns the cluster for the side of that name.
func (w work) world(side string) sessiontest.ClusterSpec {
	world := sessiontest.ClusterSpec{Nodes: nodeList(w.nodes, w.clusters)}
	if side == insession.Upstream {
		for _, node := range world.Nodes {
			shareOut(node)
		}
	}
	for gang := range w.gangs {
		podGroup := schedulertesting.MakePodGroup().Name(gangName(gang)).MinMember(int32(w.gangSize)).Obj()
		if w.clusters > 0 {
			insession.RequiredCluster().Require(podGroup)
		}
		world.PodGroups = append(world.PodGroups, podGroup)
		for i := range w.gangSize {
			world.Pods = append(world.Pods, w.pod(side, gang, i))
		}
	}
	return world
}

// pod returns the i-th member of the gang. For upstream it requests one GPU of the vGPU mode, whatever its request on
// our side is.
func (w work) pod(side string, gang, i int) *v1.Pod {
	pod := w.askOf(gang).pod(podName(gang, i), gangName(gang))
	if side == insession.Upstream {
		pod = schedulertesting.MakePod().Name(podName(gang, i)).Group(gangName(gang)).Limit(schedulertesting.Resources{"cpu": "1", "memory": "1Gi", vgpu.VolcanoVGPUNumber: "1"})
	}
	return pod.Annotation("batch.kubernetes.io/job-completion-index", strconv.Itoa(i)).Obj()
}

// conf returns the chart's configuration with the plugins that the row needs at its end.
func (r row) conf(side *insession.Side) string {
	conf := side.Conf + "  - name: deviceshare\n"
	switch {
	case side.Name == insession.Upstream:
		conf += "    arguments:\n      deviceshare.VGPUEnable: true\n"
	case r.strategy != "":
		conf += "    arguments:\n      scoringStrategy: {type: " + r.strategy + "}\n"
	}
	if r.work.clusters > 0 {
		conf += insession.RequiredCluster().Plugin
	}
	return conf
}
