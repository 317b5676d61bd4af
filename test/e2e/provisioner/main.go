// SPDX-License-Identifier: Apache-2.0

// Command e2e-provisioner creates volumes for the claims of storage classes that name it. A volume is on the node that
// was selected for the claim, and only that node reaches it. A test may order other behavior. Under its name with the
// suffix "-csi", the command is a CSI driver. Orders are files in a directory, as the package control of the end-to-end
// tests writes them. The command is a separate module, so its dependencies are not part of the scheduler.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

const (
	// workers is the number of claims that are provisioned concurrently.
	workers = 32
	// A claim whose provisioning failed is retried after a pause that grows from firstRetry to lastRetry.
	firstRetry, lastRetry = 50 * time.Millisecond, 500 * time.Millisecond
	// callsPerSecond is more than any test makes.
	callsPerSecond = 1000
	// glance is the interval between checks of a volume that is being created.
	glance = 10 * time.Millisecond
	// asDriver is the suffix of the provisioner's name under which it is a CSI driver.
	asDriver = "-csi"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	name := flag.String("provisioner", "", "what storage classes name it")
	orders := flag.String("control", "", "the directory that orders are in")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *name, *orders); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, name, orders string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = callsPerSecond, callsPerSecond
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client of kubeconfig %s: %w", kubeconfig, err)
	}
	controller.NewProvisionController(ctx, client, name, provisioner{orders},
		controller.LeaderElection(false), controller.AdditionalProvisionerNames([]string{name + asDriver}), controller.Threadiness(workers), controller.MetricsPort(0),
		controller.RateLimiter(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
	).Run(ctx)
	return nil
}

// provisioner follows the orders of a test.
type provisioner struct {
	dir string
}

// The orders for a claim or a node.
const (
	// fail refuses to make a volume.
	fail = "fail"
	// hang keeps the volume in creation, whatever happens to the claim, until the order is revoked.
	hang = "hang"
	// reschedule asks the scheduler for another node.
	reschedule = "reschedule"
)

// Provision implements controller.Provisioner.
func (p provisioner) Provision(ctx context.Context, o controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	claim, node := o.PVC.Name, o.SelectedNodeName
	p.record(claim, node, "begin")
	for p.ordered(hang, claim, node) {
		select {
		case <-ctx.Done():
			return nil, controller.ProvisioningFinished, ctx.Err()
		case <-time.After(glance):
		}
	}
	state := controller.ProvisioningFinished
	switch {
	case p.ordered(reschedule, claim, node):
		state = controller.ProvisioningReschedule
	case p.ordered(fail, claim, node):
	default:
		p.record(claim, node, "ok")
		return volume(o), state, nil
	}
	p.record(claim, node, "error")
	return nil, state, fmt.Errorf("ordered not to create a volume on node %s", node)
}

// volume returns a volume that only the selected node reaches.
func volume(o controller.ProvisionOptions) *v1.PersistentVolume {
	source := v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/volumes/" + o.PVName}}
	if driver := o.StorageClass.Provisioner; strings.HasSuffix(driver, asDriver) {
		source = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: o.PVName}}
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: v1.PersistentVolumeSpec{
			Capacity:                      v1.ResourceList{v1.ResourceStorage: o.PVC.Spec.Resources.Requests[v1.ResourceStorage]},
			AccessModes:                   o.PVC.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: *o.StorageClass.ReclaimPolicy,
			PersistentVolumeSource:        source,
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{o.SelectedNodeName}}},
			}}}},
		},
	}
}

// Delete implements controller.Provisioner. A volume has no storage to delete.
func (p provisioner) Delete(context.Context, *v1.PersistentVolume) error { return nil }

func (p provisioner) ordered(verb string, objects ...string) bool {
	for _, object := range append(objects, "anything") {
		if _, err := os.Stat(filepath.Join(p.dir, fmt.Sprintf("order.provisioner.%s.%s", object, verb))); err == nil {
			return true
		}
	}
	return false
}

// record adds a line to the journal.
func (p provisioner) record(claim, node, phase string) {
	file, err := os.OpenFile(filepath.Join(p.dir, "journal"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(file, "provisioner,provision,%s,%s,%s\n", claim, node, phase)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
