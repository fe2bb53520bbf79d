package generator

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Plan says what is sent and read.
type Plan struct {
	Bootstrap     []string      `json:"bootstrap"`
	CommandConfig string        `json:"commandConfig"` // how to log in: a client's properties
	Topic         string        `json:"topic"`
	Partitions    int32         `json:"partitions"`   // of the topic, when it is made
	DeleteTopic   bool          `json:"deleteTopic"`  // one that the run has made
	TopicConfigs  []string      `json:"topicConfigs"` // key=value
	Duration      time.Duration `json:"durationNs"`   // of the measured part
	WarmUp        time.Duration `json:"warmUpNs"`     // before it, not measured
	Records       int64         `json:"records"`      // ends the run as well; 0 is no bound

	Producers   int           `json:"producers"`       // clients
	Rate        float64       `json:"recordsPerSec"`   // of all producers together; 0 is the closed loop
	InFlight    int           `json:"recordsInFlight"` // of one producer in the closed loop
	ValueBytes  int           `json:"valueBytes"`
	Payload     string        `json:"payload"` // random, compressible or file:PATH
	Keys        int           `json:"keys"`    // distinct keys; 0 is none
	Acks        string        `json:"acks"`    // 0, 1 or all
	Idempotent  bool          `json:"idempotent"`
	Compression string        `json:"compression"` // none, gzip, snappy, lz4, zstd
	Linger      time.Duration `json:"lingerNs"`
	BatchBytes  int32         `json:"batchBytes"`

	Consumers int           `json:"consumers"`      // clients
	Group     string        `json:"group"`          // empty: partitions are dealt out
	Reading   float64       `json:"consumedPerSec"` // records a second that consumers read at most, all together; 0: as they come
	Backlog   bool          `json:"backlog"`        // consumers begin when producers have ended
	Idle      int           `json:"idleConnections"`
	Churn     float64       `json:"connectionsPerSec"` // opened, used once, closed
	Interval  time.Duration `json:"intervalNs"`        // of progress and of the plots' points
	Seed      uint64        `json:"seed"`
	Timeout   time.Duration `json:"timeoutNs"` // of every wait for the brokers
}

// DefaultPlan is a closed loop of 1 KB records for ten seconds.
func DefaultPlan() Plan {
	return Plan{
		Bootstrap: []string{"127.0.0.1:9092"}, Partitions: 16, Duration: 10 * time.Second, WarmUp: 2 * time.Second,
		Producers: 2, InFlight: 1000, ValueBytes: 1024, Payload: "random", Acks: "all", Idempotent: true, Compression: "none",
		BatchBytes: 1_000_000, Consumers: 2, Interval: time.Second, Seed: 1, Timeout: 30 * time.Second,
	}
}

// settle gives what was not asked for its value: a number of records is sent and
// measured as a whole.
func (p *Plan) settle(given func(flag string) bool) {
	if p.Records > 0 && !given("duration") {
		p.Duration = 0
	}
	if (p.Records > 0 || p.Backlog) && !given("warm-up") {
		p.WarmUp = 0
	}
}

// mostMeasured bounds what a histogram holds; later answers count as this.
const mostMeasured = 10 * time.Minute

const (
	mostRate        = 10e6 // records a second; a client can't send more
	mostChurnRate   = 1e5  // connections a second
	leastBatchBytes = 512  // the client library's
	recordOverhead  = 100  // what a batch of one record has beside the value, about
)

func (p *Plan) validate() error {
	bad := func(what string, allowed string) error { return fmt.Errorf("%s: allowed is %s", what, allowed) }
	var errs []error
	check := func(ok bool, what, allowed string) {
		if !ok {
			errs = append(errs, bad(what, allowed))
		}
	}
	check(len(p.Bootstrap) > 0 && !slices.ContainsFunc(p.Bootstrap, func(s string) bool { return !isAddress(s) }), "--bootstrap", "host:port, separated by commas")
	check(p.Topic == "" || isTopic(p.Topic), "--topic", "up to 249 letters, digits, dots, underscores and dashes")
	check(!slices.ContainsFunc(p.TopicConfigs, func(s string) bool { return strings.Index(s, "=") < 1 }), "--topic-config", "key=value")
	check(p.Partitions > 0, "--partitions", "1 or more")
	check(p.Producers >= 0 && p.Consumers >= 0 && p.Producers+p.Consumers > 0, "--producers and --consumers", "at least one of either")
	check(p.Rate >= 0 && p.Rate <= mostRate, "--rate", "0 (closed loop) or up to 10000000 records a second")
	check(p.Rate > 0 || p.InFlight > 0, "--in-flight", "1 or more in the closed loop")
	check(p.BatchBytes >= leastBatchBytes, "--batch-bytes", "512 or more")
	check(p.ValueBytes >= 0 && p.ValueBytes <= int(p.BatchBytes)-recordOverhead, "--value-bytes", "0 to 100 less than --batch-bytes")
	check(p.Linger >= 0, "--linger", "0 or a time")
	check(p.WarmUp >= 0, "--warm-up", "0 or a time")
	check(p.Records >= 0, "--records", "0 (no bound) or a number")
	check(p.Timeout > 0, "--timeout", "a time")
	check(slices.Contains([]string{"0", "1", "all", "-1"}, p.Acks), "--acks", "0, 1 or all")
	check(slices.Contains([]string{"none", "gzip", "snappy", "lz4", "zstd"}, p.Compression), "--compression", "none, gzip, snappy, lz4 or zstd")
	check(p.Payload == "random" || p.Payload == "compressible" || strings.HasPrefix(p.Payload, "file:"), "--payload", "random, compressible or file:PATH")
	check(p.Duration > 0 || p.Duration == 0 && p.Records > 0, "--duration", "a time, or --records with a number")
	check(p.Interval >= 10*time.Millisecond, "--interval", "10ms or more")
	check(p.Idle >= 0 && p.Keys >= 0, "--idle-connections and --keys", "0 or more")
	check(p.Churn >= 0 && p.Churn <= mostChurnRate, "--churn", "0 to 100000 connections a second")
	check(p.Idle+p.Producers+p.Consumers < 60_000, "--idle-connections", "what one address can have of ports: below 60000")
	check(p.Reading >= 0 && p.Reading <= mostRate, "--consume-rate", "0 (no bound) or up to 10000000 records a second")
	check(!p.Backlog || p.Reading == 0, "--consume-rate", "0 with --backlog")
	check(!p.Backlog || p.Consumers > 0 && p.Producers > 0, "--backlog", "with producers and consumers")
	// All of a backlog is read, so all of it is measured.
	check(!p.Backlog || p.WarmUp == 0, "--warm-up", "0 with --backlog")
	if p.Acks == "-1" {
		p.Acks = "all"
	}
	p.Idempotent = p.Idempotent && p.Acks == "all"
	return errors.Join(errs...)
}

// isTopic tells what Kafka takes (org.apache.kafka.common.internals.Topic). An expression for it would be compiled by every start of
// the broker, which is the same program, and cost more than a megabyte of its memory.
func isTopic(s string) bool {
	other := strings.TrimFunc(s, func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
	})
	return s != "" && len(s) <= 249 && other == "" && s != "." && s != ".."
}

func isAddress(s string) bool {
	host, port, err := net.SplitHostPort(s)
	n, bad := strconv.Atoi(port)
	return err == nil && host != "" && bad == nil && n > 0 && n < 1<<16
}

// before tells whether an intended time lies in the run: what was to be sent
// in it is sent, however late.
func (p *Plan) before(intended, begin time.Time) bool {
	return p.Duration == 0 || intended.Before(begin.Add(p.WarmUp+p.Duration))
}
