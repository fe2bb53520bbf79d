package checkpoint

import (
	"bytes"
	"errors"
	"hash/crc32"
)

// The last line of a checkpoint file that we wrote ends with its checksum: CRC-32C of the file without it, as 32 blanks, most
// significant bit first, a space for 0 and a tab for 1. Kafka's CheckpointFile splits lines at white space and drops what trails, so it
// reads the file as its own; and what it writes itself has no such blanks, and is taken unchecked. A sum of its own file could
// not be replaced in one step with what it is about.
const sumBlanks = 32

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// addSum puts the checksum into the last line. A file without entries has none: its two lines are checked by what they say.
func addSum(text []byte, entries int) []byte {
	if entries == 0 {
		return text
	}
	sum := crc32.Checksum(text, castagnoli)
	text = text[:len(text)-1]
	for bit := sumBlanks - 1; bit >= 0; bit-- {
		text = append(text, " \t"[sum>>bit&1])
	}
	return append(text, '\n')
}

// checkSum takes the checksum away, if there is one.
func checkSum(text []byte) ([]byte, error) {
	body, whole := bytes.CutSuffix(text, []byte("\n"))
	if !whole {
		return nil, errors.New("the last line has no end")
	}
	data := bytes.TrimRight(body, " \t")
	switch blanks := body[len(data):]; len(blanks) {
	case 0:
		return text, nil
	case sumBlanks:
		sum := uint32(0)
		for _, c := range blanks {
			sum <<= 1
			if c == '\t' {
				sum |= 1
			}
		}
		text = append(data[:len(data):len(data)], '\n')
		if crc32.Checksum(text, castagnoli) != sum {
			return nil, errors.New("its checksum does not hold")
		}
		return text, nil
	}
	return nil, errors.New("its checksum is cut")
}
