package config

import (
	"net/url"
	"regexp"
	"strings"
)

// ProfileTypes are the profiles that can be pushed, in Pyroscope's words.
var ProfileTypes = []string{"cpu", "alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "goroutine", "mutex_count", "mutex_duration", "block_count", "block_duration"}

func validURL(parsed any) bool {
	text := parsed.(string)
	if text == "" {
		return true
	}
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

func validLabels(parsed any) bool {
	for _, label := range parsed.([]string) {
		if name, value, ok := strings.Cut(label, "="); !ok || value == "" || !labelName.MatchString(name) {
			return false
		}
	}
	return true
}
