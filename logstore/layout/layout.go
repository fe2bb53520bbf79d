package layout

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"kaas/logstore/checkpoint"
	"kaas/logstore/journal"
)

// File and directory names, Kafka's (LogFileUtils.java, LogManager.java) except where marked ours.
const (
	LogSuffix         = ".log"
	IndexSuffix       = ".index"
	TimeIndexSuffix   = ".timeindex"
	TxnIndexSuffix    = ".txnindex"
	SnapshotSuffix    = ".snapshot"
	SumsSuffix        = ".kaas-sums"     // ours: length and checksum of the index files of a sealed segment
	TxnCopySuffix     = ".kaas-txnindex" // ours: what the transaction index begins with, and a checksum
	DeletedSuffix     = ".deleted"
	CleanedSuffix     = ".cleaned"
	SwapSuffix        = ".swap"
	TemporarySuffix   = ".tmp"
	DeleteDirSuffix   = "-delete"
	StrayDirSuffix    = "-stray"
	FutureDirSuffix   = "-future"
	LockName          = ".lock"
	CleanShutdownName = ".kafka_cleanshutdown"
	RecoveryPointName = "recovery-point-offset-checkpoint"
	LogStartName      = "log-start-offset-checkpoint"
	HighWatermarkName = "replication-offset-checkpoint" // Kafka's; neither needed nor touched
	EndStateName      = "kaas-log-end-checkpoint"       // ours: log ends and sizes at a clean stop
	CleanedToName     = "cleaner-offset-checkpoint"
	SpareName         = "kaas-next-" // ours: with a number and TemporarySuffix, the file of the next segment
	// MovedName stands in a directory that is complete and takes the place of another one of the same name. Ours.
	MovedName     = "kaas-moved"
	ResourcesName = "resources" // the resource store's directory
	// KnownDirsName lists the log directories that hold partitions. Ours.
	KnownDirsName = "kaas-log-directories"
	// ProbeName is written to by who asks whether the directory takes writes. Ours.
	ProbeName = "kaas-probe"
)

// OwnNames are entries of a log directory that are not partitions and need no remark.
var OwnNames = map[string]bool{
	LockName: true, checkpoint.MetaName: true, CleanShutdownName: true, RecoveryPointName: true, LogStartName: true,
	HighWatermarkName: true, EndStateName: true, checkpoint.ProducerIDsName: true, ResourcesName: true,
	CleanedToName: true, journal.Names[0]: true, journal.Names[1]: true, "bootstrap.checkpoint": true, KnownDirsName: true, ProbeName: true,
}

// SegmentFile is <dir>/<20 digits><suffix>.
func SegmentFile(dir string, baseOffset int64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", baseOffset, suffix))
}

// ParseSegmentFile splits a file name into base offset and suffix (with its dot). A term in the name
// (<base offset>.<epoch>.log) is part of the suffix.
func ParseSegmentFile(name string) (baseOffset int64, suffix string, ok bool) {
	digits, _, found := strings.Cut(name, ".")
	if !found || len(digits) != 20 {
		return 0, "", false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, "", false
	}
	return n, name[len(digits):], true
}

// ParseTermFile splits the name of a segment's file with a leader's term in it, <base offset>.<term>.log; the term of a name
// without one is 0.
func ParseTermFile(name string) (baseOffset int64, term int32, suffix string, ok bool) {
	baseOffset, suffix, ok = ParseSegmentFile(name)
	if !ok {
		return 0, 0, "", false
	}
	digits, rest, found := strings.Cut(suffix[1:], ".")
	if !found {
		return baseOffset, 0, suffix, true
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n <= 0 || strconv.FormatInt(n, 10) != digits {
		return baseOffset, 0, suffix, true
	}
	return baseOffset, int32(n), "." + rest, true
}

// PartitionDir is the name of a partition's directory.
func PartitionDir(topic string, partition int32) string {
	return topic + "-" + strconv.Itoa(int(partition))
}

const maxTopicNameBytes = 249

// ParsePartitionDir accepts what PartitionDir makes of a legal topic name, and nothing else.
func ParsePartitionDir(name string) (topic string, partition int32, ok bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 || dash > maxTopicNameBytes {
		return "", 0, false
	}
	n, err := strconv.ParseInt(name[dash+1:], 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != name[dash+1:] {
		return "", 0, false
	}
	topic = name[:dash]
	if topic == "." || topic == ".." {
		return "", 0, false
	}
	for _, c := range []byte(topic) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return "", 0, false
		}
	}
	return topic, int32(n), true
}

// AsideDir is the name that a directory gets when it is set aside: Kafka's <topic>-<partition>.<32 hex>-delete, with the
// topic shortened where the name would be longer than a file system allows.
func AsideDir(topic string, partition int32, unique [16]byte, suffix string) string {
	tail := fmt.Sprintf("-%d.%x%s", partition, unique, suffix)
	return topic[:min(len(topic), maxFileNameBytes-len(tail))] + tail
}

// ParseFutureDir reads the name that AsideDir gave the copy of a partition; false also where the topic was shortened.
func ParseFutureDir(name string) (topic string, partition int32, ok bool) {
	name, found := strings.CutSuffix(name, FutureDirSuffix)
	dot := strings.LastIndexByte(name, '.')
	if !found || dot < 0 || len(name)-dot-1 != 32 || len(name)+len(FutureDirSuffix) >= maxFileNameBytes {
		return "", 0, false
	}
	return ParsePartitionDir(name[:dot])
}

// StrayStem is what stands before the dot in the name of a partition that was set aside. Long topics may share one.
func StrayStem(topic string, partition int32) string {
	stem, _ := ParseStrayDir(AsideDir(topic, partition, [16]byte{}, StrayDirSuffix))
	return stem
}

// ParseStrayDir takes the stem from the name that AsideDir, or Kafka, gave a partition that was set aside.
func ParseStrayDir(name string) (stem string, ok bool) {
	name, found := strings.CutSuffix(name, StrayDirSuffix)
	dot := strings.LastIndexByte(name, '.')
	if !found || dot < 0 || len(name)-dot-1 != 32 {
		return "", false
	}
	return name[:dot], true
}

const maxFileNameBytes = 255

// SegmentSuffixes are the files of a segment. The log goes last: while it has its name, so have the others.
var SegmentSuffixes = []string{SumsSuffix, TxnCopySuffix, TxnIndexSuffix, TimeIndexSuffix, IndexSuffix, LogSuffix}
