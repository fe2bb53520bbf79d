package group

import (
	"slices"

	"kaas/coord"
	"kaas/group/topicregex"
	"kaas/meta"
)

// knowsRegex: the group has resolved it, so it was read before.
func (g *group) knowsRegex(regex string) bool {
	return g != nil && g.consumer != nil && g.consumer.regexes[regex] != nil
}

// goOn takes the next step of the group's searches.
func (m *Machine) goOn(t *coord.Turn, g *group, c *consumerGroup) {
	if g.consumer != c || m.groups[g.id] != g || len(c.seen.searches) == 0 {
		return
	}
	s := c.seen.searches[0]
	if s.Step() {
		c.seen.searches = c.seen.searches[1:]
		used := slices.ContainsFunc(c.ordered(), func(mem *consumerMember) bool { return mem.regex() == s.Regex })
		if known := c.regexes[s.Regex]; used && (known == nil || !slices.Equal(known.topics, s.Topics)) {
			if m.emitConsumer(t, g, consumerRegexRecord(g.id, s.Regex, s.Topics, t.WallMs, t.WallMs)) == nil {
				c.seen.image = nil // the next heartbeat looks at the hash
			}
		}
	}
	if len(c.seen.searches) > 0 {
		t.Schedule(&c.seen.search, t.NowMs)
	}
}

// find searches; false: it takes more than a turn, and the answer comes later.
func (m *Machine) find(t *coord.Turn, g *group, regex string, image *meta.Image, allowed TopicFilter) (topics []string, ok bool) {
	c := g.consumer
	if slices.ContainsFunc(c.seen.searches, func(s *topicregex.Search) bool { return s.Regex == regex && s.Image == image }) {
		return nil, false
	}
	s := topicregex.NewSearch(regex, image, allowed)
	if s.Step() {
		return s.Topics, true
	}
	c.seen.searches = append(slices.DeleteFunc(c.seen.searches, func(old *topicregex.Search) bool { return old.Regex == regex }), s)
	if c.seen.search.Fire == nil {
		c.seen.search.Fire = func(t *coord.Turn) { m.goOn(t, g, c) }
	}
	t.Schedule(&c.seen.search, t.NowMs)
	return nil, false
}
