package admin

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
	"kaas/logstore"
)

// DescribeLogDirs, key 35, v1 to v5.
//
// The data directories of this broker, what each partition takes, and (v4,
// KIP-827) what the volume has and has left. Null topics: all partitions; an
// empty list: the directories alone.
//
//	v2     flexible
//	v3     error code of the whole reply
//	v4     total and usable bytes
//	v5     cordoned directories, of which there are none
//
// Shapes: Kafka's ReplicaManager.describeLogDirs.
func (a *Admin) describeLogDirsAPI() codec.API {
	return codec.API{
		Key: 35, Name: "DescribeLogDirs", MinVersion: 1, MaxVersion: 5, Class: codec.Pool,
		Handle: a.describeLogDirs, Refuse: refuseDescribeLogDirs,
		EstimateBytes: func(_ codec.Header, bodyBytes int) int { return 1<<20 + 40*bodyBytes },
		Note:          "data directories, partition sizes, space left",
	}
}

// volumes is what a log store can tell about its directories.
type volumes interface {
	Dirs() []string
	Usage(dir string) (totalBytes, usableBytes int64, err error)
}

func refuseDescribeLogDirs(r *codec.Request, errorCode int16, throttleMs int32) {
	refuse(r, kmsg.NewPtrDescribeLogDirsRequest(), func(request *kmsg.DescribeLogDirsRequest, response *kmsg.DescribeLogDirsResponse) {
		response.ThrottleMillis, response.ErrorCode = throttleMs, errorCode
	})
}

func (a *Admin) describeLogDirs(r *codec.Request) {
	request := kmsg.NewPtrDescribeLogDirsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := request.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	if !a.allowedCluster(r, auth.OperationDescribe) {
		response.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		r.Respond(response)
		return
	}
	byDir, arriving := make(map[string][]*logstore.Partition), make(map[string][]*logstore.Partition)
	for _, partition := range a.Logs.All() {
		if wantsPartition(request.Topics, partition) {
			byDir[partition.Dir()] = append(byDir[partition.Dir()], partition)
			if dir, _, _ := partition.Future(); dir != "" {
				arriving[dir] = append(arriving[dir], partition)
			}
		}
	}
	store, known := a.Logs.(volumes)
	dirs := a.Config.LogDirs
	if known {
		dirs = store.Dirs()
	}
	for _, dir := range dirs {
		absolute, err := filepath.Abs(dir)
		if err != nil || a.Config.Dev { // in memory it is a name and no path
			absolute = dir
		}
		answer := kmsg.NewDescribeLogDirsResponseDir()
		answer.Dir = absolute
		answer.TotalBytes, answer.UsableBytes = -1, -1
		if known {
			total, usable, err := store.Usage(dir)
			if err == nil {
				answer.TotalBytes, answer.UsableBytes = total, usable
			} else if !a.Config.Dev {
				a.Logger.Warn("the space of a log directory can't be told", "dir", dir, "error", err)
				answer.ErrorCode = kerr.KafkaStorageError.Code
			}
		}
		answer.Topics = append(describedPartitions(byDir[dir], false), describedPartitions(arriving[dir], true)...)
		response.Dirs = append(response.Dirs, answer)
	}
	r.Respond(response)
}

func wantsPartition(topics []kmsg.DescribeLogDirsRequestTopic, partition *logstore.Partition) bool {
	if topics == nil {
		return true
	}
	return slices.ContainsFunc(topics, func(topic kmsg.DescribeLogDirsRequestTopic) bool {
		return topic.Topic == partition.Topic() && slices.Contains(topic.Partitions, partition.ID())
	})
}

// describedPartitions groups by topic, in order. future: the copies of partitions
// that are being moved (KIP-113); a topic may stand in both lists.
func describedPartitions(partitions []*logstore.Partition, future bool) []kmsg.DescribeLogDirsResponseDirTopic {
	slices.SortFunc(partitions, func(a, b *logstore.Partition) int {
		if order := strings.Compare(a.Topic(), b.Topic()); order != 0 {
			return order
		}
		return int(a.ID()) - int(b.ID())
	})
	var topics []kmsg.DescribeLogDirsResponseDirTopic
	for _, partition := range partitions {
		if len(topics) == 0 || topics[len(topics)-1].Topic != partition.Topic() {
			topic := kmsg.NewDescribeLogDirsResponseDirTopic()
			topic.Topic = partition.Topic()
			topics = append(topics, topic)
		}
		described := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		described.Partition, described.Size = partition.ID(), partition.SizeBytes()
		if future {
			_, copied, end := partition.Future()
			described.IsFuture, described.Size, described.OffsetLag = true, copied, max(partition.LogEndOffset()-end, 0)
		}
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, described)
	}
	return topics
}
