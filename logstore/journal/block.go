package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"kaas/internal/vfs"
)

// Sizes in bytes. A block begins at a multiple of Alignment, so that writing one touches no page of another and it can go past
// the page cache.
const (
	Alignment   = vfs.DirectAlignment
	headerBytes = 40
	entryBytes  = 56
)

// magic begins every block: "kaasjrn" and the version of the format.
const magic = 0x6b6161736a726e01

// Kinds of entries.
const (
	kindData   = 0
	kindForget = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry says where bytes of a partition's log stand.
type Entry struct {
	Topic      string
	TopicID    [16]byte
	Partition  int32
	BaseOffset int64 // of the segment; of a Forget: the first base offset that it is not about
	Position   int64 // of the first byte in the segment's .log
	EndOffset  int64 // the offset after the last record in the bytes
	Forget     bool  // earlier entries of segments below BaseOffset mean nothing any more
}

// Block is one being made. The zero value is an empty one; it keeps its memory.
type Block struct {
	b       []byte // vfs.AlignedBytes
	entries int
}

// Reset empties it.
func (b *Block) Reset() {
	b.b, b.entries = b.b[:0], 0
	b.grow(headerBytes)
}

// Len is what it takes in a journal.
func (b *Block) Len() int64 { return pad(int64(len(b.b))) }

// Entries is how many it has.
func (b *Block) Entries() int { return b.entries }

// Room is how long it would be with one more entry of n bytes.
func (b *Block) Room(topic string, n int) int64 {
	return pad(int64(len(b.b)) + entryBytes + int64(len(topic)) + int64(n))
}

func pad(n int64) int64 { return (n + Alignment - 1) &^ (Alignment - 1) }

// Add makes an entry and returns the n bytes that the caller fills before it does anything else with the block.
func (b *Block) Add(e *Entry, n int) []byte {
	b.entries++
	b.reserve(entryBytes + len(e.Topic) + n)
	kind := byte(kindData)
	if e.Forget {
		kind = kindForget
	}
	b.b = append(b.b, kind, byte(len(e.Topic)), 0, 0)
	b.b = binary.BigEndian.AppendUint32(b.b, uint32(e.Partition))
	b.b = append(b.b, e.TopicID[:]...)
	b.b = binary.BigEndian.AppendUint64(b.b, uint64(e.BaseOffset))
	b.b = binary.BigEndian.AppendUint64(b.b, uint64(e.Position))
	b.b = binary.BigEndian.AppendUint64(b.b, uint64(e.EndOffset))
	b.b = binary.BigEndian.AppendUint32(b.b, uint32(n))
	b.b = append(b.b, 0, 0, 0, 0)
	b.b = append(b.b, e.Topic...)
	at := len(b.b)
	b.grow(n)
	return b.b[at:]
}

// grow adds n bytes of any content.
func (b *Block) grow(n int) {
	b.reserve(n)
	b.b = b.b[:len(b.b)+n]
}

// reserve makes room for n bytes more; append would take memory that is not aligned.
func (b *Block) reserve(n int) {
	if cap(b.b)-len(b.b) >= n {
		return
	}
	larger := vfs.AlignedBytes(max(len(b.b)+n, 2*cap(b.b), 64<<10))
	b.b = larger[:copy(larger, b.b)]
}

// Mark is a state of a block to go back to.
type Mark struct{ bytes, entries int }

// Mark is the state now.
func (b *Block) Mark() Mark { return Mark{len(b.b), b.entries} }

// Rewind takes back what was added since.
func (b *Block) Rewind(to Mark) { b.b, b.entries = b.b[:to.bytes], to.entries }

// finish writes the header and pads.
func (b *Block) finish(id, sequence uint64) []byte {
	length := len(b.b)
	binary.BigEndian.PutUint64(b.b, magic)
	binary.BigEndian.PutUint32(b.b[12:], uint32(length))
	binary.BigEndian.PutUint64(b.b[16:], id)
	binary.BigEndian.PutUint64(b.b[24:], sequence)
	binary.BigEndian.PutUint32(b.b[32:], uint32(b.entries))
	binary.BigEndian.PutUint32(b.b[36:], 0)
	binary.BigEndian.PutUint32(b.b[8:], crc32.Checksum(b.b[12:length], castagnoli))
	b.grow(int(pad(int64(length))) - length)
	clear(b.b[length:])
	return b.b
}

// header is the decoded beginning of a block.
type header struct {
	crc, length  uint32
	id, sequence uint64
	entries      uint32
}

// errNoBlock says that no block begins there, or not all of one is there.
var errNoBlock = errors.New("no block")

// decodeHeader needs headerBytes.
func decodeHeader(b []byte) (h header, err error) {
	if binary.BigEndian.Uint64(b) != magic {
		return h, errNoBlock
	}
	h = header{binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint64(b[24:]), binary.BigEndian.Uint32(b[32:])}
	if h.length < headerBytes {
		return h, errNoBlock
	}
	return h, nil
}

// decode calls each for every entry of a block; at is where its bytes begin in the block. A block that does not hold is
// errNoBlock, one that holds and makes no sense another error.
func decode(b []byte, h header, each func(e *Entry, at, n int)) error {
	if crc32.Checksum(b[12:], castagnoli) != h.crc {
		return errNoBlock
	}
	at := headerBytes
	for range h.entries {
		if len(b)-at < entryBytes {
			return fmt.Errorf("an entry at byte %d of a block of %d", at, len(b))
		}
		x := b[at:]
		topic, n := int(x[1]), int(binary.BigEndian.Uint32(x[48:]))
		if kind := x[0]; kind > kindForget || len(x)-entryBytes-topic < n {
			return fmt.Errorf("an entry of kind %d and %d bytes at byte %d of a block of %d", kind, n, at, len(b))
		}
		e := Entry{
			Topic: string(x[entryBytes : entryBytes+topic]), Partition: int32(binary.BigEndian.Uint32(x[4:])), TopicID: [16]byte(x[8:24]), Forget: x[0] == kindForget,
			BaseOffset: int64(binary.BigEndian.Uint64(x[24:])), Position: int64(binary.BigEndian.Uint64(x[32:])), EndOffset: int64(binary.BigEndian.Uint64(x[40:])),
		}
		if e.BaseOffset < 0 || e.Position < 0 || e.EndOffset < 0 {
			return fmt.Errorf("an entry with a negative number at byte %d of a block", at)
		}
		at += entryBytes + topic
		each(&e, at, n)
		at += n
	}
	if at != len(b) {
		return fmt.Errorf("%d bytes after the last entry of a block", len(b)-at)
	}
	return nil
}
