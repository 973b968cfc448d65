{{- /* The Deployment of one component: `root`, `component`. */ -}}
{{- define "muster.deployment" -}}
{{- $values := index .root.Values .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "muster.componentName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "muster.componentLabels" . | nindent 4 }}
spec:
  {{- if not (dig "autoscaling" "enabled" false $values) }}
  replicas: {{ $values.replicaCount }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "muster.selectorLabels" . | nindent 6 }}
  strategy:
    {{- toYaml $values.strategy | nindent 4 }}
  template:
    metadata:
      labels:
        {{- include "muster.selectorLabels" . | nindent 8 }}
        app.kubernetes.io/part-of: muster
        {{- with .root.Values.commonLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- with $values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "muster.serviceAccountName" . }}
      {{- if not $values.serviceAccount.automount }}
      automountServiceAccountToken: false
      {{- end }}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ if kindIs "string" . }}{{ . }}{{ else }}{{ .name }}{{ end }}
        {{- end }}
      {{- end }}
      terminationGracePeriodSeconds: {{ include "muster.terminationGracePeriodSeconds" . }}
      {{- with $values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $values.podSecurityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- if $values.topologySpreadConstraints }}
        {{- toYaml $values.topologySpreadConstraints | nindent 8 }}
        {{- else }}
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "muster.selectorLabels" . | nindent 14 }}
        {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "muster.image" . }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          command: [muster-{{ .component }}]
          {{- with include "muster.args" . }}
          args:
            {{- . | nindent 12 }}
          {{- end }}
          env:
            # Who this process is: the namespace it works in, the reports it writes, its name in the Lease.
            - name: POD_NAME
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
            - name: POD_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            - name: POD_UID
              valueFrom:
                fieldRef:
                  fieldPath: metadata.uid
            - name: NODE_NAME
              valueFrom:
                fieldRef:
                  fieldPath: spec.nodeName
            {{- with $values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: health
              containerPort: 8086
            - name: admin
              containerPort: 8080
          {{- range $probe, $service := dict "startupProbe" "liveness" "livenessProbe" "liveness" "readinessProbe" "readiness" }}
          {{ $probe }}:
            grpc:
              port: 8086
              service: {{ $service }}
            {{- toYaml (index $values $probe) | nindent 12 }}
          {{- end }}
          {{- with $values.preStopSeconds }}
          lifecycle:
            preStop:
              sleep:
                seconds: {{ . }}
          {{- end }}
          {{- with $values.securityContext }}
          securityContext:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $values.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $values.extraVolumeMounts }}
          volumeMounts:
            {{- toYaml . | nindent 12 }}
          {{- end }}
      {{- with $values.extraVolumes }}
      volumes:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}

{{- /* What a pod is given to end in, refused if that is less than it may take: preStop, --grace-period, and 6 s in which what
is left is dropped (1 s), the ports close (2 s) and telemetry is flushed (3 s). */ -}}
{{- define "muster.terminationGracePeriodSeconds" -}}
{{- $values := index .root.Values .component -}}
{{- $grace := 20 -}}
{{- $flag := "^--grace-period=(?:([0-9]+)m)?(?:([0-9]+)s)?$" -}}
{{- range $values.extraArgs -}}
{{- if regexMatch $flag . -}}
{{- $grace = add (mul 60 (int (regexReplaceAll $flag . "${1}"))) (int (regexReplaceAll $flag . "${2}")) -}}
{{- end -}}
{{- end -}}
{{- $least := add $values.preStopSeconds $grace 6 -}}
{{- if lt (int $values.terminationGracePeriodSeconds) (int $least) -}}
{{- fail (printf "%s.terminationGracePeriodSeconds is %d, less than preStopSeconds, --grace-period and 6 more, %d" .component (int $values.terminationGracePeriodSeconds) $least) -}}
{{- end -}}
{{- $values.terminationGracePeriodSeconds -}}
{{- end -}}

{{- /* The PodDisruptionBudget of one component. With one replica it would hold every drain for ever. */ -}}
{{- define "muster.podDisruptionBudget" -}}
{{- $values := index .root.Values .component -}}
{{- $fewest := $values.replicaCount -}}
{{- if dig "autoscaling" "enabled" false $values }}{{ $fewest = $values.autoscaling.minReplicas }}{{ end -}}
{{- $budget := $values.podDisruptionBudget -}}
{{- if and $budget.enabled (ge (int $fewest) 2) -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "muster.componentName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "muster.componentLabels" . | nindent 4 }}
spec:
  {{- if ne (toString $budget.minAvailable) "" }}
  minAvailable: {{ $budget.minAvailable }}
  {{- else }}
  maxUnavailable: {{ $budget.maxUnavailable }}
  {{- end }}
  # A pod that is not ready serves nobody; it need not hold a drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "muster.selectorLabels" . | nindent 6 }}
{{- end -}}
{{- end -}}

{{- define "muster.serviceAccount" -}}
{{- $values := index .root.Values .component -}}
{{- if $values.serviceAccount.create -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "muster.serviceAccountName" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "muster.componentLabels" . | nindent 4 }}
  {{- with $values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
{{- end -}}

{{- /* Binds a component's Role or ClusterRole, which have its name, to its account: `kind` too. */ -}}
{{- define "muster.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ include "muster.componentName" . }}
  {{- if eq .kind "Role" }}
  namespace: {{ .root.Release.Namespace }}
  {{- end }}
  labels:
    {{- include "muster.componentLabels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ include "muster.componentName" . }}
subjects:
  - kind: ServiceAccount
    name: {{ include "muster.serviceAccountName" . }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}
