package bench

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kaas/bench/generator"
	"kaas/bench/goals"
	"kaas/bench/rig"
)

// options are what a run can be told.
type options struct {
	Broker         string // the binary under measurement
	DataParent     string // a directory is made and removed below it for each child
	Results        string // where the row goes; empty: nowhere
	Rows           string // scenarios by name; empty: all
	Bytes          int64  // moved in each measured run
	RecoveryBytes  int64  // written before kill -9
	WithoutProfile string // the binary built without profiles/default.pgo
	Children       *children
	Meter          *meter
	Rounds         int      // each is one A B B A
	Starts         int      // measured starts
	warmUpBytes    int64    // go through a side before it is measured; 0: warmUpBytes
	settle         bool     // a run is also timed until the volume has nothing dirty any more
	Prefix         []string // before the broker's command line: valgrind and its options
}

// Command is `kaas bench`.
func Command() *cobra.Command {
	o := options{}
	var megabytes, recoveryMegabytes int64
	var list bool
	command := &cobra.Command{
		Use:   "bench",
		Short: "Measure the broker against the physical limit of this machine",
		Long: `Measure the broker against the physical limit of this machine.

The same frames go to the broker and to a raw loop (socket read, CRC32C, append,
and the cheaper of sendfile and mmap+write), a bare echo or a bare fdatasync
loop of the same run, in the order A B B A, and the processor time of both is
read from outside. Each row says its commit, host, spread, target and whether
that was met. A scenario that fails is a row that says so.
Measure alone: other work on the machine is in every figure. All scenarios take
about 19 minutes, those with targets come first; in pieces (--rows) they are as
good, and bench table puts the rows together. An interrupt (ctrl-C) keeps the
rows of the scenarios that had come to their ends.

For a broker that runs already, of whatever make: load puts a load on it, frames
is the one for limits, compare --rival host:port runs the same loads on it and
on kaas.`,
		Example: `  # All scenarios, this binary's own broker, rows in bench/results
  kaas bench

  # Some of them; --list names all
  kaas bench --rows durable,tail

  # Of each target the newest row of all runs
  kaas bench table

  # A quick look, nothing written
  kaas bench --megabytes 256 --rounds 1 --results ''`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			o.Bytes, o.RecoveryBytes = megabytes*1_000_000, recoveryMegabytes*1_000_000
			if list {
				for _, s := range scenarios() {
					fmt.Fprintf(command.OutOrStdout(), "%-14s %4d s  %s\n", s.name, s.seconds, s.about)
				}
				return nil
			}
			ctx, stop := generator.UntilSignal(command.Context())
			defer stop()
			return runAll(ctx, o, command.OutOrStdout())
		},
	}
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	flags := command.Flags()
	flags.StringVar(&o.Broker, "broker", self, "the binary under measurement, started with the word broker and overrides")
	flags.StringVar(&o.DataParent, "data", os.TempDir(), "where the data directories are made and removed")
	flags.StringVar(&o.Results, "results", filepath.Join("bench", "results"), "where the row of the run is appended; empty writes none")
	flags.StringVar(&o.Rows, "rows", "", "scenarios, by name or regular expression, separated by commas; empty: all")
	flags.BoolVar(&list, "list", false, "name the scenarios and end")
	flags.Int64Var(&megabytes, "megabytes", 500, "moved in each measured run")
	flags.Int64Var(&recoveryMegabytes, "recovery-megabytes", 10_000, "written before the kill -9 of the scenario recovery")
	flags.StringVar(&o.WithoutProfile, "without-profile", filepath.Join("bin", "kaas-without-profile"), "the same program built with -pgo=off, for the scenario pgo")
	flags.IntVar(&o.Rounds, "rounds", 2, "rounds of A B B A")
	flags.IntVar(&o.Starts, "starts", 15, "measured starts of the broker")
	command.AddCommand(generator.Command(), framesCommand(), rawCommand(), echoCommand(), pollsCommand(), compareCommand(self), goals.Command(), profileCommand(self), checkCommand(self), baselineCommand(self))
	return command
}

// compareCommand measures kaas against another broker.
func compareCommand(self string) *cobra.Command {
	o := compareOptions{}
	var megabytes int64
	var list bool
	command := &cobra.Command{
		Use:   "compare",
		Short: "Measure kaas and another broker side by side",
		Long: `Measure kaas and another broker side by side, in the order A B B A.

The rival kafka is Apache Kafka of the end-to-end tests (one node, KRaft, its
own defaults), started here and warmed up for its compiler; any other is the
address of a broker that runs. Each row says what was durable.`,
		Example: `  # Against Apache Kafka
  kaas bench compare --rival kafka

  # Only two of the rows; --list names all
  kaas bench compare --rows 'storm;latency'

  # Against a broker that runs on this host
  kaas bench compare --rival 127.0.0.1:19092 --rival-pid 4711`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if list {
				fmt.Fprintln(command.OutOrStdout(), strings.Join(compareRows(), "\n"))
				return nil
			}
			o.Bytes = megabytes * 1_000_000
			if err := o.check(); err != nil {
				return err
			}
			ctx, stop := generator.UntilSignal(command.Context())
			defer stop()
			return runCompare(ctx, o, command.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.Broker, "broker", self, "kaas' binary")
	flags.StringVar(&o.Rival, "rival", "kafka", "kafka, or host:port of a broker that runs")
	flags.IntVar(&o.RivalPID, "rival-pid", 0, "process of a rival that runs, for its processor time")
	flags.StringVar(&o.Rows, "rows", "", "parts of the rows' names, separated by semicolons; empty: all")
	flags.StringVar(&o.Launcher, "launcher", filepath.Join("e2e", "kafka", "broker"), "starts Apache Kafka from a server.properties")
	flags.BoolVar(&list, "list", false, "name the rows and end")
	flags.DurationVar(&o.WarmUp, "warm-up", 30*time.Second, "of the rival, by the loads that are chosen")
	flags.StringVar(&o.DataParent, "data", os.TempDir(), "where the data directories are made and removed")
	flags.StringVar(&o.Results, "results", filepath.Join("bench", "results"), "where the row of the run is appended; empty writes none")
	flags.Int64Var(&megabytes, "megabytes", 500, "moved in each measured run")
	flags.IntVar(&o.Rounds, "rounds", 2, "rounds of A B B A")
	flags.Float64Var(&o.Rate, "rate", 1000, "records a second of the latency rows")
	flags.DurationVar(&o.Length, "seconds", 6*time.Second, "of one latency run")
	return command
}

// framesOptions are a load of prepared frames on a broker that runs.
type framesOptions struct {
	rig.Load
	bootstrap, flushMessages string
	bytes                    int64
	rate                     float64 // requests a second at intended times; 0: as many as can be under way
	length, warmUp           time.Duration
}

// framesCommand drives a broker that runs already, of whatever make.
func framesCommand() *cobra.Command {
	o := framesOptions{Load: rig.CostOfAByte(-1)}
	var megabytes int64
	command := &cobra.Command{
		Use:   "frames",
		Short: "Send prepared frames to a running broker and follow at the tail",
		Long: `Send prepared frames to a running broker and follow at the tail.

The client's own work is a write for each request and a look at each answer, so
that it is not what is measured. The broker must lead all partitions itself and
want no login; kaas bench load goes to any cluster.
With --rate nothing is read, requests have intended times, and their latencies
count from those.`,
		Example: `  # 1 KB records in 64 KB batches, acks=all
  kaas bench frames --bootstrap 127.0.0.1:9092

  # As many small requests as it takes
  kaas bench frames --batch-bytes 200 --value-bytes 100 --megabytes 20

  # Latencies of 2,000 requests of one record a second
  kaas bench frames --rate 2000 --batch-bytes 1100 --value-bytes 1000`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			o.bytes = megabytes * 1_000_000
			return o.run(command.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.bootstrap, "bootstrap", "127.0.0.1:9092", "the broker")
	flags.Int64Var(&megabytes, "megabytes", 1000, "produced in all")
	flags.IntVar(&o.Partitions, "partitions", o.Partitions, "of the new topic, which is deleted at the end")
	flags.IntVar(&o.Producers, "producers", o.Producers, "connections that produce; partitions are dealt out to them")
	flags.IntVar(&o.Consumers, "consumers", o.Consumers, "connections that fetch; partitions are dealt out to them")
	flags.IntVar(&o.InFlight, "in-flight", o.InFlight, "requests of one connection without an answer")
	flags.Int16Var(&o.Acks, "acks", o.Acks, "1 or -1 (all)")
	flags.IntVar(&o.BatchBytes, "batch-bytes", o.BatchBytes, "largest batch")
	flags.IntVar(&o.ValueBytes, "value-bytes", o.ValueBytes, "of one record")
	flags.StringVar(&o.flushMessages, "flush-messages", "", "the topic's flush.messages; empty: the broker's default")
	flags.Float64Var(&o.rate, "rate", 0, "requests a second at intended times; 0: as many as it takes")
	flags.DurationVar(&o.length, "duration", 10*time.Second, "of the measured part, with --rate")
	flags.DurationVar(&o.warmUp, "warm-up", 2*time.Second, "before it, not measured, with --rate")
	return command
}

func (o *framesOptions) run(out io.Writer) (err error) {
	if o.rate < 0 || o.rate > 1e6 {
		return fmt.Errorf("--rate %v: allowed is 0 to 1000000", o.rate)
	}
	o.Topic = fmt.Sprintf("bench-%d", time.Now().UnixNano())
	d := rig.NewDriver(o.Load, o.bootstrap)
	var configs [][2]string
	if o.flushMessages != "" {
		configs = append(configs, [2]string{"flush.messages", o.flushMessages})
	}
	if err := d.CreateTopic(configs); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.DeleteTopic()) }()
	before, begin := generator.OwnCPU(), time.Now()
	if o.rate > 0 {
		paced := &rig.Paced{Address: o.bootstrap, Frames: d.Frames(), Check: rig.ProduceAnswer(o.Topic), Connections: o.Producers, Rate: o.rate, WarmUp: o.warmUp, Length: o.length}
		l, err := paced.Run()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%d requests at intended times, %.0f a second: p50 %.3f p90 %.3f p99 %.3f p99.9 %.3f max %.3f ms\n", len(l), o.rate, l.At(0.5), l.At(0.9), l.At(0.99), l.At(0.999), l.At(1))
		fmt.Fprintf(out, "of that the sender's own lateness: p50 %.3f p99 %.3f max %.3f ms\n", paced.Late.At(0.5), paced.Late.At(0.99), paced.Late.At(1))
		fmt.Fprintf(out, "the generator itself used %.2f CPU s in %.1f s\n", (generator.OwnCPU() - before).Seconds(), time.Since(begin).Seconds())
		return nil
	}
	moved, err := d.Run(o.bytes)
	if err != nil {
		return err
	}
	seconds, own := moved.Took.Seconds(), (generator.OwnCPU() - before).Seconds()
	fmt.Fprintf(out, "topic %s: %d bytes in and out in %.3f s, %.0f MB/s, %.0f produce requests/s, %.0f KiB a fetch\nthe generator itself used %.2f CPU s, %.2f CPU s/GB in and out\n",
		o.Topic, moved.Bytes, seconds, float64(moved.Bytes)/1e6/seconds, float64(moved.Produces)/seconds, float64(moved.Bytes)/1024/float64(max(moved.Fetches, 1)), own, own/(2*float64(moved.Bytes)/1e9))
	return nil
}

// How the raw loop runs: it sends by sendfile, by mmap and writev, or by
// sendfile after forcing what it answers to stable storage.
const (
	rawSendfile = "sendfile"
	rawMapped   = "mmap"
	rawSync     = "sync"
)

// echoCommand is the bare echo's own process.
func echoCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "echo-loop ADDRESS",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, arguments []string) error { return rig.RunEcho(arguments[0]) },
	}
}

// pollsCommand is the process of the raw loop that idle consumers wait at.
func pollsCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "polls-loop ADDRESS WAIT",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, arguments []string) error {
			wait, err := time.ParseDuration(arguments[1])
			if err != nil {
				return err
			}
			return rig.RunPolls(arguments[0], wait)
		},
	}
}

// rawCommand is the raw loop's own process.
func rawCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "raw-loop ADDRESS DIRECTORY PARTITIONS sendfile|mmap|sync",
		Hidden: true,
		Args:   cobra.ExactArgs(4),
		RunE: func(_ *cobra.Command, arguments []string) error {
			partitions, err := strconv.Atoi(arguments[2])
			if err != nil {
				return err
			}
			switch how := arguments[3]; how {
			case rawSendfile, rawMapped, rawSync:
				return rig.RunRaw(arguments[0], arguments[1], partitions, how == rawMapped, how == rawSync)
			default:
				return fmt.Errorf("%q is no way to run the raw loop", how)
			}
		},
	}
}
