{{/*
Match conditions: the API server calls a webhook if all of its conditions are true. An error counts as a failed call
(failurePolicy). Comments after // are for readers of the configuration in the cluster.

Up to 1.36, the API server converts the object for CEL once for each webhook that has a condition. It evaluates all conditions of
a webhook, also after a false one. The conversion is most of the cost (docs/reference/webhooks.md, "What the match conditions cost").
For an explicitly Linux pod, the whole expression is evaluated. Therefore it is one condition in which `&&` and `||` end
early, with loops over what the pod has (labels of its nodeSelector, its containers) instead of over names that it could
have. Kubernetes 1.30 prepares the whole expression again for each request, so there each operator costs, evaluated or not.

Every access to what may be absent is optional (`.?`, `[?]`, part of every Kubernetes from 1.29 on). Go writes null for empty
lists without `omitempty`: `containers` and `nodeSelectorTerms`.

Loops run only over short lists. The processor time of a loop grows with the square of the length of its list: to count the cost of a
step, the API server searches the steps before it (`refValStack.drop` in cel-go interpreter/runtimecost.go). For a nodeSelector with
20,000 labels, a create took 2.4 seconds of processor time, and 0.05 without a loop. The limits for the cost of an expression and of a
request (k8s.io/apiserver/pkg/apis/cel/config.go) do not end it. An object with a longer list is reviewed; under `failurePolicy: Fail`
it is not rejected in an outage, unless an annotation means Windows.

Arguments: `spec`, the pod's spec as CEL; `annotations`, the maps of annotations that count, each as CEL; `decided`, whether a pod
that /mutate has placed on Linux by default is explicitly Linux too; `present`, the CEL suffix that tests for windowsOptions. Empty windowsOptions do not mean Windows, but the API server rejects them together with
`spec.os.name: linux`, and the message of Mullion is clearer.
*/}}

{{- define "mullion.cel.containers" -}}
(optional.ofNonZeroValue({{ .spec }}.?containers.orValue([])).orValue([])
    + {{ .spec }}.?initContainers.orValue([]) + {{ .spec }}.?ephemeralContainers.orValue([]))
{{- end }}

{{/* The length up to which a loop runs over labels of the nodeSelector, containers, annotations or owners. */}}
{{- define "mullion.cel.longest" -}}
100
{{- end }}

{{/* The same for lists in lists: the terms of the node affinity, the expressions of a term, the values of an expression. */}}
{{- define "mullion.cel.longestInLists" -}}
10
{{- end }}

{{- define "mullion.cel.terms" -}}
optional.ofNonZeroValue({{ .spec }}.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution
  .?nodeSelectorTerms.orValue([])).orValue([])
{{- end }}

{{/* Labels whose value begins with `windows` on Windows nodes. */}}
{{- define "mullion.cel.osNames" -}}
['kubernetes.azure.com/os-sku', 'cloud.google.com/gke-os-distribution', 'node.openshift.io/os_id']
{{- end }}

{{/* Whether the lists of the spec are short enough for the loops of the definition after this one. */}}
{{- define "mullion.cel.short" -}}
{{- $longest := include "mullion.cel.longest" . -}}
{{- $inLists := include "mullion.cel.longestInLists" . -}}
{{ .spec }}.?nodeSelector.orValue({}).size() <= {{ $longest }}
&& {{ include "mullion.cel.containers" . }}.size() <= {{ $longest }}
&& {{ include "mullion.cel.terms" . }}.size() <= {{ $inLists }}
&& {{ include "mullion.cel.terms" . }}
  .all(t, t.?matchExpressions.orValue([]).size() <= {{ $inLists }} && t.?matchExpressions.orValue([]).all(e,
    !(e.key in {{ include "mullion.cel.osNames" . }}) || e.?values.orValue([]).size() <= {{ $inLists }}))
{{- end }}

{{/* Whether a field of the spec means that the pod is for Windows. Only for a spec with short lists. */}}
{{- define "mullion.cel.windowsSpec" -}}
// The OS field,
{{ .spec }}.?os.?name.orValue('') == 'windows'
// or a nodeSelector with the OS or a label that only Windows nodes have,
|| {{ .spec }}.?nodeSelector.orValue({}).exists(label,
  label in ['kubernetes.io/os', 'beta.kubernetes.io/os'] && {{ .spec }}.nodeSelector[label] == 'windows'
  || label in ['node.kubernetes.io/windows-build', 'cloud.google.com/gke-windows-os-version']
  || label in {{ include "mullion.cel.osNames" . }}
    && {{ .spec }}.nodeSelector[label].lowerAscii().startsWith('windows'))
// or the same in each non-empty term of the required node affinity,
|| {{ include "mullion.cel.terms" . }}.exists(t, t != {})
  && {{ include "mullion.cel.terms" . }}.all(t, t == {} || t.?matchExpressions.orValue([]).exists(e,
      e.key in ['kubernetes.io/os', 'beta.kubernetes.io/os']
        && (e.operator == 'In' && 'windows' in e.?values.orValue([]) && !('linux' in e.?values.orValue([]))
          || e.operator == 'NotIn' && 'linux' in e.?values.orValue([]) && !('windows' in e.?values.orValue([])))
      || e.key in ['node.kubernetes.io/windows-build', 'cloud.google.com/gke-windows-os-version']
        && e.operator in ['In', 'Exists', 'Gt', 'Lt']
      || e.key in {{ include "mullion.cel.osNames" . }}
        && e.operator == 'In' && e.?values.orValue([]).all(v, v.lowerAscii().startsWith('windows'))))
// or windowsOptions of the pod or a container,
|| {{ .spec }}.?securityContext.?windowsOptions{{ .present }}
|| {{ include "mullion.cel.containers" . }}
    .exists(c, c.?securityContext.?windowsOptions{{ .present }})
// or a RuntimeClass of Mullion
|| {{ .spec }}.?runtimeClassName.orValue('').startsWith('mullion-windows-')
{{- end }}

{{/* Whether anything in the pod means that it is for Windows. */}}
{{- define "mullion.cel.windows" -}}
{{ include "mullion.cel.short" . }}
&& (
  {{ include "mullion.cel.windowsSpec" . | nindent 2 | trim }}
)
// or an annotation: of the author, of Mullion's decision, or of the controller's probe.
|| object.metadata.?annotations[?'mullion.dev/os'].orValue('') == 'windows'
|| object.metadata.?annotations[?'mullion.dev/decision'].orValue('').startsWith('{"os":"windows"')
|| object.metadata.?annotations[?'mullion.dev/probe'].hasValue()
{{- end }}

{{/* Whether the pod is explicitly Linux, and nothing else in it concerns Mullion. */}}
{{- define "mullion.cel.explicitlyLinux" -}}
{{- $present := merge (dict "present" ".hasValue()") . }}
{{- $longest := include "mullion.cel.longest" . }}
// The author selects Linux,
{{ .spec }}.?nodeSelector[?'kubernetes.io/os'].orValue('') == 'linux'
// no list is too long for the loops of this condition,
&& {{ include "mullion.cel.short" . }}
{{- if .decided }}
// or /mutate has selected it by default and has nothing to report: no other annotation is Mullion's,
{{- range .annotations }}
&& {{ . }}.size() <= {{ $longest }}
&& !{{ . }}.exists(k, k.startsWith('mullion.dev/') && !(k == 'mullion.dev/decision' && request.operation == 'CREATE'
  && {{ . }}[k].startsWith('{"os":"linux","basis":"default","placed":')))
{{- end }}
{{- else }}
// no annotation is Mullion's,
{{- range .annotations }}
&& {{ . }}.size() <= {{ $longest }}
&& !{{ . }}.exists(k, k.startsWith('mullion.dev/'))
{{- end }}
{{- end }}
// and nothing concerns Windows:
&& !(
  {{ include "mullion.cel.windowsSpec" $present | nindent 2 | trim }}
)
{{- end }}

{{/* Conditions, in addition to being for Windows, under which a pod can be rejected because calls of /validate fail. */}}
{{- define "mullion.cel.mayFail.kubeSystem" -}}
request.namespace != 'kube-system'
{{- end }}

{{- define "mullion.cel.mayFail.hostProcess" -}}
{{ include "mullion.cel.containers" . }}.size() <= {{ include "mullion.cel.longest" . }}
&& !(object.spec.?securityContext.?windowsOptions.?hostProcess.orValue(false)
|| {{ include "mullion.cel.containers" . }}
    .exists(c, c.?securityContext.?windowsOptions.?hostProcess.orValue(false)))
{{- end }}

{{/*
Whether a condition about its owner `o`, in the argument `owner`, is true for one of the controllers of an object. The author of an object
writes its owner references, so they count only if one of these users sends the request. Without a list they always count. An API
server without authentication sends no username.
*/}}
{{- define "mullion.cel.ownedBy" -}}
{{- with .root.Values.admission.controllerUsers -}}
request.userInfo.?username.orValue('') in [
  '{{ join "',\n  '" . }}']
&& {{ end -}}
object.metadata.?ownerReferences.orValue([]).size() <= {{ include "mullion.cel.longest" . }}
&& object.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false)
  && {{ .owner | nindent 2 | trim }})
{{- end }}

{{- define "mullion.cel.mayFail.daemonSet" -}}
!(
  {{ include "mullion.cel.ownedBy" (dict "root" . "owner" "o.kind == 'DaemonSet'") | nindent 2 | trim }})
{{- end }}

{{- define "mullion.cel.mayFail.systemPriority" -}}
!object.spec.?priorityClassName.orValue('').startsWith('system-')
{{- end }}

{{- define "mullion.podArguments" -}}
spec: object.spec
annotations: ["object.metadata.?annotations.orValue({})"]
present: .orValue({}).size() > 0
{{- end }}

{{- define "mullion.conditions.mirror" -}}
# A mirror pod represents a static pod that the kubelet already runs, so a changed or denied one has no effect.
- name: not-a-mirror-pod
  expression: "!('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}))"
{{- end }}

{{/* Arguments: `root`, and `decided` as above. One condition, because the API server evaluates each of them. */}}
{{- define "mullion.conditions.pods" -}}
{{- if .root.Values.admission.skipExplicitlyLinux -}}
{{- $pod := include "mullion.podArguments" . | fromYaml }}
- name: not-explicitly-linux
  expression: |-
    !(
      // A mirror pod represents a static pod that the kubelet already runs, so a changed or denied one has no effect.
      'kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}) ||
      {{ include "mullion.cel.explicitlyLinux" (merge (dict "decided" .decided) $pod) | nindent 6 | trim }}
    )
{{- else }}
{{ include "mullion.conditions.mirror" . }}
{{- end }}
{{- end }}

{{/* failurePolicy: Fail applies only to pods that select Windows, and only if no node and no cluster needs them to start. */}}
{{- define "mullion.conditions.mayFail" -}}
{{- $pod := include "mullion.podArguments" . | fromYaml }}
{{ include "mullion.conditions.mirror" . }}
- name: not-in-kube-system
  expression: {{ include "mullion.cel.mayFail.kubeSystem" $pod | quote }}
- name: not-of-a-daemonset
  expression: |-
    {{ include "mullion.cel.mayFail.daemonSet" . | nindent 4 | trim }}
- name: not-of-a-system-priority
  expression: {{ include "mullion.cel.mayFail.systemPriority" $pod | quote }}
- name: not-host-process
  expression: |-
    {{ include "mullion.cel.mayFail.hostProcess" $pod | nindent 4 | trim }}
- name: for-windows
  expression: |-
    {{ include "mullion.cel.windows" $pod | nindent 4 | trim }}
{{- end }}

{{/* All other pods, so that no warning is lost with failurePolicy: Fail. */}}
{{- define "mullion.conditions.mayNotFail" -}}
{{- $pod := include "mullion.podArguments" . | fromYaml }}
{{- include "mullion.conditions.pods" (dict "root" . "decided" true) }}
- name: not-reviewed-by-pods.mullion.dev
  expression: |-
    request.operation != 'CREATE' || !(
      {{ include "mullion.cel.mayFail.kubeSystem" $pod }}
      && {{ include "mullion.cel.mayFail.daemonSet" . | nindent 6 | trim }}
      && {{ include "mullion.cel.mayFail.systemPriority" $pod }}
      && {{ include "mullion.cel.mayFail.hostProcess" $pod | nindent 6 | trim }}
      && (
        {{ include "mullion.cel.windows" $pod | nindent 8 | trim }}
      )
    )
{{- end }}

{{- define "mullion.cel.template" -}}
(request.kind.kind == 'PodTemplate' ? {{ . }}.?template
  : request.kind.kind == 'CronJob' ? {{ . }}.?spec.?jobTemplate.?spec.?template : {{ . }}.?spec.?template).orValue({})
{{- end }}

{{- define "mullion.conditions.templates" -}}
# Other changes of a workload do not change its pods. The decision annotation of a DaemonSet is an exception: it records which
# part of the template is Mullion's, so Mullion restores it.
- name: template-is-new
  expression: |-
    request.operation == 'CREATE'
    || {{ include "mullion.cel.template" "object" | nindent 4 | trim }}
      != {{ include "mullion.cel.template" "oldObject" | nindent 6 | trim }}
    || object.metadata.?annotations[?'mullion.dev/decision'].orValue('')
      != oldObject.metadata.?annotations[?'mullion.dev/decision'].orValue('')
    // A DaemonSet that Mullion placed: a webhook that was not called first is not called again after a later webhook changes
    // the template.
    || request.kind.kind == 'DaemonSet' && 'mullion.dev/decision' in oldObject.metadata.?annotations.orValue({})
# Objects that a Deployment or CronJob creates were reviewed with it. Other owners are operators, and other users can write any
# owner reference.
- name: not-of-another-workload
  expression: |-
    {{- $replicaSet := "request.kind.kind == 'ReplicaSet' && o.kind == 'Deployment' && o.apiVersion == 'apps/v1'" }}
    {{- $job := "request.kind.kind == 'Job' && o.kind == 'CronJob' && o.apiVersion == 'batch/v1'" }}
    {{- $owner := printf "(%s\n|| %s)" $replicaSet $job }}
    !(
      {{ include "mullion.cel.ownedBy" (dict "root" . "owner" $owner) | nindent 6 | trim }})
{{- if .Values.admission.skipExplicitlyLinux }}
- name: not-explicitly-linux
  expression: |-
    ![
      {{ include "mullion.cel.template" "object" | nindent 6 | trim }}
    ].exists(template, [template.?spec.orValue({})].exists(spec,
      {{- /* Annotations of the pods, the object and the old object, so that a DaemonSet that Mullion placed is reviewed. */}}
      {{- $annotations := list "template.?metadata.?annotations.orValue({})" "object.metadata.?annotations.orValue({})"
            "(request.operation == 'UPDATE' ? oldObject.metadata.?annotations.orValue({}) : {})" }}
      {{ include "mullion.cel.explicitlyLinux" (dict "spec" "spec" "annotations" $annotations) | nindent 6 | trim }}
    ))
{{- end }}
{{- end }}

{{- define "mullion.conditions.nodes" -}}
- name: a-windows-node
  expression: "object.metadata.?labels[?'kubernetes.io/os'].orValue('') == 'windows'"
{{- end }}
