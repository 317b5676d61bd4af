// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/volcano-prebind/volcano-prebind/internal/controlplane"
)

// The ConfigMap with the scheduler's configuration, as upstream's specs name it.
const (
	confMap = "integration-scheduler-configmap"
	confKey = "volcano-scheduler-ci.conf"
	// confPath is the configuration of upstream's CI.
	confPath = "installer/helm/chart/volcano/config/" + confKey
	// startTimeout is the limit of each wait for the expected state of the cluster.
	startTimeout = time.Minute
)

//go:embed stages.yaml
var stages string

// testCluster is the cluster of a suite, as in upstream's CI: one control plane node and four workers, eight more for
// HyperNodes, Volcano, and Kubernetes' own scheduler beside it.
type testCluster struct {
	suite  suite
	logs   string
	cp     *controlplane.ControlPlane
	kube   kubernetes.Interface
	client dynamic.Interface
	sched  *controlplane.Scheduler
	// conf is the scheduler's configuration.
	conf  string
	start snapshot
	// unwatch ends the watch of the ConfigMap.
	unwatch func()
}

func startWorld(ctx context.Context, opts options, source upstream, s suite, logs string) (_ *testCluster, err error) {
	dir := filepath.Join(opts.work, "cluster", s.name)
	if err := errors.Join(os.RemoveAll(dir), os.RemoveAll(logs), os.MkdirAll(logs, 0o755)); err != nil {
		return nil, err
	}
	conf, err := os.ReadFile(filepath.Join(source.dir, confPath))
	if err != nil {
		return nil, err
	}
	w := &testCluster{suite: s, logs: logs, conf: string(conf), unwatch: func() {}}
	w.cp, err = controlplane.Start(ctx, controlplane.Options{Dir: dir, Stages: stages})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.stop())
		}
	}()
	if w.kube, err = kubernetes.NewForConfig(w.cp.Config()); err != nil {
		return nil, err
	}
	if w.client, err = dynamic.NewForConfig(w.cp.Config()); err != nil {
		return nil, err
	}
	if err := w.install(ctx, opts); err != nil {
		return nil, err
	}
	if err := w.followConf(ctx); err != nil {
		return nil, err
	}
	w.start, err = w.look(ctx)
	return w, err
}

// install creates everything that stays in the cluster.
func (w *testCluster) install(ctx context.Context, opts options) error {
	if err := errors.Join(w.cp.InstallCRDs(ctx), w.cp.InstallChart(ctx)); err != nil {
		return err
	}
	if err := w.createNodes(ctx); err != nil {
		return err
	}
	if _, err := w.cp.StartControllerManager(ctx, controlplane.ManagerOptions{}); err != nil {
		return err
	}
	if _, err := w.cp.StartWebhookManager(ctx, controlplane.ManagerOptions{}); err != nil {
		return err
	}
	kind := controlplane.Ours
	if opts.upstream {
		kind = controlplane.Upstream
	}
	var err error
	w.sched, err = w.cp.StartScheduler(ctx, controlplane.SchedulerOptions{Kind: kind, Conf: w.conf, Args: w.suite.schedulerArgs})
	if err != nil {
		return err
	}
	_, err = w.cp.StartScheduler(ctx, controlplane.SchedulerOptions{Kind: controlplane.KubeScheduler})
	return err
}

// followConf keeps the configuration in a ConfigMap, which upstream's specs change, and passes each change to the
// scheduler.
func (w *testCluster) followConf(ctx context.Context) error {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: confMap}, Data: map[string]string{confKey: w.conf}}
	if _, err := w.kube.CoreV1().ConfigMaps(controlplane.Namespace).Create(ctx, cm, metav1.CreateOptions{}); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(w.kube, 0, informers.WithNamespace(controlplane.Namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, confMap).String()
		}))
	informer := factory.Core().V1().ConfigMaps().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(old, now any) {
		before, after := old.(*corev1.ConfigMap).Data[confKey], now.(*corev1.ConfigMap).Data[confKey]
		if before == after {
			return
		}
		if err := w.sched.ReplaceConf(after); err != nil {
			fmt.Fprintln(os.Stderr, "conformance: replacing the scheduler's conf:", err)
		}
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	w.unwatch = func() {
		cancel()
		factory.Shutdown()
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return nil
}

// attempt runs the spec once and restores the cluster. An error ends the suite, because the cluster can no longer be
// used.
func (w *testCluster) attempt(ctx context.Context, binary string, sp spec, try int, scale string, r *result) error {
	env := append(w.env(), scaleVariable+"="+scale)
	if err := sp.run(ctx, binary, w.logs, try, w.suite.specTimeout, env, r); err != nil {
		return err
	}
	select {
	case err := <-w.cp.Dead():
		return err
	default:
	}
	left, err := w.restore(ctx)
	if left != "" {
		w.note("%s, try %d, left behind: %s", sp.name, try, left)
	}
	return err
}

// env returns the environment that describes the cluster to a suite.
func (w *testCluster) env() []string {
	return []string{"KUBECONFIG=" + w.cp.Kubeconfig(), "ARTIFACTS_PATH=" + filepath.Join(w.logs, "artifacts"), scaleVariable + "=1"}
}

// note adds a line to the suite's log.
func (w *testCluster) note(format string, args ...any) {
	log, err := os.OpenFile(filepath.Join(w.logs, "left.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer log.Close()
	_, _ = io.WriteString(log, fmt.Sprintf(format+"\n", args...))
}

func (w *testCluster) stop() error {
	w.unwatch()
	return w.cp.Stop()
}
