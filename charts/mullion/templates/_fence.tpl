{{/*
The fence: one ValidatingAdmissionPolicy for each kind of object that the controller and the withdraw Job write, because RBAC
knows only verbs. `patch nodes` includes every label and taint; `patch pods` includes images.

The rules of a policy are those for which the account has permissions, and its first condition is the name of the account: for
requests of others, the API server converts the object once and compares one string. All validations use `old` and `new`, the object as maps, so
that fields which this chart does not know are compared as well.

All messages end with the value to change, because the controller writes them into Events.
*/}}

{{/*
Whether to create the fence. A cluster lists each kind of each version, and `helm template` lists versions only. The fence is
omitted if the API server lists kinds of this version without this kind.
*/}}
{{- define "mullion.fence.enabled" -}}
{{- if and .Values.fence.enabled (not (include "mullion.fence.missing" .)) }}true{{ end -}}
{{- end }}

{{/* Whether the API server has no ValidatingAdmissionPolicy, which `--runtime-config` can disable. */}}
{{- define "mullion.fence.missing" -}}
{{- $versions := .Capabilities.APIVersions -}}
{{- $version := "admissionregistration.k8s.io/v1" -}}
{{- if and ($versions.Has (printf "%s/ValidatingWebhookConfiguration" $version)) (not ($versions.Has (printf "%s/ValidatingAdmissionPolicy" $version))) }}true{{ end -}}
{{- end }}

{{/*
The beginning of a policy, up to its first variable. Arguments: `root`, `what` (the end of its name), `rules` (YAML), `programs`
(whose ServiceAccounts), and `namespace` to limit it to one namespace.
*/}}
{{- define "mullion.fence.policy" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: mullion-fence-{{ .what }}
  labels:
    {{- include "mullion.labels" .root | nindent 4 }}
spec:
  # Applies only to the accounts below.
  failurePolicy: Fail
  # With all defaults, because matchConstraints is one field for server-side apply, and two tools that apply the chart would conflict.
  matchConstraints:
    matchPolicy: Equivalent
    objectSelector: {}
    {{- with .namespace }}
    namespaceSelector:
      matchLabels:
        kubernetes.io/metadata.name: {{ . }}
    {{- else }}
    namespaceSelector: {}
    {{- end }}
    resourceRules:
      {{- .rules | trim | nindent 6 }}
  matchConditions:
    - name: by-mullion
      {{- $users := list }}
      {{- range .programs }}
      {{- $users = printf "system:serviceaccount:%s:mullion-%s" $.root.Release.Namespace . | append $users }}
      {{- end }}
      expression: request.userInfo.username in {{ toJson $users }}
  variables:
    - name: new
      expression: dyn(object)
    - name: old
      expression: dyn(oldObject)
{{- end }}

{{- define "mullion.fence.binding" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: mullion-fence-{{ .what }}
  labels:
    {{- include "mullion.labels" .root | nindent 4 }}
spec:
  policyName: mullion-fence-{{ .what }}
  validationActions: [Deny]
{{- end }}

{{/* Two maps, `new` and `old`, have the same members, except for the keys in `but`. */}}
{{- define "mullion.fence.same" -}}
{{- $but := .but | toJson -}}
{{ .new }}.all(k, k in {{ $but }} || k in {{ .old }} && {{ .new }}[k] == {{ .old }}[k]) &&
{{ .old }}.all(k, k in {{ $but }} || k in {{ .new }})
{{- end }}

{{/* The metadata are the same, except for fields that the API server maintains, and the given keys. */}}
{{- define "mullion.fence.metadata" -}}
{{- $but := concat (list "managedFields" "resourceVersion" "generation") . -}}
{{ include "mullion.fence.same" (dict "new" "variables.new.metadata" "old" "variables.old.metadata" "but" $but) }}
{{- end }}
