{{/*
Templates for charts that have this one as a dependency. Container, volumes and claim are read from the files of the kustomize
components, so both add the same to a pod.

Each template takes the root context (`.`), with the values below `queue-sidecar-lib`; or (dict "root" . "values" VALUES), whose
VALUES of one workload come before those.
*/}}

{{/* The values, as YAML. Of an image, only what is set is replaced. A config of one workload replaces the common one. */}}
{{- define "queue-sidecar.values" -}}
{{- $root := get . "root" | default . -}}
{{- $values := get $root.Values "queue-sidecar-lib" | default dict | deepCopy -}}
{{- $own := get . "values" | default dict -}}
{{- if or $own.config $own.existingConfigMap -}}
{{- $_ := set $values "config" "" -}}
{{- $_ := set $values "existingConfigMap" "" -}}
{{- end -}}
{{- range $name, $value := $own -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $values $name)) -}}
{{- $value = merge (deepCopy $value) (get $values $name) -}}
{{- end -}}
{{- $_ := set $values $name $value -}}
{{- end -}}
{{- if not $values.name -}}
{{- $_ := set $values "name" (printf "%s-queue-sidecar" $root.Release.Name) -}}
{{- end -}}
{{- toYaml $values -}}
{{- end -}}

{{/* A file of this chart: (list CONTEXT NAME). */}}
{{- define "queue-sidecar.file" -}}
{{- $context := first . -}}
{{- $root := get $context "root" | default $context -}}
{{- $lib := get $root.Subcharts "queue-sidecar-lib" | required "the chart needs queue-sidecar-lib as a dependency, without an alias" -}}
{{- $lib.Files.Get (last .) -}}
{{- end -}}

{{/* The label of pods, by which the PodMonitor finds them. */}}
{{- define "queue-sidecar.labels" -}}
queue-sidecar: enabled
{{- end -}}

{{/* An item for `initContainers`, as the last one; with `plain` for `containers`. */}}
{{- define "queue-sidecar.container" -}}
{{- $values := include "queue-sidecar.values" . | fromYaml -}}
{{- $pod := include "queue-sidecar.file" (list . "files/pod.yaml") | fromYaml -}}
{{- $container := first $pod.template.spec.initContainers -}}
{{- $image := $values.image -}}
{{- if $image.digest -}}
{{- $_ := set $container "image" (printf "%s@%s" $image.repository $image.digest) -}}
{{- else -}}
{{- $tag := $image.tag | default (splitList ":" $container.image | last) -}}
{{- $_ := set $container "image" (printf "%s:%s" $image.repository $tag) -}}
{{- end -}}
{{- $_ := set $container "imagePullPolicy" $image.pullPolicy -}}
{{- if $values.plain -}}
{{- $_ := unset $container "restartPolicy" -}}
{{- end -}}
{{- if $values.resources -}}
{{- $_ := set $container "resources" $values.resources -}}
{{- end -}}
{{- $_ := set $container "env" (concat $container.env ($values.env | default list)) -}}
{{- $_ := set $container "volumeMounts" (concat $container.volumeMounts ($values.volumeMounts | default list)) -}}
{{- if $values.anyUser -}}
{{- $_ := unset $container.securityContext "runAsUser" -}}
{{- end -}}
{{- if $values.readiness -}}
{{- $probe := include "queue-sidecar.file" (list . "files/probe.yaml") | fromYaml -}}
{{- $_ := set $container "readinessProbe" (first $probe.template.spec.containers).readinessProbe -}}
{{- end -}}
{{- toYaml (list $container) -}}
{{- end -}}

{{/* Items for `volumes`. */}}
{{- define "queue-sidecar.volumes" -}}
{{- $values := include "queue-sidecar.values" . | fromYaml -}}
{{- if not (or $values.config $values.existingConfigMap) -}}
{{- fail "set config, the text of queue-sidecar.cfg (--set-file reads a file), or existingConfigMap" -}}
{{- end -}}
{{- if and $values.config $values.existingConfigMap -}}
{{- fail "set config or existingConfigMap, not both" -}}
{{- end -}}
{{- $pod := include "queue-sidecar.file" (list . "files/pod.yaml") | fromYaml -}}
{{- $volumes := list -}}
{{- range $pod.template.spec.volumes -}}
{{- if eq .name "queue-sidecar-config" -}}
{{- $_ := set .configMap "name" ($values.existingConfigMap | default $values.name) -}}
{{- else if eq .name "queue-sidecar-secret" -}}
{{- $_ := set .secret "secretName" ($values.existingSecret | default $values.name) -}}
{{- else if and (eq .name "queue-sidecar-audit") $values.auditSize -}}
{{- $_ := set .emptyDir "sizeLimit" $values.auditSize -}}
{{- end -}}
{{- if not (and $values.claim (eq .name "queue-sidecar-audit")) -}}
{{- $volumes = append $volumes . -}}
{{- end -}}
{{- end -}}
{{- toYaml $volumes -}}
{{- end -}}

{{/* An item for `volumeClaimTemplates` of a StatefulSet: set `claim` too. */}}
{{- define "queue-sidecar.claim" -}}
{{- $values := include "queue-sidecar.values" . | fromYaml -}}
{{- $parts := include "queue-sidecar.file" (list . "files/claim.yaml") | fromYaml -}}
{{- $claim := first $parts.spec.volumeClaimTemplates -}}
{{- if $values.auditSize -}}
{{- $_ := set $claim.spec.resources.requests "storage" $values.auditSize -}}
{{- end -}}
{{- if $values.storageClass -}}
{{- $_ := set $claim.spec "storageClassName" $values.storageClass -}}
{{- end -}}
{{- toYaml (list $claim) -}}
{{- end -}}

{{/* The ConfigMap, or nothing with `existingConfigMap`. */}}
{{- define "queue-sidecar.configMap" -}}
{{- $values := include "queue-sidecar.values" . | fromYaml -}}
{{- if $values.config -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $values.name }}
  namespace: {{ (get . "root" | default .).Release.Namespace }}
  {{- with $values.labels }}
  labels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
data:
  {{- toYaml (dict "queue-sidecar.cfg" $values.config) | nindent 2 }}
{{- end -}}
{{- end -}}
