// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

var _ = DescribeTable("A scheduler that could never schedule ends with code 1 and says why",
	func(ctx SpecContext, want string, args ...string) {
		scheduler, err := cp.StartScheduler(ctx, controlplane.SchedulerOptions{
			Name: "bad-flags", Binary: filepath.Join(binaries, "e2e-scheduler"), Args: args, LeaderElect: true, NoWait: true,
		})
		Expect(err).NotTo(HaveOccurred())
		Eventually(scheduler.Exited(), 2*time.Minute).Should(BeClosed())
		Expect(scheduler.Wait(ctx)).To(Equal(1))
		Expect(scheduler.LogTail(10)).To(ContainSubstring(want))
		Eventually(cp.Dead()).Should(Receive(), "it ended by itself, as it should")
	},
	Entry("because of its default queue", `--default-queue is ""`, "--default-queue="),
	Entry("because of its workers", "--node-worker-threads is 0", "--node-worker-threads=0"),
	Entry("because of its plugins", "--plugins-dir", "--plugins-dir=/nowhere"),
	Entry("because its lease is in a namespace where it may write none", "the lease default/bad-lease cannot be used",
		"--leader-elect-resource-namespace=default", "--leader-elect-resource-name=bad-lease"),
)
