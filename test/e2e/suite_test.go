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
	// patience is how long a spec waits for what must come; it bounds nothing that is measured.
	patience = 30 * time.Second
	// controllersPatience is how long Kubernetes' own controllers may take, which a spec may keep from the API server.
	controllersPatience = 3 * time.Minute
	// glance is how often it looks.
	glance = 20 * time.Millisecond
	// watchful is how long a spec looks on for what must not come.
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

// failures are what the specs failed of, which the test prints last: a log of which only the end is kept has them.
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
	SetDefaultEventuallyTimeout(patience)
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

// renewControllers starts controllers anew. A spec has it done at its end that takes the API server away: after outages in a row
// informers pause for up to a minute, in which the specs that follow would wait for claims to be made and volumes to be bound.
func renewControllers(ctx SpecContext) {
	for _, component := range []controlplane.Component{controlplane.ControllerManager, controlplane.KWOK} {
		Expect(cp.Kill(component)).To(Succeed())
		Expect(cp.Restart(ctx, component)).To(Succeed())
	}
	Expect(volcanoControllers.Kill9()).To(Succeed())
	startVolcanoControllers(ctx)
}

// missing reports which binaries have to be built first.
func missing(bin string) error {
	var errs []error
	for _, name := range []string{"vc-scheduler", "vc-controller-manager", "e2e-scheduler", "e2e-provisioner", "vc-sandbox", "kubectl", "helm"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			errs = append(errs, fmt.Errorf("%w: build it first (make test-e2e does)", err))
		}
	}
	return errors.Join(errs...)
}

// priorities are what gangs of the specs have.
const priorities = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-high}
value: 1000
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: e2e-low}
value: 10
`
