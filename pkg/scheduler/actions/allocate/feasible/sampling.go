// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"github.com/spf13/pflag"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// maxRareLooks bounds how many checks of nodes one session spends on tasks of rare classes: classes with few tasks (see
// enough). It suffices for 50 classes on 1,000 nodes, which takes about 0.2 s.
const maxRareLooks = 50_000

// sampler decides how many nodes are checked for each class of the session.
type sampler struct {
	// all are the nodes on which the session places tasks.
	all *nodeset.Set
	// byFlags reports whether flags that the user has set leave nodes unchecked.
	byFlags bool
	// rareLooks counts the checks of nodes for tasks of rare classes: classes with few tasks. maxRareLooks bounds it.
	rareLooks int
}

// enough returns how many feasible nodes of the set to look for, for tasks of the class. It returns all, unless
// upstream's sampling flags are set, or the session has so many rare classes that checking all nodes for each is too
// slow. Upstream takes a sample of the nodes for each task. Here all tasks of a class share the result, so a class is
// rare if it has fewer tasks than the number of samples that cover all nodes. Unless the flags are set, all nodes are
// checked for tasks that are placed one by one, have claims, or must be placed in a node group or HyperNode. expected is
// how many tasks of the class the session is to place; 0 when unknown.
func (s *sampler) enough(set *nodeset.Set, c *ClassResults, expected int) int {
	nodes := len(set.Nodes)
	sample := int(util.CalculateNumOfFeasibleNodesToFind(int32(nodes)))
	if s.byFlags {
		return sample
	}
	if expected == 0 || set != s.all || c.layers.nothingCached || c.layers.oneByOne || framework.HasClaims(c.task.Pod) {
		return nodes
	}
	if expected*sample >= nodes {
		return nodes
	}
	if s.rareLooks += nodes; s.rareLooks <= maxRareLooks {
		return nodes
	}
	return expected * sample
}

// looks are the nodes of a set that have been checked, and how many are to be checked.
type looks struct {
	// wanted is how many feasible nodes are to be found.
	wanted int
	// done is how many of the set's nodes have been checked. step is the distance between two checked nodes.
	done, step int
	// looked marks the checked nodes, by their index in the set's Nodes.
	looked []bool
}

func newLooks(nodes, wanted int) looks {
	return looks{wanted: wanted, step: stepFor(wanted, nodes), looked: make([]bool, nodes)}
}

// all reports whether all nodes of the set have been checked.
func (l *looks) all() bool { return l.done == len(l.looked) }

// next marks the next node of the set as checked, and returns its index in the set's Nodes.
func (l *looks) next() int32 {
	place := int32(l.done * l.step % len(l.looked))
	l.looked[place] = true
	l.done++
	return place
}

// stepFor returns the distance between the nodes of a sample, so that the sample covers all parts of the cluster.
// Repeated steps visit each node once before they return to the first.
func stepFor(enough, nodes int) int {
	step := nodes / max(enough, 1)
	for step > 1 && gcd(step, nodes) > 1 {
		step++
	}
	return max(step, 1)
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// samplingWanted reports whether a user has set one of upstream's sampling flags to a value that leaves out nodes.
// defaults are the flags' default values.
func samplingWanted(defaults *options.ServerOption) bool {
	set := options.ServerOpts
	if percentage := set.PercentageOfNodesToFind; percentage > 0 {
		return percentage < 100
	}
	return set.MinNodesToFind != defaults.MinNodesToFind || set.MinPercentageOfNodesToFind != defaults.MinPercentageOfNodesToFind
}

// DefaultFlags returns the options of upstream's scheduler with the default values of its flags.
func DefaultFlags() *options.ServerOption {
	defaults := options.NewServerOption()
	defaults.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return defaults
}
