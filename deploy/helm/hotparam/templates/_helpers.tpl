{{- define "hotparam.labels" -}}
app.kubernetes.io/name: hotparam
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* hotparam.graceSeconds is longer than anything that a pod does before its end. In the sidecar form the limiter
     stops when the application has ended. */ -}}
{{- define "hotparam.graceSeconds" -}}
{{- $before := eq .Values.form "sidecar" | ternary .Values.app.stopSeconds .Values.stop.delaySeconds -}}
{{- add $before .Values.stop.timeoutSeconds 5 -}}
{{- end }}

{{- /* hotparam.pod is what the pods of all programs have in common. */ -}}
{{- define "hotparam.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "hotparam.graceSeconds" . }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* hotparam.podMetadata is the metadata of a pod; the program is its argument's component. */ -}}
{{- define "hotparam.podMetadata" -}}
labels:
  {{- include "hotparam.labels" . | nindent 2 }}
  app.kubernetes.io/component: {{ .component }}
  {{- with .Values.podLabels }}{{ toYaml . | nindent 2 }}{{ end }}
{{- with .Values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* hotparam.image is the image and what its container may do. */ -}}
{{- define "hotparam.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- /* hotparam.args are the settings that all programs have. */ -}}
{{- define "hotparam.args" -}}
- --config=/etc/hotparam/hotparam.yaml
- --redis.addr={{ required "redis.addr: where is Redis? Set HOST:PORT" (join "," .Values.redis.addr) }}
{{- with .Values.redis.username }}
- --redis.username={{ . }}
{{- end }}
{{- if .Values.tls.redisCA }}
- --redis.tls_ca=/etc/hotparam-tls/redis-ca.crt
{{- end }}
{{- with .Values.kafka.brokers }}
- --kafka.brokers={{ join "," . }}
{{- end }}
- --stop.timeout={{ .Values.stop.timeoutSeconds }}s
{{- end }}

{{- /* hotparam.volumes and hotparam.mounts are the files that all programs have. */ -}}
{{- define "hotparam.volumes" -}}
- {name: config, configMap: {name: {{ .Release.Name }}}}
{{- if or .Values.tls.limiter .Values.tls.clientCA .Values.tls.redisCA }}
- name: tls
  secret: {secretName: {{ required "tls.secretName: which Secret has the certificates?" .Values.tls.secretName }}}
{{- end }}
{{- end }}

{{- define "hotparam.mounts" -}}
- {name: config, mountPath: /etc/hotparam, readOnly: true}
{{- if or .Values.tls.limiter .Values.tls.clientCA .Values.tls.redisCA }}
- {name: tls, mountPath: /etc/hotparam-tls, readOnly: true}
{{- end }}
- {name: state, mountPath: /state}
{{- end }}

{{- /* hotparam.listenerTLS are the settings of a listener that gateways ask: the argument's listener. */ -}}
{{- define "hotparam.listenerTLS" -}}
{{- if .Values.tls.limiter }}
- --{{ .listener }}.tls_cert=/etc/hotparam-tls/tls.crt
- --{{ .listener }}.tls_key=/etc/hotparam-tls/tls.key
{{- if .Values.tls.clientCA }}
- --{{ .listener }}.tls_client_ca=/etc/hotparam-tls/client-ca.crt
{{- end }}
{{- else if .Values.tls.clientCA }}
{{- fail "tls.clientCA: certificates of gateways need tls.limiter" }}
{{- end }}
{{- end }}

{{- /* hotparam.env are the secrets that all programs have. */ -}}
{{- define "hotparam.env" -}}
- name: HOTPARAM_ADMIN_TOKEN
  valueFrom: {secretKeyRef: {name: {{ .Values.secretName }}, key: admin-token}}
- name: HOTPARAM_REDIS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .Values.secretName }}, key: redis-password, optional: true}}
{{- if .Values.kafka.brokers }}
- name: HOTPARAM_KAFKA_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .Values.secretName }}, key: kafka-password, optional: true}}
{{- end }}
{{- end }}

{{- /* hotparam.probes ask the admin port, which needs no token for them. A limiter stays ready without Redis, because
     it still answers. What starts without Redis is not restarted for it. */ -}}
{{- define "hotparam.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: admin}
  periodSeconds: 1
  timeoutSeconds: 3
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /readyz, port: admin}
  periodSeconds: 2
  timeoutSeconds: 3
  failureThreshold: 2
livenessProbe:
  httpGet: {path: /livez, port: admin}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
{{- end }}

{{- /* hotparam.limiter is the container of a limiter. */ -}}
{{- define "hotparam.limiter" -}}
{{- $aggregator := printf "%s-aggregator" .Release.Name -}}
name: limiter
{{ include "hotparam.image" . }}
args:
  - limiter-sidecar
  {{- include "hotparam.args" . | nindent 2 }}
  - --admin.listen=:9182
  {{- if eq .Values.form "sidecar" }}
  - --decide.listen=127.0.0.1:8181 # for the application, which may ask too
  - --proxy.listen=:8182
  - --proxy.upstream=http://127.0.0.1:{{ .Values.app.port }}
  {{- else }}
  - --stop.delay={{ .Values.stop.delaySeconds }}s
  - --decide.listen={{ with .Values.limiter.ports.decide }}:{{ . }}{{ end }}
  - --envoy.listen={{ with .Values.limiter.ports.envoy }}:{{ . }}{{ end }}
  {{- with .Values.limiter.ports.check }}
  - --check.listen=:{{ . }}
  - --check.dialect={{ required "limiter.checkDialect is missing (values.yaml)" $.Values.limiter.checkDialect }}
  {{- end }}
  {{- range $name, $port := .Values.limiter.ports }}
  {{- if $port }}
  {{- include "hotparam.listenerTLS" (merge (dict "listener" $name) $) | nindent 2 }}
  {{- end }}
  {{- end }}
  {{- end }}
  {{- if and .Values.aggregator.enabled (not .Values.kafka.brokers) }}
  - --statsd.addr={{ $aggregator }}-0.{{ $aggregator }}:8127
  {{- if gt (int .Values.aggregator.replicas) 1 }}
  - --statsd.standby={{ $aggregator }}-1.{{ $aggregator }}:8127
  {{- end }}
  {{- end }}
  {{- with .Values.limiter.args }}{{ toYaml . | nindent 2 }}{{ end }}
env:
  {{- include "hotparam.env" . | nindent 2 }}
  {{- if and (eq .Values.form "central") (not .Values.tls.clientCA) }}
  - name: HOTPARAM_DECIDE_TOKEN
    valueFrom: {secretKeyRef: {name: {{ .Values.secretName }}, key: gateway-token}}
  - name: HOTPARAM_ENVOY_TOKEN
    valueFrom: {secretKeyRef: {name: {{ .Values.secretName }}, key: gateway-token}}
  {{- if .Values.limiter.ports.check }}
  - name: HOTPARAM_CHECK_TOKEN
    valueFrom: {secretKeyRef: {name: {{ .Values.secretName }}, key: gateway-token}}
  {{- end }}
  {{- end }}
ports:
  - {name: admin, containerPort: 9182}
  {{- if eq .Values.form "sidecar" }}
  - {name: proxy, containerPort: 8182}
  {{- else }}
  {{- range $name, $port := .Values.limiter.ports }}
  {{- if $port }}
  - {name: {{ $name }}, containerPort: {{ $port }}}
  {{- end }}
  {{- end }}
  {{- end }}
{{ include "hotparam.probes" . }}
resources: {{- toYaml .Values.limiter.resources | nindent 2 }}
volumeMounts: {{- include "hotparam.mounts" . | nindent 2 }}
{{- end }}
