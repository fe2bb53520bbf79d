package consumerlog

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
)

// valueVersion is the only version of all these values.
const valueVersion = 0

// Group is ConsumerGroupMetadataValue.
type Group struct {
	Epoch int32
	// MetadataHash stands for the topics that the group subscribes to, with their ids
	// and partition counts; another hash means that the plan is old. 0: unknown.
	MetadataHash int64
}

// Member is ConsumerGroupMemberMetadataValue.
type Member struct {
	InstanceID         *string
	RackID             *string
	ClientID           string
	ClientHost         string
	Topics             []string
	Regex              *string
	RebalanceTimeoutMs int32
	Assignor           *string
	// Classic is set for a member that speaks the classic protocol.
	Classic *Classic
}

// Equal says whether both are the same record.
func (m *Member) Equal(o *Member) bool {
	return m.ClientID == o.ClientID && m.ClientHost == o.ClientHost && m.RebalanceTimeoutMs == o.RebalanceTimeoutMs &&
		sameText(m.InstanceID, o.InstanceID) && sameText(m.RackID, o.RackID) && sameText(m.Assignor, o.Assignor) && sameText(m.Regex, o.Regex) &&
		slices.Equal(m.Topics, o.Topics) && m.Classic.equal(o.Classic)
}

func sameText(a, b *string) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func (c *Classic) equal(o *Classic) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.SessionTimeoutMs == o.SessionTimeoutMs && slices.EqualFunc(c.Protocols, o.Protocols, func(x, y Protocol) bool {
		return x.Name == y.Name && bytes.Equal(x.Metadata, y.Metadata)
	})
}

// Classic is what a member of the classic protocol said in JoinGroup.
type Classic struct {
	SessionTimeoutMs int32
	Protocols        []Protocol
}

// Protocol is an assignor of the client's with its subscription.
type Protocol struct {
	Name     string
	Metadata []byte
}

// Target is ConsumerGroupTargetAssignmentMetadataValue.
type Target struct {
	Epoch int32
	// TimestampMs is when the plan was made (KIP-1263); 0: unknown.
	TimestampMs int64
}

// TopicPartitions are partitions of one topic. Epochs is as long as Partitions, or nil.
type TopicPartitions struct {
	TopicID    [16]byte
	Partitions []int32
	// Epochs at which the member was given each partition (KIP-1251); only in Current.
	Epochs []int32
}

// Current is ConsumerGroupCurrentMemberAssignmentValue.
type Current struct {
	Epoch         int32
	PreviousEpoch int32
	State         int8
	Assigned      []TopicPartitions
	Revoking      []TopicPartitions
}

// Regex is ConsumerGroupRegularExpressionValue.
type Regex struct {
	Topics []string
	// Version of the metadata that it was resolved with.
	Version     int64
	TimestampMs int64
}

// Append encodes the value.
func (v *Group) Append(dst []byte) []byte {
	dst = kbin.AppendInt16(dst, valueVersion)
	dst = kbin.AppendInt32(dst, v.Epoch)
	return appendInt64Tag(dst, v.MetadataHash)
}

// ReadGroup decodes one.
func ReadGroup(src []byte) (*Group, error) {
	d := newDecoder(src)
	v := &Group{Epoch: d.Int32()}
	d.tags(func(tag uint32, r *decoder) {
		if tag == 0 {
			v.MetadataHash = r.Int64()
		}
	})
	return v, d.end("group metadata")
}

// Append encodes the value.
func (v *Member) Append(dst []byte) []byte {
	dst = kbin.AppendInt16(dst, valueVersion)
	dst = kbin.AppendCompactNullableString(dst, v.InstanceID)
	dst = kbin.AppendCompactNullableString(dst, v.RackID)
	dst = kbin.AppendCompactString(dst, v.ClientID)
	dst = kbin.AppendCompactString(dst, v.ClientHost)
	dst = appendStrings(dst, v.Topics)
	dst = kbin.AppendCompactNullableString(dst, v.Regex)
	dst = kbin.AppendInt32(dst, v.RebalanceTimeoutMs)
	dst = kbin.AppendCompactNullableString(dst, v.Assignor)
	if v.Classic == nil {
		return append(dst, 0)
	}
	return appendTag(dst, v.Classic.append(nil))
}

// append encodes the struct as a nullable one: a byte that says that it is there.
func (c *Classic) append(dst []byte) []byte {
	dst = kbin.AppendInt8(dst, 1)
	dst = kbin.AppendInt32(dst, c.SessionTimeoutMs)
	dst = kbin.AppendCompactArrayLen(dst, len(c.Protocols))
	for i := range c.Protocols {
		dst = kbin.AppendCompactString(dst, c.Protocols[i].Name)
		dst = kbin.AppendCompactBytes(dst, c.Protocols[i].Metadata)
		dst = append(dst, 0)
	}
	return append(dst, 0)
}

// ReadMember decodes one.
func ReadMember(src []byte) (*Member, error) {
	d := newDecoder(src)
	v := &Member{InstanceID: d.CompactNullableString(), RackID: d.CompactNullableString(), ClientID: d.CompactString(), ClientHost: d.CompactString()}
	v.Topics = d.strings()
	v.Regex = d.CompactNullableString()
	v.RebalanceTimeoutMs = d.Int32()
	v.Assignor = d.CompactNullableString()
	d.tags(func(tag uint32, r *decoder) {
		if tag == 0 {
			v.Classic = r.classic()
		}
	})
	return v, d.end("member metadata")
}

func (d *decoder) classic() *Classic {
	if d.Int8() < 0 {
		return nil
	}
	c := &Classic{SessionTimeoutMs: d.Int32()}
	for range d.length(3) {
		p := Protocol{Name: d.CompactString()}
		p.Metadata = append([]byte{}, d.CompactBytes()...)
		d.tags(nil)
		c.Protocols = append(c.Protocols, p)
	}
	d.tags(nil)
	return c
}

// Append encodes the value.
func (v *Target) Append(dst []byte) []byte {
	dst = kbin.AppendInt16(dst, valueVersion)
	dst = kbin.AppendInt32(dst, v.Epoch)
	return appendInt64Tag(dst, v.TimestampMs)
}

// ReadTarget decodes one.
func ReadTarget(src []byte) (*Target, error) {
	d := newDecoder(src)
	v := &Target{Epoch: d.Int32()}
	d.tags(func(tag uint32, r *decoder) {
		if tag == 0 {
			v.TimestampMs = r.Int64()
		}
	})
	return v, d.end("target assignment")
}

// AppendTargetMember encodes ConsumerGroupTargetAssignmentMemberValue.
func AppendTargetMember(dst []byte, topics []TopicPartitions) []byte {
	dst = kbin.AppendInt16(dst, valueVersion)
	return append(appendTopics(dst, topics), 0)
}

// ReadTargetMember decodes one.
func ReadTargetMember(src []byte) ([]TopicPartitions, error) {
	d := newDecoder(src)
	topics := d.topics()
	d.tags(nil)
	return topics, d.end("target assignment of a member")
}

// Append encodes the value.
func (v *Current) Append(dst []byte) []byte {
	dst = kbin.AppendInt16(dst, valueVersion)
	dst = kbin.AppendInt32(dst, v.Epoch)
	dst = kbin.AppendInt32(dst, v.PreviousEpoch)
	dst = kbin.AppendInt8(dst, v.State)
	dst = appendTopics(dst, v.Assigned)
	dst = appendTopics(dst, v.Revoking)
	return append(dst, 0)
}

// ReadCurrent decodes one.
func ReadCurrent(src []byte) (*Current, error) {
	d := newDecoder(src)
	v := &Current{Epoch: d.Int32(), PreviousEpoch: d.Int32(), State: d.Int8(), Assigned: d.topics(), Revoking: d.topics()}
	d.tags(nil)
	return v, d.end("current assignment")
}

// Append encodes the value.
func (v *Regex) Append(dst []byte) []byte {
	dst = kbin.AppendInt16(dst, valueVersion)
	dst = appendStrings(dst, v.Topics)
	dst = kbin.AppendInt64(dst, v.Version)
	dst = kbin.AppendInt64(dst, v.TimestampMs)
	return append(dst, 0)
}

// ReadRegex decodes one.
func ReadRegex(src []byte) (*Regex, error) {
	d := newDecoder(src)
	v := &Regex{Topics: d.strings(), Version: d.Int64(), TimestampMs: d.Int64()}
	d.tags(nil)
	return v, d.end("regular expression")
}

func appendStrings(dst []byte, list []string) []byte {
	dst = kbin.AppendCompactArrayLen(dst, len(list))
	for _, s := range list {
		dst = kbin.AppendCompactString(dst, s)
	}
	return dst
}

func appendInts(dst []byte, list []int32) []byte {
	dst = kbin.AppendCompactArrayLen(dst, len(list))
	for _, n := range list {
		dst = kbin.AppendInt32(dst, n)
	}
	return dst
}

func appendTopics(dst []byte, topics []TopicPartitions) []byte {
	dst = kbin.AppendCompactArrayLen(dst, len(topics))
	for i := range topics {
		dst = kbin.AppendUuid(dst, topics[i].TopicID)
		dst = appendInts(dst, topics[i].Partitions)
		if topics[i].Epochs == nil {
			dst = append(dst, 0)
		} else {
			dst = appendTag(dst, appendInts(nil, topics[i].Epochs))
		}
	}
	return dst
}

// appendTag writes a list of tagged fields that has tag 0 only.
func appendTag(dst, value []byte) []byte {
	dst = append(dst, 1, 0)
	dst = kbin.AppendUvarint(dst, uint32(len(value)))
	return append(dst, value...)
}

// appendInt64Tag writes tag 0, or no tags when it has its default.
func appendInt64Tag(dst []byte, n int64) []byte {
	if n == 0 {
		return append(dst, 0)
	}
	return appendTag(dst, kbin.AppendInt64(nil, n))
}

// decoder reads one value; kbin.Reader remembers the first mistake.
type decoder struct {
	kbin.Reader
	version int16
}

func newDecoder(src []byte) *decoder {
	d := &decoder{Reader: kbin.Reader{Src: src}}
	d.version = d.Int16()
	return d
}

// end says whether the value was whole.
func (d *decoder) end(what string) error {
	if d.Ok() && d.version != valueVersion {
		return fmt.Errorf("consumerlog: %s value version %d, known is %d", what, d.version, valueVersion)
	}
	if err := d.Complete(); err != nil {
		return fmt.Errorf("consumerlog: %s value: %w", what, err)
	}
	return nil
}

// bad makes everything after it fail.
func (d *decoder) bad() { d.Span(-1) }

// length of an array whose elements take at least that many bytes; 0 for one that
// cannot be.
func (d *decoder) length(elementBytes int) int {
	n := int(d.CompactArrayLen())
	if n < 0 || n > len(d.Src)/elementBytes {
		if n >= 0 {
			d.bad()
		}
		return 0
	}
	return n
}

func (d *decoder) strings() []string {
	n := d.length(1)
	list := make([]string, 0, n)
	for range n {
		list = append(list, d.CompactString())
	}
	return list
}

func (d *decoder) ints() []int32 {
	n := d.length(4)
	list := make([]int32, 0, n)
	for range n {
		list = append(list, d.Int32())
	}
	return list
}

func (d *decoder) topics() []TopicPartitions {
	n := d.length(18)
	list := make([]TopicPartitions, 0, n)
	for range n {
		t := TopicPartitions{TopicID: d.Uuid(), Partitions: d.ints()}
		d.tags(func(tag uint32, r *decoder) {
			if tag == 0 {
				t.Epochs = r.ints()
			}
		})
		if t.Epochs != nil && len(t.Epochs) != len(t.Partitions) {
			d.bad()
		}
		list = append(list, t)
	}
	return list
}

// tags reads the tagged fields of a struct; each gets a decoder of its own bytes.
func (d *decoder) tags(visit func(tag uint32, r *decoder)) {
	for n := d.Uvarint(); n > 0 && d.Ok(); n-- {
		tag, size := d.Uvarint(), d.Uvarint()
		if int64(size) > int64(len(d.Src)) {
			d.bad()
			return
		}
		field := &decoder{Reader: kbin.Reader{Src: d.Span(int(size))}}
		if visit != nil {
			visit(tag, field)
			if !field.Ok() {
				d.bad()
			}
		}
	}
}
