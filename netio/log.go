package netio

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// logLimiter writes at most one line a second and says how many it has left out: a port scan must not fill a disk.
type logLimiter struct {
	logger *slog.Logger

	mu sync.Mutex
	// +checklocks:mu
	last time.Time
	// +checklocks:mu
	omitted int
}

func (l *logLimiter) warn(message string, args ...any) {
	l.mu.Lock()
	now := time.Now()
	if now.Sub(l.last) < time.Second {
		l.omitted++
		l.mu.Unlock()
		return
	}
	l.last = now
	omitted := l.omitted
	l.omitted = 0
	l.mu.Unlock()
	if omitted > 0 {
		args = append(args, "omittedLines", omitted)
	}
	l.logger.Warn(message, args...)
}

// notAFrame describes 4 bytes that are no length of a request.
func notAFrame(header [4]byte, maxBytes int32) error {
	size := int32(header[0])<<24 | int32(header[1])<<16 | int32(header[2])<<8 | int32(header[3])
	for _, method := range []string{"GET ", "HEAD", "POST", "PUT ", "OPTI", "DELE", "PATC", "CONN", "PRI "} {
		if bytes.Equal(header[:], []byte(method)) {
			return fmt.Errorf("it began with %q, an HTTP request: this port speaks the Kafka protocol, probe http.address instead", method)
		}
	}
	switch {
	case header[0] == 0x16 && header[1] == 0x03:
		return fmt.Errorf("it began with a TLS hello: this listener is plaintext, set security.protocol=PLAINTEXT in the client or connect to a TLS listener")
	case bytes.Equal(header[:], []byte("SSH-")):
		return fmt.Errorf("it began with %q, an SSH client", header[:])
	case size < 0:
		return fmt.Errorf("a request of %d bytes was announced", size)
	}
	return fmt.Errorf("a request of %d bytes was announced, socket.request.max.bytes is %d", size, maxBytes)
}
