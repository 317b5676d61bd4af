// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/deviceshare/allocator"
	schedulertesting "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// conf has the plugins that place pods. The strategy alone scores nodes, because preferences of other plugins are not
// measured here.
const conf = `
actions: allocate
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: deviceshare
    arguments:
      scoringStrategy: {type: %s}
`

// cluster has the trace's nodes and the tasks that a strategy has placed on them.
type cluster struct {
	*sessiontest.Cluster
	scheduler *sessiontest.Scheduler
	action    vcframework.Action
	audit     *audit
	arrived   int
}

// newCluster returns an empty cluster. The caller must close it.
func newCluster(t *trace, strategy string) *cluster {
	api.IgnoredDevicesList.Append(allocator.UncountedNames()...) // as a scheduler does before it reads any pod
	nodes, devices := t.nodeObjects()
	registry := framework.NewRegistry()
	registry.RegisterPlugin(deviceshare.Spec())
	registry.RegisterAction(allocate.New())
	action, _ := vcframework.GetAction("allocate")
	c := &cluster{Cluster: sessiontest.New(sessiontest.ClusterSpec{Nodes: nodes, Devices: devices}), action: action, audit: newAudit(t)}
	options.ServerOpts.PercentageOfNodesToFind = 100 // Every node is filtered for every task.
	c.scheduler = c.Scheduler(registry, fmt.Sprintf(conf, strategy))
	return c
}

// Close ends the cluster.
func (c *cluster) Close() {
	c.scheduler.Close()
	c.Cluster.Close()
}

// job is a job that has arrived.
type job struct {
	tasks []task
	group *v1beta1.PodGroup
	pods  []*v1.Pod
}

// place adds the arriving jobs and runs a session. It returns which of them were placed, and removes the others.
func (c *cluster) place(arriving [][]task) ([]bool, error) {
	list := make([]*job, len(arriving))
	for i, tasks := range arriving {
		list[i] = c.arrive(tasks)
	}
	ssn := c.scheduler.Open()
	ssn.Run(c.action)
	handed := ssn.Handed()
	ssn.Close()
	placed := make([]bool, len(list))
	for i, j := range list {
		var err error
		if placed[i], err = c.settle(j, handed); err != nil {
			return nil, err
		}
	}
	return placed, nil
}

func (c *cluster) arrive(tasks []task) *job {
	name := fmt.Sprintf("job-%06d", c.arrived)
	j := &job{tasks: tasks, group: podGroup(name, c.arrived, len(tasks))}
	c.arrived++
	c.Cache().AddPodGroupV1beta1(j.group)
	for i, t := range tasks {
		pod := t.pod(fmt.Sprintf("%s-%d", name, i), name)
		c.AddPod(pod)
		j.pods = append(j.pods, pod)
	}
	return j
}

// settle makes the job's pods run where they were placed, as if they had been bound. It removes the job if they were
// not placed.
func (c *cluster) settle(j *job, handed map[string]sessiontest.Bind) (placed bool, err error) {
	for i, pod := range j.pods {
		bind, ok := handed[schedulertesting.Namespace+"/"+pod.Name]
		if i > 0 && ok != placed {
			return false, fmt.Errorf("job %s was placed in part", j.group.Name)
		}
		placed = ok
		c.Cache().DeletePod(pod)
		if !ok {
			continue
		}
		bound := pod.DeepCopy()
		bound.Spec.NodeName, bound.Status.Phase = bind.Node, v1.PodRunning
		for key, value := range bind.Decided {
			if bound.Annotations == nil {
				bound.Annotations = map[string]string{}
			}
			bound.Annotations[key] = value
		}
		if err := c.audit.add(j.tasks[i], bound); err != nil {
			return false, err
		}
		c.AddPod(bound)
	}
	if !placed {
		c.Cache().DeletePodGroupV1beta1(j.group)
	}
	return placed, nil
}

// run lets all jobs arrive, batch of them per session.
func run(t *trace, strategy string, arriving [][]task, batch int) (figures, error) {
	c := newCluster(t, strategy)
	defer c.Close()
	p := &progress{total: t.size()}
	for len(arriving) > 0 {
		now := arriving[:min(batch, len(arriving))]
		arriving = arriving[len(now):]
		placed, err := c.place(now)
		if err != nil {
			return figures{}, fmt.Errorf("%s: %w", strategy, err)
		}
		for i, tasks := range now {
			p.note(tasks, placed[i])
		}
	}
	return p.end(), nil
}
