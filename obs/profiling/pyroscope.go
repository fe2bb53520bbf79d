package profiling

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/grafana/pyroscope-go"

	"kaas/obs"
)

// Options say what is pushed where.
type Options struct {
	ServerAddress        string // http://host:port
	ApplicationName      string
	TenantID             string
	User, Password       string // HTTP basic authentication; empty is none
	Labels               map[string]string
	Types                []string // Pyroscope's names
	UploadInterval       time.Duration
	MutexProfileFraction int
	BlockProfileRateNs   int
	Logger               *slog.Logger
}

// stopTimeout bounds the last push: a server that is away must not hold up the
// end of the broker.
const stopTimeout = 3 * time.Second

// Start begins to push. stop pushes what has been collected and ends it, or
// gives up after stopTimeout; then the client's goroutines end with the process.
//
// The client would run a full collection before each heap profile; that would
// stall the data path, so heap profiles are those of the last collection that
// the runtime made by itself.
func Start(o Options) (stop func() error, err error) {
	var types []pyroscope.ProfileType
	for _, name := range o.Types {
		types = append(types, pyroscope.ProfileType(name))
	}
	Contention(o.recorded("mutex_", o.MutexProfileFraction), o.recorded("block_", o.BlockProfileRateNs))
	profiler, err := pyroscope.Start(pyroscope.Config{
		ApplicationName: o.ApplicationName, Tags: o.Labels, ServerAddress: o.ServerAddress,
		BasicAuthUser: o.User, BasicAuthPassword: o.Password, TenantID: o.TenantID,
		UploadRate: o.UploadInterval, ProfileTypes: types, DisableGCRuns: true, Logger: &clientLog{logger: o.Logger, failed: obs.Limited{Every: time.Minute}},
	})
	if err != nil {
		return nil, fmt.Errorf("profiling.pyroscope.server.address %s: %w", o.ServerAddress, err)
	}
	return func() error {
		done := make(chan error, 1)
		go func() {
			// The client's flush waits for ever for a CPU profile that is not taken.
			if slices.Contains(o.Types, "cpu") {
				profiler.Flush(true)
			}
			done <- profiler.Stop()
		}()
		select {
		case err := <-done:
			return err
		case <-time.After(stopTimeout):
			return fmt.Errorf("the last profiles were not pushed to %s within %v", o.ServerAddress, stopTimeout)
		}
	}, nil
}

// recorded is a rate when one of the types with this prefix is pushed, else 0.
func (o *Options) recorded(prefix string, rate int) int {
	if slices.ContainsFunc(o.Types, func(name string) bool { return strings.HasPrefix(name, prefix) }) {
		return rate
	}
	return 0
}

// Contention makes the runtime record mutex contention, one in so many, and
// blocking, one sample for so many nanoseconds. 0 leaves either as it is.
func Contention(mutexFraction, blockRateNs int) {
	if mutexFraction > 0 {
		runtime.SetMutexProfileFraction(mutexFraction)
	}
	if blockRateNs > 0 {
		runtime.SetBlockProfileRate(blockRateNs)
	}
}

// clientLog is the client's logger. A server that is away is said, at most
// once a minute; it is never a reason to stop.
type clientLog struct {
	logger *slog.Logger
	failed obs.Limited
}

func (l *clientLog) Infof(format string, args ...any) { l.logger.Debug(fmt.Sprintf(format, args...)) }
func (l *clientLog) Debugf(string, ...any)            {}
func (l *clientLog) Errorf(format string, args ...any) {
	l.failed.Warn(l.logger, "a profile was not pushed", slog.String("reason", fmt.Sprintf(format, args...)))
}

// Labels are the goroutine labels of one API, made once.
type Labels struct{ set context.Context }

// APILabels returns the labels of an API's requests: api=NAME.
func APILabels(api string) Labels {
	return Labels{pprof.WithLabels(context.Background(), pprof.Labels("api", api))}
}

// Begin puts the labels on this goroutine; End takes them off. Neither
// allocates. The goroutine must have no other labels.
func (l Labels) Begin() { pprof.SetGoroutineLabels(l.set) }

// End takes the labels off this goroutine.
func End() { pprof.SetGoroutineLabels(context.Background()) }
