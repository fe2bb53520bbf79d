package group

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"

	"kaas/coord"
	"kaas/group/assignor"
	"kaas/group/consumerlog"
	"kaas/group/topicregex"
	"kaas/internal/limits"
	"kaas/meta"
)

// seenTopics is what a group's hash was last compared with; volatile.
type seenTopics struct {
	image *meta.Image // nil: nothing yet
	// matched is what the regular expressions were last resolved with, at matchedMs; nil:
	// not yet.
	matched   *meta.Image
	matchedMs int64
	// searches that take more than a turn, the one that is under way first.
	searches []*topicregex.Search
	search   coord.Timer
}

// TopicFilter says whether who asks may know of a topic. Nil: there is nobody to ask
// for, so no regular expression is resolved.
type TopicFilter func(topic string) bool

// noTopics is what a machine sees that was given no image.
var noTopics = meta.NewImage("", 0, 0, nil, nil)

// image is the newest one: an immutable value. Nothing that is durable depends on
// it but through records.
func (m *Machine) image() *meta.Image {
	if m.config.Image == nil {
		return noTopics
	}
	if image := m.config.Image(); image != nil {
		return image
	}
	return noTopics
}

// refreshRegexes records what the group's regular expressions match now: new ones
// at once, the others after a change of the topics, at most once in
// limits.GroupRegexRefreshMs, and every group.consumer.regex.refresh.interval.ms,
// because rights may have changed. True: something is different.
func (m *Machine) refreshRegexes(t *coord.Turn, g *group, image *meta.Image, subscriptionChanged bool, allowed TopicFilter) (changed bool) {
	c := g.consumer
	sinceMs := t.NowMs - c.seen.matchedMs
	all := c.seen.matched == nil || sinceMs >= m.config.RegexRefreshIntervalMs || c.seen.matched != image && sinceMs >= limits.GroupRegexRefreshMs
	if !subscriptionChanged && !all {
		return false
	}
	used := map[string]bool{}
	for _, mem := range c.members {
		if regex := mem.regex(); regex != "" {
			used[regex] = true
		}
	}
	if len(used) == 0 && len(c.regexes) == 0 {
		return false
	}
	var records []coord.Record
	for _, regex := range slices.Sorted(maps.Keys(used)) {
		if known := c.regexes[regex]; allowed != nil && (known == nil || all) {
			topics, ok := m.find(t, g, regex, image, allowed)
			if ok && (known == nil || !slices.Equal(known.topics, topics)) {
				records = append(records, consumerRegexRecord(g.id, regex, topics, t.WallMs, t.WallMs))
			}
		}
	}
	for regex := range c.regexes {
		if !used[regex] {
			records = append(records, consumerTombstone(consumerlog.KindRegex, g.id, regex))
		}
	}
	if all && allowed != nil {
		c.seen.matched, c.seen.matchedMs = image, t.NowMs
	}
	if len(records) == 0 {
		return false
	}
	slices.SortFunc(records, func(a, b coord.Record) int { return slices.Compare(a.Key, b.Key) })
	if err := t.Emit(records...); err != nil {
		m.logger.Error("the topics of a regular expression cannot be recorded; raise max.message.bytes of the offsets topic", "group", g.id, "error", err)
		return false
	}
	return true
}

// wants says whether the member subscribes to the topic and it exists.
func (c *consumerGroup) wants(mem *consumerMember, image *meta.Image, id assignor.TopicID) bool {
	topic := image.TopicByID(meta.UUID(id))
	if topic == nil {
		return false
	}
	_, ok := slices.BinarySearch(mem.said.Topics, topic.Name) // sorted by replaySaid
	if r := c.regexes[mem.regex()]; !ok && r != nil {
		_, ok = slices.BinarySearch(r.topics, topic.Name)
	}
	return ok
}

// topicsOf are the ids of what a member subscribes to and what exists, sorted.
func (c *consumerGroup) topicsOf(mem *consumerMember, image *meta.Image) []assignor.TopicID {
	ids := make([]assignor.TopicID, 0, len(mem.said.Topics))
	add := func(names []string) {
		for _, name := range names {
			if topic := image.Topic(name); topic != nil {
				ids = append(ids, assignor.TopicID(topic.ID))
			}
		}
	}
	add(mem.said.Topics)
	if r := c.regexes[mem.regex()]; r != nil {
		add(r.topics)
	}
	slices.SortFunc(ids, assignor.CompareTopics)
	return slices.Compact(ids)
}

// subscriptionHash stands for the topics that the group subscribes to: their names,
// ids and partition counts. Kafka hashes the same facts in another way; a log that
// it has written costs one new plan. Who is about to leave does not count.
func (c *consumerGroup) subscriptionHash(image *meta.Image, leaving []*consumerMember) int64 {
	var names []string
	for name, members := range c.names {
		for _, mem := range leaving {
			if slices.Contains(mem.said.Topics, name) {
				members--
			}
		}
		if members > 0 {
			names = append(names, name)
		}
	}
	for regex, r := range c.regexes {
		if len(leaving) == 0 || c.stillUsed(regex, leaving) {
			names = append(names, r.topics...)
		}
	}
	slices.Sort(names)
	hash := fnv.New64a()
	found := false
	var count [4]byte
	for _, name := range slices.Compact(names) {
		topic := image.Topic(name)
		if topic == nil {
			continue
		}
		found = true
		binary.BigEndian.PutUint32(count[:], uint32(len(topic.Partitions)))
		_, _ = hash.Write([]byte(name)) // a hash never fails
		_, _ = hash.Write(topic.ID[:])
		_, _ = hash.Write(count[:])
	}
	if !found {
		return 0
	}
	return int64(hash.Sum64())
}

// stillUsed: a member other than those that leave has the expression.
func (c *consumerGroup) stillUsed(regex string, leaving []*consumerMember) bool {
	for _, mem := range c.members {
		if mem.regex() == regex && !slices.Contains(leaving, mem) {
			return true
		}
	}
	return false
}

// partitionCount of a topic; 0 when it does not exist.
func partitionCount(image *meta.Image) func(assignor.TopicID) int32 {
	return func(id assignor.TopicID) int32 {
		if topic := image.TopicByID(meta.UUID(id)); topic != nil {
			return int32(len(topic.Partitions))
		}
		return 0
	}
}
