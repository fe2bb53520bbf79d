package kaas

import (
	"slices"
	"strings"
	"testing"
)

// layer is what one package may import of this module and of others. The
// standard library is free for all. Imports go down only; test files may
// import what they like that does not make a cycle.
type layer struct {
	dir string
	// may lists packages of this module.
	may []string
	// modules lists packages of other modules, by prefix.
	modules []string
	why     string
}

// everybody may be imported by every room: bounds, observation, assertions.
var everybody = []string{"internal/limits", "internal/invariants", "obs"}

var layers = []layer{
	{dir: ".", why: "the root holds tests only"},

	// Leaves.
	{dir: "internal/limits", why: "constants; it knows no room"},
	{dir: "internal/invariants", why: "assertions behind a build tag"},
	{dir: "internal/bufpool", may: []string{"internal/limits", "internal/invariants"}, why: "pooled buffers with poison in the invariants build"},
	{dir: "internal/delay", why: "deadlines and work queues whose links are fields of what waits"},
	{dir: "internal/footprint", modules: []string{"golang.org/x/sys/unix"}, why: "what the kernel counts as the process's memory"},
	{dir: "internal/vfs", modules: []string{"golang.org/x/sys/unix"}, why: "the file system seam"},
	{dir: "obs", modules: []string{"github.com/VictoriaMetrics/metrics"}, why: "the only package that knows which metrics library is used"},
	{dir: "obs/profiling", modules: []string{"github.com/grafana/pyroscope-go"}, why: "the only package that knows which Pyroscope client is used"},
	{dir: "codec/batch", modules: []string{"github.com/klauspost/compress", "github.com/pierrec/lz4"}, why: "record batches, and the codecs inside them"},

	// Rooms.
	{dir: "codec", may: []string{"codec/batch", "internal/bufpool"}, modules: []string{"github.com/twmb/franz-go/pkg/kmsg"}, why: "frames to requests and back"},
	{dir: "netio", may: []string{"internal/bufpool"}, modules: []string{"github.com/panjf2000/gnet/v2", "golang.org/x/sys/unix"}, why: "sockets; the only package that knows gnet. It knows no API key"},
	{dir: "logstore/index", may: []string{"codec/batch", "internal/vfs"}, why: "the byte formats of a segment's indexes"},
	{dir: "logstore/producer", may: []string{"codec/batch", "logstore/index"}, why: "producer and transaction state without I/O, and its snapshot"},
	{dir: "logstore/logfile", may: []string{"codec/batch", "internal/vfs", "logstore/index"}, modules: []string{"golang.org/x/sys/unix"}, why: "reads a .log file batch by batch"},
	{dir: "logstore/cleaner", may: []string{"codec/batch", "internal/vfs", "logstore/index", "logstore/logfile", "logstore/producer"}, modules: []string{"golang.org/x/sys/unix"}, why: "what compaction keeps; it knows no partition and swaps nothing"},
	{dir: "logstore/checkpoint", may: []string{"internal/vfs"}, why: "the small files beside the logs"},
	{dir: "logstore/journal", may: []string{"internal/vfs"}, why: "the commit journal's files; it knows no partition"},
	{dir: "logstore/layout", may: []string{"logstore/checkpoint", "logstore/journal"}, why: "names of files and directories"},
	{dir: "logstore/groupcommit", why: "which log is committed when; it syncs nothing itself"},
	{dir: "logstore/healer", why: "tries for what failed; it knows no partition"},
	{dir: "logstore/validate", may: []string{"codec/batch"}, why: "what may be appended, seen without a partition's state"},
	{dir: "logstore/probe", may: []string{"internal/vfs", "logstore/checkpoint", "logstore/layout"}, modules: []string{"golang.org/x/sys/unix"}, why: "asks a log directory whether it takes writes; it knows no partition"},
	{dir: "logstore/recovery", may: []string{"codec/batch", "internal/vfs", "logstore/checkpoint", "logstore/index", "logstore/journal", "logstore/layout", "logstore/logfile", "logstore/producer"}, modules: []string{"golang.org/x/sys/unix"}, why: "what a partition's directory holds after a stop; it serves nobody"},
	{dir: "logstore/volume", may: []string{"internal/vfs", "logstore/checkpoint", "logstore/index", "logstore/journal", "logstore/layout", "logstore/recovery"}, why: "a log directory as a whole; it opens no partition"},
	{dir: "logstore/segment", may: []string{"codec/batch", "internal/vfs", "logstore/cleaner", "logstore/index", "logstore/layout", "logstore/logfile", "logstore/recovery"}, modules: []string{"golang.org/x/sys/unix"}, why: "one .log file and its indexes; it knows no partition"},
	{dir: "logstore/janitor", may: []string{"logstore/segment"}, why: "which of the store's background works is done when; it does none itself"},
	{dir: "logstore/retention", may: []string{"logstore/segment"}, why: "which segments are old enough; it deletes nothing"},
	{dir: "logstore/logconfig", why: "the configuration of one partition"},
	{dir: "logstore/registry", why: "the map from topic and number to a partition, whatever that is"},
	{dir: "logstore", may: []string{"codec/batch", "internal/vfs", "logstore/checkpoint", "logstore/cleaner", "logstore/groupcommit", "logstore/healer", "logstore/index", "logstore/janitor", "logstore/journal", "logstore/layout", "logstore/logconfig", "logstore/logfile", "logstore/probe", "logstore/producer", "logstore/recovery", "logstore/registry", "logstore/retention", "logstore/segment", "logstore/validate", "logstore/volume"}, modules: []string{"golang.org/x/sys/unix"}, why: "partitions on disk; it knows no request"},
	{dir: "policy", modules: []string{"github.com/google/cel-go"}, why: "the only package that knows CEL; it knows no request"},
	{dir: "meta", why: "domain types and ports"},
	{dir: "meta/config", modules: []string{"github.com/magiconair/properties"}, why: "configuration keys"},
	{dir: "auth/scram", why: "the server's half of SCRAM-SHA-512"},
	{dir: "auth", may: []string{"auth/scram", "meta"}, why: "users, their credentials and ACLs; who may do what"},
	{dir: "auth/sasl", may: []string{"auth", "auth/scram"}, why: "the state of one connection's authentication"},
	{dir: "quota", why: "who has taken how much; it knows no connection"},
	{dir: "coord", may: []string{"codec/batch", "meta"}, why: "the single-owner shard runtime; its log is a port"},
	{dir: "coord/coordtest", may: []string{"coord", "codec/batch", "logstore/producer"}, why: "a log in memory for the tests of coord and of its machines, and a data partition for simulations"},
	{dir: "txn", may: []string{"coord"}, modules: []string{"github.com/twmb/franz-go/pkg/kbin", "github.com/twmb/franz-go/pkg/kerr", "github.com/twmb/franz-go/pkg/kmsg"}, why: "state machines without I/O"},
	{dir: "group/assignor", why: "which member gets which partition: functions, no state"},
	{dir: "group/consumerlog", modules: []string{"github.com/twmb/franz-go/pkg/kbin", "github.com/twmb/franz-go/pkg/kmsg"}, why: "the bytes of consumer groups' records, and of what classic members keep in theirs"},
	{dir: "group/topicregex", may: []string{"meta"}, why: "which topics a regular expression matches, at a bounded cost"},
	{dir: "group", may: []string{"coord", "meta", "group/assignor", "group/consumerlog", "group/topicregex"}, modules: []string{"github.com/twmb/franz-go/pkg/kbin", "github.com/twmb/franz-go/pkg/kerr", "github.com/twmb/franz-go/pkg/kmsg"}, why: "state machines without I/O"},

	{dir: "broker/coordinators", may: []string{"group", "txn", "coord", "auth", "meta", "meta/config", "logstore", "logstore/producer", "codec", "codec/batch"},
		modules: []string{"github.com/twmb/franz-go/pkg/kerr", "github.com/twmb/franz-go/pkg/kmsg"}, why: "requests of groups and transactions, brought to their machines"},
	{dir: "broker/describe", may: []string{"auth", "codec", "meta", "meta/config"},
		modules: []string{"github.com/twmb/franz-go/pkg/kerr", "github.com/twmb/franz-go/pkg/kmsg"}, why: "what the image says, in replies"},
	{dir: "broker/firstuse", may: []string{"meta", "meta/config"}, why: "topics that are made when a client names them; it knows no request"},
	{dir: "broker/leftover", may: []string{"meta", "logstore"}, why: "what becomes of data without a topic, decided once at the start"},
	{dir: "kube/filestore", may: []string{"meta", "internal/vfs"},
		modules: []string{"github.com/fsnotify/fsnotify", "github.com/google/uuid", "go.yaml.in/yaml", "golang.org/x/sys/unix", "sigs.k8s.io/yaml"}, why: "resources as files, behind a port of meta"},

	// Siblings: none imports another.
	{dir: "broker", may: []string{"auth/sasl", "quota", "broker/coordinators", "broker/describe", "broker/firstuse", "broker/leftover", "coord", "auth", "meta", "meta/config", "logstore", "codec", "codec/batch", "netio", "internal/bufpool", "obs/profiling", "internal/delay"},
		modules: []string{"github.com/google/uuid", "github.com/twmb/franz-go/pkg/kerr", "github.com/twmb/franz-go/pkg/kmsg"}, why: "the data plane"},
	{dir: "admin", may: []string{"auth/scram", "quota", "auth", "meta", "meta/config", "codec", "logstore"},
		modules: []string{"github.com/twmb/franz-go/pkg/kerr", "github.com/twmb/franz-go/pkg/kmsg"}, why: "the control plane"},
	{dir: "kube", may: []string{"meta", "meta/config"}, why: "reconcilers"},

	{dir: "kube/kubetest", may: []string{"kube", "meta"}, why: "what the tests of kube and of its file store share"},

	// The top.
	{dir: "internal/docs", may: []string{"meta/config", "codec"}, why: "writes the generated documents; only the root's tests use it"},
	{dir: "internal/crd", may: []string{"auth", "auth/scram", "meta"}, modules: []string{"sigs.k8s.io/yaml"}, why: "writes the CustomResourceDefinitions; only the root's tests use it"},
	{dir: "cmd/kaas", may: []string{"admin", "auth", "auth/sasl", "auth/scram", "quota", "bench", "broker", "codec", "kube", "kube/filestore", "logstore", "meta", "meta/config", "netio", "internal/bufpool", "internal/footprint", "obs/profiling", "policy"},
		modules: []string{"github.com/spf13/cobra"}, why: "wiring: it may see every room and decides nothing about Kafka"},

	// Beside the tower: they drive a broker from outside.
	{dir: "bench/pacing", modules: []string{"golang.org/x/sys/unix"}, why: "a thread that sleeps"},
	{dir: "bench/generator", may: []string{"bench/pacing"}, modules: []string{"github.com/magiconair/properties", "github.com/twmb/franz-go", "github.com/HdrHistogram/hdrhistogram-go", "github.com/spf13/cobra", "golang.org/x/sys/unix"}, why: "a client like any other"},
	{dir: "bench/rig", may: []string{"bench/pacing"}, modules: []string{"github.com/twmb/franz-go/pkg/kgo", "github.com/twmb/franz-go/pkg/kmsg", "github.com/panjf2000/gnet/v2", "golang.org/x/sys/unix"}, why: "drives processes, and is what they are measured against"},
	{dir: "bench/baseline", why: "judges what was counted, and counts nothing"},
	{dir: "bench/goals", modules: []string{"github.com/spf13/cobra"}, why: "reads what was measured, and measures nothing"},
	{dir: "bench", may: []string{"bench/baseline", "bench/generator", "bench/goals", "bench/rig"}, modules: []string{"github.com/twmb/franz-go", "github.com/spf13/cobra", "golang.org/x/sys/unix"}, why: "imports no room, so it cannot agree with a bug of one"},
	{dir: "bench/commitbench", modules: []string{"golang.org/x/sys/unix"}, why: "system calls of its own: what it measures is below kaas"},
	{dir: "e2e/process", why: "programs under test, whatever they are"},
	{dir: "e2e/kubernetes", may: []string{"e2e/process"}, modules: []string{"github.com/twmb/franz-go", "sigs.k8s.io/yaml"}, why: "imports no room; an API server and kaas judge the same manifests"},
	{dir: "e2e/pyroscope", may: []string{"e2e/process"}, modules: []string{"github.com/twmb/franz-go/pkg/kgo"}, why: "imports no room; what a Pyroscope server has of a broker is asked of that server"},
	{dir: "e2e", may: []string{"e2e/process"}, modules: []string{"github.com/twmb/franz-go"}, why: "imports no room, so it cannot agree with a bug of one"},
}

func TestLayers(t *testing.T) {
	t.Parallel()
	byDir := map[string]layer{}
	for _, l := range layers {
		byDir[l.dir] = l
	}
	for _, dir := range packageDirs(t) {
		if _, ok := byDir[dir]; !ok {
			t.Errorf("package %s is not in the list of layers: say what it may import and why", dir)
		}
	}
	for _, f := range sources(t) {
		l, ok := byDir[f.dir]
		if !ok || f.test {
			continue
		}
		for _, path := range f.imports() {
			if !l.allows(path) {
				t.Errorf("%s imports %s: %s may not (%s)", f.path, path, f.dir, l.why)
			}
		}
	}
}

func (l layer) allows(path string) bool {
	if own, ok := strings.CutPrefix(path, "kaas/"); ok {
		return slices.Contains(everybody, own) && own != l.dir && !leaf(l.dir) || slices.Contains(l.may, own)
	}
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(l.modules, func(prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") })
}

// leaf packages list even their few imports one by one.
func leaf(dir string) bool { return strings.HasPrefix(dir, "internal/") && dir != "internal/docs" }

func TestLayersGoDownOnly(t *testing.T) {
	t.Parallel()
	rank := map[string]int{}
	for i, l := range layers {
		rank[l.dir] = i
		if l.why == "" {
			t.Errorf("layer %s has no reason", l.dir)
		}
	}
	siblings := []string{"broker", "admin", "kube"}
	for _, l := range layers {
		for _, lower := range l.may {
			at, ok := rank[lower]
			if !ok {
				t.Errorf("layer %s may import %s, which is not listed", l.dir, lower)
			}
			if at >= rank[l.dir] && lower != "bench" {
				t.Errorf("layer %s may import %s, which stands above it", l.dir, lower)
			}
			if slices.Contains(siblings, l.dir) && slices.Contains(siblings, lower) {
				t.Errorf("siblings: %s may import %s", l.dir, lower)
			}
		}
	}
}
