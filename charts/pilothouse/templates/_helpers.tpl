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

{{/* Refuses values without a source of plugins, and one half of what clusters need. */}}
{{- define "pilothouse.checkSources" -}}
{{- if not (or .Values.plugins.volume .Values.plugins.fromCluster) }}
{{- fail "plugins.volume is not set: name the volume with the plugin directory, as configMap: {name: pilothouse-plugins}, or the namespaces of Plugins in plugins.fromCluster; see docs/install.md" }}
{{- end }}
{{- if and .Values.clusters.secret (not .Values.clusters.names) }}
{{- fail "clusters.names is empty: name contexts of the kubeconfig in clusters.secret, as [east]; see docs/several-clusters.md" }}
{{- end }}
{{- if and .Values.clusters.names (not .Values.clusters.secret) }}
{{- fail "clusters.secret is not set: name the Secret with the kubeconfig of clusters.names; see docs/several-clusters.md" }}
{{- end }}
{{- end }}
