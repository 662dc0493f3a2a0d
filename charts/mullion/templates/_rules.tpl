{{/* Rules of each webhook. None contains DELETE: deleting is always allowed. */}}

{{- define "mullion.rules.newPods" -}}
- {apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE], scope: Namespaced}
{{- end }}

{{/* Other changes of pods do not concern Mullion. */}}
{{- define "mullion.rules.pods" -}}
{{ include "mullion.rules.newPods" . }}
- {apiGroups: [""], apiVersions: [v1], resources: [pods/ephemeralcontainers], operations: [UPDATE], scope: Namespaced}
{{- end }}

{{/* The API server rejects a resize on Windows before it calls validating webhooks. */}}
{{- define "mullion.rules.resize" -}}
- {apiGroups: [""], apiVersions: [v1], resources: [pods/resize], operations: [UPDATE], scope: Namespaced}
{{- end }}

{{- define "mullion.rules.templates" -}}
- {apiGroups: [apps], apiVersions: [v1], resources: [daemonsets, deployments, replicasets, statefulsets], operations: [CREATE, UPDATE], scope: Namespaced}
- {apiGroups: [batch], apiVersions: [v1], resources: [cronjobs, jobs], operations: [CREATE, UPDATE], scope: Namespaced}
- {apiGroups: [""], apiVersions: [v1], resources: [podtemplates, replicationcontrollers], operations: [CREATE, UPDATE], scope: Namespaced}
{{- end }}

{{/* CREATE only: if a webhook changes taints in an UPDATE by the kubelet, NodeRestriction rejects the request of the kubelet. */}}
{{- define "mullion.rules.nodes" -}}
- {apiGroups: [""], apiVersions: [v1], resources: [nodes], operations: [CREATE], scope: Cluster}
{{- end }}

{{- define "mullion.rules.policies" -}}
- {apiGroups: [""], apiVersions: [v1], resources: [configmaps], operations: [CREATE, UPDATE], scope: Namespaced}
{{- end }}

{{/* Excludes Mullion's namespace, because its pods must start while no webhook runs. */}}
{{- define "mullion.namespaces" -}}
matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: {{ prepend (.Values.admission.excludedNamespaces | default list) .Release.Namespace | uniq | toJson }}
{{- end }}

{{/*
Contains caBundle only if a value sets it. Otherwise the controller or cert-manager manages it, and an upgrade removes only fields
that the chart has set.
*/}}
{{- define "mullion.client" -}}
{{- $certificates := .root.Values.certificates }}
{{- if and (eq $certificates.mode "Provided") $certificates.provided.caBundle -}}
caBundle: {{ b64enc $certificates.provided.caBundle }}
{{ end -}}
service: {name: mullion-webhook, namespace: {{ .root.Release.Namespace }}, path: {{ .path }}, port: 443}
{{- end }}

{{- define "mullion.configuration.metadata" -}}
name: mullion
labels:
  {{- merge (include "mullion.labels" . | fromYaml) (.Values.admission.labels | default dict) | toYaml | nindent 2 }}
{{- $annotations := .Values.admission.annotations }}
{{- if eq .Values.certificates.mode "CertManager" }}
{{- $from := printf "%s/mullion-webhook" .Release.Namespace }}
{{- $annotations = merge (dict "cert-manager.io/inject-ca-from" $from) $annotations }}
{{- end }}
{{- with $annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "mullion.mutating" -}}
clientConfig:
  {{- include "mullion.client" (dict "root" . "path" "/mutate") | nindent 2 }}
failurePolicy: Ignore
matchPolicy: Equivalent
reinvocationPolicy: IfNeeded
sideEffects: None
timeoutSeconds: {{ .Values.admission.timeoutSeconds.mutating }}
admissionReviewVersions: [v1]
{{- end }}

{{- define "mullion.validating" -}}
clientConfig:
  {{- include "mullion.client" (dict "root" . "path" "/validate") | nindent 2 }}
matchPolicy: Equivalent
sideEffects: None
timeoutSeconds: {{ .Values.admission.timeoutSeconds.validating }}
admissionReviewVersions: [v1]
{{- end }}
