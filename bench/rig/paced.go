package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"kaas/bench/pacing"
)

// Paced sends frames at intended times, whatever the answers do, and counts
// each latency from its intended time: a server that stalls is charged for all
// that should have been sent meanwhile.
type Paced struct {
	Address     string
	Frames      [][]byte // sent in turn
	Check       func(answer []byte) error
	Connections int
	Rate        float64 // frames a second, all connections
	WarmUp      time.Duration
	Length      time.Duration
	Stop        <-chan struct{} // ends the run early; may be nil

	// Late is how long after its intended time each frame of the last run was sent, sorted: what of the latencies is the
	// sender's own, because it had no processor or because the socket took no more.
	Late Latencies

	// Follow is the topic whose partition 0 the frames go to, one record each; it is then read at the tail as well, from
	// offset Next on, which moves along. Empty: nobody reads. Delivered is how long after its intended time each record had
	// come to the reader, sorted, of the last run.
	Follow    string
	Next      int64
	Delivered Latencies
}

// Latencies are sorted.
type Latencies []time.Duration

// At returns the latency in milliseconds below which the share q lies.
func (l Latencies) At(q float64) float64 {
	if len(l) == 0 {
		return 0
	}
	return float64(l[min(int(q*float64(len(l))), len(l)-1)].Nanoseconds()) / 1e6
}

// Run returns the latencies after the warm-up. The sender and each reader
// have threads of their own that wait in system calls.
func (p *Paced) Run() (Latencies, error) {
	wires := make([]*wire, p.Connections)
	for i := range wires {
		var err error
		if wires[i], err = dialWire(p.Address); err != nil {
			return nil, err
		}
		defer wires[i].close()
	}
	var reader *wire
	if p.Follow != "" {
		var err error
		if reader, err = dialWire(p.Address); err != nil {
			return nil, err
		}
		defer reader.close()
	}
	runtime.GC() // what earlier runs left must not be collected in this one
	every := time.Duration(1e9 / p.Rate)
	most := int((p.WarmUp + p.Length) / every)
	skip := int(p.WarmUp / every)
	found := make([]Latencies, len(wires))
	failures := make([]error, len(wires)+2)
	sent := make(chan int, 1)
	begin := time.Now()
	var wg sync.WaitGroup
	for k, w := range wires {
		wg.Go(func() {
			found[k], failures[k] = p.receive(w, k, begin, every, skip, most)
			if failures[k] != nil && reader != nil {
				reader.hangUp() // what was refused never comes to it
			}
		})
	}
	if reader != nil {
		wg.Go(func() { failures[len(wires)+1] = p.follow(reader, begin, every, skip, most) })
	}
	wg.Go(func() {
		n, err := p.send(wires, begin, every, most)
		failures[len(wires)] = err
		sent <- n
		if n < most { // the readers wait for answers that nobody asked for
			time.Sleep(100 * time.Millisecond)
			for _, w := range wires {
				w.hangUp()
			}
			if reader != nil {
				reader.hangUp()
			}
		}
	})
	wg.Wait()
	if n := <-sent; n < most && failures[len(wires)] == nil {
		clear(failures) // the run was ended early, and so were the connections
	}
	all := slices.Concat(found...)
	slices.Sort(all)
	if err := errors.Join(failures...); err != nil {
		return nil, fmt.Errorf("at %.0f requests a second: %w", p.Rate, err)
	}
	return all, nil
}

// receive reads the answers of one connection, the k-th.
func (p *Paced) receive(w *wire, k int, begin time.Time, every time.Duration, skip, most int) (Latencies, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	found := make(Latencies, 0, most/p.Connections+1)
	for i := k; i < most; i += p.Connections {
		answer, err := w.next()
		if err == nil {
			err = p.Check(answer)
		}
		if err != nil {
			return found, err
		}
		if i >= skip {
			found = append(found, time.Since(begin)-time.Duration(i)*every)
		}
	}
	return found, nil
}

func (p *Paced) send(wires []*wire, begin time.Time, every time.Duration, most int) (int, error) {
	if err := pacing.Thread(); err != nil {
		return 0, err
	}
	p.Late = make(Latencies, 0, most)
	defer func() { slices.Sort(p.Late) }()
	for i := range most {
		select {
		case <-p.Stop:
			return i, nil
		default:
		}
		due := begin.Add(time.Duration(i) * every)
		pacing.Until(due)
		if i >= int(p.WarmUp/every) {
			p.Late = append(p.Late, time.Since(due))
		}
		if err := wires[i%len(wires)].write(p.Frames[i%len(p.Frames)]); err != nil {
			return i, err
		}
	}
	return most, nil
}

// follow reads each record as it comes.
func (p *Paced) follow(w *wire, begin time.Time, every time.Duration, skip, most int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	frame, at := FetchFrame(p.Follow, []int32{0}, 1<<20, 1<<20)
	d := &Driver{Load: Load{Topic: p.Follow}}
	p.Delivered = make(Latencies, 0, most)
	defer func() { slices.Sort(p.Delivered) }()
	next := []int64{p.Next}
	for i := 0; i < most; {
		putOffset(frame, at[0], next[0])
		if err := w.write(frame); err != nil {
			return fmt.Errorf("follow: %w", err)
		}
		if _, err := w.next(); err != nil {
			return fmt.Errorf("follow: %w", err)
		}
		now := time.Since(begin)
		before := next[0]
		if err := d.checkFetch(w.buf[:w.use], next); err != nil {
			return fmt.Errorf("follow: %w", err)
		}
		for range next[0] - before {
			if i >= skip {
				p.Delivered = append(p.Delivered, now-time.Duration(i)*every)
			}
			i++
		}
		p.Next = next[0]
	}
	return nil
}

// Timed sends a frame, waits for its answer, and so on, on one connection for
// a time: the latencies of a client that asks one question at a time.
func Timed(address string, frames [][]byte, check func([]byte) error, length time.Duration) (Latencies, error) {
	w, err := dialWire(address)
	if err != nil {
		return nil, err
	}
	defer w.close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runtime.GC()
	var found Latencies
	for i, begin := 0, time.Now(); time.Since(begin) < length; i++ {
		at := time.Now()
		if err := w.write(frames[i%len(frames)]); err != nil {
			return nil, err
		}
		answer, err := w.next()
		if err == nil {
			err = check(answer)
		}
		if err != nil {
			return nil, err
		}
		found = append(found, time.Since(at))
	}
	slices.Sort(found)
	return found, nil
}

// ProduceAnswer checks the answer of a produce to one partition of a topic.
func ProduceAnswer(topic string) func([]byte) error {
	// correlation id, number of topics, topic, number of partitions, partition
	return errorAt("a produce", 4+4+2+len(topic)+4+4)
}

// errorAt checks the error code at a place of an answer without its length.
func errorAt(what string, at int) func([]byte) error {
	return func(answer []byte) error {
		if len(answer) < at+2 {
			return fmt.Errorf("%s was answered with %d bytes", what, len(answer))
		}
		if code := int16(binary.BigEndian.Uint16(answer[at:])); code != 0 {
			return fmt.Errorf("%s was answered with error %d", what, code)
		}
		return nil
	}
}

// AnyAnswer takes what comes: the other side is an echo.
func AnyAnswer([]byte) error { return nil }
