{{- define "pilothouse.selector" -}}
app.kubernetes.io/name: pilothouse
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pilothouse.labels" -}}
{{ include "pilothouse.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "pilothouse.image" -}}
{{- $repository := required "image.repository is not set: no image is published yet; build one and name it, see docs/install.md" .Values.image.repository }}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* The plugin directory, as a volume source. */}}
{{- define "pilothouse.pluginVolume" -}}
{{- if .Values.plugins.volume }}
{{- toYaml .Values.plugins.volume }}
{{- else }}
{{- fail "plugins.volume is not set: name the volume with the plugin directory, as configMap: {name: pilothouse-plugins}; see docs/install.md" }}
{{- end }}
{{- end }}
