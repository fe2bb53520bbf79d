package logstore

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

// epochCache is LeaderEpochFileCache: entries in growing order of both fields. Owner: Partition.mu.
type epochCache struct {
	entries []epochEntry
	dirty   bool // the file is older than the entries
}

// assign records that epoch begins at startOffset. Older epochs, and starts below what is known, change nothing.
func (c *epochCache) assign(epoch int32, startOffset int64) {
	if n := len(c.entries); n > 0 {
		last := c.entries[n-1]
		if epoch <= last.epoch {
			return
		}
		if startOffset <= last.startOffset { // the epoch before got no record
			c.entries[n-1] = epochEntry{epoch, startOffset}
			c.dirty = true
			return
		}
	}
	c.entries = append(c.entries, epochEntry{epoch, startOffset})
	c.dirty = true
}

func (c *epochCache) latest() int32 {
	if n := len(c.entries); n > 0 {
		return c.entries[n-1].epoch
	}
	return -1
}

// truncateStart drops epochs that end at or below offset and lets the one that holds it begin there.
func (c *epochCache) truncateStart(offset int64) {
	for len(c.entries) > 1 && c.entries[1].startOffset <= offset {
		c.entries = c.entries[1:]
		c.dirty = true
	}
	if len(c.entries) > 0 && c.entries[0].startOffset < offset {
		c.entries[0].startOffset = offset
		c.dirty = true
	}
}

// truncateEnd drops epochs that began at or after offset.
func (c *epochCache) truncateEnd(offset int64) {
	for n := len(c.entries); n > 0 && c.entries[n-1].startOffset >= offset; n-- {
		c.entries = c.entries[:n-1]
		c.dirty = true
	}
}

// endOffset is LeaderEpochFileCache.endOffsetFor.
func (c *epochCache) endOffset(epoch int32, logEnd int64) (int32, int64) {
	if epoch < 0 || len(c.entries) == 0 {
		return -1, -1
	}
	if epoch == c.latest() {
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

// encode is Kafka's checkpoint file: version 0, count, then "epoch startOffset" lines.
func (c *epochCache) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "0\n%d\n", len(c.entries))
	for _, e := range c.entries {
		fmt.Fprintf(&b, "%d %d\n", e.epoch, e.startOffset)
	}
	return b.Bytes()
}

func (c *epochCache) load(fsys vfs.FS, dir string) error {
	name := filepath.Join(dir, epochsName)
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
		c.assign(int32(epoch), start)
	}
	c.dirty = false
	return nil
}

// EndOffsetForEpoch answers OffsetForLeaderEpoch: the largest epoch <= epoch and the end of it, or -1, -1.
func (p *Partition) EndOffsetForEpoch(epoch int32) (epochFound int32, endOffset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epochs.endOffset(epoch, p.end.offset.Load())
}

// LeaderEpoch is the newest epoch that the log knows; 0 for a new log.
func (p *Partition) LeaderEpoch() int32 { return p.leaderEpoch.Load() }
