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
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

//go:embed stages.yaml
var kwokStages []byte

const (
	// CompleteAfterAnnotation on a pod makes its containers succeed when they have run for the given time, such as
	// "2s".
	CompleteAfterAnnotation = "sandbox.volcano-prebind.io/complete-after"
	// nodeAnnotation marks the nodes that kwok manages.
	nodeAnnotation = "kwok.x-k8s.io/node"
	// nodeGrace is how long kube-controller-manager accepts a node without a heartbeat. Simulated nodes send no
	// heartbeats, so the time is longer than any run of a control plane.
	nodeGrace = 7 * 24 * time.Hour
	// probeTimeout bounds one request to a health or metrics endpoint.
	probeTimeout = 5 * time.Second
)

// layout holds the configuration from which the components of a control plane are started.
type layout struct {
	opts Options
	dir  folder
	ca   *authority
	// admin is the cluster admin's client configuration.
	admin      *rest.Config
	components map[Component]*component
}

// layOut creates the certificates, ports and command lines of all components. It writes their files to the directory
// dir.
func layOut(opts Options, dir folder) (*layout, error) {
	ca, err := newAuthority()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(dir.pki("ca.crt"), ca.pem, 0o644); err != nil {
		return nil, err
	}
	ports, err := freePorts(5)
	if err != nil {
		return nil, err
	}
	l := &layout{opts: opts, dir: dir, ca: ca, components: map[Component]*component{}}
	if err := l.addEtcd(ports[0], ports[1]); err != nil {
		return nil, err
	}
	if err := l.addAPIServer(ports[0], ports[2]); err != nil {
		return nil, err
	}
	if !opts.NoControllerManager {
		if err := l.addControllerManager(ports[3]); err != nil {
			return nil, err
		}
	}
	if !opts.NoKWOK {
		if err := l.addKWOK(ports[4]); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *layout) addEtcd(port, peerPort int) error {
	server, err := l.ca.serving("etcd")
	if err != nil {
		return err
	}
	cert, key, err := server.write(l.dir.pki(""), "etcd")
	if err != nil {
		return err
	}
	client, err := l.ca.client("kube-apiserver-etcd-client")
	if err != nil {
		return err
	}
	if _, _, err := client.write(l.dir.pki(""), "etcd-client"); err != nil {
		return err
	}
	clientCert, err := client.tls()
	if err != nil {
		return err
	}
	url, peerURL := "https://"+hostPort(port), "http://"+hostPort(peerPort)
	return l.add(Etcd, l.ca.probe(url+"/health", clientCert),
		"--name=default",
		"--data-dir="+l.dir.join("etcd"),
		"--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=default="+peerURL,
		"--cert-file="+cert, "--key-file="+key,
		"--client-cert-auth", "--trusted-ca-file="+l.dir.pki("ca.crt"),
		"--unsafe-no-fsync",
		"--quota-backend-bytes=4294967296",
		"--log-level=warn",
	)
}

func (l *layout) addAPIServer(etcdPort, port int) error {
	server, err := l.ca.serving("kube-apiserver", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
	if err != nil {
		return err
	}
	cert, key, err := server.write(l.dir.pki(""), "kube-apiserver")
	if err != nil {
		return err
	}
	if err := writeServiceAccountKey(l.dir); err != nil {
		return err
	}
	l.admin = &rest.Config{
		Host:            "https://" + hostPort(port),
		TLSClientConfig: rest.TLSClientConfig{CAData: l.ca.pem},
		QPS:             -1,
	}
	if err := l.addAdmin(); err != nil {
		return err
	}
	// TaintNodesByCondition taints every new node. Without this admission plugin, simulated nodes are schedulable from
	// the start.
	off := "TaintNodesByCondition"
	if l.opts.NoControllerManager {
		// Without kube-controller-manager no default service accounts are created, and the admission plugin
		// ServiceAccount would wait for them.
		off += ",ServiceAccount"
	}
	args := append([]string{
		"--etcd-servers=https://" + hostPort(etcdPort), "--etcd-cafile=" + l.dir.pki("ca.crt"),
		"--etcd-certfile=" + l.dir.pki("etcd-client.crt"), "--etcd-keyfile=" + l.dir.pki("etcd-client.key"),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key, "--client-ca-file=" + l.dir.pki("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + l.dir.pki("service-account.pub"),
		"--service-account-signing-key-file=" + l.dir.pki("service-account.key"),
		"--service-cluster-ip-range=10.0.0.0/16",
		"--authorization-mode=Node,RBAC",
		"--endpoint-reconciler-type=none",
		"--disable-admission-plugins=" + off,
		"--allow-privileged",
		"--profiling=false",
	}, l.opts.APIServerArgs...)
	return l.add(APIServer, func(ctx context.Context) error {
		return getAs(ctx, l.admin, "/readyz")
	}, args...)
}

// addAdmin creates the cluster admin's certificate and writes the cluster admin's kubeconfig.
func (l *layout) addAdmin() error {
	pair, err := l.ca.client("volcano-prebind-admin", "system:masters")
	if err != nil {
		return err
	}
	l.admin = withCert(l.admin, pair)
	return writeKubeconfig(l.dir.kubeconfig("admin"), l.admin)
}

func (l *layout) addControllerManager(port int) error {
	pair, err := l.ca.client("system:kube-controller-manager")
	if err != nil {
		return err
	}
	server, err := l.ca.serving("kube-controller-manager")
	if err != nil {
		return err
	}
	cert, key, err := server.write(l.dir.pki(""), "kube-controller-manager")
	if err != nil {
		return err
	}
	kubeconfig := l.dir.kubeconfig("kube-controller-manager")
	if err := writeKubeconfig(kubeconfig, withCert(l.admin, pair)); err != nil {
		return err
	}
	args := append([]string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + l.dir.pki("service-account.key"),
		"--root-ca-file=" + l.dir.pki("ca.crt"),
		"--leader-elect=false",
		"--allocate-node-cidrs=false",
		// The ttl-controller writes an annotation to every node of a large cluster. Only kubelets read this annotation,
		// and simulated nodes have no kubelets.
		"--controllers=*,-ttl-controller",
		"--node-monitor-grace-period=" + nodeGrace.String(), "--node-startup-grace-period=" + nodeGrace.String(),
		"--kube-api-qps=200", "--kube-api-burst=400",
		"--profiling=false",
	}, l.opts.ControllerManagerArgs...)
	healthy := l.ca.probe("https://" + hostPort(port) + "/healthz")
	return l.add(ControllerManager, func(ctx context.Context) error {
		if err := healthy(ctx); err != nil {
			return err
		}
		// No pod can be created in namespace default before kube-controller-manager has created the namespace's
		// default service account. So kube-controller-manager counts as ready only when this account exists.
		client, err := kubernetes.NewForConfig(l.admin)
		if err != nil {
			return err
		}
		_, err = client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	}, args...)
}

func (l *layout) addKWOK(port int) error {
	config := l.dir.join("kwok-stages.yaml")
	stages := string(kwokStages)
	if l.opts.Stages != "" {
		stages += "---\n" + l.opts.Stages
	}
	if err := os.WriteFile(config, []byte(stages), 0o644); err != nil {
		return err
	}
	return l.add(KWOK, l.ca.probe("http://"+hostPort(port)+"/healthz"),
		"--kubeconfig="+l.dir.kubeconfig("admin"),
		"--config="+config,
		"--manage-nodes-with-annotation-selector="+nodeAnnotation+"=fake",
		"--node-lease-duration-seconds=0",
		"--node-ip=127.0.0.1",
		"--cidr=10.128.0.1/9",
		"--server-address="+hostPort(port),
		"-v=WARN",
	)
}

func (l *layout) add(name Component, ready func(context.Context) error, args ...string) error {
	path, err := binary(l.opts.BinDir, string(name))
	if err != nil {
		return err
	}
	l.components[name] = &component{name: name, binary: path, args: args, ready: ready}
	return nil
}

// writeServiceAccountKey creates the key that signs tokens of service accounts. An RSA key works without further
// flags of kube-controller-manager and the API server.
func writeServiceAccountKey(dir folder) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	private := encodePEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
	if err := os.WriteFile(dir.pki("service-account.key"), private, 0o600); err != nil {
		return err
	}
	return os.WriteFile(dir.pki("service-account.pub"), encodePEM("PUBLIC KEY", public), 0o644)
}

// probe returns a check that the URL responds with 200 to a client with these certificates.
func (a *authority) probe(url string, certs ...tls.Certificate) func(context.Context) error {
	client := a.httpClient(certs...)
	return func(ctx context.Context) error {
		_, err := get(ctx, client, url)
		return err
	}
}

// answers returns a check that a server responds at the URL. Any status code counts as a response.
func (a *authority) answers(url string) func(context.Context) error {
	client := a.httpClient()
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

// get sends a GET request and returns the body of the response. It returns an error unless the status is 200.
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

// httpClient returns a client for health and metrics endpoints. It keeps no connections, because these would delay the
// shutdown of servers.
func (a *authority) httpClient(certs ...tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &http.Client{Timeout: probeTimeout, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: certs, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true,
	}}
}

// getAs sends a GET request for a path to the API server with the given client configuration.
func getAs(ctx context.Context, config *rest.Config, path string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return client.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Error()
}
