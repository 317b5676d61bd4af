// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

var queueResource = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues"}

// StartControllerManager starts bin/vc-controller-manager and waits until the default queue is Open.
func (cp *ControlPlane) StartControllerManager(ctx context.Context, opts ManagerOptions) (*Process, error) {
	opts, err := cp.managerDefaults(opts, "vc-controller-manager")
	if err != nil {
		return nil, err
	}
	kubeconfig, err := cp.managerKubeconfig(ctx, opts, ControllerManagerServiceAccount)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(cp.admin)
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect=false",
		"--enable-healthz=true", "--healthz-address=" + hostPort(ports[0]),
		"--enable-metrics=true", "--listen-address=" + hostPort(ports[1]),
	}, opts.Args...)
	healthy := cp.ca.probe("http://" + hostPort(ports[0]) + "/healthz")
	return cp.startManager(ctx, opts, args, func(ctx context.Context) error {
		if err := healthy(ctx); err != nil {
			return err
		}
		queue, err := client.Resource(queueResource).Get(ctx, DefaultQueue, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if state, _, _ := unstructured.NestedString(queue.Object, "status", "state"); state != "Open" {
			return fmt.Errorf("queue %s is %q, not Open", DefaultQueue, state)
		}
		return nil
	})
}

// StartWebhookManager starts bin/vc-webhook-manager and waits until it responds. It installs the chart's webhook
// configurations with the URL of this process. The webhooks admit PodGroups only if the default queue is Open, so
// StartControllerManager must be called first.
func (cp *ControlPlane) StartWebhookManager(ctx context.Context, opts ManagerOptions) (*Process, error) {
	opts, err := cp.managerDefaults(opts, "vc-webhook-manager")
	if err != nil {
		return nil, err
	}
	kubeconfig, err := cp.managerKubeconfig(ctx, opts, WebhookManagerServiceAccount)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	pair, err := cp.ca.serving("vc-webhook-manager")
	if err != nil {
		return nil, err
	}
	cert, key, err := pair.write(cp.dir.pki(""), opts.Name)
	if err != nil {
		return nil, err
	}
	url := "https://" + hostPort(ports[0])
	if err := installWebhooks(ctx, cp.admin, manifestPath, url); err != nil {
		return nil, err
	}
	args := append([]string{
		"--kubeconfig=" + kubeconfig,
		"--listen-address=127.0.0.1", fmt.Sprintf("--port=%d", ports[0]),
		"--enable-healthz=true", "--healthz-address=" + hostPort(ports[1]),
		"--ca-cert-file=" + cp.dir.pki("ca.crt"), "--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
		"--webhook-url=" + url,
		"--enabled-admission=" + strings.Join(enabledAdmission, ","),
	}, opts.Args...)
	return cp.startManager(ctx, opts, args, cp.ca.answers(url+"/jobs/validate"))
}

// enabledAdmission are the paths of the webhooks that the chart's default values enable.
var enabledAdmission = []string{
	"/jobs/mutate", "/jobs/validate", "/podgroups/mutate", "/podgroups/validate", "/queues/mutate", "/queues/validate",
	"/jobflows/validate", "/hypernodes/validate", "/cronjobs/validate",
}

// installWebhooks applies the webhook configurations in a manifest of the repository, with the URL in place of the
// service.
func installWebhooks(ctx context.Context, config *rest.Config, manifest, url string) error {
	root, err := RepoRoot()
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(root, manifest))
	if err != nil {
		return err
	}
	objects, err := parse(data)
	if err != nil {
		return err
	}
	var configs []*unstructured.Unstructured
	for _, object := range objects {
		if !strings.HasSuffix(object.GetKind(), "WebhookConfiguration") {
			continue
		}
		webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
		if err != nil {
			return err
		}
		for _, w := range webhooks {
			webhook, _ := w.(map[string]any)
			path, _, err := unstructured.NestedString(webhook, "clientConfig", "service", "path")
			if err != nil {
				return err
			}
			webhook["clientConfig"] = map[string]any{"url": url + path}
		}
		if err := unstructured.SetNestedSlice(object.Object, webhooks, "webhooks"); err != nil {
			return err
		}
		configs = append(configs, object)
	}
	return applyAll(ctx, config, configs, false)
}

func (cp *ControlPlane) managerDefaults(opts ManagerOptions, name string) (ManagerOptions, error) {
	if opts.Name == "" {
		opts.Name = name
	}
	opts.Name = cp.uniqueName(opts.Name)
	if opts.ReadyTimeout == 0 {
		opts.ReadyTimeout = cp.opts.ReadyTimeout
	}
	var err error
	if opts.Binary == "" {
		opts.Binary, err = binary(cp.opts.BinDir, name)
	}
	return opts, err
}

func (cp *ControlPlane) managerKubeconfig(ctx context.Context, opts ManagerOptions, account string) (string, error) {
	if opts.Admin {
		return cp.adminKubeconfig(ctx, opts.Server)
	}
	return cp.ServiceAccountKubeconfig(ctx, Namespace, account, opts.Server)
}

func (cp *ControlPlane) startManager(
	ctx context.Context, opts ManagerOptions, args []string, ready func(context.Context) error,
) (*Process, error) {
	sockets, err := cp.dir.sub("sockets", opts.Name)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	p, err := cp.startChild(opts.Name, opts.Binary, args, append([]string{"DEBUG_SOCKET_DIR=" + sockets}, opts.Env...))
	if err != nil {
		return nil, err
	}
	if err := p.waitReady(ctx, opts.ReadyTimeout, ready); err != nil {
		_ = p.Kill9()
		return nil, err
	}
	cp.progress("%s is ready (%.1fs)", opts.Name, time.Since(began).Seconds())
	return p, nil
}
