// SPDX-License-Identifier: Apache-2.0

package random

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/ibcluster"
	schedtest "github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing"
)

// TestLargePackingBesideADecoy places large gangs that must be in one cluster, and fill it. Another cluster is tried
// first. It has almost as many nodes of the same sizes, and changes before each further session. The search in it uses
// all its steps in every session, and must leave enough steps for the cluster that the gang fits.
func TestLargePackingBesideADecoy(t *testing.T) {
	b := newBench(t)
	b.registry.RegisterPlugin(ibcluster.Spec())
	const sessions = 3
	for _, seed := range []uint64{103, 110} {
		d := newDice(seed, 7)
		g := drawLargeGang(d)
		in, decoys := g.besideDecoy(d, seed)
		bound := 0
		for session := range sessions {
			for _, pod := range in.world.Pods {
				if pod.Labels["running"] == "" {
					pod.Spec.NodeName = ""
				}
			}
			if bound = len(b.run(in, b.ours).bound); bound >= g.members() {
				break
			}
			name := fmt.Sprintf("come-%d", session)
			pod := schedtest.MakePod().Name(name).Label("running", "yes").Node(decoys[session].Name).Phase(v1.PodRunning)
			in.world.Pods = append(in.world.Pods, pod.Req(schedtest.Resources{"cpu": fmt.Sprintf("%dm", 3+5*session), "memory": "1Mi"}).Obj())
		}
		if bound < g.members() {
			t.Errorf("seed %d: %d of %d members bound after %d sessions", seed, bound, g.members(), sessions)
		}
	}
}

// besideDecoy returns an instance with the gang and two clusters: the gang's nodes, and a copy of these without every
// eighth node (the decoy). The gang has role minima, and eight more members of each role than it needs. besideDecoy
// also returns the decoy's nodes.
func (g *largeGang) besideDecoy(d dice, seed uint64) (instance, []*v1.Node) {
	in := g.instance(d, seed)
	in.conf = strings.TrimRight(in.conf, "\n") + "\n  - name: ibcluster\n    arguments:\n      ibcluster.levels: [cluster]\n"
	var decoys []*v1.Node
	for i, node := range in.world.Nodes {
		node.Labels["cluster"] = "good"
		if i%8 != 0 {
			decoy := node.DeepCopy()
			decoy.Name = fmt.Sprintf("decoy-%03d", i)
			decoy.Labels["cluster"], decoy.Labels[v1.LabelHostname] = "decoy", decoy.Name
			decoys = append(decoys, decoy)
		}
	}
	in.world.Nodes = append(in.world.Nodes, decoys...)
	podGroup := in.world.PodGroups[0]
	podGroup.Annotations = map[string]string{ibcluster.ModeAnnotation: "required"}
	podGroup.Spec.MinTaskMember = map[string]int32{}
	for shape, count := range g.counts {
		role := fmt.Sprintf("role-%d", shape)
		podGroup.Spec.MinTaskMember[role] = int32(count)
		for i := range 8 {
			pod := schedtest.MakePod().Name(fmt.Sprintf("%s-x%03d", role, i)).Group("gang").Role(role)
			in.world.Pods = append(in.world.Pods, pod.Req(g.shapes[shape].resources()).Obj())
		}
	}
	return in, decoys
}
