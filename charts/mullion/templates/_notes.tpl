{{/* Which policies hold, and what that means. */}}
{{- define "mullion.notes.policies" -}}
{{- $policies := .Values.policies -}}
{{- if $policies.configMap -}}
Its policies are those of ConfigMap {{ $policies.configMap }}; `mode` in each says whether it acts or only talks.
{{- else if $policies.files -}}
Its policies are your own, {{ keys $policies.files | sortAlpha | join ", " }}; `mode` in each says whether it acts or only talks.
{{- else if eq $policies.shipped "audit" -}}
It only talks (policies: audit): it says what it would do, and changes and refuses nothing.
{{- else -}}
It acts (policies: {{ $policies.shipped | default "default" }}): pods are placed, what cannot run on Windows is refused,
and Windows nodes get labels and a taint.
{{- end -}}
{{- end }}

{{/* What may be meant, and is worth a second look; a line each. */}}
{{- define "mullion.notes.warnings" -}}
{{- $values := .Values -}}
{{- $webhook := $values.webhook -}}
{{- $admission := $values.admission -}}
{{- $lines := list -}}
{{- if hasPrefix "registry.mullion.dev/" $values.image.repository -}}
{{- $lines = append $lines "image.repository is the default, where nothing is published yet: pods wait until you name a registry with an image of `make image`." -}}
{{- end -}}
{{- $one := lt (int $webhook.replicas) 2 -}}
{{- if and $one (eq $admission.failurePolicy "Fail") -}}
{{- $lines = append $lines "admission.failurePolicy is Fail with one replica: whenever it moves, new Windows pods are refused. Set webhook.replicas to 2 or 3." -}}
{{- else if $one -}}
{{- $lines = append $lines "webhook.replicas is 1: whenever it moves, pods pass unseen." -}}
{{- end -}}
{{- if not $admission.pods -}}
{{- $lines = append $lines "admission.pods is off: no pod is placed, and nothing is refused." -}}
{{- end -}}
{{- if gt (int $admission.timeoutSeconds.mutating) 2 -}}
{{- $lines = append $lines (printf "admission.timeoutSeconds.mutating is %d: every pod waits that long while Mullion does not answer, and once more where another webhook changes it." (int $admission.timeoutSeconds.mutating)) -}}
{{- end -}}
{{- if $webhook.hostNetwork -}}
{{- $lines = append $lines (printf "webhook.hostNetwork: ports %d and %d are open on each node that has a webhook; let the control plane reach the first, and label the namespace pod-security.kubernetes.io/enforce=privileged." (int $webhook.port) (int $webhook.adminPort)) -}}
{{- end -}}
{{- if has $webhook.log (list "debug" "trace") -}}
{{- $lines = append $lines (printf "webhook.log is %s: much of it for each pod. PUT /log-level changes it for a while instead." $webhook.log) -}}
{{- end -}}
{{- if has "*" $values.rbac.pullSecrets -}}
{{- $lines = append $lines "rbac.pullSecrets is \"*\": the webhook may read every Secret of the cluster. Name the namespaces if you can." -}}
{{- end -}}
{{- if not $values.rbac.create -}}
{{- $lines = append $lines "rbac.create is off: pods are not Ready until somebody gives them the rights of templates/*/clusterrole.yaml and role.yaml." -}}
{{- end -}}
{{- if not $values.withdraw.enabled -}}
{{- $lines = append $lines "withdraw.enabled is off: run `mullion withdraw` before `helm uninstall`, or taints stay on nodes." -}}
{{- end -}}
{{- if and $values.fence.enabled (include "mullion.fence.missing" .) -}}
{{- $lines = append $lines "fence.enabled does nothing: the API server has no ValidatingAdmissionPolicy (admissionregistration.k8s.io/v1). The controller's token allows every write that its RBAC verbs allow. Turn the API on (--runtime-config) and run helm upgrade." -}}
{{- else if not $values.fence.enabled -}}
{{- $lines = append $lines "fence.enabled is off: the controller's token allows writes of every label and taint of nodes, and of the images of running pods." -}}
{{- end -}}
{{- range $lines }}
  * {{ . }}
{{- end }}
{{- end }}
