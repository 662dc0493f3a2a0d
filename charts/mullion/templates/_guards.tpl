{{/*
Every value whose default is a word, a number or a switch, `policies` and the lists of `fence`: nothing could be rendered without some, and
without others a webhook would be gone in silence. Only nulls, and values of an older release, lack one.
*/}}
{{- define "mullion.values.needed" -}}
image.repository
image.architecture
image.pullPolicy
bindAddress
priorityClass.name
priorityClass.quota
webhook.replicas
webhook.port
webhook.adminPort
webhook.hostNetwork
webhook.drainSeconds
webhook.log
webhook.podDisruptionBudget.enabled
webhook.podDisruptionBudget.maxUnavailable
controller.replicas
controller.adminPort
controller.probeNamespace
controller.log
controller.podDisruptionBudget.enabled
controller.podDisruptionBudget.maxUnavailable
certificates.mode
certificates.certManager.duration
certificates.certManager.renewBefore
policies
admission.pods
admission.templates
admission.nodes
admission.policies
admission.skipSettledLinux
admission.controllerUsers
admission.failurePolicy
admission.timeoutSeconds.mutating
admission.timeoutSeconds.validating
networkPolicy.enabled
monitoring.serviceMonitor.enabled
monitoring.prometheusRule.enabled
monitoring.prometheusRule.runbooks
monitoring.dashboard.enabled
rbac.create
rbac.reader
serviceAccount.create
withdraw.enabled
withdraw.deadlineSeconds
fence.enabled
fence.taintKeys
fence.tolerationEffects
fence.runtimeClassHandlers
{{- end }}

{{/* What the schema cannot say: values that contradict each other, or the release. Each says what to do. */}}
{{- define "mullion.guards" -}}
{{- $values := .Values -}}
{{- $namespace := .Release.Namespace -}}

{{- $missing := list -}}
{{- range $path := include "mullion.values.needed" . | splitList "\n" -}}
{{- $value := $values -}}
{{- range splitList "." $path -}}
{{- if kindIs "map" $value }}{{ $value = index $value . }}{{ end -}}
{{- end -}}
{{- if kindIs "invalid" $value }}{{ $missing = append $missing $path }}{{ end -}}
{{- end -}}
{{- with $missing -}}
{{- fail (printf "no value for %s: this chart has defaults, which null takes away, and so does helm upgrade --reuse-values, by which only the values of the release before count. Give values with -f, or use --reset-then-reuse-values" (join ", " .)) -}}
{{- end -}}

{{- if has $namespace (list "default" "kube-system" "kube-public" "kube-node-lease") -}}
{{- fail (printf "Mullion is never asked about pods of its own namespace, so it must not be %s: install it with --namespace mullion-system --create-namespace" $namespace) -}}
{{- end -}}

{{- $ways := list -}}
{{- range list "shipped" "files" "configMap" -}}
{{- if get $values.policies . }}{{ $ways = append $ways (printf "policies.%s" .) }}{{ end -}}
{{- end -}}
{{- if gt (len $ways) 1 -}}
{{- fail (printf "policies are given by %s, and only one of them can hold: keep one and leave the others empty" (join " and " $ways)) -}}
{{- end -}}
{{- if has $values.policies.configMap (list "mullion-policies" "mullion-state") -}}
{{- fail (printf "policies.configMap %s is the name of a ConfigMap of Mullion's own, which an upgrade takes away or the controller overwrites: choose another" $values.policies.configMap) -}}
{{- end -}}
{{- range $name, $_ := $values.policies.files -}}
{{- if not (regexMatch "^[-_A-Za-z0-9][-._A-Za-z0-9]*\\.(yaml|yml|json)$" $name) -}}
{{- fail (printf "policies.files: %q is no name of a policy file, as in my.yaml (with --set-file, write the dot as \\.)" $name) -}}
{{- end -}}
{{- end -}}

{{- $probe := $values.controller.probeNamespace -}}
{{- if eq $probe $namespace -}}
{{- fail (printf "controller.probeNamespace is Mullion's own namespace, %s, about which the API server never asks: name another, as default" $probe) -}}
{{- end -}}
{{- if has $probe $values.admission.excludedNamespaces -}}
{{- fail (printf "controller.probeNamespace %s is one of admission.excludedNamespaces, so the controller would never see the API server ask: name another namespace" $probe) -}}
{{- end -}}

{{- $certificates := $values.certificates -}}
{{- $provided := $certificates.provided -}}
{{- if eq $certificates.mode "Provided" -}}
{{- if not $provided.secretName -}}
{{- fail "certificates.mode is Provided: name the Secret with tls.crt and tls.key by certificates.provided.secretName" -}}
{{- end -}}
{{- if has $provided.secretName (list "mullion-tls" "mullion-ca") -}}
{{- fail (printf "certificates.provided.secretName %s is the name of a Secret that the controller keeps with certificates.mode Managed: choose another" $provided.secretName) -}}
{{- end -}}
{{- if and (not $provided.caBundle) (not $values.admission.annotations) -}}
{{- fail "certificates.mode is Provided: give the CA by --set-file certificates.provided.caBundle=ca.crt, or, where something fills it in, the annotation that asks for it by admission.annotations" -}}
{{- end -}}
{{- if and $provided.caBundle (not (contains "-----BEGIN CERTIFICATE-----" $provided.caBundle)) -}}
{{- fail "certificates.provided.caBundle is not PEM, which begins with -----BEGIN CERTIFICATE-----: --set-file certificates.provided.caBundle=ca.crt" -}}
{{- end -}}
{{- else if or $provided.secretName $provided.caBundle -}}
{{- fail (printf "certificates.provided is given, and certificates.mode is %s: set certificates.mode=Provided, or leave it out" $certificates.mode) -}}
{{- end -}}

{{- if and $certificates.certManager.issuerRef (ne $certificates.mode "CertManager") -}}
{{- fail (printf "certificates.certManager.issuerRef is given, and certificates.mode is %s: set certificates.mode=CertManager, or leave it out" $certificates.mode) -}}
{{- end -}}

{{- $webhook := $values.webhook -}}
{{- with $webhook.clientCA -}}
{{- if and .configMap .secretName -}}
{{- fail "webhook.clientCA.configMap and webhook.clientCA.secretName are both given: keep the one that has the authorities, and leave the other empty" -}}
{{- end -}}
{{- end -}}
{{- if and $webhook.hostNetwork $values.monitoring.serviceMonitor.enabled -}}
{{- fail "monitoring.serviceMonitor.enabled is true, but with webhook.hostNetwork the webhook's admin port is open on 127.0.0.1 of its node only, because it would be a port of the node for everybody otherwise. Prometheus cannot read it: turn the ServiceMonitor off, and read metrics with kubectl port-forward" -}}
{{- end -}}
{{- if eq (int $webhook.port) (int $webhook.adminPort) -}}
{{- fail (printf "webhook.port and webhook.adminPort are both %d: choose another adminPort, as 8081" (int $webhook.port)) -}}
{{- end -}}
{{- if eq (int $webhook.adminPort) 443 -}}
{{- fail "webhook.adminPort is 443, which is the Service's port for the API server: choose another, as 8080" -}}
{{- end -}}
{{- if $webhook.hostNetwork -}}
{{- range $key := list "port" "adminPort" -}}
{{- $port := get $webhook $key | int -}}
{{- if lt $port 1024 -}}
{{- fail (printf "webhook.%s is %d, and with webhook.hostNetwork only root opens ports below 1024 of a node: choose a higher one" $key $port) -}}
{{- else if has $port (list 10250 10255 10256 10248 10249) -}}
{{- fail (printf "webhook.%s is %d, which the kubelet or kube-proxy has on every node, and with webhook.hostNetwork it is the node's port: choose another" $key $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
