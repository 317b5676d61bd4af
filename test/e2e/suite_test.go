// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

const (
	// maxWait is how long a spec waits for an expected event. It is not a measured limit.
	maxWait = 30 * time.Second
	// controllersPatience is how long Kubernetes' own controllers may take after a spec has kept them from the API
	// server.
	controllersPatience = 3 * time.Minute
	// glance is the interval between checks.
	glance = 20 * time.Millisecond
	// watchful is how long a spec watches for events that must not happen.
	watchful = 1500 * time.Millisecond
)

var (
	cp   *controlplane.ControlPlane
	kube kubernetes.Interface
	vc   vcclient.Interface
	// volcanoControllers is vc-controller-manager.
	volcanoControllers *controlplane.Process
	// binaries is the repository's bin.
	binaries string
)

// failures are the failures of the specs. The test prints them last, so that even the end of a log has them.
var failures []string

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "e2e")
	for _, failure := range failures {
		t.Log(failure)
	}
}

var _ = ReportAfterEach(func(report SpecReport) {
	if !report.Failed() {
		return
	}
	const most = 2000
	text := report.FailureMessage()
	if len(text) > most {
		text = text[:most/2] + " ... " + text[len(text)-most/2:]
	}
	for _, entry := range report.ReportEntries {
		text += "\n" + entry.Name
	}
	failures = append(failures, report.LeafNodeText+"\n"+text)
})

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(maxWait)
	SetDefaultEventuallyPollingInterval(glance)
	SetDefaultConsistentlyDuration(watchful)
	SetDefaultConsistentlyPollingInterval(glance)
	root, err := controlplane.RepoRoot()
	Expect(err).NotTo(HaveOccurred())
	binaries = filepath.Join(root, "bin")
	Expect(missing(binaries)).To(Succeed())

	cp, err = controlplane.Start(ctx, controlplane.Options{BinDir: binaries, Progress: GinkgoWriter})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return cp.Stop() })
	kube, err = kubernetes.NewForConfig(cp.Config())
	Expect(err).NotTo(HaveOccurred())
	vc, err = vcclient.NewForConfig(cp.Config())
	Expect(err).NotTo(HaveOccurred())
	Expect(cp.InstallCRDs(ctx)).To(Succeed())
	Expect(cp.InstallChart(ctx)).To(Succeed())
	Expect(cp.Apply(ctx, []byte(priorities))).To(Succeed())
	Expect(cp.Apply(ctx, control.PluginRole(controlplane.Namespace, controlplane.SchedulerServiceAccount))).To(Succeed())
	startVolcanoControllers(ctx)
})

// startVolcanoControllers runs vc-controller-manager.
func startVolcanoControllers(ctx context.Context) {
	GinkgoHelper()
	var err error
	volcanoControllers, err = cp.StartControllerManager(ctx, controlplane.ManagerOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// renewControllers restarts the controllers. A spec that stops the API server does this at its end: after several
// outages, informers pause for up to a minute, and the following specs would wait for the creation of claims and the
// binding of volumes.
func renewControllers(ctx SpecContext) {
	for _, component := range []controlplane.Component{controlplane.ControllerManager, controlplane.KWOK} {
		Expect(cp.Kill(component)).To(Succeed())
		Expect(cp.Restart(ctx, component)).To(Succeed())
	}
	Expect(volcanoControllers.Kill9()).To(Succeed())
	startVolcanoControllers(ctx)
}

// missing returns an error that names the binaries that must be built first.
func missing(bin string) error {
	var errs []error
	for _, name := range []string{"vc-scheduler", "vc-controller-manager", "e2e-scheduler", "e2e-provisioner", "vc-sandbox", "kubectl", "helm"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			errs = append(errs, fmt.Errorf("%w: build it first (make test-e2e does)", err))
		}
	}
	return errors.Join(errs...)
}

// priorities are the priority classes of the specs' gangs.
const priorities = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-patient}
value: 2000
preemptionPolicy: Never
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-high}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-middle}
value: 100
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-low}
value: 10
`
