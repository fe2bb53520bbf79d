package rig

import (
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// opener opens many connections one after another, no faster than the other side takes them. Kafka's listener holds 50 that its
// acceptor has not seen (socket.listen.backlog.size); the kernel lets a client believe that one beyond these is open, and resets
// it when the first bytes come. Clients would connect again, and loads here have none that do.
type opener struct {
	address string
	opened  int
}

// unseen is how many connections may be open that the other side may not have taken yet. It takes them in their order, so
// an answer on the last says that it has taken all.
const unseen = 32

// greeting is a question that everything that is measured answers at once.
var greeting = Encode(kmsg.NewPtrApiVersionsRequest())

func (o *opener) dial() (net.Conn, error) {
	conn, err := net.DialTimeout("tcp", o.address, Patience)
	if err != nil {
		return nil, fmt.Errorf("connection %d: %w", o.opened, err)
	}
	if o.opened++; o.opened%unseen != 0 {
		return conn, nil
	}
	if err = conn.SetDeadline(time.Now().Add(Patience)); err == nil {
		_, err = conn.Write(greeting)
	}
	if err == nil {
		_, err = ReadAnswer(conn, make([]byte, 4096))
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close() // the first error is the one to tell
		return nil, fmt.Errorf("connection %d: %w", o.opened-1, err)
	}
	return conn, nil
}
