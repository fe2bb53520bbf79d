package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// FirstProduce asks for metadata until the topic has a leader, then produces.
func FirstProduce(address string, l Load) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(Patience)); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	request := MetadataFrame(l.Topic, true)
	for deadline := time.Now().Add(Patience); ; {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if answer, err = ReadAnswer(conn, answer); err != nil {
			return err
		}
		if Led(answer, l.Topic, l.Partitions) {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("the topic was not made by asking for it")
		}
	}
	batch, _ := MakeBatch(rand.New(rand.NewPCG(1, 1)), l.BatchBytes, l.ValueBytes)
	if _, err := conn.Write(ProduceFrame(l.Topic, 0, l.Acks, batch)); err != nil {
		return err
	}
	if answer, err = ReadAnswer(conn, answer); err != nil {
		return err
	}
	// length, correlation id, number of topics, topic, number of partitions, index
	at := 4 + 4 + 4 + 2 + len(l.Topic) + 4 + 4
	if code := int16(binary.BigEndian.Uint16(answer[at:])); code != 0 {
		return fmt.Errorf("the first produce was answered with error %d", code)
	}
	return nil
}
