{{- define "vp.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/part-of: volcano-prebind
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* selector takes a dict of root and component. */ -}}
{{- define "vp.selector" -}}
app.kubernetes.io/name: volcano-prebind
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* image takes a dict of root and name. */ -}}
{{- define "vp.image" -}}
{{ .root.Values.image.registry }}/{{ .name }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{- define "vp.tlsSecret" -}}
{{ .Values.admission.tls.existingSecret | default (printf "%s-admission-tls" .Release.Name) }}
{{- end }}

{{- /* account takes a dict of root and component: a service account bound to the cluster role of its name. */ -}}
{{- define "vp.account" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .root.Release.Name }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "vp.labels" .root | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .root.Release.Name }}-{{ .component }}
  labels:
    {{- include "vp.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .root.Release.Name }}-{{ .component }}
subjects:
- kind: ServiceAccount
  name: {{ .root.Release.Name }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- /* leases takes a dict of root and component: leader election, in the release's namespace only. */ -}}
{{- define "vp.leases" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .root.Release.Name }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "vp.labels" .root | nindent 4 }}
rules:
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, update, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .root.Release.Name }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "vp.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .root.Release.Name }}-{{ .component }}
subjects:
- kind: ServiceAccount
  name: {{ .root.Release.Name }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- /* podSpec takes a dict of root, component and values: the fields that the pods of all three deployments share. */ -}}
{{- define "vp.podSpec" -}}
serviceAccountName: {{ .root.Release.Name }}-{{ .component }}
priorityClassName: {{ .root.Values.priorityClassName | quote }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "vp.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /*
podIP is the address that servers in the pod listen on. The binaries take an address without a host for
loopback, so the pod's own address is named; brackets serve IPv4 and IPv6 alike.
*/ -}}
{{- define "vp.podIPEnv" -}}
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- end }}

{{- /* probes takes a dict of port and scheme. */ -}}
{{- define "vp.probes" -}}
livenessProbe:
  httpGet:
    path: /healthz
    port: {{ .port }}
    scheme: {{ .scheme }}
  initialDelaySeconds: 10
  periodSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet:
    path: /healthz
    port: {{ .port }}
    scheme: {{ .scheme }}
  periodSeconds: 5
{{- end }}

{{- /* schedulerNameArgs has the flags that name the release's schedulers. All three binaries take them. */ -}}
{{- define "vp.schedulerNameArgs" -}}
{{- range .Values.schedulerNames }}
- --scheduler-name={{ . }}
{{- end }}
{{- end }}
