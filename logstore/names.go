package logstore

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"kaas/logstore/checkpoint"
)

// File and directory names, Kafka's (LogFileUtils.java, LogManager.java) except where marked ours.
const (
	logSuffix         = ".log"
	indexSuffix       = ".index"
	timeIndexSuffix   = ".timeindex"
	txnIndexSuffix    = ".txnindex"
	snapshotSuffix    = ".snapshot"
	deletedSuffix     = ".deleted"
	cleanedSuffix     = ".cleaned"
	swapSuffix        = ".swap"
	temporarySuffix   = ".tmp"
	deleteDirSuffix   = "-delete"
	strayDirSuffix    = "-stray"
	futureDirSuffix   = "-future"
	lockName          = ".lock"
	cleanShutdownName = ".kafka_cleanshutdown"
	recoveryPointName = "recovery-point-offset-checkpoint"
	logStartName      = "log-start-offset-checkpoint"
	highWatermarkName = "replication-offset-checkpoint" // Kafka's; neither needed nor touched
	endStateName      = "kaas-log-end-checkpoint"       // ours: log ends and sizes at a clean stop
	cleanedToName     = "cleaner-offset-checkpoint"
	resourcesName     = "resources" // the resource store's directory
)

// ownNames are entries of a log directory that are not partitions and need no remark.
var ownNames = map[string]bool{
	lockName: true, checkpoint.MetaName: true, cleanShutdownName: true, recoveryPointName: true, logStartName: true,
	highWatermarkName: true, endStateName: true, checkpoint.ProducerIDsName: true, resourcesName: true,
	cleanedToName: true, "bootstrap.checkpoint": true,
}

// segmentFile is <dir>/<20 digits><suffix>.
func segmentFile(dir string, baseOffset int64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", baseOffset, suffix))
}

// parseSegmentFile splits a file name into base offset and suffix (with its dot). A term in the name
// (<base offset>.<epoch>.log) is part of the suffix.
func parseSegmentFile(name string) (baseOffset int64, suffix string, ok bool) {
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

func partitionDir(topic string, partition int32) string {
	return topic + "-" + strconv.Itoa(int(partition))
}

const maxTopicNameBytes = 249

// parsePartitionDir accepts what partitionDir makes of a legal topic name, and nothing else.
func parsePartitionDir(name string) (topic string, partition int32, ok bool) {
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

// asideDir is the name that a directory gets when it is set aside: Kafka's <topic>-<partition>.<32 hex>-delete, with the
// topic shortened where the name would be longer than a file system allows.
func asideDir(topic string, partition int32, unique [16]byte, suffix string) string {
	tail := fmt.Sprintf("-%d.%x%s", partition, unique, suffix)
	return topic[:min(len(topic), 255-len(tail))] + tail
}

func be32(b []byte) int32       { return int32(binary.BigEndian.Uint32(b)) }
func be64(b []byte) int64       { return int64(binary.BigEndian.Uint64(b)) }
func put32(b []byte, v int32)   { binary.BigEndian.PutUint32(b, uint32(v)) }
func relative(o, b int64) int32 { return int32(o - b) }
