{{/* The ConfigMap with the policy files. */}}
{{- define "mullion.policies.configMap" -}}
{{ .Values.policies.configMap | default "mullion-policies" }}
{{- end }}

{{/* Mounted as a whole directory: with subPath, the kubelet never updates the files. */}}
{{- define "mullion.policies.volume" -}}
- name: policies
  configMap:
    name: {{ include "mullion.policies.configMap" . }}
{{- end }}

{{- define "mullion.policies.mount" -}}
- name: policies
  mountPath: /etc/mullion/policies
  readOnly: true
{{- end }}
