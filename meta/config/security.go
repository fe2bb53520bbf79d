package config

import (
	"slices"
	"strings"
)

// StandardAuthorizer is the class name of Kafka's authorizer, whose decisions
// kaas makes itself.
const StandardAuthorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

// saslPlaintext is the security protocol of listeners that authenticate.
const saslPlaintext = "SASL_PLAINTEXT"

// mechanisms that can be enabled.
var mechanisms = []string{"SCRAM-SHA-512"}

func mechanismsBuilt(parsed any) bool {
	for _, name := range parsed.([]string) {
		if !slices.Contains(mechanisms, name) {
			return false
		}
	}
	return true
}

func authorizerBuilt(parsed any) bool {
	name := parsed.(string)
	return name == "" || name == StandardAuthorizer
}

func principalsWellFormed(parsed any) bool {
	for _, principal := range splitPrincipals(parsed.(string)) {
		if kind, name, ok := strings.Cut(principal, ":"); !ok || kind == "" || name == "" {
			return false
		}
	}
	return true
}

// splitPrincipals splits at semicolons, since names may have commas.
func splitPrincipals(value string) []string {
	var out []string
	for part := range strings.SplitSeq(value, ";") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// SuperUserList is super.users as principals ("User:alice").
func (b *Broker) SuperUserList() []string { return splitPrincipals(b.SuperUsers) }

// EnforcesACLs says whether an authorizer is configured.
func (b *Broker) EnforcesACLs() bool { return b.AuthorizerClassName != "" }

// Authenticates says whether clients of the listener log in by SASL.
func (l *Listener) Authenticates() bool { return l.Protocol == saslPlaintext }

// Authenticates says whether a listener does.
func (b *Broker) Authenticates() bool {
	return slices.ContainsFunc(b.Listeners, func(l Listener) bool { return l.Authenticates() })
}

// checkSecurity looks at keys that depend on each other.
func (b *Broker) checkSecurity() error {
	if b.Authenticates() && len(b.SaslEnabledMechanisms) == 0 {
		return &ValueError{Key: "sasl.enabled.mechanisms", Value: "", Allowed: "at least one mechanism, because a listener has SASL_PLAINTEXT"}
	}
	return nil
}

// securityWarnings are about settings that look like protection and are none.
func (b *Broker) securityWarnings() []Warning {
	if b.EnforcesACLs() || b.SuperUsers == "" && !b.Authenticates() {
		return nil
	}
	keys := []string{"authorizer.class.name"}
	if b.SuperUsers != "" {
		keys = append(keys, "super.users")
	}
	return []Warning{{keys, "authorizer.class.name is not set: ACLs are not enforced, everybody who can connect may do everything (" + StandardAuthorizer + " enforces them)"}}
}
