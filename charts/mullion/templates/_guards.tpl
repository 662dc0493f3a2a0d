{{/*
Values that must not be missing: every value whose default is a string, number or boolean, `policies`, and the lists of `fence`. Without some of
them rendering fails, and without others a webhook would be missing without a message. They are missing only if set to null, or with
the values of an older release.
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
repair.mode
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
admission.skipExplicitlyLinux
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

{{/* Checks that the schema cannot express: values that contradict each other or the release. Each message contains the solution. */}}
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
{{- fail (printf "no value for %s: the default of the chart is missing, because the value is null or because of helm upgrade --reuse-values, which uses only the values of the previous release. Pass your values with -f, or use --reset-then-reuse-values" (join ", " .)) -}}
{{- end -}}

{{- if not (kindIs "invalid" (index $values.admission "skipSettledLinux")) -}}
{{- fail "admission.skipSettledLinux is the name in earlier charts: remove it, and set admission.skipExplicitlyLinux to the same value. helm upgrade --reset-then-reuse-values keeps the earlier name, so pass your values with -f" -}}
{{- end -}}

{{- $undecided := list -}}
{{- if not $values.image.repository -}}
{{- $undecided = append $undecided "image.repository is empty, and the chart has no default, because no image of Mullion is published yet. Build the image (make image IMAGE=NAME:TAG), push it to your registry, and add its name:\n    --set image.repository=registry.example.com/mullion\nor in a values file:\n    image: {repository: registry.example.com/mullion}" -}}
{{- end -}}
{{- if not (or $.Release.IsUpgrade (include "mullion.policies.chosen" .)) -}}
{{- $undecided = append $undecided "policies is empty, and the chart has no default, because only you know whether Mullion may change this cluster. Choose one:\n    --set policies.shipped=audit     only report what Mullion would do: for a cluster in use\n    --set policies.shipped=default   place and deny pods, and label and taint Windows nodes: for a new cluster\nor in a values file:\n    policies: {shipped: audit}\nOr set policies.files or policies.configMap. If a tool renders this for an existing release without policies, shipped: default keeps what it has" -}}
{{- end -}}
{{- with $undecided -}}
{{- fail (join "\n\n" .) -}}
{{- end -}}

{{- if has $namespace (list "default" "kube-system" "kube-public" "kube-node-lease") -}}
{{- fail (printf "pods in the namespace of Mullion are never reviewed, so it must not be %s: install with --namespace mullion-system --create-namespace" $namespace) -}}
{{- end -}}

{{- if and $.Release.IsUpgrade (not (include "mullion.policies.chosen" .)) -}}
{{- with include "mullion.policies.installed" . -}}
{{- fail (printf "policies is empty, but the release has %s, which the upgrade would replace by the built-in policies: add it to your values, or use --reset-then-reuse-values. To enforce the built-in policies instead, set policies.shipped=default" .) -}}
{{- end -}}
{{- end -}}

{{- $chosen := include "mullion.policies.chosen" . | default "[]" | fromJsonArray -}}
{{- if gt (len $chosen) 1 -}}
{{- fail (printf "%s are set, but only one of them is allowed: keep one and leave the others empty" (join " and " $chosen)) -}}
{{- end -}}
{{- if has $values.policies.configMap (list "mullion-policies" "mullion-state") -}}
{{- fail (printf "policies.configMap %s is the name of a ConfigMap that the chart or the controller manages: choose another name" $values.policies.configMap) -}}
{{- end -}}
{{- range $name, $_ := $values.policies.files -}}
{{- if not (regexMatch "^[-_A-Za-z0-9][-._A-Za-z0-9]*\\.(yaml|yml|json)$" $name) -}}
{{- fail (printf "policies.files: %q is no name of a policy file, for example my.yaml (with --set-file, write the dot as \\.)" $name) -}}
{{- end -}}
{{- end -}}

{{- $probe := $values.controller.probeNamespace -}}
{{- if eq $probe $namespace -}}
{{- fail (printf "controller.probeNamespace is Mullion's own namespace, %s, for which the API server never calls the webhook: set another, for example default" $probe) -}}
{{- end -}}
{{- if has $probe $values.admission.excludedNamespaces -}}
{{- fail (printf "controller.probeNamespace %s is one of admission.excludedNamespaces, for which the API server never calls the webhook: set another namespace" $probe) -}}
{{- end -}}

{{- $certificates := $values.certificates -}}
{{- $provided := $certificates.provided -}}
{{- if eq $certificates.mode "Provided" -}}
{{- if not $provided.secretName -}}
{{- fail "certificates.mode is Provided: set certificates.provided.secretName to the Secret that contains tls.crt and tls.key" -}}
{{- end -}}
{{- if has $provided.secretName (list "mullion-tls" "mullion-ca") -}}
{{- fail (printf "certificates.provided.secretName %s is the name of a Secret that the controller manages with certificates.mode Managed: choose another name" $provided.secretName) -}}
{{- end -}}
{{- if and (not $provided.caBundle) (not $values.admission.annotations) -}}
{{- fail "certificates.mode is Provided: pass the CA with --set-file certificates.provided.caBundle=ca.crt, or, if another tool sets caBundle, set its annotation in admission.annotations" -}}
{{- end -}}
{{- if and $provided.caBundle (not (contains "-----BEGIN CERTIFICATE-----" $provided.caBundle)) -}}
{{- fail "certificates.provided.caBundle is not PEM, which begins with -----BEGIN CERTIFICATE-----: pass a file with --set-file certificates.provided.caBundle=ca.crt" -}}
{{- end -}}
{{- else if or $provided.secretName $provided.caBundle -}}
{{- fail (printf "certificates.provided is set, but certificates.mode is %s: set certificates.mode=Provided, or remove certificates.provided" $certificates.mode) -}}
{{- end -}}

{{- if and $certificates.certManager.issuerRef (ne $certificates.mode "CertManager") -}}
{{- fail (printf "certificates.certManager.issuerRef is set, but certificates.mode is %s: set certificates.mode=CertManager, or remove issuerRef" $certificates.mode) -}}
{{- end -}}

{{- $webhook := $values.webhook -}}
{{- with $webhook.clientCA -}}
{{- if and .configMap .secretName -}}
{{- fail "webhook.clientCA.configMap and webhook.clientCA.secretName are both given: keep the one that contains the certificate authorities, and leave the other empty" -}}
{{- end -}}
{{- end -}}
{{- if and $webhook.hostNetwork $values.monitoring.serviceMonitor.enabled -}}
{{- fail "monitoring.serviceMonitor.enabled is true, but with webhook.hostNetwork the admin port of the webhook is open on 127.0.0.1 of its node only, because everyone could read it otherwise. Prometheus cannot scrape it: set monitoring.serviceMonitor.enabled=false, and read metrics with kubectl port-forward" -}}
{{- end -}}
{{- if eq (int $webhook.port) (int $webhook.adminPort) -}}
{{- fail (printf "webhook.port and webhook.adminPort are both %d: choose another adminPort, for example 8081" (int $webhook.port)) -}}
{{- end -}}
{{- if eq (int $webhook.adminPort) 443 -}}
{{- fail "webhook.adminPort is 443, which is the port of the Service for the API server: choose another, for example 8080" -}}
{{- end -}}
{{- if $webhook.hostNetwork -}}
{{- range $key := list "port" "adminPort" -}}
{{- $port := get $webhook $key | int -}}
{{- if lt $port 1024 -}}
{{- fail (printf "webhook.%s is %d, but with webhook.hostNetwork only root opens ports below 1024 of a node: choose a higher port" $key $port) -}}
{{- else if has $port (list 10250 10255 10256 10248 10249) -}}
{{- fail (printf "webhook.%s is %d, which the kubelet or kube-proxy uses on every node, and with webhook.hostNetwork it is a port of the node: choose another" $key $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
