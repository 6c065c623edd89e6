#!/bin/bash
# `executor` is what Spark starts executors with; anything else is a command. The first process is
# tini, which forwards SIGTERM to its one child: a driver's Python gets it, and its Java does not.
set -euo pipefail

if [ "${1:-}" != executor ]; then
  exec /usr/bin/tini -- "$@"
fi

options=("-Xmx${SPARK_EXECUTOR_MEMORY}")
while IFS= read -r -d '' variable; do
  case "${variable}" in
    # The one module that small Java runtimes lack, and that nothing here uses.
    SPARK_JAVA_OPT_*=--add-modules=jdk.incubator.vector) ;;
    SPARK_JAVA_OPT_*) options+=("${variable#*=}") ;;
  esac
done < <(env -0 | sort -z -V)

# Java reads authorities from its own trust store. Drivers create theirs in Python.
if [ -n "${AWS_CA_BUNDLE:-}" ]; then
  trust=/tmp/trust.jks
  install -m 600 "${JAVA_HOME}/lib/security/cacerts" "${trust}"
  awk '/BEGIN CERTIFICATE/ { n++ } n { print > ("/tmp/authority-" n ".pem") }' "${AWS_CA_BUNDLE}"
  for file in /tmp/authority-*.pem; do
    "${JAVA_HOME}/bin/keytool" -importcert -noprompt -keystore "${trust}" -storepass changeit \
      -alias "$(basename "${file}" .pem)" -file "${file}" > /dev/null 2>&1
  done
  options+=("-Djavax.net.ssl.trustStore=${trust}" "-Djavax.net.ssl.trustStorePassword=changeit")
fi

# A certificate of its own is in a key store of Java's, for servers that demand one. The word is known
# to all: the file's mode protects the key.
if [ -n "${TIDELINE_S3_CLIENT_CERTIFICATE_FILE:-}" ]; then
  keys=/tmp/client.jks
  python -m tideline.storage.egress.java_key_store "${TIDELINE_S3_CLIENT_CERTIFICATE_FILE}" \
    "${TIDELINE_S3_CLIENT_KEY_FILE:-${TIDELINE_S3_CLIENT_CERTIFICATE_FILE}}" "${keys}"
  options+=("-Djavax.net.ssl.keyStore=${keys}" "-Djavax.net.ssl.keyStorePassword=changeit")
  options+=("-Djavax.net.ssl.keyStoreType=JKS")
fi

# The class path and the options that tideline.spark.session.class_archive gives drivers.
LC_ALL=C
shopt -s nullglob
jars=("${SPARK_HOME}"/jars/*.jar)
class_path="$(IFS=:; printf '%s' "${jars[*]}")"
for archive in "${SPARK_HOME}"/tideline-*.jsa; do
  options+=("-XX:SharedArchiveFile=${archive}" -Xshare:auto)
  options+=(-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off)
done

exec /usr/bin/tini -- "${JAVA_HOME}/bin/java" "${options[@]}" -cp "${class_path}" \
  org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
  --driver-url "${SPARK_DRIVER_URL}" \
  --executor-id "${SPARK_EXECUTOR_ID}" \
  --cores "${SPARK_EXECUTOR_CORES}" \
  --app-id "${SPARK_APPLICATION_ID}" \
  --hostname "${SPARK_EXECUTOR_POD_IP}" \
  --resourceProfileId "${SPARK_RESOURCE_PROFILE_ID}" \
  --podName "${SPARK_EXECUTOR_POD_NAME}"
