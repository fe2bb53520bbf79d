package config

import (
	"regexp"
	"strings"
)

// launcherVariables are KAFKA_ variables of Kafka's container image and start
// scripts that steer the JVM or the scripts and are no configuration keys.
var launcherVariables = map[string]bool{
	"KAFKA_VERSION":                true,
	"KAFKA_HEAP_OPTS":              true,
	"KAFKA_OPTS":                   true,
	"KAFKA_LOG4J_OPTS":             true,
	"KAFKA_LOG4J_ROOT_LOGLEVEL":    true,
	"KAFKA_LOG4J_LOGGERS":          true,
	"KAFKA_LOG4J_CMD_OPTS":         true,
	"KAFKA_TOOLS_LOG4J_LOGLEVEL":   true,
	"KAFKA_JMX_OPTS":               true,
	"KAFKA_JMX_PORT":               true,
	"KAFKA_JMX_HOSTNAME":           true,
	"KAFKA_JVM_PERFORMANCE_OPTS":   true,
	"KAFKA_GC_LOG_OPTS":            true,
	"KAFKA_DEBUG":                  true,
	"KAFKA_HOME":                   true,
	"KAFKA_DIR":                    true,
	"KAFKA_MODE":                   true,
	"KAFKA_JDK_COMPATIBILITY_OPTS": true,
}

// serviceLink matches what Kubernetes puts into the environment of every pod
// beside a Service named kafka.
var serviceLink = regexp.MustCompile(`^KAFKA_(SERVICE_(HOST|PORT(_.*)?)|PORT(_\d+_(TCP|UDP)(_.*)?)?)$`)

// fromEnvironment maps KAFKA_ variables to keys as Kafka's container image
// does: without the prefix, lower case, ___ is -, __ is _, _ is a dot.
func fromEnvironment(env []string) map[string]string {
	raw := make(map[string]string)
	for _, variable := range env {
		name, value, _ := strings.Cut(variable, "=")
		rest, ok := strings.CutPrefix(name, "KAFKA_")
		if !ok || rest == "" || launcherVariables[name] || serviceLink.MatchString(name) {
			continue
		}
		raw[keyOfVariable(rest)] = strings.TrimSpace(value)
	}
	return raw
}

var underscores = strings.NewReplacer("___", "-", "__", "_", "_", ".")

func keyOfVariable(name string) string { return underscores.Replace(strings.ToLower(name)) }

func lookup(env []string, name string) string {
	for _, variable := range env {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
