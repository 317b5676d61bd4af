// SPDX-License-Identifier: Apache-2.0

package random

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// fault is a constraint that an outcome breaks.
type fault struct{ kind, what string }

// leaked is the kind of fault that breaks no constraint but leaves the session inconsistent.
const leaked = "leak"

func (f fault) String() string { return f.kind + ": " + f.what }

// faults checks an outcome by the rules of the API only: it reads pods, nodes and PodGroups, and shares no code with
// an action or a plugin. It checks the final nodes of the pods, not the order in which they were placed.
func faults(in instance, out outcome) []fault {
	s := newScene(in, out)
	s.checkPods()
	s.checkNodes()
	s.checkPorts()
	s.checkAntiAffinity()
	s.checkAffinity()
	s.checkSpread()
	s.checkGangs()
	s.checkTopology()
	s.checkQueues()
	s.checkVolumes()
	for _, leak := range out.leaks {
		s.fault(leaked, "%s", leak)
	}
	for _, victim := range out.evicted {
		s.fault("evicted", "%s", victim)
	}
	slices.SortFunc(s.faults, func(l, r fault) int { return strings.Compare(l.String(), r.String()) })
	return slices.Compact(s.faults)
}

// state is how a pod got its node.
type state int

const (
	running state = iota
	releasing
	bound
	// held and pipelined pods are on their nodes in the session only.
	held
	pipelined
)

// placed is a pod on a node.
type placed struct {
	*v1.Pod
	node  *v1.Node
	state state
}

func (p *placed) key() string { return p.Namespace + "/" + p.Name }

// fresh reports whether the action placed the pod.
func (p *placed) fresh() bool { return p.state >= bound }

// scene is an outcome in the form that the checks need.
type scene struct {
	instance
	outcome outcome
	nodes   map[string]*v1.Node
	pods    []*placed
	groups  map[string]*v1beta1.PodGroup
	// members are the pods of each gang, placed or not.
	members map[string][]*v1.Pod
	faults  []fault
}

func newScene(in instance, out outcome) *scene {
	s := &scene{instance: in, outcome: out, nodes: map[string]*v1.Node{}, groups: map[string]*v1beta1.PodGroup{}, members: map[string][]*v1.Pod{}}
	for _, node := range in.world.Nodes {
		s.nodes[node.Name] = node
	}
	for _, group := range in.world.PodGroups {
		s.groups[group.Name] = group
	}
	known := map[string]bool{}
	for _, pod := range in.world.Pods {
		p := &placed{Pod: pod}
		known[p.key()] = true
		if group := gangOf(pod); group != "" {
			s.members[group] = append(s.members[group], pod)
		}
		var name string
		switch {
		case runs(pod) && pod.DeletionTimestamp != nil:
			name, p.state = pod.Spec.NodeName, releasing
		case runs(pod):
			name, p.state = pod.Spec.NodeName, running
		case out.bound[p.key()] != "":
			name, p.state = out.bound[p.key()], bound
		case out.held[p.key()] != "":
			name, p.state = out.held[p.key()], held
		case out.pipelined[p.key()] != "":
			name, p.state = out.pipelined[p.key()], pipelined
		default:
			continue
		}
		if p.node = s.nodes[name]; p.node == nil {
			s.fault("node", "%s is put on %q, which is no node", p.key(), name)
			continue
		}
		s.pods = append(s.pods, p)
	}
	for _, placement := range []map[string]string{out.bound, out.held, out.pipelined} {
		for _, key := range sortedKeys(placement) {
			if !known[key] {
				s.fault("pod", "%s is placed, but there is no such pod", key)
			}
		}
	}
	return s
}

func (s *scene) fault(kind, format string, args ...any) {
	s.faults = append(s.faults, fault{kind, fmt.Sprintf(format, args...)})
}

// runs reports whether the pod ran before the session. It uses the phase, because actions write the node's name into
// the pods that they are given.
func runs(pod *v1.Pod) bool { return pod.Status.Phase == v1.PodRunning }

func gangOf(pod *v1.Pod) string { return pod.Annotations[v1beta1.KubeGroupNameAnnotationKey] }

// ready returns the number of gangs that have their minimum in the outcome and had members to place. Members that
// backfill will place do not count: our action checks whether they fit, and upstream's does not.
func ready(in instance, out outcome) int {
	s := newScene(in, out)
	n := 0
	for name := range s.groups {
		if len(s.freshOf(name)) > 0 && len(s.shortOf(name, s.has)) == 0 {
			n++
		}
	}
	return n
}

// freshOf returns the gang's members that were bound.
func (s *scene) freshOf(gang string) []*placed {
	var out []*placed
	for _, p := range s.pods {
		if p.state == bound && gangOf(p.Pod) == gang {
			out = append(out, p)
		}
	}
	return out
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
