// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/volcano-prebind/volcano-prebind/config"
	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

var _ = Describe("An API server that serves no claims for devices", func() {
	It("is scheduled for, and a configuration that names dynamicresources is refused", func(ctx SpecContext) {
		without, err := controlplane.Start(ctx, controlplane.Options{
			BinDir: binaries, Progress: GinkgoWriter, NoControllerManager: true, NoKWOK: true,
			// With the gate on, the API server itself waits for its own lists of these objects.
			APIServerArgs: []string{"--runtime-config=resource.k8s.io/v1=false", "--feature-gates=DynamicResourceAllocation=false"},
		})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error { return without.Stop() })
		Expect(without.InstallCRDs(ctx)).To(Succeed())
		Expect(without.InstallChart(ctx)).To(Succeed())
		const refusal = "plugin dynamicresources: the API server does not serve resource.k8s.io/v1"
		named := config.DefaultConf + "- plugins:\n  - name: dynamicresources\n"

		scheduler, err := without.StartScheduler(ctx, controlplane.SchedulerOptions{Name: "unnamed"})
		Expect(err).NotTo(HaveOccurred())
		log := func(s *controlplane.Scheduler) func() string { return func() string { return s.LogTail(1000) } }
		Eventually(log(scheduler)).Should(ContainSubstring("Scheduling starts"))
		Expect(scheduler.LogTail(1000)).To(ContainSubstring("The API server does not serve claims for devices"))
		Expect(scheduler.ReplaceConf(named)).To(Succeed())
		Eventually(log(scheduler)).Should(ContainSubstring(refusal))
		Expect(scheduler.WaitHealthy(ctx)).To(Succeed())
		Expect(scheduler.Exited()).NotTo(BeClosed())

		refused, err := without.StartScheduler(ctx, controlplane.SchedulerOptions{Name: "named", Conf: named, NoWait: true})
		Expect(err).NotTo(HaveOccurred())
		Eventually(refused.Exited()).Should(BeClosed())
		Expect(refused.LogTail(20)).To(ContainSubstring(refusal))
	})
})
