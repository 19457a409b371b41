{{- define "names.full" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- .Values.fullnameOverride | default $full | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "names.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "names.labels" -}}
{{ include "names.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "names.metadata" -}}
name: {{ include "names.full" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "names.labels" . | nindent 2 }}
{{- end -}}

{{/* The argument for the templates of queue-sidecar-lib. In a pod of its own the sidecar is a plain container. */}}
{{- define "names.sidecar" -}}
{{- $archive := eq .Values.shape "archive" -}}
{{- $env := list -}}
{{- if $archive -}}
{{- range $key := list "LOCK_LEAD" "AUDIT_EPHEMERAL" -}}
{{- $env = append $env (dict "name" (printf "QUEUE_SIDECAR_%s" $key) "value" "false") -}}
{{- end -}}
{{- end -}}
{{- $values := omit .Values "queue-sidecar-lib" "global" | deepCopy -}}
{{- $_ := set $values "name" (include "names.full" .) -}}
{{- $_ := set $values "labels" (include "names.labels" . | fromYaml) -}}
{{- $_ := set $values "plain" true -}}
{{- $_ := set $values "claim" $archive -}}
{{- $_ := set $values "env" (concat $env .Values.env) -}}
{{- toYaml $values -}}
{{- end -}}
