{{/* The Secret that is mounted into the webhook. Empty if the webhook reads the Secret of the controller through the API. */}}
{{- define "mullion.certificates.mounted" -}}
{{- if eq .Values.certificates.mode "CertManager" -}}
mullion-webhook-certificate
{{- else if eq .Values.certificates.mode "Provided" -}}
{{ .Values.certificates.provided.secretName }}
{{- end }}
{{- end }}

{{- define "mullion.certificates.names" -}}
- mullion-webhook.{{ .Release.Namespace }}.svc
- mullion-webhook.{{ .Release.Namespace }}.svc.cluster.local
{{- end }}
