#!/bin/sh
# Writes the resources of deploy/base and deploy/monitoring: what the chart makes with its defaults, so that both ways to
# install have one source. Run it when the chart has changed.
#
#   deploy/render.sh [DIR]      DIR: in place of the folder of this script
#   deploy/render.sh --inputs   prints the digest of what they are made from, which they begin with; needs no Helm
set -eu

deploy=$(cd "$(dirname "$0")" && pwd)

# One for the names and contents of the chart's files and of this script.
inputs() {
  (cd "$deploy/.." && find charts/pilothouse deploy/render.sh -type f | LC_ALL=C sort | xargs sha256sum) \
    | sha256sum | cut -d ' ' -f 1
}
if [ "${1:-}" = --inputs ]; then
  inputs
  exit
fi

out=${1:-$deploy}
helm=${HELM:-helm}
version=$(sed -n 's/^appVersion: //p' "$deploy/../charts/pilothouse/Chart.yaml")
rbac=$(mktemp)
# With what is left when Helm fails.
trap 'rm -f "$rbac" "${file:-$rbac}.new"' EXIT
# An overlay has its own; the chart asks for one of the same account.
printf 'apiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: pilothouse, name: pilothouse}\n' > "$rbac"

# render FILE TEMPLATE…
render() {
  file=$1
  shift
  shown=
  for template; do
    shown="$shown --show-only templates/$template.yaml"
  done
  # The names of the templates have no blanks.
  # shellcheck disable=SC2086
  "$helm" template pilothouse "$deploy/../charts/pilothouse" --namespace pilothouse --set-file rbac="$rbac" \
    --set image.repository=pilothouse,image.tag="$version" --set plugins.volume.configMap.name=pilothouse-plugins \
    --set serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboard.enabled=true $shown > "$file.new"
  {
    echo '# Written by deploy/render.sh from charts/pilothouse.'
    echo "# Inputs: sha256:$(inputs)"
    grep -v -e '^# Source: ' -e '^ *app.kubernetes.io/managed-by: Helm$' "$file.new"
  } > "$file"
  rm "$file.new"
}

mkdir -p "$out/base" "$out/monitoring"
render "$out/base/pilothouse.yaml" deployment service poddisruptionbudget networkpolicy
render "$out/monitoring/monitoring.yaml" servicemonitor prometheusrule dashboard
