{{- define "loaderd.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "loaderd.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "loaderd.labels" -}}
{{ include "loaderd.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "loaderd.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "loaderd.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{/* "true" if the embedded NATS servers form a cluster, else empty. */}}
{{- define "loaderd.clustered" -}}
{{- if and (not .Values.nats.url) (gt (int .Values.replicas) 1) }}true{{ end }}
{{- end }}

{{- define "loaderd.tlsSecret" -}}
{{- if .Values.tls.secret }}{{ .Values.tls.secret }}{{ else if .Values.tls.issuer }}{{ include "loaderd.name" . }}-tls{{ end }}
{{- end }}

{{/* Rejects invalid combinations of values, with the remedy in the message. */}}
{{- define "loaderd.check" -}}
{{- $tls := include "loaderd.tlsSecret" . }}
{{- if include "loaderd.clustered" . }}
{{- if lt (int .Values.replicas) 3 }}{{ fail "replicas: a cluster of embedded NATS servers has 3 or more; set 3 or 5, or 1, or nats.url" }}{{ end }}
{{- if not $tls }}{{ fail "tls.secret or tls.issuer: routes between daemons require TLS; name a Secret with tls.crt, tls.key and ca.crt" }}{{ end }}
{{- if not .Values.cluster.secret }}{{ fail "cluster.secret: name a Secret with the key secret: openssl rand -hex 32 | kubectl create secret generic NAME --from-file=secret=/dev/stdin" }}{{ end }}
{{- end }}
{{- if not .Values.auth.insecure }}
{{- if not $tls }}{{ fail "tls.secret or tls.issuer: without TLS, tokens are sent unencrypted; set one of them, or auth.insecure" }}{{ end }}
{{- if not .Values.auth.identitiesSecret }}{{ fail "auth.identitiesSecret: name a Secret with identities.json, created by loaderd token create; or set auth.insecure" }}{{ end }}
{{- end }}
{{- end }}

{{/* loaderd.yaml: settings of the chart, overridden by config. Environment variables contain settings of a single pod. */}}
{{- define "loaderd.config" -}}
{{- $name := include "loaderd.name" . }}
{{- $tls := include "loaderd.tlsSecret" . }}
{{- $domain := printf "%s-headless.%s.svc" $name .Release.Namespace }}
{{- $flight := dict "listen" "0.0.0.0:8815" }}
{{- $http := dict "listen" "0.0.0.0:9815" "names" (list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace)) }}
{{- $stream := dict }}
{{- if .Values.nats.url }}
{{- $stream = dict "url" .Values.nats.url }}
{{- if .Values.nats.credentialsSecret }}{{ $_ := set $stream "credentials" "/etc/loaderd/nats/nats.creds" }}{{ end }}
{{- else }}
{{- $stream = dict "dir" "/data/loaderd" "listen" "0.0.0.0:4222" "max_bytes" .Values.storage.documents "dead_letter_bytes" .Values.storage.deadLetters "plan_bytes" .Values.storage.plan }}
{{- end }}
{{- if include "loaderd.clustered" . }}
{{- $peers := list }}
{{- range $i := until (int .Values.replicas) }}{{ $peers = append $peers (printf "%s-%d.%s:6222" $name $i $domain) }}{{ end }}
{{- $_ := set $stream "cluster" (dict "name" .Values.cluster.name "listen" "0.0.0.0:6222" "peers" $peers "secret_file" "/etc/loaderd/cluster/secret") }}
{{- end }}
{{- if $tls }}
{{- $_ := set $flight "cert" "/etc/loaderd/tls/tls.crt" }}{{ $_ := set $flight "key" "/etc/loaderd/tls/tls.key" }}
{{- $_ := set $http "cert" "/etc/loaderd/tls/tls.crt" }}{{ $_ := set $http "key" "/etc/loaderd/tls/tls.key" }}
{{- if not .Values.nats.url }}{{ $_ := set $stream "tls" (dict "cert" "/etc/loaderd/tls/tls.crt" "key" "/etc/loaderd/tls/tls.key" "ca" "/etc/loaderd/tls/ca.crt") }}{{ end }}
{{- end }}
{{- if .Values.auth.identitiesSecret }}{{ $_ := set $flight "identities" "/etc/loaderd/identities/identities.json" }}{{ end }}
{{- if .Values.auth.insecure }}
{{- $_ := set $flight "insecure" true }}{{ $_ := set $http "insecure" true }}
{{- if not .Values.nats.url }}{{ $_ := set $stream "insecure" true }}{{ end }}
{{- end }}
{{- $made := dict "stream" $stream "flight" $flight "http" $http "log" (dict "format" "json") }}
{{- toYaml (mustMergeOverwrite $made (deepCopy .Values.config)) }}
{{- end }}

{{/* Ports of the NATS servers in nats.url. */}}
{{- define "loaderd.natsPorts" -}}
{{- $ports := list }}
{{- range splitList "," . }}{{ $ports = append $ports (regexFind ":[0-9]+/?$" (trim .) | default ":4222" | trimPrefix ":" | trimSuffix "/") }}{{ end }}
{{- range $i, $port := $ports | uniq }}{{ if $i }}, {{ end }}{port: {{ $port }}, protocol: TCP}{{ end }}
{{- end }}

{{/* Ports of the addresses in config and extraEnv: sources, object stores, a trace collector. */}}
{{- define "loaderd.sourcePorts" -}}
{{- $text := printf "%s\n%s" (toYaml .Values.config) (toYaml .Values.extraEnv) }}
{{- $ports := list }}
{{- range regexFindAll "(https?|s3|gs|az|hf)://[^/?#\\s\"',]+" $text -1 }}
{{- $ports = append $ports (regexFind ":[0-9]+$" . | default (ternary ":80" ":443" (hasPrefix "http:" .)) | trimPrefix ":") }}
{{- end }}
{{- range $i, $port := $ports | uniq | sortAlpha }}{{ if $i }}, {{ end }}{port: {{ $port }}, protocol: TCP}{{ end }}
{{- end }}
