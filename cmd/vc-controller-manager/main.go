// SPDX-License-Identifier: Apache-2.0

// Command vc-controller-manager runs upstream's Volcano controllers, with the same flags and four differences.
//
//   - An address without a host listens on loopback; use 0.0.0.0 or [::] to listen everywhere.
//   - The PodGroups of workloads inherit this project's annotations in addition to Volcano's.
//   - After an outage of the API server, all controllers work again at once.
//   - The gang-controller creates the PodGroups of gangs that are declared with Koordinator's or scheduler-plugins' objects
//     and annotations, unless --controllers excludes it.
package main

import (
	"fmt"
	"os"
	"slices"
	"time"
	_ "time/tzdata" // Time zones of CronJobs: the image has no time zone database.

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	cliflag "k8s.io/component-base/cli/flag"
	componentbaseoptions "k8s.io/component-base/config/options"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/controller-manager/app/options"
	_ "volcano.sh/volcano/pkg/controllers/colocationconfig"
	_ "volcano.sh/volcano/pkg/controllers/cronjob"
	"volcano.sh/volcano/pkg/controllers/framework"
	_ "volcano.sh/volcano/pkg/controllers/garbagecollector"
	_ "volcano.sh/volcano/pkg/controllers/hypernode"
	_ "volcano.sh/volcano/pkg/controllers/job"
	_ "volcano.sh/volcano/pkg/controllers/jobflow"
	_ "volcano.sh/volcano/pkg/controllers/jobtemplate"
	_ "volcano.sh/volcano/pkg/controllers/podgroup"
	_ "volcano.sh/volcano/pkg/controllers/queue"
	_ "volcano.sh/volcano/pkg/controllers/sharding"
	"volcano.sh/volcano/pkg/signals"
	"volcano.sh/volcano/pkg/util"
	"volcano.sh/volcano/pkg/version"

	"github.com/volcano-prebind/volcano-prebind/internal/listen"
	"github.com/volcano-prebind/volcano-prebind/internal/logline"
	"github.com/volcano-prebind/volcano-prebind/pkg/controllers/gangs"
	"github.com/volcano-prebind/volcano-prebind/pkg/controllers/podgroup"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	klog.InitFlags(nil)
	klog.SetLogFilter(logline.Filter{})
	opts := options.NewServerOption()
	if err := gangs.Register(); err != nil {
		return err
	}
	opts.AddFlags(pflag.CommandLine, controllerNames())
	flushEvery := pflag.Duration("log-flush-frequency", 5*time.Second, "Maximum number of seconds between log flushes")
	utilfeature.DefaultMutableFeatureGate.AddFlag(pflag.CommandLine)
	util.LeaderElectionDefault(&opts.LeaderElection)
	opts.LeaderElection.ResourceName = "vc-controller-manager"
	componentbaseoptions.BindLeaderElectionFlags(&opts.LeaderElection, pflag.CommandLine)
	cliflag.InitFlags()
	if opts.PrintVersion {
		version.PrintVersionAndExit()
	}
	if err := opts.CheckOptionOrDie(); err != nil {
		return err
	}
	if opts.CaCertFile != "" && opts.CertFile != "" && opts.KeyFile != "" {
		if err := opts.ParseCAFiles(nil); err != nil {
			return fmt.Errorf("reading the certificates: %w", err)
		}
	}
	gangsEnabled := enabled(gangs.Name, opts.Controllers)
	if err := podgroup.Register(func(pod *corev1.Pod) bool { return gangsEnabled && gangs.Claims(pod) }); err != nil {
		return err
	}
	opts.Controllers = podgroup.InPlaceOfUpstreams(opts.Controllers)
	opts.HealthzBindAddress = listen.Loopback(opts.HealthzBindAddress)
	opts.ListenAddress = listen.Loopback(opts.ListenAddress)
	klog.StartFlushDaemon(*flushEvery)
	defer klog.Flush()
	return serve(signals.SetupSignalContext(), opts)
}

// controllerNames returns the names that the flag --controllers accepts, sorted.
func controllerNames() []string {
	var names []string
	framework.ForeachController(func(c framework.Controller) { names = append(names, c.Name()) })
	slices.Sort(names)
	return names
}
