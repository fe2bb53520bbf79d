package checkpoint

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"kaas/internal/limits"
	"kaas/internal/vfs"
)

// Names of the files.
const (
	MetaName        = "meta.properties"
	EpochsName      = "leader-epoch-checkpoint"
	MetadataName    = "partition.metadata"
	ProducerIDsName = "kaas-producer-ids" // ours: the next block of producer ids
)

// Checkpoint files are Kafka's CheckpointFile: a line with the version (0), a line with the number of entries, one line an
// entry, the last one with a checksum (sum.go). They are replaced whole (vfs.WriteFileAtomic), so a crash leaves the old or the
// new one.

// Key names a partition.
type Key struct {
	Topic     string
	Partition int32
}

func checkpointLines(b []byte) ([]string, error) {
	b, err := checkSum(b)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" {
		return nil, fmt.Errorf("version line %q, 0 is known", lines[0])
	}
	n, err := strconv.Atoi(lines[1])
	if err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("%d entries, the count line says %q", len(lines)-2, lines[1])
	}
	return lines[2:], nil
}

// ReadOffsets reads "topic partition n1 n2 …" lines with one of so many numbers; a missing file is an empty one.
func ReadOffsets(fsys vfs.FS, name string, numbers ...int) (map[Key][]int64, error) {
	b, err := vfs.ReadFile(fsys, name, limits.StoreFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	lines, err := checkpointLines(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out := make(map[Key][]int64, len(lines))
	for _, line := range lines {
		fields := strings.Fields(line)
		if !slices.Contains(numbers, len(fields)-2) {
			return nil, fmt.Errorf("%s: line %q", name, line)
		}
		values := make([]int64, len(fields)-1)
		for i := range values {
			if values[i], err = strconv.ParseInt(fields[1+i], 10, 64); err != nil {
				return nil, fmt.Errorf("%s: line %q: %w", name, line, err)
			}
		}
		out[Key{fields[0], int32(values[0])}] = values[1:]
	}
	return out, nil
}

// Offsets collects lines for a checkpoint file.
type Offsets struct {
	lines bytes.Buffer
	count int
}

// Add adds a line.
func (o *Offsets) Add(topic string, partition int32, numbers ...int64) {
	fmt.Fprintf(&o.lines, "%s %d", topic, partition)
	for _, n := range numbers {
		fmt.Fprintf(&o.lines, " %d", n)
	}
	o.lines.WriteByte('\n')
	o.count++
}

// Write replaces the file dir/name.
func (o *Offsets) Write(fsys vfs.FS, dir, name string) error {
	head := fmt.Appendf(nil, "0\n%d\n", o.count)
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, name), dir, addSum(append(head, o.lines.Bytes()...), o.count))
}

// MetaProperties is Kafka's meta.properties, version 1.
type MetaProperties struct {
	ClusterID   string
	NodeID      int32
	DirectoryID string
}

// ReadMeta reads meta.properties of a log directory.
func ReadMeta(fsys vfs.FS, dir string) (m MetaProperties, found bool, err error) {
	name := filepath.Join(dir, MetaName)
	b, err := vfs.ReadFile(fsys, name, limits.StoreFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
	}
	if head, body, _ := strings.Cut(string(b), "\n"); strings.HasPrefix(head, metaSum) && head != metaSumOf(body) {
		return m, false, fmt.Errorf("%w: %s does not fit its checksum: put it right from a copy (or from what the broker logged and the other log directories say) and delete its first line", ErrDamaged, name)
	}
	values := map[string]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		values[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	if v := values["version"]; v != "1" && v != "0" {
		return m, false, fmt.Errorf("%s: version %q, 0 and 1 are known", name, v)
	}
	node := values["node.id"]
	if node == "" {
		node = values["broker.id"]
	}
	n, err := strconv.ParseInt(node, 10, 32)
	if err != nil {
		return m, false, fmt.Errorf("%s: node.id %q", name, node)
	}
	return MetaProperties{values["cluster.id"], int32(n), values["directory.id"]}, true, nil
}

// WriteMeta replaces meta.properties.
func WriteMeta(fsys vfs.FS, dir string, m MetaProperties) error {
	text := fmt.Sprintf("version=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", m.ClusterID, m.NodeID, m.DirectoryID)
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, MetaName), dir, []byte(metaSumOf(text)+"\n"+text))
}

// metaSum begins the first line of meta.properties, a remark for who reads Java properties; what Kafka wrote has none.
const metaSum = "# crc32c "

func metaSumOf(body string) string {
	return fmt.Sprintf("%s%08x", metaSum, crc32.Checksum([]byte(body), castagnoli))
}

// RandomUUID is a version 4 UUID.
func RandomUUID() (id [16]byte) {
	// crypto/rand.Read never fails (it ends the process instead).
	_, _ = rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// ErrDamaged says that a file holds something else than it should.
var ErrDamaged = errors.New("damaged")

// ReadPartitionMetadata reads partition.metadata ("version: 0", "topic_id: <uuid>"); the zero id: there is none. ErrDamaged:
// it does not say one.
func ReadPartitionMetadata(fsys vfs.FS, dir string) (id [16]byte, err error) {
	name := filepath.Join(dir, MetadataName)
	b, err := vfs.ReadFile(fsys, name, limits.StoreFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return id, nil
	}
	if err != nil {
		return id, err
	}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if key == "topic_id" {
			if id, err = ParseUUID(strings.TrimSpace(value)); err != nil {
				return [16]byte{}, fmt.Errorf("%w: %s: %w", ErrDamaged, name, err)
			}
			return id, nil
		}
	}
	return id, fmt.Errorf("%w: %s: no topic_id", ErrDamaged, name)
}

// WritePartitionMetadata replaces partition.metadata.
func WritePartitionMetadata(fsys vfs.FS, dir string, id [16]byte) error {
	text := fmt.Sprintf("version: 0\ntopic_id: %s\n", UUIDString(id))
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, MetadataName), dir, []byte(text))
}

// Misspelt says that an id is another one with one character of its text damaged: ids are random (version 4), so that of a
// topic which was made anew differs in nearly all of them.
func Misspelt(found, wanted [16]byte) bool {
	if wanted[6]>>4 != 4 {
		return false
	}
	a, b := UUIDString(found), UUIDString(wanted)
	different := 0
	for i := range a {
		if a[i] != b[i] {
			different++
		}
	}
	return different == 1
}

// UUIDString is Kafka's form of a UUID.
func UUIDString(id [16]byte) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

// ParseUUID reads it.
func ParseUUID(s string) (id [16]byte, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("%q is no Kafka UUID", s)
	}
	return [16]byte(b), nil
}

// Len is the number of lines.
func (o *Offsets) Len() int { return o.count }

// NewUUIDString never begins with a dash, which command lines would take for an option (Uuid.randomUuid).
func NewUUIDString() string {
	for {
		if u := UUIDString(RandomUUID()); u[0] != '-' {
			return u
		}
	}
}
