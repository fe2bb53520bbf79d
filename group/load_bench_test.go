package group

import (
	"fmt"
	"testing"

	"kaas/codec/batch"
	"kaas/coord"
	"kaas/coord/coordtest"
)

// BenchmarkLoad replays a shard's log into a fresh machine: a million offset commits of
// 1,000 groups, ten to a batch, and what compaction leaves of them. The log is in
// memory; reading it from the disk comes on top (docs/design/coord.md).
func BenchmarkLoad(b *testing.B) {
	const groups, partitions = 1_000, 10
	for _, commits := range []int{groups * partitions, 1_000_000} {
		b.Run(fmt.Sprint("commits=", commits), func(b *testing.B) {
			log := coordtest.NewLog()
			var builder batch.Builder
			for i := range commits {
				o := offset{offset: int64(i), leaderEpoch: 1, commitMs: int64(i), expireMs: noExpiry}
				r := offsetRecord(fmt.Sprint("group-", i/partitions%groups), "some-topic", int32(i%partitions), &o)
				if builder.Append(int64(i), r.Key, r.Value); builder.Count() == 10 {
					bytes, err := builder.Build(nil)
					if err == nil {
						_, err = log.Append(bytes)
					}
					if err != nil {
						b.Fatal(err)
					}
					builder.Reset()
				}
			}
			_, bytes := log.Appends()
			config := DefaultConfig()
			for b.Loop() {
				if s, err := coord.NewSteps(NewMachine(&config), log, 0, 0); err != nil || s.Machine.Groups() != groups {
					b.Fatalf("%d groups, %v", s.Machine.Groups(), err)
				}
			}
			b.ReportMetric(float64(bytes), "logbytes")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*commits), "ns/record")
		})
	}
}
