package codec

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A body that a view accepts holds what kmsg, an implementation that is not
// ours, reads from the same bytes. The other way round does not hold: kmsg
// ignores bytes left over and takes a null array for an empty one.
func FuzzProduceView(f *testing.F) {
	for version := int16(0); version <= 13; version++ {
		f.Add(version, produceRequest(version).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 0 || version > 13 {
			return
		}
		view, err := ParseProduce(version, body)
		if err != nil {
			return
		}
		request := kmsg.NewPtrProduceRequest()
		request.SetVersion(version)
		if err := request.ReadFrom(body); err != nil {
			t.Skip("kmsg is stricter: ", err)
		}
		it := view.Partitions()
		for _, topic := range request.Topics {
			for _, want := range topic.Partitions {
				if !it.Next() {
					t.Fatal("the view has fewer partitions than kmsg reads")
				}
				got := it.Partition
				if string(got.Topic) != topic.Topic || got.TopicID != topic.TopicID || got.Index != want.Partition || !bytes.Equal(got.Records, want.Records) {
					t.Fatalf("view %+v, kmsg %+v", got, want)
				}
			}
		}
		if it.Next() {
			t.Fatal("the view has more partitions than kmsg reads")
		}
	})
}

func FuzzFetchView(f *testing.F) {
	for version := int16(4); version <= 18; version++ {
		f.Add(version, fetchRequest(version).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 4 || version > 18 {
			return
		}
		view, err := ParseFetch(version, body)
		if err != nil {
			return
		}
		request := kmsg.NewPtrFetchRequest()
		request.SetVersion(version)
		if err := request.ReadFrom(body); err != nil {
			t.Skip("kmsg is stricter: ", err)
		}
		it := view.Partitions()
		for _, topic := range request.Topics {
			for _, want := range topic.Partitions {
				if !it.Next() {
					t.Fatal("the view has fewer partitions than kmsg reads")
				}
				got := it.Partition
				if string(got.Topic) != topic.Topic || got.TopicID != topic.TopicID || got.Index != want.Partition ||
					got.FetchOffset != want.FetchOffset || got.MaxBytes != want.PartitionMaxBytes {
					t.Fatalf("view %+v, kmsg %+v", got, want)
				}
				// Tag 1 is the high watermark from v18 on and unknown before; kmsg reads it in every version.
				if version >= 18 && got.HighWatermark != want.HighWatermark {
					t.Fatalf("view %+v, kmsg %+v", got, want)
				}
			}
		}
		gone := view.Forgotten()
		for _, topic := range request.ForgottenTopics {
			for _, index := range topic.Partitions {
				if !gone.Next() || gone.Index != index || string(gone.Topic) != topic.Topic {
					t.Fatalf("forgotten: view %s %d, kmsg %s %d", gone.Topic, gone.Index, topic.Topic, index)
				}
			}
		}
		if it.Next() || gone.Next() {
			t.Fatal("the view has more partitions than kmsg reads")
		}
	})
}
