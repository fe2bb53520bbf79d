package rig

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
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
	runtime.GC() // what earlier runs left must not be collected in this one
	every := time.Duration(1e9 / p.Rate)
	most := int((p.WarmUp + p.Length) / every)
	skip := int(p.WarmUp / every)
	found := make([]Latencies, len(wires))
	failures := make([]error, len(wires)+1)
	sent := make(chan int, 1)
	begin := time.Now()
	var wg sync.WaitGroup
	for k, w := range wires {
		found[k] = make(Latencies, 0, most/len(wires)+1)
		wg.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for i := k; i < most; i += len(wires) {
				answer, err := w.next()
				if err == nil {
					err = p.Check(answer)
				}
				if err != nil {
					failures[k] = err
					return
				}
				if i >= skip {
					found[k] = append(found[k], time.Since(begin)-time.Duration(i)*every)
				}
			}
		})
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

func (p *Paced) send(wires []*wire, begin time.Time, every time.Duration, most int) (int, error) {
	runtime.LockOSThread() // never unlocked: the thread has another timer slack and ends with its goroutine
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, err
	}
	zero := now.Nano() - time.Since(begin).Nanoseconds()
	for i := range most {
		select {
		case <-p.Stop:
			return i, nil
		default:
		}
		due := unix.NsecToTimespec(zero + int64(i)*every.Nanoseconds())
		for {
			if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &due, nil); err != unix.EINTR {
				break
			}
		}
		if err := wires[i%len(wires)].write(p.Frames[i%len(p.Frames)]); err != nil {
			return i, err
		}
	}
	return most, nil
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
