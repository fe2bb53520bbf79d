package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

const (
	invalidConfig = 40 // Errors.INVALID_CONFIG
	tooFewBrokers = 38 // Errors.INVALID_REPLICATION_FACTOR: a controller says so while its broker has no lease, as at its start
)

// ErrInvalidConfig: the broker does not take a setting of a topic.
var ErrInvalidConfig = errors.New("a setting is refused")

// CreateTopic makes the load's topic and waits until every partition has a
// leader and takes a fetch.
func (d *Driver) CreateTopic(configs [][2]string) error {
	conn, err := net.Dial("tcp", d.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		return err
	}
	// The batches' time is fixed and long ago: retention would take them.
	configs = append(slices.Clone(configs), [2]string{"retention.ms", "-1"})
	answer := make([]byte, 4096)
	var code int16
	for deadline := time.Now().Add(Patience); ; time.Sleep(50 * time.Millisecond) {
		if _, err := conn.Write(CreateTopicFrame(d.Topic, int32(d.Partitions), configs)); err != nil {
			return err
		}
		if answer, err = ReadAnswer(conn, answer); err != nil {
			return err
		}
		// length, correlation id, throttle time, number of topics, name
		code = int16(binary.BigEndian.Uint16(answer[16+2+len(d.Topic):]))
		if code != tooFewBrokers || time.Now().After(deadline) {
			break
		}
	}
	switch code {
	case 0:
	case invalidConfig:
		return fmt.Errorf("create topic %s: %w", d.Topic, ErrInvalidConfig)
	default:
		return fmt.Errorf("create topic %s: error %d", d.Topic, code)
	}
	request := MetadataFrame(d.Topic, false)
	for deadline := time.Now().Add(Patience); ; {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if answer, err = ReadAnswer(conn, answer); err != nil {
			return err
		}
		if Led(answer, d.Topic, d.Partitions) {
			return d.awaitServed(conn, answer)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("topic %s is created and not served", d.Topic)
		}
		time.Sleep(time.Millisecond)
	}
}

// DeleteTopic removes the load's topic; the broker may take its time for the files.
func (d *Driver) DeleteTopic() error {
	conn, err := net.Dial("tcp", d.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		return err
	}
	if _, err := conn.Write(deleteTopicFrame(d.Topic)); err != nil {
		return err
	}
	answer, err := ReadAnswer(conn, make([]byte, 4096))
	if err != nil {
		return err
	}
	// length, correlation id, throttle time, number of topics, name
	if code := int16(binary.BigEndian.Uint16(answer[16+2+len(d.Topic):])); code != 0 {
		return fmt.Errorf("delete topic %s: error %d", d.Topic, code)
	}
	return nil
}

// awaitServed fetches from all partitions until none answers with an error:
// Kafka's metadata name a leader before it has taken its place.
func (d *Driver) awaitServed(conn net.Conn, answer []byte) error {
	request, _ := FetchFrame(d.Topic, dealt(d.Partitions, 1, 0), 1, 0)
	binary.BigEndian.PutUint32(request[14+len(clientID)+4:], 0) // answer at once
	for deadline := time.Now().Add(Patience); ; {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		var err error
		if answer, err = ReadAnswer(conn, answer); err != nil {
			return err
		}
		if err = d.checkFetch(answer, d.next[0]); err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("topic %s is created and not served: %w", d.Topic, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Led tells whether a Metadata answer (version 4) of one topic shows it
// without errors and with all partitions.
func Led(answer []byte, topic string, partitions int) bool {
	be := binary.BigEndian
	skipString := func(at int) int { return at + 2 + int(max(int16(be.Uint16(answer[at:])), 0)) }
	at := 12
	brokers := int(be.Uint32(answer[at:]))
	at += 4
	for range brokers {
		at = skipString(skipString(at+4) + 4) // id, host, port, rack
	}
	at = skipString(at) + 4 // cluster id, controller
	if be.Uint32(answer[at:]) != 1 || be.Uint16(answer[at+4:]) != 0 {
		return false
	}
	at = skipString(at+6) + 1 // error, name, internal
	count := int(be.Uint32(answer[at:]))
	at += 4
	if count != partitions {
		return false
	}
	for range count {
		if be.Uint16(answer[at:]) != 0 || int32(be.Uint32(answer[at+6:])) < 0 {
			return false
		}
		at += 10
		for range 2 { // replicas, in sync
			at += 4 + 4*int(be.Uint32(answer[at:]))
		}
	}
	return true
}
