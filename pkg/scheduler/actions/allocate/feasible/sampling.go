// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"github.com/spf13/pflag"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/util"

	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/actions/allocate/nodeset"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// maxRareLooks bounds how many looks at nodes a session spends on tasks of rare classes beyond what upstream would: 50 of them on 1,000
// nodes. It takes about 0.2 s.
const maxRareLooks = 50_000

// enough is how many nodes of the set that fit are looked for, for tasks of the class: all, unless upstream's sampling flags were set, or a
// session has so many rare classes that looking at all nodes for each is too much. Upstream looks for a sample for each task; what is
// found here is kept for all tasks of the class, so a class is rare when it has fewer tasks than samples make all nodes. Where tasks are
// asked about one by one, have volumes, or lie in one group, all nodes are looked at.
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

// stepFor is how far apart the nodes of a sample are, so that it has some of all parts of the cluster. Steps of it come to each node once
// before they come to the first again.
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

// samplingWanted is true if a user has set one of upstream's flags that leave nodes out, of which the others have these
// defaults.
func samplingWanted(defaults *options.ServerOption) bool {
	set := options.ServerOpts
	if percentage := set.PercentageOfNodesToFind; percentage > 0 {
		return percentage < 100
	}
	return set.MinNodesToFind != defaults.MinNodesToFind || set.MinPercentageOfNodesToFind != defaults.MinPercentageOfNodesToFind
}

// DefaultFlags are upstream's flags as they are when none is set.
func DefaultFlags() *options.ServerOption {
	defaults := options.NewServerOption()
	defaults.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return defaults
}
