// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

//go:embed stages.yaml
var kwokStages []byte

const (
	// CompleteAfterAnnotation on a pod makes its containers end well that long after they started ("2s").
	CompleteAfterAnnotation = "sandbox.volcano-prebind.io/complete-after"
	// nodeAnnotation marks the nodes that kwok looks after.
	nodeAnnotation = "kwok.x-k8s.io/node"
	// nodeGrace is how long kube-controller-manager trusts a node without a heartbeat. Simulated nodes send none,
	// so it is longer than any run.
	nodeGrace = 7 * 24 * time.Hour
	// probeTimeout bounds one look at a health or metrics endpoint.
	probeTimeout = 5 * time.Second
)

// layOut makes certificates, ports and command lines of every component.
func (cp *ControlPlane) layOut() error {
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	cp.ca = ca
	if err := os.WriteFile(cp.pki("ca.crt"), ca.pem, 0o644); err != nil {
		return err
	}
	ports, err := freePorts(5)
	if err != nil {
		return err
	}
	if err := cp.layOutEtcd(ports[0], ports[1]); err != nil {
		return err
	}
	if err := cp.layOutAPIServer(ports[0], ports[2]); err != nil {
		return err
	}
	if !cp.opts.NoControllerManager {
		if err := cp.layOutControllerManager(ports[3]); err != nil {
			return err
		}
	}
	if !cp.opts.NoKWOK {
		return cp.layOutKWOK(ports[4])
	}
	return nil
}

func (cp *ControlPlane) layOutEtcd(port, peerPort int) error {
	server, err := cp.ca.serving("etcd")
	if err != nil {
		return err
	}
	cert, key, err := server.write(cp.pki(""), "etcd")
	if err != nil {
		return err
	}
	client, err := cp.ca.client("kube-apiserver-etcd-client")
	if err != nil {
		return err
	}
	if _, _, err := client.write(cp.pki(""), "etcd-client"); err != nil {
		return err
	}
	clientCert, err := client.tls()
	if err != nil {
		return err
	}
	url, peerURL := "https://"+hostPort(port), "http://"+hostPort(peerPort)
	return cp.addComponent(Etcd, cp.probe(url+"/health", clientCert),
		"--name=default",
		"--data-dir="+filepath.Join(cp.dir, "etcd"),
		"--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=default="+peerURL,
		"--cert-file="+cert, "--key-file="+key,
		"--client-cert-auth", "--trusted-ca-file="+cp.pki("ca.crt"),
		"--unsafe-no-fsync",
		"--quota-backend-bytes=4294967296",
		"--log-level=warn",
	)
}

func (cp *ControlPlane) layOutAPIServer(etcdPort, port int) error {
	server, err := cp.ca.serving("kube-apiserver", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	cert, key, err := server.write(cp.pki(""), "kube-apiserver")
	if err != nil {
		return err
	}
	if err := cp.writeServiceAccountKey(); err != nil {
		return err
	}
	cp.admin = &rest.Config{
		Host:            "https://" + hostPort(port),
		TLSClientConfig: rest.TLSClientConfig{CAData: cp.ca.pem},
		QPS:             -1,
	}
	if err := cp.addAdmin(); err != nil {
		return err
	}
	// Without the admission plugin that taints every new node, simulated nodes are schedulable from the start.
	off := "TaintNodesByCondition"
	if cp.opts.NoControllerManager {
		// Nobody makes the default service accounts that this plugin waits for.
		off += ",ServiceAccount"
	}
	args := append([]string{
		"--etcd-servers=https://" + hostPort(etcdPort), "--etcd-cafile=" + cp.pki("ca.crt"),
		"--etcd-certfile=" + cp.pki("etcd-client.crt"), "--etcd-keyfile=" + cp.pki("etcd-client.key"),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key, "--client-ca-file=" + cp.pki("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + cp.pki("service-account.pub"),
		"--service-account-signing-key-file=" + cp.pki("service-account.key"),
		"--service-cluster-ip-range=10.0.0.0/16",
		"--authorization-mode=Node,RBAC",
		"--endpoint-reconciler-type=none",
		"--disable-admission-plugins=" + off,
		"--allow-privileged",
		"--profiling=false",
	}, cp.opts.APIServerArgs...)
	return cp.addComponent(APIServer, func(ctx context.Context) error {
		return cp.adminGet(ctx, "/readyz")
	}, args...)
}

func (cp *ControlPlane) layOutControllerManager(port int) error {
	pair, err := cp.ca.client("system:kube-controller-manager")
	if err != nil {
		return err
	}
	server, err := cp.ca.serving("kube-controller-manager")
	if err != nil {
		return err
	}
	cert, key, err := server.write(cp.pki(""), "kube-controller-manager")
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(cp.dir, "kubeconfig", "kube-controller-manager")
	if err := cp.writeKubeconfig(kubeconfig, cp.withCert(pair)); err != nil {
		return err
	}
	args := append([]string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + cp.pki("service-account.key"),
		"--root-ca-file=" + cp.pki("ca.crt"),
		"--leader-elect=false",
		"--allocate-node-cidrs=false",
		// Writes an annotation to every node of a large cluster for kubelets that are not there.
		"--controllers=*,-ttl-controller",
		"--node-monitor-grace-period=" + nodeGrace.String(), "--node-startup-grace-period=" + nodeGrace.String(),
		"--kube-api-qps=200", "--kube-api-burst=400",
		"--profiling=false",
	}, cp.opts.ControllerManagerArgs...)
	healthy := cp.probe("https://" + hostPort(port) + "/healthz")
	return cp.addComponent(ControllerManager, func(ctx context.Context) error {
		if err := healthy(ctx); err != nil {
			return err
		}
		// No pod can be made in the namespace before its service account is there.
		client, err := kubernetes.NewForConfig(cp.admin)
		if err != nil {
			return err
		}
		_, err = client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	}, args...)
}

func (cp *ControlPlane) layOutKWOK(port int) error {
	config := filepath.Join(cp.dir, "kwok-stages.yaml")
	stages := string(kwokStages)
	if cp.opts.Stages != "" {
		stages += "---\n" + cp.opts.Stages
	}
	if err := os.WriteFile(config, []byte(stages), 0o644); err != nil {
		return err
	}
	return cp.addComponent(KWOK, cp.probe("http://"+hostPort(port)+"/healthz"),
		"--kubeconfig="+cp.Kubeconfig(),
		"--config="+config,
		"--manage-nodes-with-annotation-selector="+nodeAnnotation+"=fake",
		"--node-lease-duration-seconds=0",
		"--node-ip=127.0.0.1",
		"--cidr=10.128.0.1/9",
		"--server-address="+hostPort(port),
		"-v=WARN",
	)
}

func (cp *ControlPlane) addComponent(name Component, ready func(context.Context) error, args ...string) error {
	path, err := binary(cp.opts.BinDir, string(name))
	if err != nil {
		return err
	}
	cp.components[name] = &component{name: name, binary: path, args: args, ready: ready}
	return nil
}

// writeServiceAccountKey makes the key that signs tokens. It is RSA since kube-controller-manager's token
// controller and the API server agree on that without further flags.
func (cp *ControlPlane) writeServiceAccountKey() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	private := encodePEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
	if err := os.WriteFile(cp.pki("service-account.key"), private, 0o600); err != nil {
		return err
	}
	return os.WriteFile(cp.pki("service-account.pub"), encodePEM("PUBLIC KEY", public), 0o644)
}

// probe returns a check that the URL answers 200 to a client with these certificates.
func (cp *ControlPlane) probe(url string, certs ...tls.Certificate) func(context.Context) error {
	client := cp.httpClient(certs...)
	return func(ctx context.Context) error {
		_, err := get(ctx, client, url)
		return err
	}
}

// answers returns a check that a server answers the URL at all, with whatever status.
func (cp *ControlPlane) answers(url string) func(context.Context) error {
	client := cp.httpClient()
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
}

// get returns the body of a 200 answer.
func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s: %.200s", url, resp.Status, body)
	}
	return body, nil
}

// httpClient is a client for health and metrics endpoints. It keeps no connection, which would delay their end.
func (cp *ControlPlane) httpClient(certs ...tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(cp.ca.cert)
	return &http.Client{Timeout: probeTimeout, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: certs, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}}
}

func (cp *ControlPlane) adminGet(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	client, err := kubernetes.NewForConfig(cp.admin)
	if err != nil {
		return err
	}
	return client.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Error()
}

func (cp *ControlPlane) pki(name string) string { return filepath.Join(cp.dir, "pki", name) }
