package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"kaas/bench/rig"
)

// startUp measures from exec to the first accepted connection and to the
// first acknowledged produce with acks=all, on an empty directory. The topic
// is made by the Metadata request, as a client's first produce makes it.
func startUp(o options, out io.Writer) ([]figure, error) {
	var listening, ready, acknowledged, idle, idleAnonymous []float64
	for range o.Starts {
		if err := rig.WarmMemory(256 << 20); err != nil {
			return nil, err
		}
		l := rig.Load{Topic: "first", Partitions: 1, BatchBytes: 1 << 10, ValueBytes: 100, Acks: -1}
		s, err := startBroker(o, l)
		if err != nil {
			return nil, err
		}
		listening = append(listening, milliseconds(time.Since(s.Started)))
		took, err := awaitReady(s)
		ready = append(ready, milliseconds(took))
		if err == nil {
			err = firstProduce(s, l)
		}
		acknowledged = append(acknowledged, milliseconds(time.Since(s.Started)))
		if err == nil {
			// Idle: what is resident when nothing has been asked for a while. The broker
			// gives back the pages of its start a second after it.
			time.Sleep(1500 * time.Millisecond)
			var resident, anonymous int64
			resident, anonymous, err = s.Memory()
			idle = append(idle, float64(resident)/mib)
			idleAnonymous = append(idleAnonymous, float64(anonymous)/mib)
		}
		if err != nil {
			err = s.explain(err)
		}
		if err := errors.Join(err, s.close()); err != nil {
			return nil, err
		}
	}
	const scenario = "start-up"
	fmt.Fprintf(out, "%-24s ready %.1f ms, first produce %.1f ms, resident %.1f MiB\n", scenario, median(ready), median(acknowledged), median(idle))
	return []figure{
		newFigure(scenario, "kaas", "exec to listening", "ms", "", listening),
		newFigure(scenario, "kaas", "exec to ready", "ms", "/readyz, asked each half millisecond", ready).atMost(30),
		newFigure(scenario, "kaas", "exec to first acknowledged produce", "ms", "acks=all, empty directory, the topic is made on the way", acknowledged).atMost(60),
		newFigure(scenario, "kaas", "resident memory, idle", "MiB", "after one produce", idle).atMost(16),
		newFigure(scenario, "kaas", "anonymous memory, idle", "MiB", "after one produce", idleAnonymous),
	}, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// firstProduce asks for metadata until the topic has a leader, then produces.
func firstProduce(s *subject, l rig.Load) error {
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(rig.Patience)); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	request := rig.MetadataFrame(l.Topic, true)
	for deadline := time.Now().Add(rig.Patience); ; {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if answer, err = rig.ReadAnswer(conn, answer); err != nil {
			return err
		}
		if rig.Led(answer, l.Topic, l.Partitions) {
			break
		}
		if time.Now().After(deadline) {
			return errors.New("the topic was not made by asking for it")
		}
	}
	batch, _ := rig.MakeBatch(rand.New(rand.NewPCG(1, 1)), l.BatchBytes, l.ValueBytes)
	if _, err := conn.Write(rig.ProduceFrame(l.Topic, 0, l.Acks, batch)); err != nil {
		return err
	}
	if answer, err = rig.ReadAnswer(conn, answer); err != nil {
		return err
	}
	// length, correlation id, number of topics, topic, number of partitions, index
	at := 4 + 4 + 4 + 2 + len(l.Topic) + 4 + 4
	if code := int16(binary.BigEndian.Uint16(answer[at:])); code != 0 {
		return fmt.Errorf("the first produce was answered with error %d", code)
	}
	return nil
}
