package logstore

import (
	"log/slog"
	"time"

	"kaas/internal/vfs"
	"kaas/logstore/cleaner"
	"kaas/logstore/groupcommit"
	"kaas/logstore/index"
	"kaas/logstore/logconfig"
	"kaas/logstore/segment"
)

// Options configure a Store. Zero values mean the defaults named at each field.
type Options struct {
	Dirs                         []string // log.dirs, at least one
	FS                           vfs.FS   // nil: the operating system (or memory when InMemory)
	Logger                       *slog.Logger
	OpenFiles                    int64   // how many .log files may be open before those of sealed segments are closed; 0: limits.OpenFiles, and not more
	NumRecoveryThreadsPerDataDir int     // num.recovery.threads.per.data.dir; 0: 2
	BrokerID                     int32   // node.id, written to meta.properties
	ClusterID                    string  // "": taken from meta.properties, or made
	FlushWorkers                 int     // parallel fdatasync calls of one group commit; 0: limits.FlushWorkers
	JournalBytes                 int64   // a half of the commit journal, at most; 0: limits.CommitJournalMaxBytes on local volumes, else none; -1: none
	ProducerIDExpirationMs       int64   // producer.id.expiration.ms; 0: 86,400,000
	RetentionCheckIntervalMs     int64   // log.retention.check.interval.ms; 0: 300,000
	CheckpointIntervalMs         int64   // log.flush.offset.checkpoint.interval.ms; 0: 60,000
	InitialDelayMs               int64   // log.initial.task.delay.ms; 0: 30,000
	ReopenIntervalMs             int64   // how often a partition that a failing disk took down is tried again; 0: limits.ReopenIntervalMs
	ProbeIntervalMs              int64   // how often a log directory is asked whether it takes writes; 0: limits.ProbeIntervalMs, but not InMemory; -1: never
	MoveMaxBytesPerSecond        float64 // replica.alter.log.dirs.io.max.bytes.per.second; 0: no bound
	InMemory                     bool    // dev mode: memfd files, nothing reaches a disk
	Cleaner                      CleanerOptions
	Listener                     Listener
	windows                      *segment.WindowRules // of tests; nil: as limits has them
	Clock                        func() time.Time     // nil: time.Now. For what outlives the process: timestamps, retention
	Uptime                       func() time.Duration // nil: by Clock. For how long something takes: it does not jump when somebody sets the clock
}

// CleanerOptions configure compaction.
type CleanerOptions = cleaner.Options

// Config is the effective configuration of one partition.
type Config = logconfig.Config

// DefaultConfig returns Kafka's defaults for a topic, except FlushMessages: 1 (every acknowledged write is durable).
func DefaultConfig() Config { return logconfig.Default() }

// Listener hears of what became visible. Methods are called with no lock held, from the goroutine that moved it.
type Listener interface {
	Advanced(p *Partition)          // the high watermark or the last stable offset moved
	Failed(p *Partition, err error) // the partition went offline; Append returns ErrStorage until Recovered
}

// RecoveryListener is what a Listener may implement, too.
type RecoveryListener interface {
	Recovered(p *Partition) // the disk is back: the partition was recovered from it and serves again
}

// Origin says who appends: only a coordinator may write control batches.
type Origin uint8

// Origins of an append.
const (
	OriginClient Origin = iota
	OriginCoordinator
)

// AppendOptions go with one Append.
type AppendOptions struct {
	Origin      Origin
	LeaderEpoch int32 // written into the batches; must not be lower than the partition's epoch
	// Verify refuses a client's batch that begins a transaction without the Guard of BeginVerification: ErrUnverified when
	// there is none, ErrInvalidTxnState when it holds no more.
	Verify bool
	Guard  uint64
	// RaisedEpoch: the epoch of the marker is above that of its transaction (transaction version 2), so a marker with the
	// epoch of an open transaction is refused: ErrInvalidProducerEpoch.
	RaisedEpoch bool
}

// AppendResult tells where the records stand.
type AppendResult struct {
	BaseOffset      int64
	LastOffset      int64
	LogAppendTimeMs int64 // -1 under CreateTime
	LogStartOffset  int64
	Duplicate       bool // the batch was appended before; the offsets are the first append's
}

// Isolation bounds what a read may see.
type Isolation uint8

// Isolation levels.
const (
	ReadLogEnd      Isolation = iota // everything that was appended
	ReadUncommitted                  // below the high watermark
	ReadCommitted                    // below the last stable offset
)

// AbortedTxn is one entry of the aborted-transaction index.
type AbortedTxn = index.AbortedTxn

// TimestampOffset is the answer of a lookup by time.
type TimestampOffset = segment.TimestampOffset

// Slice is what a read returns: a range of a segment file that holds whole batches, pinned until its Release.
type Slice = segment.Slice

// Waiter waits for a commit; see WhenCommitted.
type Waiter = groupcommit.Waiter
