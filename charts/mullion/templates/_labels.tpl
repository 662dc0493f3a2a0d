{{/* The chart's own win: Deployments, Services and Helm find things by them. */}}
{{- define "mullion.labels" -}}
{{- $own := dict
  "app.kubernetes.io/name" "mullion"
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_")
-}}
{{- merge $own (.Values.commonLabels | default dict) | toYaml }}
{{- end }}

{{/* Those of one program's objects: `root`, `program`. */}}
{{- define "mullion.programLabels" -}}
{{- $own := dict "app.kubernetes.io/component" .program -}}
{{- include "mullion.labels" .root | fromYaml | merge $own | toYaml }}
{{- end }}

{{/* What a Deployment selects by, for ever: nothing that an upgrade changes. */}}
{{- define "mullion.selector" -}}
app.kubernetes.io/name: mullion
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .program }}
{{- end }}

{{/* Name, namespace and labels of one program's object. */}}
{{- define "mullion.metadata" -}}
name: mullion-{{ .program }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "mullion.programLabels" . | nindent 2 }}
{{- end }}

{{/* The subjects of a program's bindings. */}}
{{- define "mullion.subjects" -}}
- kind: ServiceAccount
  name: mullion-{{ .program }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}
