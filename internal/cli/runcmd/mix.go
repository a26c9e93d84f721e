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

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"loaderd/internal/api"
	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
	"loaderd/internal/humanize"
	"loaderd/internal/table"
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
		Long: `Show the mixture of sources. For each source, the table has the target share of
the tokens, the share so far and in the last steps, and what remains. With
--set, --add or --remove the mixture changes. The change takes effect with the
next document that is planned, on all ranks at the same step. The plan records
the change, so that a restart repeats it. Buffered documents (pool, holdback,
shuffle window) were taken before the change and are sent first.

--set gives sources new weights, relative to those of all sources. The other
sources keep their current shares as weights. Weights are shares of tokens, or
of tokens with a loss (mix.share).

--add adds a source to the run, from the first document in its stream. The value
is NAME=WEIGHT, or NAME={weight: 0.2, epochs: 2} with the settings of a source
in a configuration. The stream (DOCS_NAME) is created if it does not exist.

--remove removes a source: the run takes no further documents from it. Its name
cannot be used again.`,
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
	f.StringArrayVar(&set, "set", nil, "`NAME=WEIGHT`: new weight of a source; may be repeated")
	f.StringArrayVar(&add, "add", nil, "`NAME=WEIGHT` or NAME={...}: source to add; may be repeated")
	f.StringArrayVar(&remove, "remove", nil, "`name` of a source to remove; may be repeated")
	f.BoolVar(&dryRun, "dry-run", false, "change nothing; print the first step that could differ")
	f.BoolVar(&asJSON, "json", false, "print JSON")
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
			return nil, fmt.Errorf("--set %s: %s already has a weight", text, name)
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
		verb := "changes at"
		if m.DryRun {
			verb = "would change at"
		}
		_, err := fmt.Fprintf(w, "run %s %s step %d at the earliest: %s\n", m.Run, verb, m.Step, shares(m.Target))
		return err
	}
	fmt.Fprintf(w, "run %s: %s tokens taken; a change now would take effect at step %d at the earliest\n", m.Run,
		humanize.Count(m.Tokens), m.Step)
	if m.ShareUnit.CountsLoss() {
		fmt.Fprintln(w, "shares are of tokens with a loss")
	}
	fmt.Fprintln(w)
	t := table.New("SOURCE", "TARGET", "SO FAR", fmt.Sprintf("LAST %d STEPS", m.RecentSteps), "DOCUMENTS LEFT",
		"FOR STEPS", "EPOCH", "STATE")
	for _, s := range m.Sources {
		lasts := "-"
		if s.RemainingSteps != nil {
			lasts = humanize.Count(*s.RemainingSteps)
		}
		t.Row(s.Name, percent(s.Target), percent(s.Share), percent(s.Recent), humanize.Count(s.RemainingDocuments), lasts,
			fmt.Sprintf("%d of %s", s.Epoch+1, s.Epochs), sourceState(s))
	}
	return t.Write(w)
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
	case s.Exhausted:
		return "used up"
	case s.Paused:
		return "paused: no documents"
	case s.Sealed:
		return "sealed"
	}
	return ""
}

// NewSourceCmd returns the command source.
func NewSourceCmd() *cobra.Command {
	return command.Group("source", "Manage the stream of a source", `  loaderd source seal math -c loaderd.yaml`,
		newSourceSealCmd())
}

func newSourceSealCmd() *cobra.Command {
	var flags command.ConfigFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "seal NAME [flags]",
		Short: "Seal the stream of a source for all runs",
		Long: `Seal the stream of a source for all runs, after which it rejects new documents.
Runs that read it end the source at its current last document. Runs that start
later read it in a random order from their first epoch on (sources.NAME.block),
so that it is shuffled as a whole. Sealing cannot be undone. To end a source for
one run only, use loaderd seal NAME.`,
		Example: `  loaderd source seal math --daemon /data/loaderd`,
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
			switch {
			case errors.Is(err, jetstream.ErrStreamNotFound):
				err = fmt.Errorf("source %s has no stream %s: loaderd mix lists the sources of a run", args[0],
					source.Config().Name)
			case err != nil:
			case asJSON:
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(sealedSource{args[0], source.Config().Name, last})
			default:
				fmt.Fprintf(cmd.OutOrStdout(), "stream %s of source %s ends with document %d\n", source.Config().Name,
					args[0], last)
			}
			return errors.Join(err, store.Close())
		},
	}
	flags.RegisterStore(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// sealedSource is the JSON output of source seal.
type sealedSource struct {
	Source   string `json:"source"`
	Stream   string `json:"stream"`
	Sequence uint64 `json:"sequence"` // of the last document
}
