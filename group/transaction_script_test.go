package group

import (
	"fmt"
	"strconv"

	"kaas/coord"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// transactionCommands are the commands of scripts that concern transactions.
//
//	verify PRODUCER EPOCH                 takes a verification, if one is needed
//	txn-commit GROUP PRODUCER EPOCH OFFSET... [verified] [member= generation= instance=]
//	marker PRODUCER EPOCH commit|abort [raised] [coordinator=N]
func (s *script) transactionCommands() map[string]func(words) {
	return map[string]func(words){
		"verify": func(w words) {
			s.turn(func(m *Machine, t *coord.Turn) {
				verified, err := m.NeedsVerification(t, scriptNumber(w.arg(0)), int16(scriptNumber(w.arg(1))))
				if err != nil {
					s.printf("verify: %v", err)
					return
				}
				s.verified[w.arg(0)] = verified
				s.printf("verification needed: %v", verified != nil)
			})
		},
		"txn-commit": s.txnCommit,
		"marker": func(w words) {
			n := s.request()
			s.turn(func(m *Machine, t *coord.Turn) {
				raised := w.arg(3) == "raised"
				m.EndTransaction(t, scriptNumber(w.arg(0)), int16(scriptNumber(w.arg(1))), int32(w.num("coordinator", 0)), w.arg(2) == "commit", raised, func(err error) {
					s.printf("#%d marker: %v", n, err)
				})
			})
		},
	}
}

func scriptNumber(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (s *script) txnCommit(w words) {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Version, req.Group, req.ProducerID, req.ProducerEpoch = int16(w.num("version", 5)), w.arg(0), scriptNumber(w.arg(1)), int16(scriptNumber(w.arg(2)))
	req.MemberID, req.InstanceID, req.Generation = w.get("member", ""), w.pointer("instance"), int32(w.num("generation", -1))
	var verified *Verification
	for _, arg := range w.args[3:] {
		if arg == "verified" {
			verified = s.verified[w.arg(1)]
			continue
		}
		from := committedTopic(arg)
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = from.Partitions[0].Partition, from.Partitions[0].Offset, from.Partitions[0].LeaderEpoch, from.Partitions[0].Metadata
		req.Topics = append(req.Topics, kmsg.TxnOffsetCommitRequestTopic{Topic: from.Topic, TopicID: from.TopicID, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{p}})
	}
	n := s.request()
	s.turn(func(m *Machine, t *coord.Turn) {
		m.TxnOffsetCommit(t, req, verified, func(r *kmsg.TxnOffsetCommitResponse) {
			text := ""
			for i := range r.Topics {
				for _, p := range r.Topics[i].Partitions {
					text += fmt.Sprintf(" %s/%d:%s", r.Topics[i].Topic, p.Partition, codeText(p.ErrorCode))
				}
			}
			s.printf("#%d txn-commit:%s", n, text)
		})
	})
}
