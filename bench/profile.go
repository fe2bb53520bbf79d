package bench

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

// takeProfile records the processor profile of a broker while the contests
// run against it in turn, each for about the same time: what a build learns
// from must not be one load alone.
func takeProfile(o options, path string, length time.Duration, out io.Writer) (err error) {
	s, err := startBroker(o, costOfAByte(1), "profiling.pprof.enable=true")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, s.output)
		}
		err = errors.Join(err, s.close())
	}()
	profiled := fetchProfile(s.httpAddress, length)
	all := contests()
	drivers := make([]*driver, len(all))
	for turn := 0; ; turn++ {
		select {
		case a := <-profiled:
			if a.err != nil {
				return a.err
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			fmt.Fprintf(out, "%d bytes of profile over %v and %d runs were written to %s\n", len(a.profile), length, turn, path)
			return os.WriteFile(path, a.profile, 0o644)
		default:
		}
		c := all[turn%len(all)]
		if drivers[turn%len(all)] == nil {
			flush := neverFlush
			if c.durable {
				flush = "1"
			}
			c.load.Topic = fmt.Sprintf("profile-%d", turn)
			d := newDriver(c.load, s.address)
			if err := d.createTopic([][2]string{{"flush.messages", flush}}); err != nil {
				return err
			}
			drivers[turn%len(all)] = d
		}
		d := drivers[turn%len(all)]
		consumers := d.Consumers
		if c.drain {
			d.Consumers = 0
		}
		if _, err := d.run(int64(c.bytes * 200e6)); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if c.drain {
			producers := d.Producers
			d.Producers, d.Consumers = 0, consumers
			_, err := d.run(0)
			if d.Producers = producers; err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
	}
}

type answer struct {
	profile []byte
	err     error
}

// fetchProfile asks for a processor profile of some length; one answer comes.
func fetchProfile(httpAddress string, length time.Duration) <-chan answer {
	profiled := make(chan answer, 1)
	go func() {
		client := &http.Client{Timeout: length + stalled}
		response, err := client.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", httpAddress, int(length.Seconds())))
		if err != nil {
			profiled <- answer{err: err}
			return
		}
		defer response.Body.Close()
		profile, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", response.Status, profile)
		}
		profiled <- answer{profile, err}
	}()
	return profiled
}

// profileCommand writes what builds are optimised by.
func profileCommand(self string) *cobra.Command {
	o := options{}
	var path string
	var length time.Duration
	command := &cobra.Command{
		Use:     "profile",
		Short:   "Record the processor profile that builds are optimised by",
		Example: `  kaas bench profile --out profiles/default.pgo`,
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return takeProfile(o, path, length, command.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.StringVar(&o.Broker, "broker", self, "the binary that is profiled")
	flags.StringVar(&o.DataParent, "data", os.TempDir(), "where the data directory is made and removed")
	flags.StringVar(&path, "out", filepath.Join("profiles", "default.pgo"), "the file")
	flags.DurationVar(&length, "length", 40*time.Second, "of the profile")
	return command
}
