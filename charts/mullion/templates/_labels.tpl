{{/* Labels of the chart override others, because Deployments, Services and Helm select by them. */}}
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

{{/* Labels of the objects of one program. Arguments: `root`, `program`. */}}
{{- define "mullion.programLabels" -}}
{{- $own := dict "app.kubernetes.io/component" .program -}}
{{- include "mullion.labels" .root | fromYaml | merge $own | toYaml }}
{{- end }}

{{/* Labels by which a Deployment selects pods. They are immutable, so an upgrade must not change them. */}}
{{- define "mullion.selector" -}}
app.kubernetes.io/name: mullion
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .program }}
{{- end }}

{{/* Name, namespace and labels of an object of one program. */}}
{{- define "mullion.metadata" -}}
name: mullion-{{ .program }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "mullion.programLabels" . | nindent 2 }}
{{- end }}

{{/* The subjects of the bindings of a program. */}}
{{- define "mullion.subjects" -}}
- kind: ServiceAccount
  name: mullion-{{ .program }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}
