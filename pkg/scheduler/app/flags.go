// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"volcano.sh/volcano/pkg/util"
)

// mostNodeWorkers bounds the number of goroutines that read nodes into the cache. More than a few dozen goroutines only
// wait for each other.
const mostNodeWorkers = 1000

// check returns an error for each flag with an invalid value. Upstream validates only the leader election flags. With
// most other invalid values its scheduler would hang, wait forever or do nothing.
func (o *Options) check() error {
	return errors.Join(
		o.CheckOptionOrDie(),
		o.checkNames(),
		checkLonger("schedule-period", o.SchedulePeriod),
		checkNotNegative("resync-period", o.ResyncPeriod),
		checkNotNegative("drain-grace-period", o.DrainGracePeriod),
		o.checkRates(),
		checkRange("minimum-feasible-nodes", o.MinNodesToFind, 0, math.MaxInt32),
		checkRange("minimum-percentage-nodes-to-find", o.MinPercentageOfNodesToFind, 0, 100),
		checkRange("percentage-nodes-to-find", o.PercentageOfNodesToFind, math.MinInt32, 100), // 0 or less lets upstream compute the percentage
		checkRange("node-worker-threads", o.NodeWorkerThreads, 1, mostNodeWorkers),
		o.checkPluginsDir(),
	)
}

// redirection is an argument in upstream's manifests. No shell interprets it there, so checkPositional ignores it.
const redirection = "2>&1"

// checkPositional rejects arguments that belong to no flag. Upstream ignores such arguments, but most of them are the
// value of a flag that was written without "=".
func checkPositional(args []string) error {
	for _, arg := range args {
		if arg != redirection {
			return fmt.Errorf("argument %q belongs to no flag; give a flag its value with =, as in --leader-elect=false, and --validate-conf one file", shorten(arg))
		}
	}
	return nil
}

func (o *Options) checkNames() error {
	var errs []error
	reject := func(flag, value, want string) {
		errs = append(errs, fmt.Errorf("--%s is %q; it must be %s", flag, shorten(value), want))
	}
	for _, name := range o.SchedulerNames {
		if name == "" {
			reject("scheduler-name", name, "the schedulerName of the pods to schedule")
		}
	}
	if problems := validation.IsDNS1123Subdomain(o.DefaultQueue); len(problems) > 0 {
		reject("default-queue", o.DefaultQueue, "the name of a queue: "+problems[0])
	}
	election := o.LeaderElection
	if namespace := o.leaseNamespace(); election.LeaderElect && len(validation.IsDNS1123Label(namespace)) > 0 {
		reject("leader-elect-resource-namespace", namespace, "the name of a namespace")
	}
	if problems := validation.IsDNS1123Subdomain(election.ResourceName); election.LeaderElect && election.ResourceName != "" && len(problems) > 0 {
		reject("leader-elect-resource-name", election.ResourceName, "the name of a lease: "+problems[0])
	}
	if election.LeaderElect && election.ResourceLock != "" && election.ResourceLock != resourcelock.LeasesResourceLock {
		reject("leader-elect-resource-lock", election.ResourceLock, resourcelock.LeasesResourceLock)
	}
	for _, selector := range o.NodeSelector {
		key, value, ok := strings.Cut(selector, ":")
		if !ok || strings.TrimSpace(key) == "" || strings.TrimSpace(value) == "" {
			reject("node-selector", selector, "a label such as volcano.sh/role:train")
		}
	}
	switch o.ShardingMode {
	case util.NoneShardingMode, util.HardShardingMode, util.SoftShardingMode:
	default:
		reject("scheduler-sharding-mode", o.ShardingMode, fmt.Sprintf("%s, %s or %s", util.NoneShardingMode, util.HardShardingMode, util.SoftShardingMode))
	}
	if o.ShardingMode != util.NoneShardingMode && o.ShardName == "" {
		reject("scheduler-sharding-name", o.ShardName, "the name of a NodeShard unless --scheduler-sharding-mode is none")
	}
	return errors.Join(errs...)
}

// checkRates checks the rate limit of calls to the API server. client-go treats a rate below 0 as no limit, and 0 as 5
// calls per second.
func (o *Options) checkRates() error {
	qps, burst := float64(o.KubeClientOptions.QPS), o.KubeClientOptions.Burst
	var errs []error
	if qps == 0 || math.IsNaN(qps) || math.IsInf(qps, 0) {
		errs = append(errs, fmt.Errorf("--kube-api-qps is %v; it must be over 0, or below 0 for no limit", qps))
	}
	if qps > 0 && burst < 1 {
		errs = append(errs, fmt.Errorf("--kube-api-burst is %d; it must be 1 or more", burst))
	}
	return errors.Join(errs...)
}

// checkPluginsDir rejects a plugin directory: the binary is linked statically, so it cannot load shared objects.
func (o *Options) checkPluginsDir() error {
	if o.PluginsDir == "" {
		return nil
	}
	return fmt.Errorf("--plugins-dir is %q; it must not be given: shared objects cannot be loaded by this scheduler. "+
		"Link your plugins into a build of your own, whose main calls app.Main with their specs (docs/prebind.md)", shorten(o.PluginsDir))
}

// leaseNamespace returns the namespace of the leader lease. The deprecated flag --lock-object-namespace has precedence.
func (o *Options) leaseNamespace() string {
	if o.LockObjectNamespace != "" {
		return o.LockObjectNamespace
	}
	return o.LeaderElection.ResourceNamespace
}

func checkLonger(flag string, d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("--%s is %s; it must be longer than 0", flag, d)
	}
	return nil
}

func checkNotNegative(flag string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("--%s is %s; it must be 0 or longer", flag, d)
	}
	return nil
}

func checkRange[T int32 | uint32](flag string, value T, low, high int64) error {
	switch v := int64(value); {
	case v >= low && v <= high:
		return nil
	case low == math.MinInt32:
		return fmt.Errorf("--%s is %d; it must be %d or less", flag, v, high)
	case high == math.MaxInt32:
		return fmt.Errorf("--%s is %d; it must be %d or more", flag, v, low)
	default:
		return fmt.Errorf("--%s is %d; it must be between %d and %d", flag, v, low, high)
	}
}

func shorten(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "..."
}
