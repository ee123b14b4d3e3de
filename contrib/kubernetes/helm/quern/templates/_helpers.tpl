{{- define "quern.name" -}}
{{- if contains "quern" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-quern" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "quern.selector" -}}
app.kubernetes.io/name: quern
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "quern.labels" -}}
{{ include "quern.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "quern.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "quern.claim" -}}
{{ .Values.model.claim.name | default (printf "%s-models" (include "quern.name" .)) }}
{{- end }}

{{/* What the container may do: nothing but compute and serve. */}}
{{- define "quern.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* The flags of quern serve. */}}
{{- define "quern.args" -}}
{{- $m := .Values.model -}}
- serve
{{- if eq $m.source "pull" }}
- -m
- {{ required "model.pull.name: which model is downloaded?" $m.pull.name | quote }}
- --model-cache
- /models
- --offline
{{- else if and (eq $m.source "claim") (not $m.path) }}
- --models-dir
- /models
{{- else }}
- -m
- {{ printf "/models/%s" $m.path | trimSuffix "/" | quote }}
{{- end }}
{{- if .Values.keys.secret }}
- --api-key-file
- /keys/keys
- --require-key
{{- end }}
{{- if .Values.cache.size }}
- --cache-disk
- /cache
{{- end }}
{{- if .Values.inferencePool.enabled }}
- --vllm-metrics
{{- end }}
{{- if or .Values.hosts .Values.inferencePool.enabled }}
- --allowed-hosts
- {{ .Values.inferencePool.enabled | ternary "*" (join "," .Values.hosts) | quote }}
{{- end }}
- --drain-delay
- {{ printf "%ds" (int .Values.drain.delay) }}
- --drain
- {{ printf "%ds" (int .Values.drain.finish) }}
{{- range .Values.args }}
- {{ . | quote }}
{{- end }}
{{- end }}
