package logstore

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"kaas/internal/limits"
	"kaas/internal/vfs"
)

// Checkpoint files are Kafka's CheckpointFile: a line with the version (0), a line with the number of entries, one line an
// entry. They are replaced whole (vfs.WriteFileAtomic), so a crash leaves the old or the new one.

type partitionKey struct {
	topic     string
	partition int32
}

func checkpointLines(b []byte) ([]string, error) {
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	if len(lines) < 2 || lines[0] != "0" {
		return nil, fmt.Errorf("version line %q, 0 is known", lines[0])
	}
	n, err := strconv.Atoi(lines[1])
	if err != nil || n != len(lines)-2 {
		return nil, fmt.Errorf("%d entries, the count line says %q", len(lines)-2, lines[1])
	}
	return lines[2:], nil
}

// readOffsets reads "topic partition n1 n2 …" lines; a missing file is an empty one.
func readOffsets(fsys vfs.FS, name string, numbers int) (map[partitionKey][]int64, error) {
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
	out := make(map[partitionKey][]int64, len(lines))
	for _, line := range lines {
		fields := strings.Fields(line)
		if len(fields) != 2+numbers {
			return nil, fmt.Errorf("%s: line %q", name, line)
		}
		values := make([]int64, 1+numbers)
		for i := range values {
			if values[i], err = strconv.ParseInt(fields[1+i], 10, 64); err != nil {
				return nil, fmt.Errorf("%s: line %q: %w", name, line, err)
			}
		}
		out[partitionKey{fields[0], int32(values[0])}] = values[1:]
	}
	return out, nil
}

// offsetsFile collects lines for a checkpoint file.
type offsetsFile struct {
	lines bytes.Buffer
	count int
}

func (o *offsetsFile) add(topic string, partition int32, numbers ...int64) {
	fmt.Fprintf(&o.lines, "%s %d", topic, partition)
	for _, n := range numbers {
		fmt.Fprintf(&o.lines, " %d", n)
	}
	o.lines.WriteByte('\n')
	o.count++
}

func (o *offsetsFile) write(fsys vfs.FS, dir, name string) error {
	head := fmt.Appendf(nil, "0\n%d\n", o.count)
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, name), dir, append(head, o.lines.Bytes()...))
}

// metaProperties is Kafka's meta.properties, version 1.
type metaProperties struct {
	clusterID   string
	nodeID      int32
	directoryID string
}

func readMeta(fsys vfs.FS, dir string) (m metaProperties, found bool, err error) {
	name := filepath.Join(dir, metaName)
	b, err := vfs.ReadFile(fsys, name, limits.StoreFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return m, false, nil
	}
	if err != nil {
		return m, false, err
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
	return metaProperties{values["cluster.id"], int32(n), values["directory.id"]}, true, nil
}

func writeMeta(fsys vfs.FS, dir string, m metaProperties) error {
	text := fmt.Sprintf("#\nversion=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", m.clusterID, m.nodeID, m.directoryID)
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, metaName), dir, []byte(text))
}

func randomUUID() (id [16]byte) {
	// crypto/rand.Read never fails (it ends the process instead).
	_, _ = rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id
}

// readPartitionMetadata reads partition.metadata ("version: 0", "topic_id: <uuid>").
func readPartitionMetadata(fsys vfs.FS, dir string) (id [16]byte, found bool, err error) {
	name := filepath.Join(dir, metadataName)
	b, err := vfs.ReadFile(fsys, name, limits.StoreFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return id, false, nil
	}
	if err != nil {
		return id, false, err
	}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if key == "topic_id" {
			if id, err = parseUUID(strings.TrimSpace(value)); err != nil {
				return id, false, fmt.Errorf("%s: %w", name, err)
			}
			return id, true, nil
		}
	}
	return id, false, fmt.Errorf("%s: no topic_id", name)
}

func writePartitionMetadata(fsys vfs.FS, dir string, id [16]byte) error {
	text := fmt.Sprintf("version: 0\ntopic_id: %s\n", uuidString(id))
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, metadataName), dir, []byte(text))
}
