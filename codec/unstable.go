package codec

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// deleteTopicsWithValidateOnly is the version of the DeleteTopicPolicy KIP: v6 with
// a boolean between the timeout and the tagged fields. kmsg knows v6 only.
const deleteTopicsWithValidateOnly = 7

// DecodeDeleteTopics decodes any version of DeleteTopics; into has v6 when the
// request has v7, whose reply has the shape of v6.
func (r *Request) DecodeDeleteTopics(into *kmsg.DeleteTopicsRequest) (validateOnly bool, err error) {
	if r.Version < deleteTopicsWithValidateOnly {
		return false, r.Decode(into)
	}
	reader := viewReader{body: r.Body}
	for range max(reader.count(true), 0) { // at most the bytes of the body
		reader.nullableText(true)
		reader.uuid()
		reader.skipTags(true)
	}
	reader.int32()
	at := reader.offset
	validateOnly = reader.int8() != 0
	if reader.bad {
		return false, fmt.Errorf("%w: DeleteTopics v%d", ErrMalformed, r.Version)
	}
	into.SetVersion(deleteTopicsWithValidateOnly - 1)
	return validateOnly, DecodeBody(into, slices.Concat(r.Body[:at], r.Body[at+1:]))
}
