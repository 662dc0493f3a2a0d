{{/* The ConfigMap with the policy files. */}}
{{- define "mullion.policies.configMap" -}}
{{ .Values.policies.configMap | default "mullion-policies" }}
{{- end }}

{{/* A whole directory: with subPath a kubelet would never bring a change. */}}
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
