{{- define "mullion.labels" -}}
app.kubernetes.io/name: mullion
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Those of one program's objects: `root`, `program`. */}}
{{- define "mullion.programLabels" -}}
{{ include "mullion.labels" .root }}
app.kubernetes.io/component: {{ .program }}
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
