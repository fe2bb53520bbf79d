package group

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"

	"kaas/coord"
	"kaas/internal/limits"
	"kaas/meta"
)

// compileRegex reads an expression of RE2's syntax. Topics must match as a whole.
func compileRegex(expression string) (*regexp.Regexp, error) {
	if len(expression) > limits.GroupRegexBytes {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(expression), limits.GroupRegexBytes)
	}
	parsed, err := syntax.Parse(expression, syntax.Perl) // by itself: "a)(b" must not be helped by what is put around it
	if err != nil {
		return nil, err
	}
	if size := regexSize(parsed); size > limits.GroupRegexSize {
		return nil, fmt.Errorf("written out it has %d parts, at most %d are allowed", size, limits.GroupRegexSize)
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
}

// regexSize is how large the expression is with its repetitions written out: what a
// match costs for each character of a name, at the worst.
func regexSize(r *syntax.Regexp) int {
	size := 1
	switch r.Op {
	case syntax.OpLiteral:
		size = len(r.Rune)
	case syntax.OpRepeat:
		size = max(r.Min, r.Max, 1)
	}
	parts := 0
	for _, sub := range r.Sub {
		parts += regexSize(sub)
	}
	if r.Op == syntax.OpRepeat {
		return min(size*parts, 1<<30)
	}
	return min(size+parts, 1<<30)
}

// knowsRegex: the group has resolved it, so it was read before.
func (g *group) knowsRegex(regex string) bool {
	return g != nil && g.consumer != nil && g.consumer.regexes[regex] != nil
}

// matching is the search of the topics that an expression matches, in turns of a
// bounded cost: nobody's expression may hold up the other groups of the shard.
type matching struct {
	regex    string
	compiled *regexp.Regexp // nil: it cannot be read, and matches nothing
	size     int
	image    *meta.Image
	allowed  TopicFilter
	next     int // of the image's topics
	topics   []string
}

func newMatching(regex string, image *meta.Image, allowed TopicFilter) *matching {
	s := &matching{regex: regex, image: image, allowed: allowed}
	// An expression of a newer syntax, from another broker's log, matches nothing.
	if compiled, err := compileRegex(regex); err == nil {
		s.compiled = compiled
		if parsed, err := syntax.Parse(regex, syntax.Perl); err == nil {
			s.size = regexSize(parsed)
		}
	}
	return s
}

// step goes on as far as one turn may; true: the topics are complete and sorted.
func (s *matching) step() bool {
	all := s.image.Topics()
	for left := limits.GroupRegexTurnSteps; s.compiled != nil && s.next < len(all); s.next++ {
		if left <= 0 {
			return false
		}
		name := all[s.next].Name
		left -= s.size * (len(name) + 1)
		if s.compiled.MatchString(name) && s.allowed(name) {
			s.topics = append(s.topics, name)
		}
	}
	slices.Sort(s.topics)
	return true
}

// goOn takes the next step of the group's searches.
func (m *Machine) goOn(t *coord.Turn, g *group, c *consumerGroup) {
	if g.consumer != c || m.groups[g.id] != g || len(c.seen.searches) == 0 {
		return
	}
	s := c.seen.searches[0]
	if s.step() {
		c.seen.searches = c.seen.searches[1:]
		used := slices.ContainsFunc(c.ordered(), func(mem *consumerMember) bool { return mem.regex() == s.regex })
		if known := c.regexes[s.regex]; used && (known == nil || !slices.Equal(known.topics, s.topics)) {
			if m.emitConsumer(t, g, consumerRegexRecord(g.id, s.regex, s.topics, t.WallMs, t.WallMs)) == nil {
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
	if slices.ContainsFunc(c.seen.searches, func(s *matching) bool { return s.regex == regex && s.image == image }) {
		return nil, false
	}
	s := newMatching(regex, image, allowed)
	if s.step() {
		return s.topics, true
	}
	c.seen.searches = append(slices.DeleteFunc(c.seen.searches, func(old *matching) bool { return old.regex == regex }), s)
	if c.seen.search.Fire == nil {
		c.seen.search.Fire = func(t *coord.Turn) { m.goOn(t, g, c) }
	}
	t.Schedule(&c.seen.search, t.NowMs)
	return nil, false
}
