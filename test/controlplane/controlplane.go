package controlplane

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"

	"github.com/volcano-prebind/volcano-prebind/test/controlplane/faultproxy"
)

// ControlPlane is a running control plane.
type ControlPlane struct{}

// Start starts a control plane and waits until it is ready. On an error nothing is left running, and the
// error has the tail of the failing component's log.
func Start(ctx context.Context, opts Options) (*ControlPlane, error) {
	return nil, errors.ErrUnsupported
}

// Stop ends every process started through the control plane, schedulers first, and removes a directory that
// Start made. It may be called more than once.
func (cp *ControlPlane) Stop() error { return errors.ErrUnsupported }

// Dir is the directory with certificates, data and logs.
func (cp *ControlPlane) Dir() string { return "" }

// Dead receives an error with the tail of the log for each component that ends without being told to.
func (cp *ControlPlane) Dead() <-chan error { return nil }

// Process returns the component's process, nil for a component that was left out.
func (cp *ControlPlane) Process(c Component) *Process { return nil }

// Kill ends the component with SIGKILL and waits until it is gone.
func (cp *ControlPlane) Kill(c Component) error { return errors.ErrUnsupported }

// Restart starts a component that ended, with the same port and data, and waits until it is ready.
func (cp *ControlPlane) Restart(ctx context.Context, c Component) error { return errors.ErrUnsupported }

// Config is the cluster admin's client configuration, without a client-side rate limit. The caller gets a copy.
func (cp *ControlPlane) Config() *rest.Config { return nil }

// Kubeconfig is the path of the cluster admin's kubeconfig.
func (cp *ControlPlane) Kubeconfig() string { return "" }

// ServiceAccountConfig returns a client configuration with a fresh token of the service account, so it may do
// what RBAC grants that account and no more.
func (cp *ControlPlane) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	return nil, errors.ErrUnsupported
}

// ServiceAccountKubeconfig writes a kubeconfig with a fresh token of the service account and returns its path.
// server overrides the API server's URL when not empty.
func (cp *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name, server string) (string, error) {
	return "", errors.ErrUnsupported
}

// StartFaultProxy starts a fault-injecting proxy in this process with a serving certificate of the control
// plane's CA. Stop closes it.
func (cp *ControlPlane) StartFaultProxy() (*faultproxy.Proxy, error) {
	return nil, errors.ErrUnsupported
}

// InstallCRDs applies config/crd and waits until every resource is served.
func (cp *ControlPlane) InstallCRDs(ctx context.Context) error { return errors.ErrUnsupported }

// The chart's namespace and its service accounts, as the default values name them.
const (
	Namespace                       = "volcano-system"
	SchedulerServiceAccount         = "volcano-prebind-scheduler"
	ControllerManagerServiceAccount = "volcano-prebind-controllers"
	WebhookManagerServiceAccount    = "volcano-prebind-admission"
	DefaultQueue                    = "default"
)

// InstallChart applies what the chart, rendered with its default values, puts in a cluster besides workloads:
// namespace, service accounts, RBAC, priority class and default queue. InstallCRDs comes first.
func (cp *ControlPlane) InstallChart(ctx context.Context) error { return errors.ErrUnsupported }

// Apply applies the objects of a multi-document YAML text with server-side apply, in order.
func (cp *ControlPlane) Apply(ctx context.Context, manifest []byte) error {
	return errors.ErrUnsupported
}

// CreateNodes creates simulated nodes and, when kwok runs, waits until all are Ready.
func (cp *ControlPlane) CreateNodes(ctx context.Context, shape NodeShape) error {
	return errors.ErrUnsupported
}

// DefaultConf is the scheduler conf used when SchedulerOptions gives none: the chart's.
const DefaultConf = ""

// StartScheduler starts a scheduler process under the chart's service account and waits for its health
// endpoint. Stop ends it when the caller does not.
func (cp *ControlPlane) StartScheduler(ctx context.Context, opts SchedulerOptions) (*Scheduler, error) {
	return nil, errors.ErrUnsupported
}

// StartControllerManager starts bin/vc-controller-manager and waits until the default queue is Open.
func (cp *ControlPlane) StartControllerManager(ctx context.Context, opts ManagerOptions) (*Process, error) {
	return nil, errors.ErrUnsupported
}

// StartWebhookManager starts bin/vc-webhook-manager with webhook configurations that point at it, and waits
// until it answers. The default queue must be Open, so StartControllerManager comes first.
func (cp *ControlPlane) StartWebhookManager(ctx context.Context, opts ManagerOptions) (*Process, error) {
	return nil, errors.ErrUnsupported
}
