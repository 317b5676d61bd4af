// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"
	"volcano.sh/volcano/cmd/scheduler/app/options"

	"github.com/volcano-prebind/volcano-prebind/internal/listen"
	"github.com/volcano-prebind/volcano-prebind/pkg/scheduler/framework"
)

// Options are the values of upstream's flags and of this project's flags.
type Options struct {
	*options.ServerOption
	// Plugins are the plugins of this build in addition to upstream's.
	Plugins []framework.PluginSpec
	// ValidateConf is the path of a configuration file. If it is set, the process checks the file and does not
	// schedule.
	ValidateConf string
	// DrainGracePeriod bounds how long in-flight bind transactions may take to end after SIGTERM. Members that are not
	// being bound at the end of that time are rolled back.
	DrainGracePeriod time.Duration
}

// AddFlags adds all flags to fs. Upstream's flags keep their names and defaults, except that the health endpoint is
// enabled.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	o.ServerOption.AddFlags(fs)
	o.EnableHealthz = true
	fs.Lookup("enable-healthz").DefValue = "true"
	fs.Lookup("enable-healthz").Usage = "Enable the health check; it is true by default"
	fs.StringVar(&o.ValidateConf, "validate-conf", "", "Validate this scheduler configuration file, print its errors and exit: 0 if it is valid, 1 otherwise")
	fs.DurationVar(&o.DrainGracePeriod, "drain-grace-period", 20*time.Second, "How long bind transactions in flight may take to end after SIGTERM. Members not being bound by then are rolled back, which may take 20 s more. Set the pod's terminationGracePeriodSeconds 30 s higher")
}

// listenAddress returns the address to listen on. An address without a host becomes a loopback address. To listen on
// all interfaces, a user writes the host 0.0.0.0.
func listenAddress(flag, address string) (string, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return "", fmt.Errorf("--%s is %q, not host:port: %w", flag, address, err)
	}
	return listen.Loopback(address), nil
}
