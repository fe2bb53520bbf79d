package journal

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"kaas/internal/vfs"
)

// batchOf makes what is seen of a batch: its offset, its length and its checksum.
func batchOf(offset int64, bytes int, fill byte) string {
	b := []byte(strings.Repeat(string(fill), bytes))
	binary.BigEndian.PutUint64(b, uint64(offset))
	binary.BigEndian.PutUint32(b[batchLengthAt:], uint32(bytes-batchPrefix))
	binary.BigEndian.PutUint32(b[batchCRCAt:], crc32.Checksum(b[batchCRCAt+4:], castagnoli))
	return string(b)
}

// TestStaleEntries: an entry whose forget was lost with the end of the journal does no harm to the log that compaction has
// made, and one that a log needs is written whatever the crash left in its place.
func TestStaleEntries(t *testing.T) {
	t.Parallel()
	first, second, other := batchOf(0, 100, 'a'), batchOf(1, 80, 'b'), batchOf(0, 90, 'c')
	torn := second[:40] + strings.Repeat("x", 40)
	for name, c := range map[string]struct {
		log      string
		position int
		entry    string
		want     string
		stale    int64
	}{
		"the log ends there":                      {first, 100, second, first + second, 0},
		"the log ends before":                     {first, 150, second, first, 1},
		"the same bytes":                          {first + second, 100, second, first + second, 0},
		"the same and more":                       {first, 0, first + second, first + second, 0},
		"the beginning of it":                     {first + second[:10], 100, second, first + second, 0},
		"zeroes":                                  {first + strings.Repeat("\x00", 80), 100, second, first + second, 0},
		"zeroes, fewer":                           {first + "\x00", 100, second, first + second, 0},
		"garbage":                                 {first + strings.Repeat("g", 80), 100, second, first + second, 0},
		"garbage, less than a header":             {first + "g", 100, second, first + second, 0},
		"the batch, its end torn":                 {first + torn, 100, second, first + second, 0},
		"another batch at the beginning":          {other, 0, first, other, 1},
		"another batch, more behind it":           {other + second, 0, first, other + second, 1},
		"another batch at its place":              {first + other, 100, second, first + other, 1},
		"inside of another batch":                 {other + second, 100, second, other + second, 1},
		"inside of the last batch":                {batchOf(0, 300, 'd'), 100, second, batchOf(0, 300, 'd'), 1},
		"behind something that is no batch":       {strings.Repeat("g", 300), 100, second, strings.Repeat("g", 300), 1},
		"the same offset and length, other bytes": {batchOf(0, 100, 'z'), 0, first, batchOf(0, 100, 'z'), 1},
	} {
		m := disk(t)
		f, err := m.OpenFile(logName(0), vfs.Create)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(c.log), 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		put(t, made(t, m, 4*Alignment), int64(c.position), c.entry)
		contents, got := applied(t, m, 1<<62)
		if got != c.want || contents.Stale() != c.stale {
			t.Errorf("%s: %d bytes, want %d, stale %d, want %d\n%q", name, len(got), len(c.want), contents.Stale(), c.stale, got)
		}
	}
}
