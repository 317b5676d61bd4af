// SPDX-License-Identifier: Apache-2.0

package control

import "fmt"

// PluginRole returns the manifest of the permissions that the plugins of the test's scheduler need in addition to the
// chart's, for the scheduler's service account.
func PluginRole(namespace, serviceAccount string) []byte {
	return fmt.Appendf(nil, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-plugins}
rules:
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, create, update, delete]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: e2e-plugins}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: e2e-plugins}
subjects: [{kind: ServiceAccount, name: %s, namespace: %s}]
`, serviceAccount, namespace)
}
