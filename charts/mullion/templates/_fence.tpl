{{/*
The fence: one ValidatingAdmissionPolicy for each kind of object that the controller and the withdraw Job write, because RBAC
knows only verbs. `patch nodes` includes every label and taint; `patch pods` includes images.

A policy has exactly the rules that an account has rights for, and its first condition is the account's name: requests of
others are converted for CEL once, compare one string, and end. All validations use `old` and `new`, the object as maps, so
that fields which this chart does not know are compared as well.

All messages end with the value to change: the controller writes them into Events.
*/}}

{{/*
Whether there is a fence. A cluster lists each kind of each version, and `helm template` lists versions only: the fence is
left out where the API server lists the kinds of this version without this one.
*/}}
{{- define "mullion.fence.enabled" -}}
{{- if and .Values.fence.enabled (not (include "mullion.fence.missing" .)) }}true{{ end -}}
{{- end }}

{{/* Whether the API server has no ValidatingAdmissionPolicy: `--runtime-config` can turn it off. */}}
{{- define "mullion.fence.missing" -}}
{{- $versions := .Capabilities.APIVersions -}}
{{- $version := "admissionregistration.k8s.io/v1" -}}
{{- if and ($versions.Has (printf "%s/ValidatingWebhookConfiguration" $version)) (not ($versions.Has (printf "%s/ValidatingAdmissionPolicy" $version))) }}true{{ end -}}
{{- end }}

{{/*
The policy's head, up to its first variable: `root`, `what` (the end of its name), `rules` (YAML), `programs` (whose accounts),
and `namespace` if only objects of that namespace are meant.
*/}}
{{- define "mullion.fence.policy" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: mullion-fence-{{ .what }}
  labels:
    {{- include "mullion.labels" .root | nindent 4 }}
spec:
  # Applies to the accounts below only. Writes of others are not evaluated.
  failurePolicy: Fail
  # One field for server-side apply: without its defaults, two tools that apply the chart would conflict.
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

{{/* Two maps have the same members, except for the keys `but`: `new`, `old`. */}}
{{- define "mullion.fence.same" -}}
{{- $but := .but | toJson -}}
{{ .new }}.all(k, k in {{ $but }} || k in {{ .old }} && {{ .new }}[k] == {{ .old }}[k]) &&
{{ .old }}.all(k, k in {{ $but }} || k in {{ .new }})
{{- end }}

{{/* The metadata are the same, except for what the API server itself counts and records, and the keys `but`. */}}
{{- define "mullion.fence.metadata" -}}
{{- $but := concat (list "managedFields" "resourceVersion" "generation") . -}}
{{ include "mullion.fence.same" (dict "new" "variables.new.metadata" "old" "variables.old.metadata" "but" $but) }}
{{- end }}
