package generator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// Command is `kaas bench load`.
func Command() *cobra.Command {
	plan := DefaultPlan()
	var ndjson, html string
	var quiet bool
	command := &cobra.Command{
		Use:   "load",
		Short: "Put a load on any broker that speaks Kafka's protocol and measure latencies",
		Long: `Put a load on any broker that speaks Kafka's protocol and measure latencies.

With --rate the loop is open: records have intended send times, and latency
counts from those, so a broker that stalls is charged for all that waited.
Without it the loop is closed: each producer keeps --in-flight records under way.

An interrupt (ctrl-C) ends the run early and shows what was measured until then.`,
		Example: `  # 20,000 records of 1 KB a second, followed at the tail, with a page of plots
  kaas bench load --bootstrap 127.0.0.1:9092 --rate 20000 --duration 60s --html load.html

  # As much as it takes, compressed
  kaas bench load --payload compressible --compression zstd --linger 5ms

  # A backlog of a million records, then two consumers that read it
  kaas bench load --records 1000000 --backlog

  # A cluster that wants a login, with a file as for Kafka's own tools
  kaas bench load --bootstrap broker:9092 --command-config client.properties --group bench

  # 200 producers of small keyed records, 1000 idle connections, 50 new ones a second
  kaas bench load --producers 200 --rate 20000 --value-bytes 100 --keys 10000 --idle-connections 1000 --churn 50`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			plan.settle(command.Flags().Changed)
			out := command.OutOrStdout()
			ctx, stop := UntilSignal(command.Context())
			defer stop()
			var screen io.Writer
			if !quiet {
				screen = os.Stderr
			}
			show := progressTo(screen, terminalWidth(os.Stderr))
			result, err := Run(ctx, plan, show)
			if show != nil {
				fmt.Fprintln(os.Stderr)
			}
			// Nothing was sent or read: then there is nothing to show but why.
			if result == nil || err != nil && result.Summary.Acked == 0 && result.Summary.Consumed == 0 {
				return err
			}
			if ndjson != "-" {
				fmt.Fprint(out, result.table())
			}
			if ndjson != "" {
				err = errors.Join(err, save(ndjson, out, result.writeNDJSON))
			}
			if html != "" {
				err = errors.Join(err, save(html, out, result.writePage))
			}
			return err
		},
	}
	planFlags(command, &plan)
	flags := command.Flags()
	flags.StringVar(&ndjson, "ndjson", "", "write one line an interval and one summary to this file; - is the standard output, instead of the table")
	flags.StringVar(&html, "html", "", "write a page with plots to this file")
	flags.BoolVar(&quiet, "quiet", false, "no progress on a terminal; elsewhere there is none")
	return command
}

func planFlags(command *cobra.Command, p *Plan) {
	flags := command.Flags()
	flags.StringSliceVar(&p.Bootstrap, "bootstrap", p.Bootstrap, "brokers, separated by commas")
	flags.StringVar(&p.CommandConfig, "command-config", "", "how to reach the brokers: a file with security.protocol, sasl.mechanism (PLAIN, SCRAM) and sasl.jaas.config, ssl.truststore.location and ssl.keystore.location (PEM), as for Kafka's tools")
	flags.StringVar(&p.Topic, "topic", "", "made if it does not exist; empty: a new one")
	flags.BoolVar(&p.DeleteTopic, "delete-topic", false, "delete a topic that the run has made at its end")
	flags.Int32Var(&p.Partitions, "partitions", p.Partitions, "of a topic that is made")
	flags.StringArrayVar(&p.TopicConfigs, "topic-config", nil, "`key=value` of a topic that is made; may be repeated")
	flags.DurationVar(&p.Duration, "duration", p.Duration, "of the measured part; with --records no bound unless it is given, too")
	flags.DurationVar(&p.WarmUp, "warm-up", p.WarmUp, "before it, not measured; with --records and --backlog none unless it is given")
	flags.Int64Var(&p.Records, "records", 0, "end after so many; 0 is no bound")
	flags.IntVar(&p.Producers, "producers", p.Producers, "clients that produce")
	flags.Float64Var(&p.Rate, "rate", 0, "records a second of all producers, at intended times; 0 is the closed loop")
	flags.IntVar(&p.InFlight, "in-flight", p.InFlight, "records under way of one producer in the closed loop")
	flags.IntVar(&p.ValueBytes, "value-bytes", p.ValueBytes, "of a record; from 8 on it carries its intended time, for end-to-end latency")
	flags.StringVar(&p.Payload, "payload", p.Payload, "random, compressible or file:PATH")
	flags.IntVar(&p.Keys, "keys", 0, "distinct keys; 0: records have none")
	flags.StringVar(&p.Acks, "acks", p.Acks, "0, 1 or all")
	flags.BoolVar(&p.Idempotent, "idempotent", p.Idempotent, "with acks=all")
	flags.StringVar(&p.Compression, "compression", p.Compression, "none, gzip, snappy, lz4 or zstd")
	flags.DurationVar(&p.Linger, "linger", 0, "how long a batch waits for more records")
	flags.Int32Var(&p.BatchBytes, "batch-bytes", p.BatchBytes, "largest batch")
	flags.IntVar(&p.Consumers, "consumers", p.Consumers, "clients that consume")
	flags.StringVar(&p.Group, "group", "", "consumer group; empty: partitions are dealt out")
	flags.Float64Var(&p.Reading, "consume-rate", 0, "records a second that consumers read at most, so that they lag; what they have not read by the end is left")
	flags.BoolVar(&p.Backlog, "backlog", false, "consumers begin when producers have ended")
	flags.IntVar(&p.Idle, "idle-connections", 0, "opened before the run, and then silent")
	flags.Float64Var(&p.Churn, "churn", 0, "connections a second that are opened, used once and closed")
	flags.DurationVar(&p.Interval, "interval", p.Interval, "of progress and of the plots' points")
	flags.DurationVar(&p.Timeout, "timeout", p.Timeout, "how long to wait for an answer; a record without one is counted as not answered")
	flags.Uint64Var(&p.Seed, "seed", p.Seed, "of the payload")
}

// progressTo rewrites one line of a terminal, cut to its width: what wraps can't be written over. Elsewhere there is no
// progress.
func progressTo(screen io.Writer, width int) func(Point) {
	if screen == nil || width == 0 {
		return nil
	}
	return func(p Point) {
		line := []rune(p.line())
		fmt.Fprintf(screen, "\r\x1b[K%s", string(line[:min(len(line), width-1)]))
	}
}

// terminalWidth is 0 when the file is no terminal.
func terminalWidth(file *os.File) int {
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	switch {
	case err != nil:
		return 0
	case size.Col < 20: // it does not say
		return 80
	}
	return int(size.Col)
}

// UntilSignal is a context that the first interrupt or termination ends; a second one ends the process at once.
func UntilSignal(parent context.Context) (ctx context.Context, stop func()) {
	if parent == nil { // a command that was executed without one
		parent = context.Background()
	}
	ctx, stop = signal.NotifyContext(parent, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
