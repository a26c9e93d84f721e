package runcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/spf13/cobra"

	"loaderd/internal/api"
	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
	"loaderd/internal/humanize"
	"loaderd/loader/mixture"
)

// NewMixCmd returns the command mix.
func NewMixCmd() *cobra.Command {
	var client command.FlightClient
	var set, add, remove []string
	var dryRun, asJSON bool
	cmd := &cobra.Command{
		Use:   "mix",
		Short: "Show or change the mixture of sources",
		Long: `Show the mixture of sources: the share of the tokens that each is to have, has had so far and had in the last steps, and what is left
of it. With --set, --add or --remove it is changed: with the next document that is planned, on all ranks at the same step. The change is a record
of the plan, so that a restart repeats it. What is in flight (pool, hold, shuffle window) was taken before and comes first.

--set gives sources other weights, relative to those of all; the others keep their present shares as weights. Weights are of tokens.
--add takes a source into the run from the first document that its stream holds: NAME=WEIGHT, or NAME={weight: 0.2, epochs: 2} with the settings of a
source in a configuration. Its stream (DOCS_NAME) is made where it is absent.
--remove lets a source go: no document of it is taken any more. Its name cannot come back.`,
		Example: `  loaderd mix
  loaderd mix --set math=0.4 --set web=0.3 --dry-run
  loaderd mix --add 'forum={weight: 0.2, epochs: 2}' --remove code`,
		Args: command.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			change := api.MixChange{Remove: remove, DryRun: dryRun}
			var err error
			if change.Weights, err = readWeights(set); err == nil {
				change.Add, err = readAdded(add)
			}
			if err != nil {
				return command.Usage(err)
			}
			var m api.MixResponse
			err = client.Ask(cmd.Context(), "mix", func(c *flightclient.Client) (err error) {
				m, err = c.Mix(cmd.Context(), client.Run, change)
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(m)
			}
			return writeMixture(cmd.OutOrStdout(), m)
		},
	}
	client.Register(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&set, "set", nil, "`NAME=WEIGHT`: another weight for a source; may be repeated")
	f.StringArrayVar(&add, "add", nil, "`NAME=WEIGHT` or NAME={...}: a source that comes; may be repeated")
	f.StringArrayVar(&remove, "remove", nil, "`name` of a source that goes; may be repeated")
	f.BoolVar(&dryRun, "dry-run", false, "change nothing: say which step would be the first that can differ")
	f.BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// readWeights parses NAME=WEIGHT, each name once.
func readWeights(set []string) (map[string]float64, error) {
	out := map[string]float64{}
	for _, text := range set {
		name, value, ok := strings.Cut(text, "=")
		weight, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || name == "" {
			return nil, fmt.Errorf("--set %s: want NAME=WEIGHT, such as math=0.4", text)
		}
		if err := mixture.ValidateWeight(name, weight); err != nil {
			return nil, fmt.Errorf("--set %s: %w", text, err)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("--set %s: %s has a weight already", text, name)
		}
		out[name] = weight
	}
	return out, nil
}

// readAdded parses NAME=WEIGHT, or NAME={...} with the syntax of a configuration file.
func readAdded(add []string) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for _, text := range add {
		name, value, ok := strings.Cut(text, "=")
		if _, twice := out[name]; !ok || name == "" || twice {
			return nil, fmt.Errorf("--add %s: want NAME=WEIGHT or NAME={weight: 0.2, epochs: 2}, each name once", text)
		}
		settings := map[string]any{}
		if weight, err := strconv.ParseFloat(value, 64); err == nil {
			settings["weight"] = weight
		} else if settings, err = yaml.Parser().Unmarshal([]byte(value)); err != nil ||
			!strings.HasPrefix(strings.TrimSpace(value), "{") {
			return nil,
				fmt.Errorf("--add %s: want a weight, or settings of a source in braces, such as {weight: 0.2, epochs: 2}", text)
		}
		if weight, given := settings["weight"].(float64); given {
			if err := mixture.ValidateWeight(name, weight); err != nil {
				return nil, fmt.Errorf("--add %s: %w", text, err)
			}
		}
		b, err := json.Marshal(settings)
		if err != nil {
			return nil, fmt.Errorf("--add %s: %w", text, err)
		}
		out[name] = b
	}
	return out, nil
}

// writeMixture writes the present state of a mixture, or the effect of a change.
func writeMixture(w io.Writer, m api.MixResponse) error {
	if m.Sources == nil {
		verb := "changes from"
		if m.DryRun {
			verb = "would change from"
		}
		_, err := fmt.Fprintf(w, "run %s %s step %d on, at the earliest: %s\n", m.Run, verb, m.Step, shares(m.Target))
		return err
	}
	fmt.Fprintf(w, "run %s: %s tokens taken; a change now would show from step %d on, at the earliest\n\n", m.Run,
		humanize.Count(m.Tokens), m.Step)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "source\ttarget\tso far\tlast %d steps\tdocuments left\tfor steps\tepoch\t\n", m.RecentSteps)
	for _, s := range m.Sources {
		lasts := "-"
		if s.RemainingSteps != nil {
			lasts = humanize.Count(*s.RemainingSteps)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d of %s\t%s\n", s.Name, percent(s.Target), percent(s.Share),
			percent(s.Recent), humanize.Count(s.RemainingDocuments), lasts,
			s.Epoch+1, s.Epochs, sourceState(s))
	}
	return t.Flush()
}

func percent(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) }

func shares(target map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(target)) {
		parts = append(parts, name+" "+percent(target[name]))
	}
	return strings.Join(parts, ", ")
}

// sourceState returns the special state of a source, empty for the normal state.
func sourceState(s api.MixtureSource) string {
	switch {
	case s.Removed:
		return "removed"
	case s.UsedUp:
		return "used up"
	case s.Resting:
		return "rests: it has no documents"
	case s.Sealed:
		return "sealed"
	}
	return ""
}

// NewSourceCmd returns the command source.
func NewSourceCmd() *cobra.Command {
	return command.Group("source", "Work on the stream of a source", `  loaderd source seal math -c loaderd.yaml`,
		newSourceSealCmd())
}

func newSourceSealCmd() *cobra.Command {
	var flags command.ConfigFlags
	cmd := &cobra.Command{
		Use:   "seal NAME [flags]",
		Short: "Say that no document follows in the stream of a source, for all runs",
		Long: `Say that the stream of a source holds all of its documents: nobody can publish to it any more, runs that read it take its present last document
for the last, and those that begin later read it in a drawn order from their first epoch on (sources.NAME.block), so that it is shuffled as a whole.
It cannot be taken back. loaderd seal NAME ends a source for one run only.`,
		Example: `  loaderd source seal math --data-dir /data/loaderd`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := flags.Load(cmd)
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			store, err := command.OpenRunStore(ctx, c, command.NewLogger(c.Log, cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			source := store.Source(args[0], 1)
			last, err := source.SealDocuments(ctx)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "stream %s of source %s ends with document %d\n", source.Config().Name,
					args[0], last)
			}
			return errors.Join(err, store.Close())
		},
	}
	flags.RegisterStore(cmd)
	return cmd
}
