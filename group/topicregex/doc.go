// Package topicregex reads the regular expressions by which members of consumer groups
// subscribe (KIP-848, RE2's syntax) and finds the topics that they match, both at a
// bounded cost: the shard that coordinates the group does it between other requests.
//
// What it is not: it knows no group and writes no record (package group). It has no
// goroutines and no locks.
package topicregex
