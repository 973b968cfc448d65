{{- define "muster.name" -}}
{{- default "muster" .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* The release's name, with `muster` in it: objects of cluster scope carry it too. */ -}}
{{- define "muster.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "muster.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "muster.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* What follows takes a dict: `root` is the chart's scope, `component` a component's name. */ -}}
{{- define "muster.componentName" -}}
{{- printf "%s-%s" (include "muster.fullname" .root) .component -}}
{{- end -}}

{{- define "muster.serviceAccountName" -}}
{{- $values := index .root.Values .component -}}
{{- if $values.serviceAccount.create -}}
{{- default (include "muster.componentName" .) $values.serviceAccount.name -}}
{{- else -}}
{{- required (printf "%s.serviceAccount.name is needed when none is created" .component) $values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "muster.selectorLabels" -}}
app.kubernetes.io/name: {{ include "muster.name" .root }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- /* Labels of what belongs to no component. */ -}}
{{- define "muster.labels" -}}
app.kubernetes.io/part-of: muster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "muster.componentLabels" -}}
{{ include "muster.selectorLabels" . }}
{{ include "muster.labels" .root }}
{{- end -}}

{{- define "muster.image" -}}
{{- $image := (index .root.Values .component).image -}}
{{- $repository := $image.repository -}}
{{- with .root.Values.imageRegistry -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) $repository -}}
{{- end -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .root.Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- /* Whether a kind of the Prometheus operator is rendered: `root`, `mode`, `kind`. */ -}}
{{- define "muster.operatorKind" -}}
{{- if or (ne .mode "skipIfMissing") (.root.Capabilities.APIVersions.Has (printf "monitoring.coreos.com/v1/%s" .kind)) -}}
yes
{{- end -}}
{{- end -}}

{{- /* Flags that differ from the programs' defaults. */ -}}
{{- define "muster.args" -}}
{{- $args := list -}}
{{- $log := .root.Values.log -}}
{{- if ne $log.filter "info,kube_runtime=error" }}{{ $args = append $args (printf "--log-filter=%s" $log.filter) }}{{ end -}}
{{- if ne $log.format "text" }}{{ $args = append $args (printf "--log-format=%s" $log.format) }}{{ end -}}
{{- if eq .component "reconciler" -}}
{{- with .root.Values.reconciler.trustDir }}{{ $args = append $args (printf "--trust-dir=%s" .) }}{{ end -}}
{{- with .root.Values.reconciler.tenantProviders }}{{ $args = append $args (printf "--tenant-providers=%s" (join "," .)) }}{{ end -}}
{{- else -}}
{{- $selector := include "muster.selectorLabels" (dict "root" .root "component" "reconciler") | replace ": " "=" | replace "\n" "," -}}
{{- if ne $selector "app.kubernetes.io/name=muster,app.kubernetes.io/component=reconciler" }}{{ $args = append $args (printf "--reconciler-selector=%s" $selector) }}{{ end -}}
{{- $lease := include "muster.componentName" . -}}
{{- if ne $lease "muster-aggregator" }}{{ $args = append $args (printf "--lease-name=%s" $lease) }}{{ end -}}
{{- $election := .root.Values.leaderElection -}}
{{- if not $election.enabled }}{{ $args = append $args "--leader-elect=false" }}{{ end -}}
{{- if ne $election.leaseDuration "15s" }}{{ $args = append $args (printf "--lease-duration=%s" $election.leaseDuration) }}{{ end -}}
{{- if ne $election.renewDeadline "10s" }}{{ $args = append $args (printf "--renew-deadline=%s" $election.renewDeadline) }}{{ end -}}
{{- if ne $election.retryPeriod "2s" }}{{ $args = append $args (printf "--retry-period=%s" $election.retryPeriod) }}{{ end -}}
{{- end -}}
{{- $args = concat $args (index .root.Values .component).extraArgs -}}
{{- if $args }}{{ toYaml $args }}{{ end -}}
{{- end -}}
