// SPDX-License-Identifier: Apache-2.0

package ibcluster

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"volcano.sh/volcano/pkg/scheduler/api"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/topology"
)

// placedIn is the pre-bind step of one session. It runs in the member's chain, and again as the pre-commit check
// before the gang is bound. The step may run after its session has closed, so it keeps the gangs' rules and the session's node groups,
// which do not change, and a reader of the present node groups.
//
// With mode required, a member passes if its node is still in the node group in which it was when the gang was placed. So each member can
// be checked by itself, and all bound members are in one node group even if nodes move. If a whole node group is
// renamed, its members fail and are placed again in a later session.
type placedIn struct {
	forest   *topology.Forest
	requests map[api.JobID]*request
	now      *presentGroups
}

// addPreBind adds the pre-bind step if a gang needs the step. Without any step, members are bound at once.
func (s *session) addPreBind() {
	for _, w := range s.requests {
		if w.binds() {
			step := &placedIn{forest: s.forest, requests: s.requests, now: s.present}
			s.ssn.AddPreBindFn(Name, step.preBind, framework.WithPreCommitCheck(step.preBind))
			return
		}
	}
}

// preBind returns an error if, since the gang was placed, the node has left its node group or the clusters that are
// allowed for the gang.
func (p *placedIn) preBind(task *api.TaskInfo, node string) error {
	w := p.requests[task.Job]
	if w == nil || !w.binds() {
		return nil
	}
	level := w.level
	if w.mode == modePreferred {
		level = 0 // ClustersAnnotation lists groups of the widest level
	}
	then := p.forest.Levels()
	is, levels, there := p.now.of(node)
	was := func(level int) *topology.Group { return p.forest.Of(node, level) }
	now := func(level int) *topology.Group { return is.At(levelNow(then, level, levels)) }
	moved := func(level int, group *topology.Group, rest string) error {
		return fmt.Errorf("node %s moved from %s to %s (by %s) after the gang was placed; %s", node, pathOf(was(level)), pathOf(group), p.now.by(then, level), rest)
	}
	cluster := now(0)
	switch {
	case !there:
		return fmt.Errorf("node %s no longer exists; it was in %s when the gang was placed", node, pathOf(was(level)))
	case w.mode == modeRequired && !p.now.same(was(level), now(level)):
		return moved(level, now(level), "the gang must be in one node group")
	case len(w.clusters) > 0 && (cluster == nil || !slices.Contains(w.clusters, cluster.Name)):
		return moved(0, cluster, "annotation "+ClustersAnnotation+" does not list that cluster")
	case w.group != "" && !p.now.same(was(0), cluster):
		return moved(0, cluster, "affinity group "+w.group+" must be in one cluster")
	}
	return nil
}

// levelNow returns the index of a level in now, the current levels. The parameter level is its index in then, the
// levels of the session. The two indexes differ if tiers of HyperNodes were added or removed. levelNow returns -1 if
// the level no longer exists.
func levelNow(then []topology.Level, level int, now []topology.Level) int {
	if level >= len(then) {
		return -1
	}
	return slices.IndexFunc(now, func(l topology.Level) bool { return l.Name == then[level].Name })
}

func pathOf(g *topology.Group) string {
	if g == nil {
		return "no node group"
	}
	return g.Path()
}

// presentGroups reads the current node groups of nodes from informers. It is safe for concurrent use.
type presentGroups struct {
	nodes corelisters.NodeLister
	keys  []string
	// tree returns the current HyperNodes; nil if labels define the node groups.
	tree func() *api.HyperNodesInfo

	// mu guards the fields below. hyperNodeForest also holds mu while it reads the HyperNodes.
	mu         sync.Mutex
	hyperNodes *topology.HyperNodes
	read       *api.HyperNodesInfo
	forest     *topology.Forest
}

func newPresentGroups(s settings, h framework.Handle) *presentGroups {
	p := &presentGroups{nodes: h.InformerFactory().Core().V1().Nodes().Lister(), keys: s.levels}
	if s.source == fromHyperNodes {
		p.tree, p.hyperNodes = h.HyperNodes, topology.NewHyperNodes(s.levels...)
	}
	return p
}

// of returns the narrowest node group that has the node, and the current levels. It returns false if the node does
// not exist.
func (p *presentGroups) of(name string) (*topology.Group, []topology.Level, bool) {
	node, err := p.nodes.Get(name)
	if err != nil { // a lister's only error is NotFound
		return nil, nil, false
	}
	var forest *topology.Forest
	if p.tree == nil {
		forest = topology.NewLabels(p.keys...).Forest([]*v1.Node{node})
	} else {
		forest = p.hyperNodeForest()
	}
	return forest.Narrowest(name), forest.Levels(), true
}

// hyperNodeForest returns the node groups that HyperNodes define. It reads the HyperNodes again if they or their
// nodes have changed.
func (p *presentGroups) hyperNodeForest() *topology.Forest {
	p.mu.Lock()
	defer p.mu.Unlock()
	if info := p.tree(); p.forest == nil || info != p.read {
		p.read, p.forest = info, p.hyperNodes.Forest(hyperNodesOf(info.HyperNodes(), info.RealNodesSet()))
	}
	return p.forest
}

// same reports whether was and is, read at two times, are the same node group. A HyperNode's name is unique. A label
// value is unique only within its wider node group, so paths are compared.
func (p *presentGroups) same(was, is *topology.Group) bool {
	if was == nil || is == nil {
		return was == is
	}
	if p.tree != nil {
		return was.Name == is.Name
	}
	return was.Path() == is.Path()
}

// by returns, as text, the source of the node groups of a level: labels, or the HyperNodes of a tier.
func (p *presentGroups) by(levels []topology.Level, level int) string {
	switch {
	case p.tree != nil && level < len(levels):
		return "HyperNodes of tier " + levels[level].Name
	case p.tree != nil:
		return "HyperNodes"
	case level == 0:
		return "its label " + p.keys[0]
	}
	return "its labels " + strings.Join(p.keys[:level+1], ", ")
}
