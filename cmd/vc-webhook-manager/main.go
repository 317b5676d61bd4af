// SPDX-License-Identifier: Apache-2.0

// Command vc-webhook-manager runs upstream's Volcano admission webhooks, with the same flags and three differences.
//
//   - An address without a host listens on loopback; use 0.0.0.0 or [::] to listen everywhere.
//   - The size of a request is limited, so that a client cannot exhaust the memory (CVE-2026-44247).
//   - Negative amounts of resources are rejected, because upstream's scheduler panics on them.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"
	_ "time/tzdata" // Time zones of CronJobs: the image has no time zone database.

	"github.com/spf13/pflag"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"
	"volcano.sh/volcano/cmd/webhook-manager/app"
	"volcano.sh/volcano/cmd/webhook-manager/app/options"
	"volcano.sh/volcano/pkg/version"
	_ "volcano.sh/volcano/pkg/webhooks/admission/cronjobs/validate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/hypernodes/validate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/jobflows/validate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/jobs/mutate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/jobs/validate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/podgroups/mutate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/podgroups/validate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/pods/mutate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/pods/validate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/queues/mutate"
	_ "volcano.sh/volcano/pkg/webhooks/admission/queues/validate"
	"volcano.sh/volcano/pkg/webhooks/router"

	"github.com/volcano-prebind/volcano-prebind/internal/listen"
	"github.com/volcano-prebind/volcano-prebind/internal/logline"
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
	config := options.NewConfig()
	config.AddFlags(pflag.CommandLine)
	flushEvery := pflag.Duration("log-flush-frequency", 5*time.Second, "Maximum number of seconds between log flushes")
	cliflag.InitFlags()
	if config.PrintVersion {
		version.PrintVersionAndExit()
	}
	if err := config.CheckPortOrDie(); err != nil {
		return err
	}
	if err := config.ParseCAFiles(nil); err != nil {
		return fmt.Errorf("reading the certificates: %w", err)
	}
	if config.ListenAddress == "" {
		config.ListenAddress = listen.LoopbackHost
	}
	config.HealthzBindAddress = listen.Loopback(config.HealthzBindAddress)
	klog.StartFlushDaemon(*flushEvery)
	defer klog.Flush()
	// Upstream serves http.DefaultServeMux, to which libraries have added profiling handlers. An empty mux replaces it.
	http.DefaultServeMux = http.NewServeMux()
	if err := router.ForEachAdmission(config, prepare); err != nil {
		return err
	}
	return app.Run(config)
}

// prepare adds the checks of this command to one of upstream's admission services.
func prepare(service *router.AdmissionService) error {
	if err := boundBody(service); err != nil {
		return err
	}
	return rejectNegative(service)
}
