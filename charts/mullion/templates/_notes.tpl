{{/* The policies in force. */}}
{{- define "mullion.notes.policies" -}}
{{- $policies := .Values.policies -}}
{{- if $policies.configMap -}}
It uses the policies of ConfigMap {{ $policies.configMap }}. Their `mode` sets whether Mullion enforces them or only reports.
{{- else if $policies.files -}}
It uses your policies {{ keys $policies.files | sortAlpha | join ", " }}. Their `mode` sets whether Mullion enforces them or only reports.
{{- else if eq $policies.shipped "audit" -}}
It runs in audit mode (policies.shipped: audit): it reports what it would do, and changes and denies nothing.
{{- else -}}
It enforces the {{ $policies.shipped | default "default" }} policies: it places pods, denies what cannot run on Windows,
and labels and taints Windows nodes.
{{- end -}}
{{- end }}

{{/* Settings that are allowed, but can be a mistake, a line each. */}}
{{- define "mullion.notes.warnings" -}}
{{- $values := .Values -}}
{{- $webhook := $values.webhook -}}
{{- $admission := $values.admission -}}
{{- $lines := list -}}
{{- $one := lt (int $webhook.replicas) 2 -}}
{{- if and $one (eq $admission.failurePolicy "Fail") -}}
{{- $lines = append $lines "admission.failurePolicy is Fail with one webhook replica: new Windows pods are rejected whenever it is rescheduled. Set webhook.replicas to 2 or 3." -}}
{{- else if $one -}}
{{- $lines = append $lines "webhook.replicas is 1: pods are admitted without a review whenever it is rescheduled." -}}
{{- end -}}
{{- if not (include "mullion.policies.chosen" .) -}}
{{- $lines = append $lines "policies is empty, so this release keeps `shipped: default`, which it had. A new installation needs the value: add policies.shipped=default to your values." -}}
{{- end -}}
{{- if not $admission.pods -}}
{{- $lines = append $lines "admission.pods is false: no pod is placed or denied." -}}
{{- end -}}
{{- if gt (int $admission.timeoutSeconds.mutating) 2 -}}
{{- $lines = append $lines (printf "admission.timeoutSeconds.mutating is %d: every pod waits that long while Mullion does not respond, and again if another webhook changes it." (int $admission.timeoutSeconds.mutating)) -}}
{{- end -}}
{{- if $webhook.hostNetwork -}}
{{- $lines = append $lines (printf "webhook.hostNetwork is true: ports %d and %d are open on each node with a webhook pod. Allow the control plane to reach the first, and label the namespace pod-security.kubernetes.io/enforce=privileged." (int $webhook.port) (int $webhook.adminPort)) -}}
{{- end -}}
{{- if has $webhook.log (list "debug" "trace") -}}
{{- $lines = append $lines (printf "webhook.log is %s, which logs many lines for each pod. To change the level for a short time, use PUT /log-level." $webhook.log) -}}
{{- end -}}
{{- if has "*" $values.rbac.pullSecrets -}}
{{- $lines = append $lines "rbac.pullSecrets is \"*\": the webhook can read every Secret of the cluster. List namespaces instead if you can." -}}
{{- end -}}
{{- if not $values.rbac.create -}}
{{- $lines = append $lines "rbac.create is false: pods are not ready until you grant the permissions of templates/*/clusterrole.yaml and role.yaml." -}}
{{- end -}}
{{- if not $values.withdraw.enabled -}}
{{- $lines = append $lines "withdraw.enabled is false: run `mullion withdraw` before `helm uninstall`, or taints stay on nodes." -}}
{{- end -}}
{{- if and $values.fence.enabled (include "mullion.fence.missing" .) -}}
{{- $lines = append $lines "fence.enabled has no effect, because the API server has no ValidatingAdmissionPolicy (admissionregistration.k8s.io/v1). The token of the controller allows everything that its RBAC verbs allow. Enable the API (--runtime-config) and run helm upgrade." -}}
{{- else if not $values.fence.enabled -}}
{{- $lines = append $lines "fence.enabled is false: the token of the controller allows writes of every label and taint of nodes, and of the images of running pods." -}}
{{- end -}}
{{- range $lines }}
  * {{ . }}
{{- end }}
{{- end }}
