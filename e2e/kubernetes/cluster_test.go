//go:build kubernetes

package kubernetes

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kaas/e2e/process"
)

// cluster is an API server over its own etcd, with the CustomResourceDefinitions of
// this repository. There are no controllers: objects stay as they are written.
type cluster struct {
	t          *testing.T
	kubectl    string
	kubeconfig string
}

// shared is one cluster for all tests, each of which has a namespace of its own.
var shared = sync.OnceValues(startCluster)

var stopCluster []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, stop := range stopCluster {
		stop()
	}
	os.Exit(code)
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	own := *c
	own.t = t
	return &own
}

func startCluster() (_ *cluster, err error) {
	bin := os.Getenv("KUBERNETES_BIN")
	if bin == "" {
		return nil, errors.New("KUBERNETES_BIN must name the directory that e2e/kubernetes/build prints; run the tests with `make kubernetes`")
	}
	dir, err := os.MkdirTemp("", "kaas-kubernetes-")
	if err != nil {
		return nil, err
	}
	// Processes end in the order of their starts' opposite, then the directory goes.
	stopCluster = append(stopCluster, func() { _ = os.RemoveAll(dir) })
	var at [3]string
	for i := range at {
		if at[i], err = process.FreeAddress(); err != nil {
			return nil, err
		}
	}
	etcd, peers, address := "http://"+at[0], "http://"+at[1], at[2]
	log, err := spawn(filepath.Join(bin, "etcd"), "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=error",
		"--listen-client-urls="+etcd, "--advertise-client-urls="+etcd, "--listen-peer-urls="+peers,
		"--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers)
	if err != nil {
		return nil, err
	}
	if err := await(http.DefaultClient, etcd+"/health", log); err != nil {
		return nil, err
	}
	key, token := filepath.Join(dir, "accounts.key"), rand.Text()
	if err := errors.Join(writeKey(key), os.WriteFile(filepath.Join(dir, "tokens.csv"), []byte(token+",admin,1,system:masters\n"), 0o600)); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(address)
	log, err = spawn(filepath.Join(bin, "kube-apiserver"), "--etcd-servers="+etcd, "--bind-address="+process.Loopback, "--advertise-address="+process.Loopback,
		"--secure-port="+port, "--endpoint-reconciler-type=none", "--cert-dir="+filepath.Join(dir, "certificates"), "--token-auth-file="+filepath.Join(dir, "tokens.csv"),
		"--authorization-mode=RBAC", "--service-account-issuer=https://127.0.0.1", "--service-account-key-file="+key,
		"--service-account-signing-key-file="+key, "--service-cluster-ip-range=10.0.0.0/24")
	if err != nil {
		return nil, err
	}
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // its certificate is made at its start
	if err := await(insecure, "https://"+address+"/readyz", log); err != nil {
		return nil, err
	}
	c := &cluster{kubectl: filepath.Join(bin, "kubectl"), kubeconfig: filepath.Join(dir, "kubeconfig")}
	config := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://%s", insecure-skip-tls-verify: true}}], users: [{name: u, user: {token: %s}}]}`, address, token)
	if err := os.WriteFile(c.kubeconfig, []byte(config), 0o600); err != nil {
		return nil, err
	}
	for _, arguments := range [][]string{
		{"apply", "--server-side", "-f", "../../deploy/crds"},
		{"wait", "--for=condition=Established", "--timeout=30s", "-f", "../../deploy/crds"},
	} {
		if out, err := c.try(context.Background(), arguments...); err != nil {
			return nil, fmt.Errorf("kubectl %s: %w\n%s", strings.Join(arguments, " "), err, out)
		}
	}
	return c, nil
}

// try runs kubectl and returns what it says on both outputs.
func (c *cluster) try(ctx context.Context, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, c.kubectl, append([]string{"--kubeconfig=" + c.kubeconfig}, arguments...)...)
	command.Env = append(os.Environ(), "HOME="+filepath.Dir(c.kubeconfig)) // its cache of what the server serves
	out, err := command.CombinedOutput()
	return string(out), err
}

func (c *cluster) run(arguments ...string) string {
	c.t.Helper()
	out, err := c.try(c.t.Context(), arguments...)
	if err != nil {
		c.t.Fatalf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
	return out
}

// objects are all objects of the kinds (comma-separated) in a namespace, by kind and name.
func (c *cluster) objects(namespace, kinds string) map[string]object {
	c.t.Helper()
	var list struct{ Items []object }
	if err := json.Unmarshal([]byte(c.run("get", "-n", namespace, "--show-managed-fields", "-o", "json", kinds)), &list); err != nil {
		c.t.Fatal(err)
	}
	out := map[string]object{}
	for _, one := range list.Items {
		out[one.id()] = one
	}
	return out
}

// spawn starts a process that ends with the tests.
func spawn(program string, arguments ...string) (*process.Tail, error) {
	p, err := process.Start("", program, arguments...)
	if err != nil {
		return nil, err
	}
	stopCluster = append([]func(){p.Kill}, stopCluster...)
	return p.Said, nil
}

// await waits until a URL answers with 200.
func await(client *http.Client, url string, log *process.Tail) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		response, err := client.Get(url)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			if err = errors.Join(err, response.Body.Close()); err == nil && response.StatusCode == http.StatusOK {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer: %w\n%s", url, err, log)
		}
		time.Sleep(20 * time.Millisecond) // a poll of another process
	}
}

func writeKey(path string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), 0o600)
}
