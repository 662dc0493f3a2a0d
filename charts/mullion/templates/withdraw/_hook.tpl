{{/*
The objects of the withdrawal exist only while it runs: Helm creates them when the release is deleted, and deletes them afterwards, also
after a failure. What a crash of Helm leaves is deleted before the next attempt.
*/}}
{{- define "mullion.withdraw.hook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end }}
