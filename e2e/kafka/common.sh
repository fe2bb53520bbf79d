# Sourced by fetch, tool and broker: where the jars are and which java runs them.
#
#   KAAS_CACHE_DIR  parent of the jar directory (default: $XDG_CACHE_HOME/kaas, else ~/.cache/kaas)
#   JAVA_HOME       a JDK of version 17 or newer (default: the java on PATH)

script_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# The directory is named after the contents of pom.xml, so a new version never mixes with an old one.
pom_digest=$(sha256sum "$script_dir/pom.xml" | cut -c1-12)
jar_home=${KAAS_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/kaas}/kafka-$pom_digest
jar_dir=$jar_home/jars

fail() {
  echo "e2e/kafka/${0##*/}: $*" >&2
  exit 1
}

java_command() {
  local java=java
  [[ -n ${JAVA_HOME:-} ]] && java=$JAVA_HOME/bin/java
  command -v "$java" || fail "no java found; install a JDK, version 17 or newer (Debian: apt-get install openjdk-17-jdk-headless)"
}
