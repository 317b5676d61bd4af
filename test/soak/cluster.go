// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	vcclient "volcano.sh/apis/pkg/client/clientset/versioned"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
	"github.com/volcano-prebind/volcano-prebind/test/e2e/control"
)

const (
	// namespace has the gangs that must be bound, and oddNamespace unusual objects.
	namespace    = "soak"
	oddNamespace = "soak-odd"
	secondQueue  = "soak-second"
	// plugin is the pre-bind plugin of the test's scheduler that leaves traces.
	plugin = "first"

	nodeCount     = 16
	cpusPerNode   = 8
	ibClusters    = 4
	clusterLabel  = "ibcluster"
	schedulers    = 2
	schedulerName = "volcano"
)

// start starts the cluster and its schedulers. After an error nothing is left running.
func start(ctx context.Context, opts options, out io.Writer) (_ *soak, err error) {
	s := &soak{opts: opts, out: out, began: time.Now(), upset: map[string]int{}, levels: map[int][]level{}}
	s.cp, err = controlplane.Start(ctx, controlplane.Options{Dir: opts.dir, Progress: io.Discard})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	config := s.cp.Config()
	config.Timeout = 10 * time.Second
	config.QPS, config.Burst = 200, 400
	if s.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if s.vc, err = vcclient.NewForConfig(config); err != nil {
		return nil, err
	}
	s.orders = control.Dir(filepath.Join(s.cp.Dir(), "orders"))
	if err := os.MkdirAll(string(s.orders), 0o700); err != nil {
		return nil, err
	}
	s.conf = newConfs(s.orders, opts.seed)
	s.fleet = newFleet(s)
	s.truth = newTruth(s.kube)
	s.odd = oddObjects{s.kube, s.vc}
	for _, step := range []func() error{
		func() error { return s.cp.InstallCRDs(ctx) },
		func() error { return s.cp.InstallChart(ctx) },
		func() error {
			return s.cp.Apply(ctx, control.PluginRole(controlplane.Namespace, controlplane.SchedulerServiceAccount))
		},
		func() error { return s.addNodes(ctx, 0, nodeCount) },
		func() error {
			_, err := s.cp.StartControllerManager(ctx, controlplane.ManagerOptions{})
			return err
		},
		func() error { return s.prepare(ctx) },
		func() error { return s.truth.start(ctx) },
		func() (err error) {
			s.proxy, err = s.cp.StartFaultProxy()
			return err
		},
		func() error { return s.startSchedulers(ctx) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	s.say("%d nodes of %d cpus in %d InfiniBand clusters, %d schedulers", nodeCount, cpusPerNode, ibClusters, schedulers)
	return s, nil
}

// addNodes creates count nodes, numbered from first.
func (s *soak) addNodes(ctx context.Context, first, count int) error {
	for i := first; i < first+count; i++ {
		err := s.cp.CreateNodes(ctx, controlplane.NodeShape{
			Count: 1, First: i, Prefix: "soak-", CPU: strconv.Itoa(cpusPerNode),
			Labels: map[string]string{clusterLabel: fmt.Sprintf("ib-%d", i*ibClusters/nodeCount)},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// prepare creates the namespaces, the second queue and the PriorityClasses.
func (s *soak) prepare(ctx context.Context) error {
	for name, value := range map[string]int32{lowPriority: 10, usualPriority: 1000} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := s.kube.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for _, name := range []string{namespace, oddNamespace} {
		if _, err := s.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	_, err := s.vc.SchedulingV1beta1().Queues().Create(ctx, &v1beta1.Queue{
		ObjectMeta: metav1.ObjectMeta{Name: secondQueue}, Spec: v1beta1.QueueSpec{Weight: 1},
	}, metav1.CreateOptions{})
	return err
}

func nodeName(i int) string { return fmt.Sprintf("soak-%04d", i) }

// binary returns the path of one of the repository's binaries, which must have been built.
func binary(name string) (string, error) {
	root, err := controlplane.RepoRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w; run \"make soak\", which builds it", err)
	}
	return path, nil
}

// stop ends everything that start has started.
func (s *soak) stop() error {
	for _, r := range s.replicas {
		r.retire()
	}
	err := s.cp.Stop()
	for _, r := range s.replicas {
		<-r.retired
	}
	return err
}
