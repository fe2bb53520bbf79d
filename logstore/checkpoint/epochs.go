package checkpoint

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"kaas/internal/limits"
	"kaas/internal/vfs"
)

// epochEntry says at which offset a leader epoch began.
type epochEntry struct {
	epoch       int32
	startOffset int64
}

// Epochs is LeaderEpochFileCache: entries in growing order of both fields. Owner: Partition.mu.
type Epochs struct {
	entries []epochEntry
	Dirty   bool // the file is older than the entries
}

// Assign records that epoch begins at startOffset. Older epochs, and starts below what is known, change nothing.
func (c *Epochs) Assign(epoch int32, startOffset int64) {
	if n := len(c.entries); n > 0 {
		last := c.entries[n-1]
		if epoch <= last.epoch {
			return
		}
		if startOffset <= last.startOffset { // the epoch before got no record
			c.entries[n-1] = epochEntry{epoch, startOffset}
			c.Dirty = true
			return
		}
	}
	c.entries = append(c.entries, epochEntry{epoch, startOffset})
	c.Dirty = true
}

// Latest is the newest epoch, -1: none.
func (c *Epochs) Latest() int32 {
	if n := len(c.entries); n > 0 {
		return c.entries[n-1].epoch
	}
	return -1
}

// TruncateStart drops epochs that end at or below offset and lets the one that holds it begin there.
func (c *Epochs) TruncateStart(offset int64) {
	for len(c.entries) > 1 && c.entries[1].startOffset <= offset {
		c.entries = c.entries[1:]
		c.Dirty = true
	}
	if len(c.entries) > 0 && c.entries[0].startOffset < offset {
		c.entries[0].startOffset = offset
		c.Dirty = true
	}
}

// TruncateEnd drops epochs that began at or after offset.
func (c *Epochs) TruncateEnd(offset int64) {
	for n := len(c.entries); n > 0 && c.entries[n-1].startOffset >= offset; n-- {
		c.entries = c.entries[:n-1]
		c.Dirty = true
	}
}

// EndOffset is LeaderEpochFileCache.endOffsetFor.
func (c *Epochs) EndOffset(epoch int32, logEnd int64) (int32, int64) {
	if epoch < 0 || len(c.entries) == 0 {
		return -1, -1
	}
	if epoch == c.Latest() {
		return epoch, logEnd
	}
	for i, e := range c.entries {
		if e.epoch > epoch {
			if i == 0 {
				return epoch, e.startOffset
			}
			return c.entries[i-1].epoch, e.startOffset
		}
	}
	return -1, -1
}

// Encode is Kafka's checkpoint file: version 0, count, then "epoch startOffset" lines.
func (c *Epochs) Encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "0\n%d\n", len(c.entries))
	for _, e := range c.entries {
		fmt.Fprintf(&b, "%d %d\n", e.epoch, e.startOffset)
	}
	return addSum(b.Bytes(), len(c.entries))
}

// Load reads the file of a partition.
func (c *Epochs) Load(fsys vfs.FS, dir string) error {
	name := filepath.Join(dir, EpochsName)
	b, err := vfs.ReadFile(fsys, name, limits.StoreFileBytes)
	if err != nil {
		return err
	}
	lines, err := checkpointLines(b)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for _, line := range lines {
		epochText, startText, _ := strings.Cut(line, " ")
		epoch, err1 := strconv.ParseInt(epochText, 10, 32)
		start, err2 := strconv.ParseInt(startText, 10, 64)
		if err1 != nil || err2 != nil {
			return fmt.Errorf("%s: line %q", name, line)
		}
		c.Assign(int32(epoch), start)
	}
	c.Dirty = false
	return nil
}
