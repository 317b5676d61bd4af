// SPDX-License-Identifier: Apache-2.0

package allocate_test

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// scoring registers a plugin that scores clusters.
func (c *counting) scoring(score framework.PlacementScorer) {
	c.conf += "  - name: helper\n"
	c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return helper{reads: framework.SomePodKeys(), open: nothing, part: score}, nil
	})})
}

// beforeTrial is a score of clusters that does not depend on where members are placed, so it is computed before a
// trial.
type beforeTrial struct{ sessiontest.NodeGroupScoreFn }

func (beforeTrial) BeforeTrial() bool { return true }

// TestAGroupIsTriedAgainAfterAScoreFailed checks that no gang is placed in a cluster whose score cannot be computed,
// and that the gang group is tried again in the next session.
func TestAGroupIsTriedAgainAfterAScoreFailed(t *testing.T) {
	for _, before := range []bool{false, true} {
		c, fails := newGroup(t, []string{"3"}, []string{"3"}, node("n1", "ib-a", "4"), node("n2", "ib-b", "4")), true
		c.world.PodGroups[0].Annotations[ibcluster.ModeAnnotation] = "required"
		score := sessiontest.NodeGroupScoreFn(func(*api.JobInfo, *framework.NodeGroupTrial) (float64, error) {
			if fails {
				return 0, errors.New("no score")
			}
			return 0, nil
		})
		if before {
			c.scoring(beforeTrial{score})
		} else {
			c.scoring(score)
		}
		c.expect(t, "no cluster has a score", 0)
		fails = false
		c.expect(t, "clusters have scores", 2)
	}
}

// TestASearchForAGroupStaysCutShort checks that a group search that ended early is not cached. A plugin refuses the
// second gang, and the last trial of the search fails because there is no other cluster. In the next session the
// plugin may accept what it refused.
func TestASearchForAGroupStaysCutShort(t *testing.T) {
	c, refuses := newGroup(t, []string{"3"}, []string{"3"}, node("n1", "ib-a", "4"), node("n2", "ib-b", "4")), true
	c.world.PodGroups[0].Annotations[ibcluster.ModeAnnotation] = "required"
	for _, pod := range c.world.Pods { // No packing supports pods with host ports.
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	}
	c.conf += "  - name: helper\n"
	c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return helper{reads: framework.SomePodKeys(), open: func(ssn *framework.Session) {
			ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: func(e *vcframework.Event) {
				for _, job := range ssn.Jobs {
					if refuses && job.UID != e.Task.Job && len(job.TaskStatusIndex[api.Allocated]) > 0 {
						e.Err = errors.New("one at a time")
					}
				}
			}})
		}}, nil
	})})
	c.expect(t, "the plugin refuses the second gang", 0)
	refuses = false
	c.expect(t, "the plugin refuses nothing", 2)
}

// TestASearchForAPackingStaysCutShort checks that a packing search that ended early is not cached. A plugin refuses
// all plans for the group, and the last assignment of gangs to clusters has none. In the next session the plugin may
// accept what it refused.
func TestASearchForAPackingStaysCutShort(t *testing.T) {
	c, refuses := newPacked(t), true
	c.world.Nodes = append(c.world.Nodes, node("n3", "ib-b", "7")) // The node has room for one of the gangs.
	for _, podGroup := range c.world.PodGroups {
		podGroup.Annotations[ibcluster.ModeAnnotation] = "required"
	}
	c.registry.RegisterPlugin(framework.PluginSpec{Name: "helper", Load: framework.WithoutArguments(func(framework.Handle) (framework.Plugin, error) {
		return helper{reads: framework.SomePodKeys(), open: func(ssn *framework.Session) {
			ssn.AddEventHandler(&vcframework.EventHandler{AllocateFunc: func(e *vcframework.Event) {
				beside := 0
				for _, task := range ssn.Nodes[e.Task.NodeName].Tasks {
					if task.Job == "ns/b" {
						beside++
					}
				}
				if refuses && (e.Task.Job == "ns/b" && beside > 1 || e.Task.Job == "ns/a" && e.Task.NodeName == "n3") {
					e.Err = errors.New("not here")
				}
			}})
		}}, nil
	})})
	c.expect(t, "the plugin refuses both members of b on one node, and a in ib-b", 0)
	refuses = false
	c.expect(t, "the plugin refuses nothing", 4)
}
