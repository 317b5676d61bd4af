// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenSeconds is the lifetime of a service account's token: a day, which is longer than any run of a control plane.
const tokenSeconds = 24 * 60 * 60

// Config returns a copy of the cluster admin's client configuration, without a client-side rate limit.
func (cp *ControlPlane) Config() *rest.Config { return rest.CopyConfig(cp.admin) }

// Kubeconfig returns the path of the cluster admin's kubeconfig.
func (cp *ControlPlane) Kubeconfig() string { return cp.dir.kubeconfig("admin") }

// adminKubeconfig returns the path of a cluster admin's kubeconfig. If server is empty, it is the usual kubeconfig. If
// server is the URL of a proxy, the kubeconfig has a service account's token, because a client certificate does not
// pass a proxy.
func (cp *ControlPlane) adminKubeconfig(ctx context.Context, server string) (string, error) {
	if server == "" {
		return cp.Kubeconfig(), nil
	}
	if err := cp.Apply(ctx, []byte(adminRBAC)); err != nil {
		return "", err
	}
	return cp.ServiceAccountKubeconfig(ctx, "kube-system", "volcano-prebind-test-admin", server)
}

const adminRBAC = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: volcano-prebind-test-admin, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: volcano-prebind-test-admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: volcano-prebind-test-admin, namespace: kube-system}]
`

// withCert returns a client configuration for the same server that authenticates with the certificate in pair.
func withCert(server *rest.Config, pair keyPair) *rest.Config {
	config := rest.AnonymousClientConfig(server)
	config.CertData, config.KeyData = pair.cert, pair.key
	return config
}

// ServiceAccountConfig returns a client configuration with a new token of the service account, with exactly the
// account's RBAC permissions.
func (cp *ControlPlane) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(cp.admin)
	if err != nil {
		return nil, err
	}
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token of service account %s/%s: %w", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(cp.admin)
	config.BearerToken = answer.Status.Token
	return config, nil
}

// ServiceAccountKubeconfig writes a kubeconfig with a new token of the service account and returns its path. server, if not
// empty, replaces the URL of the API server.
func (cp *ControlPlane) ServiceAccountKubeconfig(ctx context.Context, namespace, name, server string) (string, error) {
	config, err := cp.ServiceAccountConfig(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	if server != "" {
		config.Host = server
	}
	path := cp.dir.kubeconfig(cp.uniqueName("kubeconfig-" + name))
	return path, writeKubeconfig(path, config)
}

// writeKubeconfig writes a kubeconfig that contains all certificates and keys.
func writeKubeconfig(path string, config *rest.Config) error {
	const name = "volcano-prebind"
	out := clientcmdapi.NewConfig()
	out.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	out.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
		Token:                 config.BearerToken,
	}
	out.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	out.CurrentContext = name
	return clientcmd.WriteToFile(*out, path)
}
