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

	"kaas/bench/rig"
)

// takeProfile records the processor profile of a broker while the contests
// run against it in turn, each for about the same time: what a build learns
// from must not be one load alone.
func takeProfile(o options, path string, length time.Duration, out io.Writer) (err error) {
	s, err := startBroker(o, rig.CostOfAByte(1), "profiling.pprof.enable=true")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = s.explain(err)
		}
		err = errors.Join(err, s.close())
	}()
	profiled := fetchProfile(s.httpAddress, length)
	all := contests()
	sides := make([]*contender, len(all))
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
		at := turn % len(all)
		if sides[at] == nil {
			sides[at] = &contender{name: "kaas", address: s.address}
			if err := enter(all[at], fmt.Sprintf("profile-%d", turn), sides[at]); err != nil {
				return err
			}
		}
		if _, err := fight(int64(all[at].bytes*200e6), all[at], sides[at]); err != nil {
			return fmt.Errorf("%s: %w", all[at].name, err)
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
		client := &http.Client{Timeout: length + rig.Patience}
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
