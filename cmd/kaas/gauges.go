package main

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"kaas/admin"
	"kaas/internal/limits"
	"kaas/logstore"
	"kaas/netio"
	"kaas/obs"
)

// storeMetrics registers the log store's series.
func storeMetrics(registry *obs.Registry, store *logstore.Store) {
	counters := store.Counters()
	for name, value := range map[string]func() int64{
		"kaas_commit_round_partitions_total": counters.RoundTasks.Load,
		"kaas_commit_journal_bytes_total":    counters.JournalBytes.Load,
		"kaas_commit_journal_turns_total":    counters.JournalTurns.Load,
		"kaas_log_window_asks_total":         counters.WindowAsks.Load,
		"kaas_cleaner_rounds_total":          counters.CleanerRounds.Load,
		"kaas_cleaner_read_bytes_total":      counters.CleanerReadBytes.Load,
		"kaas_cleaner_written_bytes_total":   counters.CleanerWrittenBytes.Load,
		"kaas_recovery_read_bytes_total":     counters.RecoveredBytes.Load,
		"kaas_recovery_cut_bytes_total":      counters.CutBytes.Load,
		"kaas_partitions_reopened_total":     counters.Reopened.Load,
	} {
		registry.CounterFunc(name, func() float64 { return float64(value()) })
	}
	counters.RoundSeconds.Store(registry.Histogram("kaas_commit_round_seconds"))
	counters.TaskSeconds.Store(registry.Histogram("kaas_commit_files_seconds"))
	volumes := make([]*volume, 0, len(store.Dirs()))
	for _, dir := range store.Dirs() {
		volumes = append(volumes, &volume{dir: dir, ask: func() (int64, int64, error) { return store.Usage(dir) }})
	}
	registry.Collect(func(add obs.Add) {
		census := censusOf(store)
		census.add(add)
		for _, v := range volumes {
			if total, usable, ok := v.usage(); ok {
				add("kaas_log_dir_volume_bytes", float64(total), v.dir)
				add("kaas_log_dir_usable_bytes", float64(usable), v.dir)
			}
		}
	})
}

// storeCensus is one look at all partitions.
type storeCensus struct {
	partitions, offline, stalled, moving int
	dirs                                 []dirCensus
	missing                              []string
	topics                               []topicCensus // those with a series
	topicCount                           int
}

type dirCensus struct {
	dir         string
	partitions  int
	uncleanable int
	bytes       int64
}

type topicCensus struct {
	topic          string
	partitions     int
	records, bytes int64
}

// censusOf takes no lock that an append waits for.
func censusOf(store *logstore.Store) (c storeCensus) {
	dirs := map[string]int{}
	for _, dir := range store.Dirs() {
		dirs[dir] = len(c.dirs)
		c.dirs = append(c.dirs, dirCensus{dir: dir})
	}
	_, waiting := store.Known().Waiting()
	c.offline = len(store.Offline()) + waiting
	c.missing = store.Known().Missing()
	last := ""
	for _, p := range store.All() { // by topic
		c.partitions++
		size := p.SizeBytes()
		if at, ok := dirs[p.Dir()]; ok {
			c.dirs[at].partitions++
			c.dirs[at].bytes += size
			if p.Uncleanable() {
				c.dirs[at].uncleanable++
			}
		}
		if p.Stalled() {
			c.stalled++
		}
		if to, _, _ := p.Future(); to != "" {
			c.moving++
		}
		if topic := p.Topic(); topic != last {
			last = topic
			if c.topicCount++; c.topicCount <= limits.MetricsTopics {
				c.topics = append(c.topics, topicCensus{topic: topic})
			}
		}
		if c.topicCount <= limits.MetricsTopics {
			t := &c.topics[len(c.topics)-1]
			t.partitions++
			t.bytes += size
			t.records += p.LogEndOffset()
		}
	}
	return c
}

func (c *storeCensus) add(add obs.Add) {
	add("kaas_partitions", float64(c.partitions))
	add("kaas_partitions_offline", float64(c.offline))
	add("kaas_partitions_stalled", float64(c.stalled))
	add("kaas_partitions_moving", float64(c.moving))
	add("kaas_topics", float64(c.topicCount))
	for _, t := range c.topics {
		add("kaas_topic_partitions", float64(t.partitions), t.topic)
		add("kaas_topic_records_total", float64(t.records), t.topic)
		add("kaas_topic_size_bytes", float64(t.bytes), t.topic)
	}
	missing := slices.Clone(c.missing)
	for _, d := range c.dirs {
		add("kaas_log_dir_partitions", float64(d.partitions), d.dir)
		add("kaas_log_dir_size_bytes", float64(d.bytes), d.dir)
		add("kaas_cleaner_uncleanable_partitions", float64(d.uncleanable), d.dir)
		absent := 0.0
		if full, err := filepath.Abs(d.dir); err == nil && slices.Contains(missing, full) {
			missing = slices.DeleteFunc(missing, func(dir string) bool { return dir == full })
			absent = 1
		}
		add("kaas_log_dir_missing", absent, d.dir)
	}
	for _, dir := range missing { // no longer in log.dirs
		add("kaas_log_dir_missing", 1, dir)
	}
}

// volume asks how full a log directory's volume is. A network volume that is
// gone may answer never: then there is no sample, a scrape has waited for
// limits.MetricsVolumeWait, and one question stays open however many scrapes
// come.
type volume struct {
	dir string
	ask func() (totalBytes, usableBytes int64, err error)

	mu sync.Mutex
	// +checklocks:mu
	open *question // nil: none
}

type question struct {
	answered                chan struct{}
	totalBytes, usableBytes int64 // these and err are written before answered is closed
	err                     error
}

func (v *volume) usage() (totalBytes, usableBytes int64, ok bool) {
	v.mu.Lock()
	q := v.open
	if q == nil {
		q = &question{answered: make(chan struct{})}
		v.open = q
		go v.answer(q)
	}
	v.mu.Unlock()
	select {
	case <-q.answered:
		return q.totalBytes, q.usableBytes, q.err == nil
	case <-time.After(limits.MetricsVolumeWait):
		return 0, 0, false
	}
}

func (v *volume) answer(q *question) {
	q.totalBytes, q.usableBytes, q.err = v.ask()
	v.mu.Lock()
	v.open = nil
	v.mu.Unlock()
	close(q.answered)
}

// poolMetrics registers the series of a pool of workers.
func poolMetrics(registry *obs.Registry, name string, workers int, pool *admin.Pool) {
	registry.Gauge(fmt.Sprintf("kaas_pool_requests{pool=%q}", name), func() float64 { return float64(pool.Waiting()) })
	registry.Gauge(fmt.Sprintf("kaas_pool_workers{pool=%q}", name), func() float64 { return float64(workers) })
}

// networkMetrics registers the network's series.
func networkMetrics(registry *obs.Registry, network *netio.Server) {
	registry.Collect(func(add obs.Add) {
		stats := network.Stats()
		add("kaas_connections", float64(stats.Connections))
		add("kaas_connections_accepted_total", float64(stats.Accepted))
		add("kaas_connections_refused_total", float64(stats.RefusedByIP))
		add("kaas_connections_delayed_total", float64(stats.AwaitedRoom))
		add("kaas_received_bytes_total", float64(stats.ReceivedBytes))
		add("kaas_sent_bytes_total", float64(stats.SentBytes))
		add("kaas_requests_in_flight", float64(stats.OpenSlots))
		add("kaas_outbound_bytes", float64(stats.OutboundBytes))
		add("kaas_network_wakes_total", float64(stats.Wakes))
	})
}

// processMetrics registers what is known before anything has started.
func processMetrics(registry *obs.Registry, health *obs.Health) {
	registry.Gauge(fmt.Sprintf("kaas_build_info{version=%q,go=%q}", versionText(), runtime.Version()), func() float64 { return 1 })
	registry.Gauge("kaas_ready", func() float64 {
		if ready, _ := health.State(); ready {
			return 1
		}
		return 0
	})
}
