// SPDX-License-Identifier: Apache-2.0

package feasible

import (
	"github.com/spf13/pflag"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/scheduler/util"
)

// enough is how many nodes that fit are looked for among so many: all, unless upstream's sampling flags were set.
func (f *Finder) enough(nodes int) int {
	if !f.sampled {
		return nodes
	}
	return int(util.CalculateNumOfFeasibleNodesToFind(int32(nodes)))
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
