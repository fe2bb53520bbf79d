package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"kaas/bench"
)

func main() { os.Exit(run(os.Args[1:])) }

// run returns the exit code: 0 after a clean end, 1 after an error, which
// stands on stderr in one line.
func run(args []string) int {
	root := &cobra.Command{
		Use:           "kaas",
		Short:         "A Kafka-compatible broker",
		Long:          "kaas is a broker that speaks Apache Kafka's protocol: any Kafka client or tool connects unchanged.",
		Version:       versionLine(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(brokerCommand(), bench.Command(), versionCommand())
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "kaas: %v\n", err)
		return 1
	}
	return 0
}
