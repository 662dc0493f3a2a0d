{{/* The values of `policies` that are set, as a JSON list; nothing if there are none. */}}
{{- define "mullion.policies.chosen" -}}
{{- $chosen := list -}}
{{- range list "shipped" "files" "configMap" -}}
{{- if get $.Values.policies . }}{{ $chosen = append $chosen (printf "policies.%s" .) }}{{ end -}}
{{- end -}}
{{- if $chosen }}{{ toJson $chosen }}{{ end -}}
{{- end }}

{{/*
What an installed release uses, if that is not the policies `default`; nothing if Helm does not read the cluster, as in `helm template`. It
decides only whether the chart fails, never what it renders.
*/}}
{{- define "mullion.policies.installed" -}}
{{- $namespace := .Release.Namespace -}}
{{- $webhook := lookup "apps/v1" "Deployment" $namespace "mullion-webhook" | default dict -}}
{{- range dig "spec" "template" "spec" "volumes" list $webhook -}}
{{- $name := dig "configMap" "name" "" . -}}
{{- if eq .name "policies" -}}
{{- if ne $name "mullion-policies" -}}
{{ printf "policies.configMap: %s" $name }}
{{- else -}}
{{- $files := dig "data" dict (lookup "v1" "ConfigMap" $namespace $name | default dict) | keys | sortAlpha | join ", " -}}
{{- if has $files (list "audit.yaml" "compatible.yaml" "strict.yaml") -}}
{{ printf "policies.shipped: %s" (trimSuffix ".yaml" $files) }}
{{- else if not (has $files (list "" "default.yaml")) -}}
{{ printf "policies.files with %s" $files }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

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
