{{- define "pilothouse.selector" -}}
app.kubernetes.io/name: pilothouse
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pilothouse.labels" -}}
{{ include "pilothouse.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "pilothouse.image" -}}
{{- $repository := required "image.repository is not set: no image is published yet; build one and name it, see docs/install.md" .Values.image.repository }}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* The command that prints the value rbac for the hosts of this release. */}}
{{- define "pilothouse.rbacCommand" -}}
pilothouse rbac
{{- if .Values.plugins.volume }} DIR{{ end }} --namespace {{ .Release.Namespace }} --service-account {{ .Values.serviceAccount }}
{{- with .Values.lease }} --lease {{ . }}{{ end }}
{{- with .Values.plugins.fromCluster }} --plugins-from-cluster {{ join "," . }}{{ end }}
{{- if .Values.shards }} --shards{{ end }} > rbac.yaml
{{- end }}

{{/* Refuses shards beside the value shards, and shards without the permissions on Leases that `pilothouse rbac --shards` prints. A
wider rule, of a plugin, may have some of them; those on the Lease of the election alone do not count. */}}
{{- define "pilothouse.checkShards" -}}
{{- range .Values.extraArgs }}
{{- if or (eq . "--shards") (hasPrefix "--shards=" .) }}
{{- fail (printf "extraArgs has %s: set the value shards in its place, so that the permissions are checked" .) }}
{{- end }}
{{- end }}
{{- if .Values.shards }}
{{- $namespace := .Release.Namespace }}
{{- with .Values.lease }}
{{- $namespace = first (splitList "/" .) }}
{{- end }}
{{- $verbs := list }}
{{- range splitList "\n---\n" .Values.rbac }}
{{- $role := fromYaml . }}
{{- if or (eq (toString $role.kind) "ClusterRole") (and (eq (toString $role.kind) "Role") (eq (toString $role.metadata.namespace) $namespace)) }}
{{- range $role.rules }}
{{- if and (not .resourceNames) (or (has "coordination.k8s.io" .apiGroups) (has "*" .apiGroups)) (or (has "leases" .resources) (has "*" .resources)) }}
{{- $verbs = concat $verbs (.verbs | default list) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- $missing := list }}
{{- range list "get" "list" "watch" "create" "update" "delete" }}
{{- if not (or (has . $verbs) (has "*" $verbs)) }}
{{- $missing = append $missing . }}
{{- end }}
{{- end }}
{{- if $missing }}
{{- fail (printf "rbac lacks %s on leases in the namespace %s, which hosts with shards need: run `%s`, or set shards to 0" (join ", " $missing) $namespace (include "pilothouse.rbacCommand" .)) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Refuses values without a source of plugins or with two volume sources, and one half of what clusters need. Files of values are
merged, so the source of an earlier one stays beside that of a later one. */}}
{{- define "pilothouse.checkSources" -}}
{{- if not (or .Values.plugins.volume .Values.plugins.fromCluster) }}
{{- fail "plugins.volume is not set: name the volume with the plugin directory, as configMap: {name: pilothouse-plugins}, or the namespaces of Plugins in plugins.fromCluster; see docs/install.md" }}
{{- end }}
{{- $sources := list }}
{{- range $name, $source := .Values.plugins.volume }}
{{- if not (kindIs "invalid" $source) }}
{{- $sources = append $sources $name }}
{{- end }}
{{- end }}
{{- if gt (len $sources) 1 }}
{{- fail (printf "plugins.volume has %s: a volume has one source; set the others to null, as --set plugins.volume.%s=null" (join ", " $sources) (first $sources)) }}
{{- end }}
{{- if and .Values.clusters.secret (not .Values.clusters.names) }}
{{- fail "clusters.names is empty: name contexts of the kubeconfig in clusters.secret, as [east]; see docs/several-clusters.md" }}
{{- end }}
{{- if and .Values.clusters.names (not .Values.clusters.secret) }}
{{- fail "clusters.secret is not set: name the Secret with the kubeconfig of clusters.names; see docs/several-clusters.md" }}
{{- end }}
{{- end }}
