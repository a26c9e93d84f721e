package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func newSealCmd() *cobra.Command {
	var client flightClient
	cmd := &cobra.Command{
		Use:   "seal",
		Short: "End a run behind the document stream's present last document",
		Long: `End a run behind the document stream's present last document: what waits in the pool is packed, the last step is padded or dropped
(steps.last), and every rank's stream ends at the same step. The decision is recorded in the plan, so a restart repeats it. Documents
published later belong to other runs. Sealing twice changes nothing.`,
		Example: `  loaderd publish corpus/ && loaderd seal
  loaderd seal --flight grpc://trainer-0:8815 --run pretrain-7`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return client.action(cmd.Context(), "seal", map[string]any{}, func(b []byte) error {
				var r struct {
					Run      string
					Sequence uint64
				}
				if err := json.Unmarshal(b, &r); err != nil {
					return fmt.Errorf("decode the daemon's answer: %w", err)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "run %s ends behind document %d\n", r.Run, r.Sequence)
				return nil
			})
		},
	}
	client.register(cmd)
	return cmd
}
