// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/volcano-prebind/volcano-prebind/config"
)

// Scheduler is a scheduler process.
type Scheduler struct {
	*Process
	metricsURL string
	healthURL  string
	conf       *confFile
	client     *http.Client
	timeout    time.Duration
	// again starts another process with the same arguments.
	again func() (*Process, error)
}

// StartScheduler starts a scheduler process under the chart's service account and waits for its health endpoint.
// ControlPlane.Stop ends the process, if the caller has not ended it before.
func (cp *ControlPlane) StartScheduler(ctx context.Context, opts SchedulerOptions) (*Scheduler, error) {
	opts, err := cp.schedulerDefaults(opts)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := cp.schedulerKubeconfig(ctx, opts)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	sockets, err := cp.dir.sub("sockets", opts.Name)
	if err != nil {
		return nil, err
	}
	s := &Scheduler{client: cp.ca.httpClient(), timeout: opts.ReadyTimeout}
	var args []string
	if opts.Kind == KubeScheduler {
		args, err = cp.kubeScheduler(s, opts, kubeconfig, ports[0])
	} else {
		args, err = cp.vcScheduler(s, opts, kubeconfig, ports[0], ports[1])
	}
	if err != nil {
		return nil, err
	}
	env := append([]string{"DEBUG_SOCKET_DIR=" + sockets}, opts.Env...)
	args = append(args, opts.Args...)
	s.again = func() (*Process, error) { return cp.startChild(opts.Name, opts.Binary, args, env) }
	began := time.Now()
	s.Process, err = s.again()
	if err != nil || opts.NoWait {
		return s, err
	}
	if err := s.WaitHealthy(ctx); err != nil {
		_ = s.Kill9()
		return nil, err
	}
	cp.progress("%s is healthy (%.1fs)", opts.Name, time.Since(began).Seconds())
	return s, nil
}

// Restart starts a scheduler that has ended, as a kubelet restarts a container: with the same flags, ports, credentials
// and log. It does not call the API server and does not wait until the scheduler is healthy.
func (s *Scheduler) Restart() (*Scheduler, error) {
	if !closed(s.Exited()) {
		return nil, fmt.Errorf("%s is running", s.Name())
	}
	process, err := s.again()
	if err != nil {
		return nil, err
	}
	next := *s
	next.Process = process
	return &next, nil
}

// WaitHealthy waits until the health endpoint responds. After StartScheduler it is needed only if NoWait was set.
func (s *Scheduler) WaitHealthy(ctx context.Context) error {
	return s.waitReady(ctx, s.timeout, func(ctx context.Context) error {
		_, err := get(ctx, s.client, s.healthURL)
		return err
	})
}

// MetricsURL returns the URL of the Prometheus endpoint. For kube-scheduler it is an HTTPS URL, and the control plane's CA
// has signed the certificate.
func (s *Scheduler) MetricsURL() string { return s.metricsURL }

// HealthURL returns the address of the health endpoint.
func (s *Scheduler) HealthURL() string { return s.healthURL }

// Metrics returns the metrics of the scheduler, in Prometheus' text format.
func (s *Scheduler) Metrics(ctx context.Context) ([]byte, error) {
	return get(ctx, s.client, s.metricsURL)
}

// ConfPath returns the path of the scheduler's conf file.
func (s *Scheduler) ConfPath() string { return s.conf.path() }

// ReplaceConf replaces the configuration file of the running scheduler atomically. SchedulerOptions.ConfLayout
// determines how.
func (s *Scheduler) ReplaceConf(conf string) error { return s.conf.write(conf) }

func (cp *ControlPlane) schedulerDefaults(opts SchedulerOptions) (SchedulerOptions, error) {
	if opts.Kind == "" {
		opts.Kind = Ours
	}
	if opts.Name == "" {
		opts.Name = string(opts.Kind)
	}
	opts.Name = cp.uniqueName(opts.Name)
	if opts.ReadyTimeout == 0 {
		opts.ReadyTimeout = cp.opts.ReadyTimeout
	}
	if opts.Binary == "" {
		var err error
		if opts.Binary, err = binary(cp.opts.BinDir, string(opts.Kind)); err != nil {
			return opts, err
		}
	}
	switch {
	case opts.Conf != "" || opts.Kind == KubeScheduler:
	case opts.Kind == Upstream:
		opts.Conf = config.UpstreamConf()
	default:
		opts.Conf = config.DefaultConf
	}
	return opts, nil
}

// schedulerKubeconfig writes a kubeconfig with credentials for the scheduler and returns its path. For kube-scheduler it
// also creates the service account and roles, which are not part of the chart.
func (cp *ControlPlane) schedulerKubeconfig(ctx context.Context, opts SchedulerOptions) (string, error) {
	switch {
	case opts.Admin:
		return cp.adminKubeconfig(ctx, opts.Server)
	case opts.Kind == KubeScheduler:
		if err := cp.Apply(ctx, []byte(kubeSchedulerRBAC)); err != nil {
			return "", err
		}
		return cp.ServiceAccountKubeconfig(ctx, "kube-system", "kube-scheduler", opts.Server)
	default:
		return cp.ServiceAccountKubeconfig(ctx, Namespace, SchedulerServiceAccount, opts.Server)
	}
}

// vcScheduler writes the configuration file and returns the flags of this project's scheduler or upstream's scheduler.
func (cp *ControlPlane) vcScheduler(s *Scheduler, opts SchedulerOptions, kubeconfig string, metrics, health int) ([]string, error) {
	dir, err := cp.dir.sub("conf", opts.Name)
	if err != nil {
		return nil, err
	}
	s.conf = &confFile{dir: dir, name: "volcano-scheduler.conf", layout: opts.Layout}
	s.metricsURL = "http://" + hostPort(metrics) + "/metrics"
	s.healthURL = "http://" + hostPort(health) + "/healthz"
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--scheduler-conf=" + s.conf.path(),
		"--enable-metrics=true", "--listen-address=" + hostPort(metrics),
		"--enable-healthz=true", "--healthz-address=" + hostPort(health),
		fmt.Sprintf("--leader-elect=%t", opts.LeaderElect), "--leader-elect-resource-namespace=" + Namespace,
		"--cache-dump-dir=" + dir,
	}, s.conf.write(opts.Conf)
}

const kubeSchedulerRBAC = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: kube-scheduler, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: volcano-prebind-test-kube-scheduler}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:kube-scheduler"}
subjects: [{kind: ServiceAccount, name: kube-scheduler, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: volcano-prebind-test-volume-scheduler}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:volume-scheduler"}
subjects: [{kind: ServiceAccount, name: kube-scheduler, namespace: kube-system}]
`

// kubeScheduler writes the configuration file and returns the flags of kube-scheduler.
func (cp *ControlPlane) kubeScheduler(s *Scheduler, opts SchedulerOptions, kubeconfig string, port int) ([]string, error) {
	dir, err := cp.dir.sub("conf", opts.Name)
	if err != nil {
		return nil, err
	}
	config, err := kubeSchedulerConfig(opts, kubeconfig)
	if err != nil {
		return nil, err
	}
	pair, err := cp.ca.serving("kube-scheduler")
	if err != nil {
		return nil, err
	}
	cert, key, err := pair.write(cp.dir.pki(""), opts.Name)
	if err != nil {
		return nil, err
	}
	s.conf = &confFile{dir: dir, name: "kube-scheduler.yaml", layout: opts.Layout}
	s.metricsURL = "https://" + hostPort(port) + "/metrics"
	s.healthURL = "https://" + hostPort(port) + "/healthz"
	return []string{
		"--config=" + s.conf.path(),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
		"--authentication-skip-lookup", "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
	}, s.conf.write(config)
}

// kubeSchedulerConfig returns the KubeSchedulerConfiguration in opts.Conf, with clientConnection and leaderElection
// added.
func kubeSchedulerConfig(opts SchedulerOptions, kubeconfig string) (string, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal([]byte(opts.Conf), &config); err != nil {
		return "", fmt.Errorf("the KubeSchedulerConfiguration of %s: %w", opts.Name, err)
	}
	config["apiVersion"], config["kind"] = "kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration"
	connection, _ := config["clientConnection"].(map[string]any)
	if connection == nil {
		connection = map[string]any{}
	}
	connection["kubeconfig"] = kubeconfig
	config["clientConnection"] = connection
	config["leaderElection"] = map[string]any{"leaderElect": opts.LeaderElect}
	out, err := yaml.Marshal(config)
	return string(out), err
}
