// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/apis/scheduling/v1alpha1"
	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
	"github.com/volcano-prebind/volcano-prebind/test/benchmark/insession"
)

// joint is the name of the row of joint requests: filter and score of every node, by the plugin alone.
const joint = "joint5000"

const (
	// jointNodes is the number of nodes to which the bar applies.
	jointNodes = 5000
	// jointLimit is the maximum processor time of a request that differs from all earlier ones.
	jointLimit = 50 * time.Millisecond
	// jointShapes is the number of different requests in a session, and otherKinds the number of other task classes
	// that wait.
	jointShapes = 9
	otherKinds  = 64
	// jointConf has only this plugin.
	jointConf = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: deviceshare\n"
)

// jointSizes are the numbers of nodes.
var jointSizes = []int{1250, 2500, jointNodes, 10_000}

// uses are the ways in which devices are in use in advance, with the percentage of nodes that fit the requests.
var uses = []struct {
	name string
	fits int
	// pod returns the pod that runs on the i-th node. Nil means none.
	pod func(node string, i int) *v1.Pod
}{
	{"all free", 100, nil},
	{"NICs in use, otherwise on each node", 100, func(node string, i int) *v1.Pod {
		var has []string
		for nic := range nicsPerNode {
			has = append(has, fmt.Sprintf(`{"minor":%d,"id":"%s-rdma-%d","resources":{"%s":"%d"}}`, nic, node, nic, rdma, 1+digit(i, nic)))
		}
		return user(node, rdma, "rdma", has)
	}},
	{"GPUs in use, otherwise on each node", 0, func(node string, i int) *v1.Pod {
		var has []string
		for gpu := range gpusPerNode {
			share := 10 * (1 + digit(i, gpu))
			has = append(has, fmt.Sprintf(`{"minor":%d,"id":"%s-gpu-%d","resources":{"%s":"%d","%s":"%[5]d"}}`, gpu, node, gpu, gpuCore, share, gpuRatio))
		}
		return user(node, gpuWhole, "gpu", has)
	}},
}

// digit returns a digit of the number in base nine.
func digit(number, at int) int {
	for range at {
		number /= 9
	}
	return number % 9
}

// user returns a pod that runs on the node and uses these devices.
func user(node, asks, kind string, has []string) *v1.Pod {
	return schedulertesting.MakePod().Name("user-"+node).Node(node).Phase(v1.PodRunning).
		Limit(schedulertesting.Resources{"cpu": "8", "memory": "8Gi", asks: "100"}).
		Annotation(v1alpha1.DeviceAllocatedAnnotation, fmt.Sprintf(`{"%s":[%s]}`, kind, strings.Join(has, ","))).Obj()
}

// jointPoint is the cost of filtering and scoring every node for a request.
type jointPoint struct {
	Nodes int    `json:"nodes"`
	Use   string `json:"use"`
	// FirstSeconds is the time of the first request, which reads all Device objects. Seconds is the median of the
	// later requests, and AgainSeconds that of their repetitions. CPUSeconds is the thread's processor time in
	// Seconds, which does not depend on other load.
	FirstSeconds float64 `json:"firstSeconds"`
	Seconds      float64 `json:"seconds"`
	CPUSeconds   float64 `json:"cpuSeconds"`
	AgainSeconds float64 `json:"againSeconds"`
}

// measureJoint measures our side at all sizes and uses.
func (p *plan) measureJoint(ours *insession.Side, progress io.Writer) ([]jointPoint, error) {
	use(ours)
	var points []jointPoint
	for _, nodes := range jointSizes {
		for at := range uses {
			point, err := p.jointAt(ours, nodes, at)
			if err != nil {
				return nil, fmt.Errorf("%s, %d nodes, %s: %w", joint, nodes, uses[at].name, err)
			}
			fmt.Fprintf(progress, "%s, %d nodes, %s: %s\n", joint, nodes, point.Use, insession.Seconds(point.Seconds))
			points = append(points, *point)
		}
	}
	return points, nil
}

func (p *plan) jointAt(ours *insession.Side, nodes, at int) (_ *jointPoint, err error) {
	stop, err := insession.Profile(p.ProfileDir, fmt.Sprintf("%s-%d-%d", joint, nodes, at))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	world := jointWorld(nodes, at)
	cluster := sessiontest.New(world)
	defer cluster.Close()
	ssn := cluster.Open(ours.Registry, jointConf)
	defer ssn.Close()
	runtime.GC()
	point := &jointPoint{Nodes: nodes, Use: uses[at].name}
	var further, cpu, again []time.Duration
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for round := range 2 {
		for shape := range jointShapes {
			task := ssn.Jobs[api.JobID(schedulertesting.Namespace+"/"+gangName(shape))].Tasks[api.TaskID(schedulertesting.Namespace+"-"+podName(shape, 0))]
			fits, cpuBefore := 0, cpuOf(syscall.RUSAGE_THREAD)
			took := insession.Timed("joint", func() { fits = askAll(ssn, task) })
			if want := nodes * uses[at].fits / 100; fits != want {
				return nil, fmt.Errorf("%d nodes take the request, want %d", fits, want)
			}
			switch {
			case round > 0:
				again = append(again, took)
			case shape == 0:
				point.FirstSeconds = took.Seconds()
			default:
				further, cpu = append(further, took), append(cpu, cpuOf(syscall.RUSAGE_THREAD)-cpuBefore)
			}
		}
	}
	point.Seconds = insession.Median(further, time.Duration.Seconds)
	point.CPUSeconds = insession.Median(cpu, time.Duration.Seconds)
	point.AgainSeconds = insession.Median(again, time.Duration.Seconds)
	return point, nil
}

// askAll returns how many nodes fit the task, and scores these.
func askAll(ssn *sessiontest.Session, task *api.TaskInfo) (fits int) {
	for _, node := range ssn.NodeList {
		if ssn.PredicateFn(task, node) != nil {
			continue
		}
		if _, err := ssn.NodeOrderFn(task, node); err == nil {
			fits++
		}
	}
	return fits
}

// jointWorld returns a cluster whose devices are in use as uses[at] says. Its gangs have one pod each. The first
// jointShapes pods request 8 GPUs and 4 NICs, each with a different share of the NICs. The other pods are of other task
// classes.
func jointWorld(nodes, at int) sessiontest.ClusterSpec {
	world := sessiontest.ClusterSpec{Nodes: nodeList(nodes, 0)}
	for i, node := range world.Nodes {
		world.Devices = append(world.Devices, board(node.Name, nicsPerNode))
		if uses[at].pod != nil {
			world.Pods = append(world.Pods, uses[at].pod(node.Name, i))
		}
	}
	for gang := range jointShapes + otherKinds {
		wants := ask{gpu: 800, nic: 90 - gang}
		if gang >= jointShapes {
			wants = ask{gpu: 10 + gang}
		}
		world.PodGroups = append(world.PodGroups, schedulertesting.MakePodGroup().Name(gangName(gang)).MinMember(1).Obj())
		world.Pods = append(world.Pods, wants.pod(podName(gang, 0), gangName(gang)).Obj())
	}
	return world
}
