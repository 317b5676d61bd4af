// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	busv1alpha1 "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

var _ = Describe("A Command for a queue", func() {
	It("is refused in a tenant's namespace", func(ctx SpecContext) {
		w := newTestEnv(ctx, "commands", 1, "2")
		create := func(target *metav1.OwnerReference) error {
			command := &busv1alpha1.Command{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "close-", Namespace: w.name}, Action: string(busv1alpha1.CloseQueueAction), TargetObject: target,
			}
			_, err := vc.BusV1alpha1().Commands(w.name).Create(ctx, command, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}
		queue := &metav1.OwnerReference{APIVersion: v1beta1.SchemeGroupVersion.String(), Kind: "Queue", Name: "default", UID: "1"}
		// The policy needs a moment to take effect.
		Eventually(func() error { return create(queue) }).Should(MatchError(ContainSubstring("queues.commandNamespaces")))
		Expect(create(&metav1.OwnerReference{APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "j", UID: "1"})).To(Succeed(), "a Command for a Job")
		Expect(create(nil)).To(Succeed(), "a Command for nothing")
	})
})
