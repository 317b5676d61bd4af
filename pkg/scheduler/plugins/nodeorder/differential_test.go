// SPDX-License-Identifier: Apache-2.0

package nodeorder_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	fwk "k8s.io/kube-scheduler/framework"
	k8sframework "k8s.io/kubernetes/pkg/scheduler/framework"
	"volcano.sh/volcano/pkg/scheduler/api"
	vcframework "volcano.sh/volcano/pkg/scheduler/framework"
	upstream "volcano.sh/volcano/pkg/scheduler/plugins/nodeorder"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/plugins/nodeorder"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/testing/sessiontest"
)

// confOf returns a configuration that has the plugin with these weights, each as "name: value", after plugin
// predicates.
func confOf(predicates bool, weights ...string) string {
	conf := "actions: allocate\ntiers:\n- plugins:\n"
	if predicates {
		conf += "  - name: predicates\n"
	}
	conf += "  - name: nodeorder\n"
	if len(weights) > 0 {
		conf += "    arguments:\n      " + strings.Join(weights, "\n      ") + "\n"
	}
	return conf
}

func (d dice) weights() []string {
	if d.oneIn(2) {
		return nil
	}
	var out []string
	for _, arg := range nodeorder.Spec().Arguments {
		if d.oneIn(2) {
			out = append(out, fmt.Sprintf("%s: %d", arg.Name, pick(d, 0, 1, 2, 7)))
		}
	}
	return out
}

func openUpstream(c *sessiontest.Cluster, conf string) *sessiontest.Session {
	vcframework.RegisterPluginBuilder(upstream.PluginName, upstream.New)
	return c.Open(framework.NewRegistry(), conf)
}

func openOurs(c *sessiontest.Cluster, conf string) *sessiontest.Session {
	r := framework.NewRegistry()
	r.RegisterPlugin(nodeorder.Spec())
	return c.Open(r, conf)
}

// addImages adds images to the nodes of the session, because upstream's sessions do not report images.
func addImages(ssn *sessiontest.Session) {
	for name, node := range ssn.NodeMap {
		states := map[string]*fwk.ImageStateSummary{}
		for image, size := range map[string]int64{"small:latest": 5 << 20, "large:v1": 700 << 20, "reg:5000/huge:latest": 9000 << 20} {
			if (len(image)+int(name[len(name)-1]))%3 != 0 { // only some nodes have the image
				states[image] = &fwk.ImageStateSummary{Size: size, NumNodes: 1 + len(image)%7}
			}
		}
		node.(*k8sframework.NodeInfo).ImageStates = states
	}
}

// sessions are two sessions on one snapshot, with upstream's plugin and with ours.
type sessions struct{ upstream, ours *sessiontest.Session }

// tasks returns the session's tasks in this status, by name.
func tasks(ssn *sessiontest.Session, status api.TaskStatus) map[string]*api.TaskInfo {
	out := map[string]*api.TaskInfo{}
	for _, job := range ssn.Jobs {
		for _, task := range job.TaskStatusIndex[status] {
			out[task.Name] = task
		}
	}
	return out
}

func nodesOf(ssn *sessiontest.Session, names []string) []*api.NodeInfo {
	var out []*api.NodeInfo
	for _, name := range names {
		out = append(out, ssn.Nodes[name])
	}
	return out
}

// scores are the scores that a session computes for a task.
type scores struct {
	Node     map[string]float64
	Batch    map[string]float64
	NodeErr  string
	BatchErr string
}

func scoresOf(ssn *sessiontest.Session, task *api.TaskInfo, candidates []string) scores {
	out := scores{Node: map[string]float64{}}
	nodes := nodesOf(ssn, candidates)
	for _, node := range nodes {
		score, err := ssn.NodeOrderFn(task, node)
		if err != nil {
			out.NodeErr = err.Error()
		}
		out.Node[node.Name] = score
	}
	batch, err := ssn.BatchNodeOrderFn(task, nodes)
	if err != nil {
		out.BatchErr = err.Error()
	}
	out.Batch = batch
	return out
}

// TestScoresAreUpstreams compares the scores of upstream's plugin and ours for random pods on random nodes, before and
// after the session places pods. Scores and errors must be equal.
//
// If the plugin does not call a task uncacheable, placing another task must change the task's scores on no other node.
func TestScoresAreUpstreams(t *testing.T) {
	const clusters, nodes, pending = 150, 9, 24
	cluster := sessiontest.New(sessiontest.ClusterSpec{Objects: objects()})
	t.Cleanup(cluster.Close)
	compared, uncacheable := 0, 0
	for seed := range uint64(clusters) {
		d := dice{rand.New(rand.NewPCG(seed, 1))}
		cluster.Load(d.cluster(nodes, pick(d, 2, 6, 24), pending))
		conf := confOf(d.oneIn(2), d.weights()...)
		s := sessions{openUpstream(cluster, conf), openOurs(cluster, conf)}
		if d.oneIn(3) {
			addImages(s.upstream)
			addImages(s.ours)
		}
		all := slices.Sorted(maps.Keys(s.ours.Nodes))
		for range d.IntN(5) { // before the first score
			s.change(t, d, all)
		}
		for range 6 {
			candidates := slices.Clone(all)
			if d.oneIn(2) {
				d.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
				candidates = candidates[:1+d.IntN(len(all))]
			}
			theirs, ours := tasks(s.upstream, api.Pending), tasks(s.ours, api.Pending)
			free := map[string]scores{}
			for name, task := range ours {
				want, got := scoresOf(s.upstream, theirs[name], candidates), scoresOf(s.ours, task, candidates)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("seed %d, conf:\n%s\nscores of %s/%s (-upstream +ours):\n%s", seed, conf, task.Namespace, name, diff)
				}
				compared++
				if s.ours.Signers.Scope(nodeorder.Name, task) == framework.Uncached {
					uncacheable++
				} else {
					free[name] = got
				}
			}
			changed := s.change(t, d, all)
			for name, before := range free {
				if task := ours[name]; task.Status == api.Pending && s.ours.Signers.Scope(nodeorder.Name, task) != framework.Uncached {
					after := scoresOf(s.ours, task, candidates)
					delete(before.Node, changed)
					delete(after.Node, changed)
					if diff := cmp.Diff(before, after); diff != "" {
						t.Fatalf("seed %d, conf:\n%s\nscores of %s/%s, which is not uncacheable, with something placed on %s (-before +after):\n%s", seed, conf, task.Namespace, name, changed, diff)
					}
				}
			}
		}
		s.upstream.Close()
		s.ours.Close()
	}
	t.Logf("%d pairs of pod and candidates compared, %d of them uncacheable", compared, uncacheable)
}

// change places or evicts the same task in both sessions, and returns the node.
func (s sessions) change(t *testing.T, d dice, nodes []string) string {
	t.Helper()
	status := pick(d, api.Pending, api.Pending, api.Running)
	theirs, ours := tasks(s.upstream, status), tasks(s.ours, status)
	names := slices.Sorted(maps.Keys(ours))
	if len(names) == 0 {
		return ""
	}
	name, node := pick(d, names...), pick(d, nodes...)
	if status == api.Running {
		node = ours[name].NodeName
	}
	undo := d.oneIn(4)
	for ssn, task := range map[*sessiontest.Session]*api.TaskInfo{s.upstream: theirs[name], s.ours: ours[name]} {
		stmt := vcframework.NewStatement(ssn.Session.Session)
		if status == api.Running {
			if err := stmt.Evict(task, "test"); err != nil {
				t.Fatal(err)
			}
		} else {
			_ = stmt.Allocate(task, ssn.Nodes[node]) // pods are placed even if they do not fit
		}
		if undo {
			stmt.Discard()
		}
	}
	return node
}
