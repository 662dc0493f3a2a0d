{{/*
Parts that the pods of all programs share. Arguments: `root`, `program` (webhook, controller, withdraw), and for Deployments
`settings`, the values of that program.
*/}}

{{- define "mullion.image" -}}
{{- $image := .Values.image -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* HOST:PORT to listen on, by default with `bindAddress`. IPv6 addresses get brackets. */}}
{{- define "mullion.address" -}}
{{- $host := .host | default .root.Values.bindAddress -}}
{{ contains ":" $host | ternary (printf "[%s]" $host) $host }}:{{ .port | int }}
{{- end }}

{{/* ServiceAccount and scheduling. Linux and its taints are fixed, because the image runs on Linux only. */}}
{{- define "mullion.pod.place" -}}
serviceAccountName: mullion-{{ .program }}
automountServiceAccountToken: true
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClass.name }}
priorityClassName: {{ . }}
{{- end }}
nodeSelector:
  {{- $chosen := dict "kubernetes.io/os" "linux" }}
  {{- with .root.Values.image.architecture }}
  {{- $chosen = dict "kubernetes.io/arch" . | merge $chosen }}
  {{- end }}
  {{- with .settings.nodeSelector }}
  {{- $chosen = omit . "kubernetes.io/os" | mergeOverwrite $chosen }}
  {{- end }}
  {{- toYaml $chosen | nindent 2 }}
tolerations:
  - key: cattle.io/os
    operator: Equal
    value: linux
    effect: NoSchedule
  {{- with .settings.tolerations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/*
Replicas prefer different nodes and zones, but do not require them: in a cluster with one Linux node, or after all others are
drained, every replica still starts. Zones use affinity, because PodTopologySpread scores only nodes that have all labels of its constraints.
*/}}
{{- define "mullion.pod.spread" -}}
affinity:
  {{- if .settings.affinity }}
  {{- toYaml .settings.affinity | nindent 2 }}
  {{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: topology.kubernetes.io/zone
          labelSelector:
            matchLabels:
              {{- include "mullion.selector" . | nindent 14 }}
  {{- end }}
topologySpreadConstraints:
  {{- if .settings.topologySpreadConstraints }}
  {{- toYaml .settings.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  - topologyKey: kubernetes.io/hostname
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "mullion.selector" . | nindent 8 }}
    {{- /* Spreads the pods of each revision separately during an upgrade. */}}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}

{{- define "mullion.pod.security" -}}
runAsNonRoot: true
{{- with .root.Values.runAsUser }}
runAsUser: {{ int64 . }}
runAsGroup: {{ int64 . }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "mullion.container.security" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end }}

{{- define "mullion.container.image" -}}
image: {{ include "mullion.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
{{- end }}

{{/*
A minute to start, in which policies are read. The API server can start at the same time. Argument: `host`, if the kubelet must
connect to another address than that of the pod.
*/}}
{{- define "mullion.container.probes" -}}
{{- $host := "" }}
{{- with .host }}{{ $host = printf ", host: %s" . }}{{ end -}}
startupProbe:
  httpGet: {path: /healthz, port: admin{{ $host }}}
  periodSeconds: 1
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /readyz, port: admin{{ $host }}}
  periodSeconds: 2
  timeoutSeconds: 2
livenessProbe:
  httpGet: {path: /healthz, port: admin{{ $host }}}
  timeoutSeconds: 5
{{- end }}
