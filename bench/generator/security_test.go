package generator

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestSecurity reads files as they are written for Kafka's own tools.
func TestSecurity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	trusted := filepath.Join(dir, "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(trusted, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	login := "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n  username=\"al\\\\\"ice\" password=\"se=cret\";\n"
	read := func(text string) (security, error) {
		path := filepath.Join(dir, "client.properties")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return readSecurity(path)
	}
	for _, c := range []struct {
		text, mechanism string
		encrypted       bool
	}{
		{"bootstrap.servers=a:1\nacks=all\n", "", false},
		{"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n" + login, "SCRAM-SHA-512", false},
		{"security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-256\n" + login, "SCRAM-SHA-256", true},
		{"security.protocol=sasl_plaintext\nsasl.mechanism=PLAIN\n" + login, "PLAIN", false},
		{"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=" + trusted + "\n", "", true},
	} {
		s, err := read(c.text)
		if err != nil || (s.tls != nil) != c.encrypted || (s.mechanism != nil) != (c.mechanism != "") || s.mechanism != nil && s.mechanism.Name() != c.mechanism {
			t.Errorf("%q: %+v %v", c.text, s, err)
		}
	}
	for text, want := range map[string]string{
		"security.protocol=HTTPS\n":                                                      "allowed is PLAINTEXT",
		"security.protocol=SASL_SSL\nsasl.mechanism=GSSAPI\n" + login:                    "allowed is PLAIN",
		"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n":                             "username=",
		"security.protocol=SSL\nssl.keystore.location=/k\n":                              "ssl.keystore.location: open /k",
		"security.protocol=SSL\nssl.keystore.location=/k\nssl.keystore.type=JKS\n":       "ssl.keystore.type=JKS: allowed is PEM",
		"security.protocol=SSL\nssl.cipher.suites=x\n":                                   "ssl.cipher.suites is not supported",
		"security.protocol=SSL\nssl.truststore.location=/none\n":                         "ssl.truststore.location",
		"security.protocol=SSL\nssl.truststore.location=" + dir + "/client.properties\n": "no certificate",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := readSecurity(filepath.Join(dir, "missing")); err == nil || !strings.Contains(err.Error(), "--command-config") {
		t.Error(err)
	}
	// A certificate is trusted or it is not, whatever name it has.
	for text, trust := range map[string]bool{
		"ssl.truststore.location=" + trusted + "\n":                                         true,
		"ssl.truststore.location=" + trusted + "\nssl.endpoint.identification.algorithm=\n": true,
		"ssl.endpoint.identification.algorithm=\n":                                          false,
	} {
		s, err := read("security.protocol=SSL\n" + text)
		if err != nil {
			t.Fatal(err)
		}
		r := &run{plan: Plan{Bootstrap: []string{server.Listener.Addr().String()}}, security: s}
		conn, err := r.dial(t.Context())
		if (err == nil) != trust {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
	s, err := read("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n" + login)
	if err != nil {
		t.Fatal(err)
	}
	_, first, err := s.mechanism.Authenticate(t.Context(), "broker")
	if err != nil || string(first) != "\x00al\"ice\x00se=cret" {
		t.Errorf("%q %v", first, err)
	}
	client, err := kgo.NewClient((&run{plan: DefaultPlan(), security: s}).clientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	client.Close()
}
