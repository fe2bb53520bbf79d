package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"kaas/internal/footprint"
	"kaas/internal/limits"
	"kaas/meta/config"
	"kaas/obs"
)

const brokerExamples = `  # Durable, on :9092, data in ./kaas-data
  kaas broker

  # Kafka's own configuration file; keys without meaning here are named in one line
  kaas broker server.properties

  # Single keys win over the file and over KAFKA_ variables
  kaas broker --override log.dirs=/var/lib/kaas --override num.partitions=3

  # The variables of Kafka's container image
  KAFKA_LISTENERS=PLAINTEXT://:19092 KAFKA_LOG_DIRS=./data kaas broker

  # In memory, nothing is written to disk, topics come by auto-creation
  kaas broker --dev`

func brokerCommand() *cobra.Command {
	var overrides []string
	var dev bool
	cmd := &cobra.Command{
		Use:   "broker [server.properties]",
		Short: "Run a broker",
		Long: `Run a broker. Without a file it listens on :9092 and keeps its data in ./kaas-data.

Keys, defaults and units are Apache Kafka's; docs/configuration.md lists them.
The file comes first, then KAFKA_ environment variables (KAFKA_LOG_DIRS is log.dirs),
then --override; what comes later wins.

SIGTERM, SIGINT and SIGHUP stop the broker: it takes no new connections, answers what
is in flight, commits and exits with 0. A second signal exits at once. A SIGHUP that
is ignored from the start on (nohup) stays ignored.

With --dev everything is in memory. Topics come by auto-creation, DeleteTopics and
DeleteRecords work; requests that write resources (CreateTopics, configs, passwords) are
refused; ACLs are taken and not kept.`,
		Example: brokerExamples,
		Args:    oneFile,
		RunE: func(_ *cobra.Command, files []string) error {
			started := time.Now()
			cfg, warnings, err := config.LoadBroker(files, os.Environ(), overrides)
			if err != nil {
				return err
			}
			cfg.Dev = dev
			level := new(slog.LevelVar) // INFO; kafka-configs --entity-type broker-loggers changes it
			logger := obs.NewLogger(os.Stderr, isTerminal(os.Stderr), level)
			for _, w := range warnings {
				logger.Warn(w.Message)
			}
			return serve(cfg, logger, level, started)
		},
	}
	cmd.Flags().StringArrayVar(&overrides, "override", nil, "a `key=value` that wins over file and environment; may be repeated")
	cmd.Flags().BoolVar(&dev, "dev", false, "keep everything in memory; topics come by auto-creation and can be deleted")
	return cmd
}

// oneFile checks the arguments. A key=value without its flag is a mistake that is
// made easily, and as a file it would only not exist.
func oneFile(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("one configuration file at most, got %q; see kaas broker --help", args)
	}
	if len(args) == 1 && strings.Contains(args[0], "=") {
		if _, err := os.Stat(args[0]); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("configuration file %s does not exist; a key=value stands behind --override", args[0])
		}
	}
	return nil
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// stopSignals end the broker, as they end a JVM: SIGHUP, which a terminal sends when
// it is closed, not when the broker was told to ignore it (nohup).
func stopSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// serve runs a broker until a signal ends it.
func serve(cfg *config.Broker, logger *slog.Logger, level *slog.LevelVar, started time.Time) error {
	signals := make(chan os.Signal, 2) // two: the second one must not be lost while the first is handled
	signal.Notify(signals, stopSignals()...)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stopping := make(chan os.Signal, 1)
	go func() {
		stopping <- <-signals
		first := time.Now()
		cancel() // a start that is still under way ends here
		os.Exit(awaitForcedExit(signals, first, limits.ForcedExitTimeout, logger))
	}()

	s, err := start(ctx, cfg, logger, level)
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it was ready; what was opened is closed again
		}
		return err
	}
	stopSettling := s.settle()
	s.logReady(started)
	logger.Info("stopping", slog.String("signal", (<-stopping).String()))
	stopSettling()
	stopCtx, cancelStop := context.WithTimeout(context.Background(), limits.StopTimeout)
	defer cancelStop()
	began := time.Now()
	if err := s.stop(stopCtx); err != nil {
		return err
	}
	logger.Info("stopped", slog.Float64("stopMs", float64(time.Since(began).Microseconds())/1000))
	return nil
}

// settle keeps the heap below the container's limit, says when the limit of open
// files is too small, and a moment later gives back what only the start has needed.
func (s *server) settle() (stop func()) {
	if s.memoryLimit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(s.memoryLimit / 100 * limits.HeapPercent)
	}
	if files, partitions := footprint.OpenFiles(), len(s.store.All()); files > 0 && partitions+limits.ReservedFiles > files {
		s.logger.Warn("the limit of open files is small for the partitions and connections of this broker; raise it (ulimit -Hn, LimitNOFILE=)",
			slog.Int("limit", files), slog.Int("partitions", partitions))
	}
	drop := func() {
		if err := footprint.DropImage(); err != nil {
			s.logger.Warn("pages that only the start has needed stay resident", slog.Any("error", err))
		}
	}
	first, again := time.AfterFunc(limits.SettleTime, drop), time.AfterFunc(limits.SettleAgainTime, drop)
	return func() {
		first.Stop()
		again.Stop()
	}
}

// awaitForcedExit returns the exit code of a broker that does not get to its end:
// a second signal came, or limit has passed since the first one because the start
// or the stop hangs in the file system, where nothing can be cancelled.
func awaitForcedExit(signals <-chan os.Signal, first time.Time, limit time.Duration, logger *slog.Logger) int {
	hangs := time.After(time.Until(first.Add(limit)))
	for {
		select {
		case s := <-signals:
			if time.Since(first) < limits.SignalEcho {
				continue
			}
			logger.Warn("second signal: exiting at once, without a last commit", slog.String("signal", s.String()))
			return 128 + int(s.(syscall.Signal))
		case <-hangs:
			logger.Error("the stop hangs: exiting without a last commit", slog.Duration("after", limit))
			return 1
		}
	}
}
