// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	componentbaseoptions "k8s.io/component-base/config/options"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/scheduler/app/options"
	"volcano.sh/volcano/pkg/signals"
	commonutil "volcano.sh/volcano/pkg/util"
	"volcano.sh/volcano/pkg/version"

	"github.com/volcano-prebind/volcano-prebind/internal/garbage"
	"github.com/volcano-prebind/volcano-prebind/internal/logline"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/config"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"

	// Packages that upstream's command imports for their side effects: credential plugins, client metrics, assertions.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	_ "k8s.io/component-base/metrics/prometheus/restclient"
)

// Main is the complete main function of a scheduler: it parses the process's flags and runs until SIGTERM. A build with
// its own plugins passes their specs.
func Main(plugins ...framework.PluginSpec) error {
	defer klog.Flush()
	klog.InitFlags(nil)
	klog.SetLogFilter(logline.Filter{})
	keepGoing()
	garbage.Bound()
	fs := pflag.CommandLine
	opts := &Options{ServerOption: options.NewServerOption(), Plugins: append(PluginSpecs(), plugins...)}
	opts.AddFlags(fs)
	flushEvery := fs.Duration("log-flush-frequency", 5*time.Second, "Maximum number of seconds between log flushes")
	utilfeature.DefaultMutableFeatureGate.AddFlag(fs)
	commonutil.LeaderElectionDefault(&opts.LeaderElection)
	opts.LeaderElection.ResourceName = commonutil.GenerateComponentName(opts.SchedulerNames)
	componentbaseoptions.BindLeaderElectionFlags(&opts.LeaderElection, fs)
	opts.RegisterOptions()
	cliflag.InitFlags()

	if opts.PrintVersion {
		version.PrintVersionAndExit()
	}
	if err := checkPositional(fs.Args()); err != nil {
		return err
	}
	if fs.Changed("validate-conf") { // an empty path, such as that of an unset variable, also asks for validation
		return validate(opts)
	}
	if err := errors.Join(opts.check(), checkLonger("log-flush-frequency", *flushEvery)); err != nil {
		return err
	}
	if opts.CaCertFile != "" && opts.CertFile != "" && opts.KeyFile != "" {
		if err := opts.ParseCAFiles(nil); err != nil {
			return err
		}
	}
	klog.StartFlushDaemon(*flushEvery)
	return Run(signals.SetupSignalContext(), opts)
}

func validate(opts *Options) error {
	warnings, err := config.ValidateFile(opts.ValidateConf, config.NewCatalogue(opts.Plugins...))
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		fmt.Fprintln(os.Stderr, "warning:", warning)
	}
	fmt.Printf("%s is valid\n", opts.ValidateConf)
	return nil
}
