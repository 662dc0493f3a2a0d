{{/*
What the pods of all programs have in common. Arguments: `root`, `program` (webhook, controller, withdraw), and for
Deployments `settings`, the values of that program.
*/}}

{{- define "mullion.image" -}}
{{- $image := .Values.image -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ with $image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* HOST:PORT to listen on, by default on `bindAddress`; IPv6 addresses have colons of their own. */}}
{{- define "mullion.address" -}}
{{- $host := .host | default .root.Values.bindAddress -}}
{{ contains ":" $host | ternary (printf "[%s]" $host) $host }}:{{ .port | int }}
{{- end }}

{{/* Who it is, and where it may run. Linux and its taints are not the user's choice: the image is for nothing else. */}}
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
Apart from each other, but never waiting for it: in a cluster with one Linux node, or after all others are drained, every
replica still starts. Zones by affinity, since a constraint for a label that some nodes lack is no constraint on any node
(PodTopologySpread scores only nodes that have all of them).
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
    {{- /* Old and new pods of an upgrade are spread apart from each other. */}}
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
A minute to start, in which policies are read; the API server may come up at the same time. Argument: `host`, where the
kubelet connects to another address than the pod's.
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
