package bench

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

func (o *guardOptions) flags(command *cobra.Command, self string) {
	flags := command.Flags()
	flags.StringVar(&o.Broker, "broker", self, "the binary under guard")
	flags.StringVar(&o.Instrumented, "instrumented", filepath.Join("bin", "kaas-valgrind"), "the same program, built with -tags valgrind and with symbols")
	flags.StringVar(&o.DataParent, "data", os.TempDir(), "where the data directories are made and removed")
	flags.StringVar(&o.Baseline, "baseline", filepath.Join("bench", "baselines", "guard.ndjson"), "the committed rows")
	flags.StringVar(&o.Only, "only", "", "a regular expression: measure only gates whose name matches (size, memory, allocations, syscalls, instructions, time)")
	flags.IntVar(&o.Rounds, "rounds", 3, "rounds of A B B A of the ratio of times")
}

// checkCommand is the regression guard.
func checkCommand(self string) *cobra.Command {
	o := guardOptions{}
	command := &cobra.Command{
		Use:   "check",
		Short: "Fail when a row is worse than its committed baseline",
		Long: `Fail when a row is worse than its committed baseline.

Size of the binary, idle memory, allocations, system calls (by strace) and
instructions (by valgrind) do not change with other work on the machine. Time
is a ratio to the raw loop of the same run, judged by the favourable end of
its interval. A row that is better never fails.`,
		Example: `  # All gates
  kaas bench check

  # Only the counts of system calls
  kaas bench check --only syscalls`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error { return checkAll(o, command.OutOrStdout()) },
	}
	o.flags(command, self)
	return command
}

// baselineCommand writes what checkCommand compares with.
func baselineCommand(self string) *cobra.Command {
	o := guardOptions{}
	command := &cobra.Command{
		Use:     "baseline",
		Short:   "Measure the rows of check and write them as the new baseline",
		Example: `  kaas bench baseline --reason 'replies carry a CRC now: 12 instructions'`,
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return saveBaseline(o, command.OutOrStdout()) },
	}
	o.flags(command, self)
	command.Flags().StringVar(&o.Reason, "reason", "", "why the rows may move; it is written beside each")
	return command
}
