package meta

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// Raw is a mapping of a spec as JSON text, for parts that may be large and that few
// read: text takes a tenth of the memory of a tree, and copies of an object share it.
// "" is none.
//
// Text that came through UnmarshalJSON or RawOf is canonical: without spaces, keys in
// order. So two are the same mapping exactly if they are equal.
type Raw string

// RawOf is the text of a mapping.
func RawOf(mapping any) (Raw, error) {
	text, err := json.Marshal(mapping)
	if err != nil {
		return "", err
	}
	var raw Raw
	err = raw.UnmarshalJSON(text)
	return raw, err
}

// MarshalJSON implements json.Marshaler.
func (r Raw) MarshalJSON() ([]byte, error) {
	if r == "" {
		return []byte("null"), nil
	}
	return []byte(r), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Raw) UnmarshalJSON(text []byte) error {
	text = bytes.TrimSpace(text)
	switch {
	case string(text) == "null":
		*r = ""
		return nil
	case len(text) == 0 || text[0] != '{':
		return &json.UnmarshalTypeError{Value: valueKind(text), Type: reflect.TypeFor[map[string]any]()} // the decoder adds the field
	case !canonical(text):
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		var tree map[string]any
		err := decoder.Decode(&tree)
		if err == nil {
			text, err = json.Marshal(tree)
		}
		if err != nil {
			return err
		}
	}
	*r = Raw(text)
	return nil
}

// valueKind is encoding/json's name of a value that is no object.
func valueKind(text []byte) string {
	switch {
	case len(text) == 0 || text[0] == '"':
		return "string"
	case text[0] == '[':
		return "array"
	case text[0] == 't' || text[0] == 'f':
		return "bool"
	}
	return "number " + string(text)
}

// canonical says whether valid JSON has no spaces between tokens, the keys of each
// mapping in order and once, and no escapes: then json.Marshal of its tree would write
// the same. false is no claim; who gets it goes the long way.
func canonical(text []byte) bool {
	var open []level
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ' ', '\t', '\r', '\n':
			return false
		case '{', '[':
			open = append(open, level{isMapping: c == '{', atKey: c == '{'})
		case '}', ']':
			if len(open) == 0 {
				return false
			}
			open = open[:len(open)-1]
		case ',':
			if len(open) == 0 {
				return false
			}
			open[len(open)-1].atKey = open[len(open)-1].isMapping
		case '"':
			end := i + 1
			for ; end < len(text) && text[end] != '"'; end++ {
				if !plainByte(text[end]) {
					return false
				}
			}
			if len(open) > 0 && open[len(open)-1].atKey {
				at, key := &open[len(open)-1], text[i+1:end]
				if at.keyed && bytes.Compare(key, at.last) <= 0 {
					return false
				}
				at.last, at.keyed, at.atKey = key, true, false
			}
			i = end
		}
	}
	return true
}

// level is an open mapping or list of canonical.
type level struct {
	isMapping, atKey, keyed bool
	last                    []byte // the latest key
}

// plainByte says that json.Marshal writes the byte of a text as it is.
func plainByte(c byte) bool {
	return c >= ' ' && c < 0x80 && c != '\\' && c != '<' && c != '>' && c != '&'
}
