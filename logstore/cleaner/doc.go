// Package cleaner decides what compaction keeps of a log, and writes it: the map of each key's newest offset, the fate of
// each batch and record, transactions and their markers, the grouping of segments, the choice of the next log, the
// throttle. It matches Kafka's Cleaner, LogCleanerManager, SkimpyOffsetMap and MemoryRecords.filterTo.
//
// It is not the store: it reads open files and writes one; which segments there are, when they are swapped, what a crash
// leaves and who still reads the old ones is logstore's (docs/format/operations.md).
//
// It owns no goroutines. A Round belongs to one goroutine. Throttle.mu is a leaf.
package cleaner
