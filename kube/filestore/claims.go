package filestore

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"kaas/meta"
)

// Who was first. Of two resources for one name the older wins, so neither a file that
// was copied with its status nor an age that somebody wrote into one may make a
// newcomer the older:
//
//   - the journal's memory of when a resource was first seen counts before the
//     creationTimestamp in its file;
//   - a resource that comes while another one has its name is as old as its coming;
//   - of several files that come at once with the same topic id, it stays with the one
//     that the journal knows to have it, else with the oldest.
//
// Without a journal the files are all there is: then their ages, and names, decide.

// newcomers are the resources that one settling finds for the first time. Both sets are
// empty between two.
type newcomers struct {
	copies map[resourceKey]bool // their topic id is another's
	late   map[resourceKey]bool // their name is taken
}

// findNewcomers looks at the resources that are new, before any of them is published.
// +checklocks:s.writeMu
func (s *Store) findNewcomers(owners map[resourceKey]string) newcomers {
	found := newcomers{map[resourceKey]bool{}, map[resourceKey]bool{}}
	byID := map[meta.UUID][]*meta.KafkaTopic{}
	for key, path := range owners {
		if s.places[key] != nil {
			continue
		}
		file := s.files[path]
		object := file.documents[file.index(key)].object
		if s.claims[claimOf(object)] > 0 {
			found.late[key] = true
		}
		if topic, ok := object.(*meta.KafkaTopic); ok && !topic.Status.TopicID.IsZero() {
			byID[topic.Status.TopicID] = append(byID[topic.Status.TopicID], topic)
		}
	}
	for _, topics := range byID {
		if len(topics) == 1 {
			continue
		}
		heir, now := topics[0], s.options.Clock()
		for _, topic := range topics[1:] {
			if s.compareHeirs(topic, heir, now) < 0 {
				heir = topic
			}
		}
		for _, topic := range topics {
			found.copies[keyOf(topic)] = topic != heir
		}
	}
	return found
}

// compareHeirs orders topics that have one id in their files.
// +checklocks:s.writeMu
func (s *Store) compareHeirs(a, b *meta.KafkaTopic, now time.Time) int {
	agedA, knownA := s.asRemembered(a, now)
	agedB, knownB := s.asRemembered(b, now)
	switch {
	case knownA && !knownB:
		return -1
	case knownB && !knownA:
		return 1
	}
	return meta.CompareAge(agedA, agedB)
}

// asRemembered is a topic with the age that the journal knows; known: it also knows
// that the id in the file is the topic's.
// +checklocks:s.writeMu
func (s *Store) asRemembered(topic *meta.KafkaTopic, now time.Time) (aged *meta.KafkaTopic, known bool) {
	shallow := *topic
	if entry := s.journal.entries[keyOf(topic)]; entry != nil {
		shallow.Metadata.CreationTimestamp = entry.FirstSeen
		var status struct {
			TopicID meta.UUID `json:"topicId"`
		}
		known = json.Unmarshal(entry.Status, &status) == nil && status.TopicID == topic.Status.TopicID
	}
	if shallow.Metadata.CreationTimestamp.IsZero() {
		shallow.Metadata.CreationTimestamp = now
	}
	return &shallow, known
}

// claimOf is what only one resource can have, as far as the name goes: it is the same
// for topics whose names collide (meta.TopicNamesCollide).
func claimOf(object meta.Object) string {
	switch o := object.(type) {
	case *meta.KafkaTopic:
		return "topic " + strings.ReplaceAll(o.ClaimedName(), ".", "_")
	case *meta.KafkaUser:
		return "user " + o.KafkaName()
	case *meta.KafkaConfig:
		return string(o.Kind) + " " + o.KafkaName()
	case *meta.KafkaBrokerConfig:
		if o.Spec.BrokerID == nil {
			return "brokers"
		}
		return fmt.Sprint("broker ", *o.Spec.BrokerID)
	default:
		return "" // a Secret, or none
	}
}

// claimName counts the resource among those that claim its name.
// +checklocks:s.writeMu
func (s *Store) claimName(object meta.Object, by int) {
	claim := claimOf(object)
	if claim == "" {
		return
	}
	if s.claims[claim] += by; s.claims[claim] == 0 {
		delete(s.claims, claim)
	}
}
