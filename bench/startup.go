package bench

import (
	"errors"
	"fmt"
	"io"
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
			err = rig.FirstProduce(s.address, l)
		}
		acknowledged = append(acknowledged, milliseconds(time.Since(s.Started)))
		if err == nil {
			var resident, anonymous int64
			resident, anonymous, err = idleMemory(s)
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

// idleMemory is what is resident when nothing has been asked for a while. The broker gives back the pages of its start a
// second after it, later on a busy machine: so it is read until it falls no more.
func idleMemory(s *subject) (resident, anonymous int64, err error) {
	const first, step, most = 1500 * time.Millisecond, 250 * time.Millisecond, 5 * time.Second
	time.Sleep(first)
	for begin, last := time.Now(), int64(0); ; last = resident {
		if resident, anonymous, err = s.Memory(); err != nil || last > 0 && resident >= last || time.Since(begin) > most {
			return resident, anonymous, err
		}
		time.Sleep(step)
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
