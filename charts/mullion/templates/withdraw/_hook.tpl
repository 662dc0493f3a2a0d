{{/*
Everything that withdraws Mullion is there only while it does: made when the release is deleted, gone afterwards, also
when it failed. What a crash of Helm left is deleted before the next try.
*/}}
{{- define "mullion.withdraw.hook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end }}
