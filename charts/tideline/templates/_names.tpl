{{- define "tideline.selector" -}}
app.kubernetes.io/name: tideline
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "tideline.labels" -}}
app.kubernetes.io/name: tideline
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- /* An image by name: a dict with `image` and `root`. */ -}}
{{- define "tideline.image" -}}
{{- with .image.registry }}{{ . }}/{{ end }}{{ .image.repository }}
{{- if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{- /* Pods of this label are what the operator starts: drivers, executors, small services. */ -}}
{{- define "tideline.engineSelector" -}}
app.kubernetes.io/managed-by: tideline-operator
{{- end }}

{{/* The collector's port, where its address names one: a rule for traffic that goes out. */}}
{{- define "tideline.tracingPort" -}}
{{- with .Values.tracing.endpoint -}}
{{- with regexFind ":[0-9]+$" (urlParse .).host -}}
- {port: {{ trimPrefix ":" . }}, protocol: TCP}
{{- end -}}
{{- end -}}
{{- end -}}
