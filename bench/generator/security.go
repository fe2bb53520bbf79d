package generator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/magiconair/properties"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// security is how clients reach a broker that wants more than a connection.
// The zero value is PLAINTEXT.
type security struct {
	tls       *tls.Config
	mechanism sasl.Mechanism
}

// jaasOption finds the options of a login module: name="value", where \ escapes. It is compiled when it is wanted: the broker is the
// same program, and what is compiled at its start is in its memory.
var jaasOption = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"`) })

// readSecurity reads the security.*, sasl.* and ssl.* keys of a file for
// Kafka's own tools (--command-config). What it can't obey is an error: a load
// that goes another way than the file says would measure something else.
func readSecurity(path string) (s security, err error) {
	if path == "" {
		return s, nil
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	file, err := loader.LoadFile(path)
	if err != nil {
		return s, fmt.Errorf("--command-config: %w", err)
	}
	values := file.Map()
	take := func(key, otherwise string) string {
		value, ok := values[key]
		delete(values, key)
		if !ok {
			return otherwise
		}
		return strings.TrimSpace(value)
	}
	protocol := strings.ToUpper(take("security.protocol", "PLAINTEXT"))
	mechanism, jaas := take("sasl.mechanism", ""), take("sasl.jaas.config", "")
	truststore, kind := take("ssl.truststore.location", ""), take("ssl.truststore.type", "PEM")
	keystore, keyKind := take("ssl.keystore.location", ""), take("ssl.keystore.type", "PEM")
	identification := take("ssl.endpoint.identification.algorithm", "https")
	for key := range values {
		// The other keys of a file are left to whom they concern.
		if strings.HasPrefix(key, "security.") || strings.HasPrefix(key, "sasl.") || strings.HasPrefix(key, "ssl.") {
			return s, fmt.Errorf("--command-config %s: %s is not supported", path, key)
		}
	}
	encrypted := protocol == "SSL" || protocol == "SASL_SSL"
	switch {
	case encrypted:
		if s.tls, err = clientTLS(truststore, kind, identification); err == nil && keystore != "" {
			err = showing(s.tls, keystore, keyKind)
		}
		if err != nil {
			return s, fmt.Errorf("--command-config %s: %w", path, err)
		}
	case protocol != "PLAINTEXT" && protocol != "SASL_PLAINTEXT":
		return s, fmt.Errorf("--command-config %s: security.protocol=%s: allowed is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", path, protocol)
	}
	if strings.HasPrefix(protocol, "SASL_") {
		if s.mechanism, err = clientSASL(mechanism, jaas); err != nil {
			return s, fmt.Errorf("--command-config %s: %w", path, err)
		}
	}
	return s, nil
}

func clientTLS(truststore, kind, identification string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if truststore != "" {
		if !strings.EqualFold(kind, "PEM") {
			return nil, fmt.Errorf("ssl.truststore.type=%s: allowed is PEM", kind)
		}
		text, err := os.ReadFile(truststore)
		if err != nil {
			return nil, fmt.Errorf("ssl.truststore.location: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ssl.truststore.location: %s holds no certificate in PEM", truststore)
		}
	}
	if identification == "" { // the certificate may be of another host, but must still be trusted
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errors.New("the broker has shown no certificate")
			}
			options := x509.VerifyOptions{Roots: config.RootCAs, Intermediates: x509.NewCertPool()}
			for _, certificate := range state.PeerCertificates[1:] {
				options.Intermediates.AddCert(certificate)
			}
			_, err := state.PeerCertificates[0].Verify(options)
			return err
		}
	}
	return config, nil
}

// showing makes the client show a certificate: a file in PEM that holds it and its key, as Kafka's tools want it.
func showing(config *tls.Config, keystore, kind string) error {
	if !strings.EqualFold(kind, "PEM") {
		return fmt.Errorf("ssl.keystore.type=%s: allowed is PEM", kind)
	}
	pair, err := tls.LoadX509KeyPair(keystore, keystore)
	if err != nil {
		return fmt.Errorf("ssl.keystore.location: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return nil
}

func clientSASL(mechanism, jaas string) (sasl.Mechanism, error) {
	options := map[string]string{}
	for _, match := range jaasOption().FindAllStringSubmatch(jaas, -1) {
		options[match[1]] = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(match[2])
	}
	user, password := options["username"], options["password"]
	if user == "" || password == "" {
		return nil, errors.New(`sasl.jaas.config: there must be username="…" and password="…"`)
	}
	switch mechanism {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism(), nil
	default:
		return nil, fmt.Errorf("sasl.mechanism=%s: allowed is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512", mechanism)
	}
}

// clientOptions are what every client of a run has.
func (r *run) clientOptions() []kgo.Opt {
	options := []kgo.Opt{kgo.SeedBrokers(r.plan.Bootstrap...), kgo.ClientID("kaas-bench")}
	if r.security.tls != nil {
		options = append(options, kgo.DialTLSConfig(r.security.tls))
	}
	if r.security.mechanism != nil {
		options = append(options, kgo.SASL(r.security.mechanism))
	}
	return options
}

// dial opens a bare connection as the clients do, but does not log in.
func (r *run) dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: r.plan.Timeout}
	if r.security.tls == nil {
		return dialer.DialContext(ctx, "tcp", r.plan.Bootstrap[0])
	}
	return (&tls.Dialer{NetDialer: &dialer, Config: r.security.tls}).DialContext(ctx, "tcp", r.plan.Bootstrap[0])
}
