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

// enough returns how many feasible nodes of the set to look for, for tasks of the class. It returns all, unless
// upstream's sampling flags are set, or the session has so many rare classes that checking all nodes for each is too
// slow. Upstream takes a sample of the nodes for each task. Here all tasks of a class share the result, so a class is
// rare if it has fewer tasks than the number of samples that cover all nodes. Unless the flags are set, all nodes are
// checked for tasks that are placed one by one, have claims, or must be placed in a node group or HyperNode.
func (f *Finder) enough(set *nodeset.Set, c *ClassCache) int {
	nodes := len(set.Nodes)
	sample := int(util.CalculateNumOfFeasibleNodesToFind(int32(nodes)))
	if f.sampled {
		return sample
	}
	if c.expected == 0 || set != f.index.All || f.layering.nothingCached || c.layers.oneByOne || framework.HasClaims(c.task.Pod) {
		return nodes
	}
	if c.expected*sample >= nodes {
		return nodes
	}
	if f.rareLooks += nodes; f.rareLooks <= maxRareLooks {
		return nodes
	}
	return c.expected * sample
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
