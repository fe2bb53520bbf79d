package cleaner

import (
	"errors"

	"kaas/logstore/logfile"
)

// Options configure compaction. Zero values mean Kafka's defaults.
type Options struct {
	Disabled            bool    // log.cleaner.enable=false
	Threads             int     // log.cleaner.threads: logs that are cleaned at the same time; 0: 1
	BackoffMs           int64   // log.cleaner.backoff.ms; 0: 15,000
	DedupeBufferBytes   int64   // log.cleaner.dedupe.buffer.size, of all threads together; 0: 128 MiB
	IOBufferBytes       int     // log.cleaner.io.buffer.size, of all threads together; 0: 512 KiB
	LoadFactor          float64 // log.cleaner.io.buffer.load.factor; 0: 0.9
	IOMaxBytesPerSecond float64 // log.cleaner.io.max.bytes.per.second; 0: no bound
}

// SetDefaults puts Kafka's defaults where nothing sensible stands.
func (o *Options) SetDefaults() {
	if o.Threads <= 0 {
		o.Threads = 1
	}
	if o.BackoffMs <= 0 {
		o.BackoffMs = 15_000
	}
	if o.DedupeBufferBytes <= 0 {
		o.DedupeBufferBytes = 128 << 20
	}
	if o.IOBufferBytes <= 0 {
		o.IOBufferBytes = 512 << 10
	}
	if o.LoadFactor <= 0 || o.LoadFactor > 1 {
		o.LoadFactor = 0.9
	}
}

// Unreadable errors come back however often a log is read.
func Unreadable(err error) bool {
	return opaque(err) || errors.Is(err, logfile.ErrTorn) || errors.Is(err, ErrTooLarge)
}
