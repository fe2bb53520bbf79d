package topicregex

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"

	"kaas/internal/limits"
	"kaas/meta"
)

// Compile reads an expression of RE2's syntax. Topics must match as a whole.
func Compile(expression string) (*regexp.Regexp, error) {
	if len(expression) > limits.GroupRegexBytes {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(expression), limits.GroupRegexBytes)
	}
	parsed, err := syntax.Parse(expression, syntax.Perl) // by itself: "a)(b" must not be helped by what is put around it
	if err != nil {
		return nil, err
	}
	if parts := size(parsed); parts > limits.GroupRegexSize {
		return nil, fmt.Errorf("written out it has %d parts, at most %d are allowed", parts, limits.GroupRegexSize)
	}
	return regexp.Compile(`\A(?:` + expression + `)\z`)
}

// size is how large the expression is with its repetitions written out: what a
// match costs for each character of a name, at the worst.
func size(r *syntax.Regexp) int {
	own := 1
	switch r.Op {
	case syntax.OpLiteral:
		own = len(r.Rune)
	case syntax.OpRepeat:
		own = max(r.Min, r.Max, 1)
	}
	parts := 0
	for _, sub := range r.Sub {
		parts += size(sub)
	}
	if r.Op == syntax.OpRepeat {
		return min(own*parts, 1<<30)
	}
	return min(own+parts, 1<<30)
}

// Search looks for the topics that an expression matches, in steps of a bounded
// cost: nobody's expression may hold up the other groups of a shard. Owner: whoever
// calls Step.
type Search struct {
	Regex string
	Image *meta.Image
	// Topics that were found so far, all and sorted after the last step.
	Topics []string

	compiled *regexp.Regexp // nil: it cannot be read, and matches nothing
	size     int
	allowed  func(topic string) bool
	next     int // of the image's topics
}

// NewSearch begins a search among the topics that allowed lets through.
func NewSearch(regex string, image *meta.Image, allowed func(topic string) bool) *Search {
	s := &Search{Regex: regex, Image: image, allowed: allowed}
	// An expression of a newer syntax, from another broker's log, matches nothing.
	if compiled, err := Compile(regex); err == nil {
		s.compiled = compiled
		if parsed, err := syntax.Parse(regex, syntax.Perl); err == nil {
			s.size = size(parsed)
		}
	}
	return s
}

// Step goes on as far as one turn may; true: the topics are complete and sorted.
func (s *Search) Step() bool {
	all := s.Image.Topics()
	for left := limits.GroupRegexTurnSteps; s.compiled != nil && s.next < len(all); s.next++ {
		if left <= 0 {
			return false
		}
		name := all[s.next].Name
		left -= s.size * (len(name) + 1)
		if s.compiled.MatchString(name) && s.allowed(name) {
			s.Topics = append(s.Topics, name)
		}
	}
	slices.Sort(s.Topics)
	return true
}
