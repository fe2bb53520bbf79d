package admin

import (
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"kaas/auth"
	"kaas/codec"
)

// AlterReplicaLogDirs, key 34, v1 to v2 (KIP-113).
//
// A partition that lies where it is asked to lie is a success, and ends a move that
// runs. A move to another of this broker's directories begins before the answer and
// goes on after it: DescribeLogDirs shows the copy as a future replica, and appends
// are refused for a moment, with a retriable error, when it takes over.
//
//	v2     flexible
//
// Checks: Kafka's KafkaApis.handleAlterReplicaLogDirsRequest and
// ReplicaManager.alterReplicaLogDirs: a directory that is none of the broker's is
// LOG_DIR_NOT_FOUND, whatever the partition.
func (a *Admin) alterReplicaLogDirsAPI() codec.API {
	return codec.API{
		Key: 34, Name: "AlterReplicaLogDirs", MinVersion: 1, MaxVersion: 2, Class: codec.Pool,
		Handle: a.alterReplicaLogDirs, Refuse: refuseAlterReplicaLogDirs,
		Note: "moves a partition between this broker's data directories, in the background",
	}
}

func refuseAlterReplicaLogDirs(r *codec.Request, errorCode int16, throttleMs int32) {
	answerReplicaLogDirs(r, throttleMs, func(string, string, int32) int16 { return errorCode })
}

func (a *Admin) alterReplicaLogDirs(r *codec.Request) {
	allowed := a.allowedCluster(r, auth.OperationAlter)
	own := a.Config.LogDirs
	if store, known := a.Logs.(volumes); known {
		own = store.Dirs()
	}
	answerReplicaLogDirs(r, 0, func(dir, topic string, partition int32) int16 {
		if !allowed {
			return kerr.ClusterAuthorizationFailed.Code
		}
		target := ""
		for _, candidate := range own {
			if absolute, err := filepath.Abs(candidate); err == nil && filepath.IsAbs(dir) && filepath.Clean(dir) == absolute {
				target = candidate
			}
		}
		log := a.Logs.Get(topic, partition)
		switch {
		case target == "":
			return kerr.LogDirNotFound.Code
		case log == nil:
			return kerr.UnknownTopicOrPartition.Code
		}
		moves, able := a.Logs.(interface {
			MoveTo(topic string, partition int32, dir string) error
		})
		if !able {
			if log.Dir() != target {
				return kerr.InvalidRequest.Code
			}
			return 0
		}
		if err := moves.MoveTo(topic, partition, target); err != nil {
			a.Logger.Warn("a partition can't be moved", "topic", topic, "partition", partition, "dir", target, "error", err)
			return a.asFailure(err).code.Code
		}
		return 0
	})
}

// answerReplicaLogDirs answers every partition of the request, by topic.
func answerReplicaLogDirs(r *codec.Request, throttleMs int32, code func(dir, topic string, partition int32) int16) {
	request := kmsg.NewPtrAlterReplicaLogDirsRequest()
	if err := r.Decode(request); err != nil {
		r.Fail(err)
		return
	}
	response := request.ResponseKind().(*kmsg.AlterReplicaLogDirsResponse)
	response.ThrottleMillis = throttleMs
	at := make(map[string]int)
	for _, dir := range request.Dirs {
		for _, topic := range dir.Topics {
			i, known := at[topic.Topic]
			if !known {
				i = len(response.Topics)
				at[topic.Topic] = i
				answer := kmsg.NewAlterReplicaLogDirsResponseTopic()
				answer.Topic = topic.Topic
				response.Topics = append(response.Topics, answer)
			}
			for _, partition := range topic.Partitions {
				answer := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				answer.Partition, answer.ErrorCode = partition, code(dir.Dir, topic.Topic, partition)
				response.Topics[i].Partitions = append(response.Topics[i].Partitions, answer)
			}
		}
	}
	r.Respond(response)
}
