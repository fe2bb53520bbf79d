package generator

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/bench/pacing"
)

// hello is a request that every broker answers, without a look at its topics.
func hello() []byte {
	request := kmsg.NewPtrApiVersionsRequest()
	request.SetVersion(0)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("kaas-bench")).AppendRequest(nil, request, 1)
}

// greet opens a connection and has one answer.
func (r *run) greet(ctx context.Context) (net.Conn, error) {
	conn, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	err = conn.SetDeadline(time.Now().Add(r.plan.Timeout))
	if err == nil {
		_, err = conn.Write(hello())
	}
	var length [4]byte
	if err == nil {
		_, err = io.ReadFull(conn, length[:])
	}
	if err != nil {
		_ = conn.Close() // the first error is the one to tell
		return nil, err
	}
	return conn, nil
}

// openIdle opens the connections that then do nothing; they stay for the run.
func (r *run) openIdle(ctx context.Context) error {
	for i := range r.plan.Idle {
		conn, err := r.greet(ctx)
		if err != nil {
			return fmt.Errorf("idle connection %d: %w", i, err)
		}
		r.idle = append(r.idle, conn)
	}
	return nil
}

// mostChurning bounds the connections that churn has open at a time: a broker
// that takes none must not take the generator's memory.
const mostChurning = 1000

// churn opens connections at a rate until ctx ends, uses each once and closes it. None waits for another one's answer, and
// those that are under way at the end are waited for until answers ends: the slow ones are not to be left out.
func (r *run) churn(ctx, answers context.Context) error {
	if err := pacing.Thread(); err != nil {
		return err
	}
	pace := newPace(r.begin, r.plan.Churn, 1, 0)
	var open sync.WaitGroup
	defer open.Wait()
	places := make(chan struct{}, mostChurning)
	failed := make(chan error, 1)
	for {
		intended := pace.next()
		if !r.plan.before(intended, r.begin) || !exactlyUntil(ctx, intended) {
			break
		}
		select {
		case places <- struct{}{}:
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
		open.Go(func() {
			defer func() { <-places }()
			if err := r.comeAndGo(answers, intended); err != nil {
				select {
				case failed <- err:
				default: // one is enough
				}
			}
		})
	}
	open.Wait()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func (r *run) comeAndGo(ctx context.Context, intended time.Time) error {
	conn, err := r.greet(ctx)
	switch {
	case ctx.Err() != nil: // the run has ended, and with it what this one waited for
		if err == nil {
			_ = conn.Close()
		}
		return nil
	case err != nil:
		return fmt.Errorf("churn: %w", err)
	}
	if r.measured(intended) {
		r.connects.record(time.Since(intended))
	}
	if err := conn.Close(); err != nil {
		return fmt.Errorf("churn: %w", err)
	}
	return nil
}
